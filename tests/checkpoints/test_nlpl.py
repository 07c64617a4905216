import json

import pytest

from elmokit.checkpoints import read


def test_nlpl_description_becomes_the_card(skip):
    meta = {
        "id": 210,
        "algorithm": {"name": "Embeddings from Language Models (ELMo)"},
        "corpus": [{"language": "nob", "description": "News of 2018", "case preserved": True}],
    }
    (skip / "meta.json").write_text(json.dumps(meta))
    card = read(skip).card
    assert (card.language, card.case) == ("nob", "cased")
    for part in ("bilm-tf", "News of 2018", "NLPL model 210", "(ELMo)"):
        assert part in card.provenance


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "{",
        '{"corpus": [], "algorithm": 3}',
        '{"corpus": {"language": 3, "case preserved": 1}}',
    ],
)
def test_a_strange_description_is_left_out(skip, text):
    (skip / "meta.json").write_text(text)
    card = read(skip).card
    assert card.language is None
    assert card.case is None
    assert card.provenance.startswith("AllenNLP")
