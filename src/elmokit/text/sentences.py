"""Cuts running text into sentences by rule; `README.md` describes the rules and their limits.

The frame is Unicode's sentence boundaries (UAX 29), narrowed by what English prose needs: white
space after `.`, `!` and `?`, abbreviations, initials, and speech that goes on in lower case.
"""

from collections.abc import Iterator

import regex

_MARK = r"[\p{Sentence_Terminal}…]"
_SPACED = "[.!?…․﹒．]"  # end a sentence only before white space
_WIDE = rf"[{_MARK}--{_SPACED}]"  # end a sentence whatever follows

_END = regex.compile(
    rf"""
    (?<!{_MARK}) (?P<marks>{_MARK}++)
    (?: (?<={_WIDE}) (?P<wide>) [\p{{Pe}}\p{{Pf}}"']*+ (?![,，、;；:：])
      | [\p{{Pe}}\p{{Pf}}\p{{Pi}}"']*+    # an opening quote closes in „German.“
        (?:\s[»›](?=\s|$))?               # « Tiens ! » has a space before it
        (?=\s)
    )""",
    regex.VERBOSE | regex.V1,
)
_MORE_MARKS = regex.compile(rf"\s*{_MARK}", regex.V1)
_LOWER_CASE = regex.compile(rf"[^\p{{L}}\p{{N}}{_MARK}]*+\p{{Ll}}", regex.V1)
_DIGIT = regex.compile(r"\s+\p{Nd}")
_LAST_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]*\Z")

_LONGEST_WORD = 20
"""Characters looked at before a full stop; more than the longest abbreviation."""
_BEFORE_ANYTHING = regex.compile(
    "mr|mrs|ms|messrs|dr|prof|rev|hon|st|mt|ft|gen|col|maj|capt|cpt|cmdr|lt|sgt|cpl|adm|gov|sen|rep"
    "|pres|supt|vs|cf|viz|approx|ca",
    regex.IGNORECASE,
)
_BEFORE_NUMBER = regex.compile(
    "nos?|nr|pp?|vols?|chap|ch|sect?|figs?|eqs?|arts?|para|pt|bk|ed"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec",
    regex.IGNORECASE,
)


def split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each sentence in characters of the text.

    Sentences begin and end with characters other than white space; nothing else lies outside them.
    """
    start = 0
    for match in _END.finditer(text):
        if not _goes_on(text, start, match):
            yield _strip(text, start, match.end())
            start = match.end()
    if text[start:].strip():
        yield _strip(text, start, len(text))


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return end - len(piece.lstrip()), start + len(piece.rstrip())


def _goes_on(text: str, start: int, match: "regex.Match[str]") -> bool:
    """Tells whether the sentence goes on after a mark that could end it."""
    if _MORE_MARKS.match(text, match.end()):
        return True
    if match["wide"] is not None:
        return False
    if _LOWER_CASE.match(text, match.end()):
        return True
    return match["marks"] == "." and _is_abbreviation(text, start, match)


def _is_abbreviation(text: str, start: int, match: "regex.Match[str]") -> bool:
    before = text[max(start, match.start() - _LONGEST_WORD) : match.start()]
    word = _LAST_WORD.search(before).group()
    if word.isdecimal():
        return start == 0 and before.strip() == word  # the number of a list item
    if len(word) == 1 and word.isalpha():
        return word.isupper() or before[:-1].endswith(".")  # J. or e.g.
    if _DIGIT.match(text, match.end()) and _BEFORE_NUMBER.fullmatch(word):
        return True
    return _BEFORE_ANYTHING.fullmatch(word) is not None
