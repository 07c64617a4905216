import random
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError
from elmokit.tasks import saved
from elmokit.tasks.coref import antecedents
from elmokit.tasks.coref.antecedents import Antecedents, Ranked
from elmokit.tasks.coref.model import Kept
from elmokit.tasks.coref.spans import SpanVectors, kept_spans
from elmokit.tasks.readers.documents import Document, Mention
from elmokit.tasks.registry import get_task
from tasks.contract import TaskContract

SMALL = {
    "hidden_dim": 12,
    "span_dim": 16,
    "max_width": 2,
    "spans_per_word": 0.5,
    "dropout": 0.1,
    "tokens": {"word_dim": 12, "character_filters": 8, "dropout": 0.1, "min_count": 1},
}


def documents(number=20):
    """Two people, one of whom is meant again in the second sentence."""
    generator = random.Random(5)
    for part in range(number):
        people = [
            ("old " * generator.randrange(2) + generator.choice(names), pronoun)
            for names, pronoun in ((["Ann", "Mary"], "she"), (["Bob", "Hans"], "he"))
        ]
        generator.shuffle(people)
        meant, (_, pronoun) = generator.choice([*enumerate(people)])
        rows: list[str] = []
        for place, (name, _) in enumerate(people):
            *first, last = name.split()
            rows += [f"{word}\t{'(0' if place == meant else '-'}" for word in first]
            rows.append(f"{last}\t{'-' if place != meant else '0)' if first else '(0)'}")
            rows += ["sees\t-"] if place == 0 else []
        rows += ["", f"{pronoun}\t(0)", "smiles\t-", ""]
        yield part, rows


def written(part, rows):
    yield f"#begin document (d); part {part:03}"
    for row in rows:
        token, _, marks = row.partition("\t")
        yield row and "\t".join(["d", str(part), "0", token, *["-"] * 7, marks])
    yield "#end document"


class TestCoref(TaskContract):
    name = "coref"
    suffix = ".conll"
    content = "".join(f"{line}\n" for entry in documents() for line in written(*entry))
    text = "Ann sees Bob\nhe smiles\n\nBob sees Ann\n"
    model: ClassVar = SMALL

    def check_written(self, written):
        assert written == self.content

    def check_written_from_text(self, written):
        lines = written.splitlines()
        assert [line for line in lines if line.startswith("#")] == [
            "#begin document (text); part 000",
            "#end document",
            "#begin document (text); part 001",
            "#end document",
        ]
        rows = [line.split("\t") for line in lines if line and line[0] != "#"]
        assert [row[3] for row in rows] == self.text.split()
        assert [row[-1] for row in rows[:5]] == ["-", "-", "(0)", "(0)", "-"]


def config(**changes):
    data = {"run_dir": "r", "data": {"train": "a", "dev": "a"}, "elmo": {"at": "none"}, **changes}
    return get_task("coref").config.from_dict(data)


def item(*sentences, clusters=(), speakers=None):
    words = tuple(tuple(sentence.split()) for sentence in sentences)
    return Document(
        where="here",
        sentences=words,
        speakers=speakers or (None,) * sum(map(len, words)),
        clusters=tuple(tuple(Mention(*mention) for mention in cluster) for cluster in clusters),
    )


def learnt(items, steps, **model):
    """A model after some steps on its examples."""
    settings = config(model=SMALL | {"dropout": 0.0, "spans_per_word": 1.0} | model)
    task = get_task("coref")
    trained = saved.new_model(task, settings, task.make_lists(items, settings))
    optimizer = torch.optim.Adam(trained.model.parameters(), 0.02)
    for _ in range(steps):
        loss = trained.model.loss(items)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return trained.model.eval()


def test_vectors_of_spans_are_their_parts_through_one_map():
    torch.manual_seed(0)
    spans = SpanVectors(word_dim=5, context_dim=4, span_dim=6, max_width=3)
    words, contexts = torch.randn(7, 5), torch.randn(7, 4)
    sentences = torch.tensor([0, 0, 0, 0, 1, 2, 2])
    places, vectors = spans(words, contexts, sentences)
    pairs = [(a, b) for a in range(7) for b in range(a, 7) if b - a < 3]
    assert places.tolist() == [[a, b] for a, b in pairs if sentences[a] == sentences[b]]
    for (start, end), vector in zip(places.tolist(), vectors, strict=True):
        inside = slice(start, end + 1)
        head = spans.attention(contexts[inside]).softmax(dim=0).T @ words[inside]
        expected = spans.start(contexts[start]) + spans.end(contexts[end]) + spans.head(head[0])
        expected += spans.width.weight[end - start]
        torch.testing.assert_close(vector, expected)


@given(st.permutations(range(21)), st.integers(1, 21))
def test_the_best_spans_are_kept_unless_they_cross_better_ones(order, number):
    spans = [(start, end) for start in range(6) for end in range(start, 6)]
    kept: list[tuple[int, int]] = []
    for place in order:
        (start, end) = spans[place]
        if len(kept) < number and not any(
            one < start <= other < end or start < one <= end < other for one, other in kept
        ):
            kept.append((start, end))
    scores = torch.zeros(21)
    scores[torch.tensor(order)] = -torch.arange(21.0)
    assert [spans[place] for place in kept_spans(spans, scores, number)] == sorted(kept)


def test_pairs_are_scored_one_by_one_as_in_blocks(monkeypatch):
    torch.manual_seed(0)
    module = Antecedents(span_dim=4, max_antecedents=3, num_refinements=0, dropout=0.0)
    vectors, mention_scores = torch.randn(7, 4), torch.randn(7)
    speakers = torch.tensor([0, 1, 1, 2, 0, 1, 2])
    places, scores = module(vectors, mention_scores, speakers)
    monkeypatch.setattr(antecedents, "_ROWS", 2)
    torch.testing.assert_close(module(vectors, mention_scores, speakers).scores, scores)
    vectors = module.norm(vectors)
    for one in range(7):
        pairs = {other: mention_scores[one] + mention_scores[other] for other in range(one)}
        for other in pairs:
            pairs[other] = pairs[other] + module.coarse(vectors[one]) @ vectors[other] / 2
        best = sorted(pairs, key=pairs.__getitem__, reverse=True)[:3]
        assert places[one, : len(best)].tolist() == best
        assert torch.isinf(scores[one, len(best) :]).all()
        for other, score in zip(best, scores[one], strict=False):
            known = bool(speakers[one]) and bool(speakers[other])
            alike = (1 + int(speakers[one] == speakers[other])) if known else 0
            bucket = [0, 1, 2, 3, 4, 4][one - other - 1]
            hidden = module.span(vectors[one]) + module.antecedent(vectors[other])
            hidden = hidden + module.both(vectors[one] * vectors[other])
            hidden = hidden + module.distance.weight[bucket] + module.speaker.weight[alike]
            torch.testing.assert_close(score, pairs[other] + module.output(hidden.relu())[0])


def test_pairs_teach_in_blocks_what_they_teach_together(monkeypatch):
    module = Antecedents(span_dim=4, max_antecedents=3, num_refinements=1, dropout=0.0)
    start = torch.randn(7, 4)

    def gradients():
        torch.manual_seed(3)
        vectors = start.clone().requires_grad_()
        found = module(vectors, torch.zeros(7), torch.arange(7) % 3)
        loss = F.pad(found.scores, (1, 0)).logsumexp(dim=1).sum()
        return torch.autograd.grad(loss, [vectors, *module.parameters()])

    whole = gradients()
    monkeypatch.setattr(antecedents, "_ROWS", 2)
    torch.testing.assert_close(gradients(), whole)
    module.dropout.p = 0.5  # what is dropped is dropped again on the way back
    torch.testing.assert_close(gradients(), gradients())


def test_spans_are_refined_by_what_they_refer_to():
    torch.manual_seed(0)
    plain = Antecedents(span_dim=4, max_antecedents=3, num_refinements=0, dropout=0.0)
    refining = Antecedents(span_dim=4, max_antecedents=3, num_refinements=1, dropout=0.0)
    refining.load_state_dict(plain.state_dict(), strict=False)
    vectors, mention_scores, speakers = torch.randn(6, 4), torch.randn(6), torch.zeros(6).long()
    ranked = plain(vectors, mention_scores, speakers)
    normed = plain.norm(vectors)
    refined = []
    for vector, places, scores in zip(normed, *ranked, strict=True):
        weights = [1.0, *scores.exp().tolist()]  # the first is that of no antecedent
        others = [vector, *(normed[place] for place in places)]
        referred = sum(w * other for w, other in zip(weights, others, strict=True)) / sum(weights)
        gate = refining.gate(torch.cat([vector, referred])).sigmoid()
        refined.append(gate * vector + (1 - gate) * referred)
    coarse = ranked.scores - plain._fine(normed, ranked.places, speakers)
    expected = coarse + plain._fine(torch.stack(refined), ranked.places, speakers)
    found = refining(vectors, mention_scores, speakers)
    torch.testing.assert_close(found.places, ranked.places)
    torch.testing.assert_close(found.scores, expected)
    torch.nn.init.constant_(refining.gate.bias, 100.0)  # all of each span stays
    torch.testing.assert_close(refining(vectors, mention_scores, speakers).scores, ranked.scores)


def test_a_model_that_refines_its_spans_learns():
    items = [
        item("Ann sees a dog", "she smiles", clusters=[[(0, 1), (4, 5)]]),
        item("a cat runs", "Ann sees a dog"),
    ]
    model = learnt(items, 50, num_refinements=2)
    assert model.predict(items) == [i.clusters for i in items]
    gate = model.antecedents.gate.weight
    model.loss(items).backward()
    assert gate.grad.abs().sum() > 0


def test_singletons_are_learnt_and_predicted_where_they_are_kept():
    items = [
        item("Ann sees a dog", "she smiles", clusters=[[(0, 1), (4, 5)], [(2, 4)]]),
        item("a cat runs", "Ann sees a dog", clusters=[[(0, 2)], [(3, 4)], [(5, 7)]]),
    ]
    assert learnt(items, 50, singletons=True).predict(items) == [i.clusters for i in items]
    linked = [
        item("Ann sees a dog", "she smiles", clusters=[[(0, 1), (4, 5)]]),
        item("a cat runs", "Ann sees a dog"),
    ]
    assert learnt(linked, 50).predict(linked) == [i.clusters for i in linked]


def test_no_more_spans_are_kept_than_there_are():
    items = [item("Ann smiles", "she sings", clusters=[[(0, 1), (2, 3)]])]
    assert learnt(items, 30, spans_per_word=1e308).predict(items) == [items[0].clusters]


@pytest.mark.parametrize(("score", "linked"), [(-0.6, True), (-0.8, False)])
def test_two_antecedents_may_outweigh_none_together(score, linked):
    """Of two with the score s, 2 exp(s) is what stands against 1 for none: s = -0.693."""
    model = learnt([item("Ann Ann she", clusters=[[(0, 1), (1, 2), (2, 3)]])], 0)
    mentions = [Mention(0, 1), Mention(1, 2), Mention(2, 3)]
    none = -torch.inf
    scores = torch.tensor([[none, none], [-9.0, none], [score, score + 1e-3]])
    ranked = Ranked(torch.tensor([[0, 1], [0, 1], [0, 1]]), scores)
    found = model._clusters(Kept(mentions, torch.zeros(3), ranked))
    assert found == (((mentions[1], mentions[2]),) if linked else ())


def test_who_speaks_plays_a_part():
    said = "I said I know"
    same = item(said, speakers=("A",) * 4, clusters=[[(0, 1), (2, 3)]])
    other = item(said, speakers=("A", "A", "B", "B"))
    unknown = item(said)
    model = learnt([same, other], 60)
    assert model.predict([same, other]) == [same.clusters, ()]
    assert model.predict([unknown, same])[1] == same.clusters


def test_a_sentence_without_end_is_read_in_pieces_and_far_mentions_are_linked():
    filler = " ".join(["and"] * 300)
    long = item(f"Ann {filler}", "she smiles", clusters=[[(0, 1), (301, 302)]])
    task = get_task("coref")
    pieces = task.sentences(long)
    assert max(map(len, pieces)) == 256
    assert [word for piece in pieces for word in piece] == [w for s in long.sentences for w in s]
    assert task.length(long) == 303
    model = learnt([long], 40, spans_per_word=0.02)
    assert model.predict([long]) == [long.clusters]


def test_what_is_left_out_is_said(tmp_path):
    content = "".join(f"{line}\n" for line in written(0, ["a\t(0)", "b\t(1)", "a\t(0)"]))
    (tmp_path / "a").write_text(content, encoding="utf-8")
    task = get_task("coref")
    for singletons, number, said in ((False, 1, "left out"), (True, 2, "kept")):
        settings = config(model={"singletons": singletons})
        items = task.read(str(tmp_path / "a"), settings, "train").items
        lists = task.make_lists(items, settings)
        assert len(items[0].clusters) == number
        scores = task.evaluate(items, [items[0].clusters], lists)
        assert (scores["singletons"], scores["conll"]) == (said, 1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_width", 0),
        ("span_dim", 0),
        ("max_antecedents", 0),
        ("spans_per_word", 0),
        ("num_refinements", -1),
    ],
)
def test_sizes_are_checked(field, value):
    with pytest.raises(ConfigError, match=f"{field}: {value}"):
        config(model={field: value})
