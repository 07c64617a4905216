import pytest

from elmokit.errors import InputError
from elmokit.tasks.readers.conllu import Conllu, write_conllu
from elmokit.tasks.readers.reading import read_examples

CONTENT = """# sent_id = 1
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnos\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tghost\t_\tX\tY\t_\t_\t_\t_\t_

# a comment alone

1\tya\tya\tADV\tR\t_\t0\troot\t_\t_
"""


def read(path, field="upos", **settings):
    return read_examples(path, lambda _: Conllu("a.conllu", field), **settings)


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "a.conllu"
    place.write_text(CONTENT, encoding="utf-8")
    return place


def test_words_and_tags(path):
    first, second = read(path).items
    assert (first.tokens, first.tags) == (("vamos", "nos"), ("VERB", "PRON"))
    assert (first.lines, second.lines) == ((3, 4), (9,))
    assert read(path, None).items[0].tags is None


def test_a_missing_tag_is_named(path):
    with pytest.raises(InputError, match=r"a.conllu: line 4: xpos: is missing \(_\)"):
        read(path, "xpos")
    reading = read(path, "xpos", skip_bad=True)
    assert [item.tags for item in reading.items] == [("R",)]
    assert reading.num_skipped == 1


def test_only_the_tags_change_when_written(path):
    tags = iter([("A", "B"), ("C",)])
    lines = [
        line
        for entry in read(path).entries
        for line in write_conllu(entry.piece, next(tags) if entry.item else None, "upos")
    ]
    expected = CONTENT.replace("VERB", "A").replace("PRON", "B").replace("ADV", "C")
    assert "\n".join(lines) + "\n" == expected
