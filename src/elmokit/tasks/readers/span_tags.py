"""Tags that write spans: which scheme a file has, and what becomes of impossible sequences."""

import dataclasses

from elmokit.errors import InputError
from elmokit.metrics.spans import (
    OUTSIDE,
    InvalidPolicy,
    Scheme,
    decode,
    detect_scheme,
    encode,
    first_invalid,
    is_tag,
)
from elmokit.tasks.readers.items import Sentence
from elmokit.tasks.readers.reading import P, Reading, refined


def are_span_tags(reading: Reading[P, Sentence]) -> bool:
    """Tells whether every tag is `O` or a prefix with a label, and not all are `O`."""
    tags = {tag for item in reading.items for tag in item.tags or ()}
    return all(map(is_tag, tags)) and tags != {OUTSIDE}


def scheme_of(reading: Reading[P, Sentence]) -> Scheme:
    """Returns the scheme that fits a file best; tags of no scheme are passed over."""
    tags = (item.tags or () for item in reading.items)
    return detect_scheme(sentence for sentence in tags if all(map(is_tag, sentence)))


def checked(
    reading: Reading[P, Sentence],
    scheme: Scheme,
    invalid: InvalidPolicy,
    *,
    write_as: Scheme | None = None,
    skip_bad: bool,
) -> Reading[P, Sentence]:
    """Checks the tags of a file.

    Args:
        reading: The file.
        scheme: How its tags write spans.
        invalid: What becomes of impossible sequences.
        write_as: The scheme in which the tags are to be; the file's own if None.
        skip_bad: Leave sentences out that have wrong tags.

    Raises:
        InputError: A tag is of no scheme, or (refuse) a sequence is impossible; the message has the
            file and the line.
    """

    def check(sentence: Sentence) -> Sentence:
        tags = sentence.tags or ()
        for line, tag in zip(sentence.lines, tags, strict=True):
            if not is_tag(tag):
                raise InputError(
                    f"{sentence.name}: line {line}: tag {tag!r}: expected {OUTSIDE}, or B, I, E or "
                    "S with a label, such as B-PER; set data.column if tags stand in another column"
                )
        place = first_invalid(tags, scheme)
        if place is not None and invalid == "refuse":
            raise InputError(
                f"{sentence.name}: line {sentence.lines[place]}: tag {tags[place]} cannot stand "
                f"there in {scheme}; mend it, leave the sentence out with --skip-bad, or set "
                "data.invalid_tags to conlleval, which reads it as CoNLL's scorer does"
            )
        spans = decode(tags, scheme, invalid)
        written = tuple(encode(spans, len(tags), write_as or scheme))
        return dataclasses.replace(sentence, tags=written, scheme=scheme)

    return refined(reading, check, skip_bad=skip_bad)
