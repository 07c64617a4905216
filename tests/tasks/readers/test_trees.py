import pytest

from elmokit.errors import InputError
from elmokit.tasks.readers.reading import read_examples
from elmokit.tasks.readers.trees import Trees, write_tree

TREE = "(3 (2 It) (4 (2 works) (2 .)))"


@pytest.fixture
def read(tmp_path):
    """Reads trees."""

    def run(content, classes=5, **settings):
        (tmp_path / "a").write_bytes(content.encode())
        return read_examples(tmp_path / "a", lambda _: Trees("a", classes=classes), **settings)

    return run


def test_the_root_is_the_label_and_leaves_are_the_words(read):
    [item] = read(f"{TREE}\r\n\r\n").items
    assert (item.label, item.tokens, item.where) == ("3", ("It", "works", "."), "a: line 1")
    assert read(TREE, None).items[0].label is None
    assert read("(2 8\u00a01\\/2)").items[0].tokens == ("8\u00a01\\/2",)


def test_two_classes_leave_neutral_ones_out(read):
    content = "(0 (2 a) (2 b))\n(2 c)\n(4 d)\n"
    assert [item.label for item in read(content, 2).items] == ["negative", "positive"]
    assert read(content, 2).num_skipped == 0


def test_phrases_are_all_nodes_once(read):
    trees = Trees("a", classes=5)
    phrases = trees.phrases([(1, "(3 (2 a) (4 (2 a) (1 b)))")])
    assert [(text.label, text.tokens) for text in phrases] == [
        ("2", ("a",)),
        ("1", ("b",)),
        ("4", ("a", "b")),
        ("3", ("a", "a", "b")),
    ]
    assert trees.phrases([(2, "")]) == []


@pytest.mark.parametrize(
    "tree",
    ["(3 (2 a)", "(3 a))", "(3 a) (2 b)", "a", "(3 a) b", "(3 )", "()", "(3 (2 a) (2 ))", ")"],
)
def test_unbalanced_trees_are_named(read, tree):
    with pytest.raises(InputError, match=r"a: line 2"):
        read(f"{TREE}\n{tree}\n")
    assert read(f"{TREE}\n{tree}\n", skip_bad=True).num_skipped == 1


@pytest.mark.parametrize("label", ["", "5", "-", "x"])
def test_labels_are_checked(read, label):
    with pytest.raises(InputError, match=rf"a: line 1, character 4: the label is '{label}'"):
        read(f"(2 ({label} a) (2 b))")


def test_the_root_changes_when_written():
    assert list(write_tree(TREE, "0")) == [TREE.replace("(3", "(0")]
    assert list(write_tree(TREE, "negative")) == [TREE.replace("(3", "(1")]
    assert list(write_tree(TREE, None)) == [TREE]
