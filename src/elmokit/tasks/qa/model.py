"""BiDAF with self-attention, as the paper has it (appendix; after Clark and Gardner 2017).

A biLSTM reads text and question, each word of the text attends to the question and the question to
the text, a second biLSTM reads what comes together, and the text attends to itself. ELMo at the
output stands beside what the first biLSTM makes. The paper has GRUs, and averages its weights over
time for its scores; that is left out.

Letters: B rows, T time of the text, Q time of the question, W width.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.errors import ConfigError
from elmokit.limits import check_least, check_share
from elmokit.nn.masks import inside
from elmokit.tasks.config import ModelSection, TokensSection
from elmokit.tasks.elmo_at import ElmoAt, beside, dim_at, mixes_of
from elmokit.tasks.encoder import BiLSTM
from elmokit.tasks.labelling import attend
from elmokit.tasks.readers.items import Question
from elmokit.tasks.readers.passages import window_around
from elmokit.tasks.task import TaskModel
from elmokit.tasks.tokens import TokenVectors, lengths_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BidafSection(ModelSection):
    """BiDAF with self-attention."""

    tokens: TokensSection = field(default_factory=lambda: TokensSection(dropout=0.2))
    """What a word is."""
    hidden_dim: int = 90
    """Width of both LSTMs in each direction; layers between them have twice as much."""
    dropout: float = 0.2
    """Chance of dropping an element between layers, the same ones at all words of a text."""
    window: int = 400
    """Words of a text that are read together, and most words of a question; longer texts are read
    in windows, and the best answer of all windows is taken."""
    overlap: int = 100
    """Words that a window shares with the next."""
    longest_answer: int = 17
    """Most words of a predicted answer."""

    def __post_init__(self) -> None:
        check_least(1, self, "hidden_dim", "longest_answer")
        check_share(self, "dropout")
        if not self.longest_answer <= self.overlap < self.window:
            raise ConfigError(
                f"overlap: {self.overlap} must be longest_answer ({self.longest_answer}) or more, "
                f"and below window ({self.window}), so that each answer is whole in a window"
            )


class Alikeness(nn.Module):
    """Scores how much vectors have to do with each other.

    It has a weight for each element of the one, of the other, and of their product; the latter
    begin as those of a scaled dot product, so that equal words are alike from the first step on.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.one, self.other = (nn.Linear(dim, 1, bias=False) for _ in range(2))
        self.product = nn.Parameter(torch.full((dim,), 1 / math.sqrt(dim)))

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """(B, T, W) and (B, Q, W) -> (B, T, Q)."""
        products = (one * self.product) @ other.transpose(1, 2)
        return products + self.one(one) + self.other(other).transpose(1, 2)  # type: ignore[no-any-return]


class Bidaf(TaskModel[Question, str]):
    """The model of `qa`."""

    def __init__(self, section: BidafSection, words: Sequence[str], elmo: ElmoAt | None) -> None:
        """Draws the weights.

        Args:
            section: Its sizes.
            words: Those with a vector of their own.
            elmo: ELMo at its places.
        """
        super().__init__()
        hidden, width = section.hidden_dim, 2 * section.hidden_dim
        self._dropout, self._longest_answer = section.dropout, section.longest_answer
        self.elmo = elmo
        self.tokens = TokenVectors(section.tokens, words, dim_at(elmo, "input"))
        self.encoder = BiLSTM(self.tokens.dim, hidden, 1, section.dropout)
        encoded_dim = self.encoder.dim + dim_at(elmo, "output")
        self.to_question = Alikeness(encoded_dim)
        self.merge = nn.Sequential(nn.Linear(4 * encoded_dim, width), nn.ReLU())
        self.composition = BiLSTM(width, hidden, 1, section.dropout)
        self.to_itself = Alikeness(width)
        self.merge_itself = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU())
        self.ends = nn.Linear(width, 2)

    def loss(self, items: Sequence[Question]) -> Tensor:
        """Returns the mean over questions of the cross-entropies of first and last word.

        Each is that of all answers in the window together (Clark and Gardner's summed objective).
        """
        read = [(item, _learnt(item)) for item in items]
        scores = self._scores(read)  # (B, T, 2)
        right = torch.zeros(scores.shape, dtype=torch.bool)
        for row, (item, window) in zip(right, read, strict=True):
            for span in item.spans:
                if window.start <= span.start and span.stop <= window.stop:
                    row[span.start - window.start, 0] = True
                    row[span.stop - 1 - window.start, 1] = True
        chosen = scores.masked_fill(~right.to(scores.device), -torch.inf)
        return (scores.logsumexp(dim=1) - chosen.logsumexp(dim=1)).sum(dim=1).mean()

    def predict(self, items: Sequence[Question]) -> list[str]:
        """Returns the answer of each question, cut from its text.

        As many windows are read at a time as there are questions, so that memory does not grow with
        texts. The best answer is that whose ends have the highest scores before the softmax.
        """
        best: list[tuple[float, str]] = [(-math.inf, "")] * len(items)
        for some in _runs(items):
            read = [(items[place], window) for place, window in some]
            found = zip(some, *self._best(self._scores(read)), strict=True)
            for (place, window), score, first, last in found:
                if score > best[place][0]:
                    words = range(window.start + first, window.start + last + 1)
                    best[place] = (score, items[place].passage.characters(words))
        return [answer for _, answer in best]

    def _scores(self, read: Sequence[tuple[Question, range]]) -> Tensor:
        """(B, T, 2) scores of words as the first and the last of an answer."""
        text, lengths = self._encode([item.passage.tokens[w.start : w.stop] for item, w in read])
        question, question_lengths = self._encode([item.tokens for item, _ in read])
        alike = self.to_question(text, question)  # (B, T, Q)
        attended = attend(alike, question_lengths, question)  # (B, T, W)
        mask = inside(question_lengths, question.size(1))[:, None]
        nearest = alike.masked_fill(~mask, -torch.inf).amax(dim=2)  # (B, T)
        asked = attend(nearest[:, None], lengths, text)  # (B, 1, W)
        merged = self.merge(
            self._dropped(torch.cat([text, attended, text * attended, asked * attended], dim=2))
        )
        merged = merged + self._itself(merged, lengths)
        inner = inside(lengths, merged.size(1))[:, :, None]
        return self.ends(self._dropped(merged)).masked_fill(~inner, -torch.inf)  # type: ignore[no-any-return]

    def _encode(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """(B, T, W) vectors, and (B,) lengths; what questions share is read once."""
        places: dict[tuple[str, ...], int] = {}
        rows = [places.setdefault(tuple(sentence), len(places)) for sentence in sentences]
        distinct = list(places)
        lengths = lengths_of(distinct, self.ends.weight.device)
        mixes = mixes_of(self.elmo, distinct)
        vectors = self.tokens(distinct, mixes.get("input"))
        joined = beside(self.encoder(vectors, lengths), mixes.get("output"))
        chosen = torch.tensor(rows, device=lengths.device)
        return joined.index_select(0, chosen), lengths[chosen]

    def _itself(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """What each word gets from the other words of its text, (B, T, W)."""
        read = self.composition(self._dropped(vectors), lengths)
        own = torch.eye(read.size(1), dtype=torch.bool, device=read.device)
        own = own & (lengths > 1)[:, None, None]  # a word alone has nothing but itself
        alike = self.to_itself(read, read).masked_fill(own, -torch.inf)
        attended = attend(alike, lengths, read)
        joined = torch.cat([read, attended, read * attended], dim=2)
        return self.merge_itself(self._dropped(joined))  # type: ignore[no-any-return]

    def _dropped(self, vectors: Tensor) -> Tensor:
        """Drops the same elements at all words of a row (variational dropout)."""
        return F.dropout1d(vectors.transpose(1, 2), self._dropout, self.training).transpose(1, 2)

    def _best(self, scores: Tensor) -> tuple[list[float], list[int], list[int]]:
        """Score, first and last word of the best answer of each row."""
        num_words = scores.size(1)
        both = scores[:, :, None, 0] + scores[:, None, :, 1]  # (B, T, T)
        possible = torch.ones_like(both[0], dtype=torch.bool).triu().tril(self._longest_answer - 1)
        best, places = both.masked_fill(~possible, -torch.inf).flatten(1).max(dim=1)
        return best.tolist(), (places // num_words).tolist(), (places % num_words).tolist()


def _learnt(item: Question) -> range:
    """The window that is learnt from."""
    window = window_around(item.spans, item.passage.windows)
    assert window is not None  # readers refuse other questions to learn from
    return window


def _runs(items: Sequence[Question]) -> Iterator[list[tuple[int, range]]]:
    """Yields all windows, each with the place of its question, as many at once as questions.

    They go from the beginnings of texts to the ends, so that questions about one text share them.
    """
    windows = [(place, w) for place, item in enumerate(items) for w in item.passage.windows]
    windows.sort(key=lambda pair: pair[1].start)
    for start in range(0, len(windows), len(items)):
        yield windows[start : start + len(items)]
