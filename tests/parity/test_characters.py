"""Character ids against AllenNLP's mapper and `batch_to_ids`."""

import pytest
import torch

from elmokit import batch_to_ids
from parity.cases import odd_tokens, read_json

pytestmark = odd_tokens


@pytest.mark.parametrize("file", ["words.json", "lone_surrogates.json"])
def test_words(fixtures, file):
    cases = read_json(fixtures / "C_char_ids" / file)
    words = ["".join(map(chr, case["codepoints"])) for case in cases]
    assert all(case.get("word", word) == word for case, word in zip(cases, words, strict=True))
    assert batch_to_ids([words])[0].tolist() == [case["ids"] for case in cases]


def test_batches(fixtures):
    cases = read_json(fixtures / "C_char_ids/batch_to_ids.json")
    assert len(cases) == 4
    for case in cases:
        found = batch_to_ids(case["batch"])
        assert list(found.shape) == case["shape"]
        assert found.dtype == torch.int64
        assert found.tolist() == case["ids"]
