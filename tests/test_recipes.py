"""The scripts that make the models which ship."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

from elmokit.vocabulary import Vocabulary

RECIPES = Path(__file__).parent.parent / "recipes"


@pytest.fixture(autouse=True)
def recipes_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(RECIPES)
    yield
    for name in ("trigram", "select_text"):
        sys.modules.pop(name, None)


def random_text(num_words, num_sentences, seed):
    """Sentences of words of which few are frequent; half follow from the word before."""
    order = np.random.default_rng(seed)
    parts = []
    for _ in range(num_sentences):
        words = [3]
        while order.random() < 0.9:
            rank = int(order.zipf(1.5)) % (num_words - 3)
            words.append(3 + (rank if order.random() < 0.5 else 7 * words[-1] % (num_words - 3)))
        parts.append([0, *words, 1])
    return np.concatenate(parts)


def test_a_trigram_gives_each_context_a_whole_probability():
    import trigram

    num_words = 300
    model = trigram.Trigram.build(random_text(num_words, 2_000, seed=0), num_words)
    for earlier, before in ((0, 0), (5, 6), (7, 3), (2, 2)):  # after <S>, seen, seldom, never
        words = np.arange(1, num_words)
        logs = []
        for word in words:
            start = [0] if before == 0 else [0, earlier, before]
            whole = np.array([*start, word])
            shorter = np.array(start)
            logs.append(log_loss(model, whole) - log_loss(model, shorter))
        assert np.exp(-np.array(logs)).sum() == pytest.approx(1)


def log_loss(model, text):
    """Sum over the words of a text, which may be <S> alone."""
    number = int((text[1:] != 0).sum())
    return number * np.log(model.perplexity(text)) if number else 0.0


def test_a_trigram_learns_what_follows(tmp_path):
    import trigram

    words = ["<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(297))]
    paths = []
    for seed in (0, 1):
        ids = random_text(len(words), 2_000, seed).tolist()
        text = " ".join(words[i] for i in ids).replace("<S>", "").replace("</S>", "\n")
        paths.append(tmp_path / f"{seed}.txt.gz")
        paths[-1].write_bytes(gzip.compress(text.encode()))
    learnt, unseen = trigram.measure(Vocabulary(words), paths[:1], paths)
    assert learnt < unseen < 30  # 299 if it had learnt nothing
    with pytest.raises(ValueError, match="too small"):
        trigram.measure(Vocabulary(words), [write(tmp_path, "a b\n")], paths)


def write(folder, text):
    path = folder / "small.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_text_is_selected_by_licence(tmp_path):
    import select_text

    assert not set(select_text.KEPT) & select_text.DROPPED
    with pytest.raises(ValueError, match="exactly one"):
        select_text.is_kept("CC BY-NC 4.0")
    documents = [
        select_text.Document("standardebooks/a", "CC0-1.0", "a", ["x y"]),
        select_text.Document("web", "CC BY 4.0", "b", ["z"]),
    ]
    assert [document.is_modern for document in documents] == [False, True]
    notice = select_text.notice(documents, {"web": "The authors of the web"})
    assert "1 books" in notice
    assert "- web: The authors of the web. CC BY 4.0, https://creativecommons.org" in notice
    with pytest.raises(KeyError):
        select_text.notice(documents, {})
