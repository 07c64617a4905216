import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.text.sentences import split_sentences


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["They left!", "Who?", "Me.", "Then..."],
        ['"Who?" he asked.', "“Me.”", "(She went.)", "Then it’s over."],
        ["Dr. Smith met J. R. R. Tolkien.", "They talked."],
        ["It cost $3.50 or approx. 3.2 euros, e.g. Here, on Jan. 5.", "See Fig. 2 and No. 7."],
        ["No.", "I am not."],
        ["Wait... what?", "Well . . . yes."],
        ["What?!", "Oh…", "Fine!!"],
        ["1. First item.", "Second."],
        ["When?", "1999.", "Then."],
        ["Yahoo!, it is www.x.com/?q=1 indeed.", "Yes."],
        ["In 1999.", "20 years on."],
        ["« Oui ! »", "Il part."],
        ["Er sagt „Ja.“", "Dann ging er."],
        ["Как дела?", "А. С. Пушкин."],
        ["Hello .", "How are you ?"],
        ["यह है।", "वह था।"],
        ["هل أنت هنا؟", "نعم."],
        ["no mark at all"],
    ],
)
def test_sentences_with_spaces_between_them(sentences):
    assert split(" ".join(sentences)) == sentences
    assert split("\u3000 " + "\u00a0 ".join(sentences) + "\t") == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["你好。", "他说：“走吧！”", "他走了。"],
        ["「行く？」", "次だ。", "終わり"],
        ["什么？！", "真的吗？，他说。"],
        ["他說：「好。」", "「不。」"],
    ],
)
def test_sentences_without_spaces_between_them(sentences):
    assert split("".join(sentences)) == sentences


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.text(
        st.sampled_from(" \u00a0\x85.!?…。！”\"')»«aAbB1J,日\u0301\ud800") | st.characters(),
        max_size=40,
    )
)
def test_nothing_but_white_space_lies_outside_the_sentences(text):
    spans = list(split_sentences(text))
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    assert edges == sorted(edges)
    outside = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    assert not "".join(outside).strip()


@pytest.mark.parametrize("piece", ["A. ", ".", "。", ". - ", "(", '."', ".) ", "x", ". \t", "！，"])
def test_time_grows_with_the_length_of_the_line(piece):
    begin = time.process_time()
    list(split_sentences(piece * (100_000 // len(piece))))
    assert time.process_time() - begin < 5  # quadratic time would be minutes
