"""JSON Lines: a record is a row, with its tokens given or with text to be cut."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from elmokit.errors import InputError
from elmokit.text.plain import cut_row
from elmokit.text.row import Row
from elmokit.text.tokenizers import Tokenizer


def read_jsonl(lines: Iterable[tuple[int, str]], name: str, tokenizer: Tokenizer) -> Iterator[Row]:
    """Yields each record as a row; a blank line is no record.

    Args:
        lines: Numbered lines.
        name: What messages call the source.
        tokenizer: What cuts the `text` of a record without `tokens`.

    Raises:
        InputError: A line is not JSON, or its record has neither field or one of a wrong type.
    """
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{name}: line {number}"
        record = parse_record(line, where)
        if "tokens" in record:
            yield Row(_check_strings(record["tokens"], where), number)
        elif "text" not in record:
            raise InputError(
                f"{where}: the record has neither 'tokens' nor 'text'; add one of them"
            )
        elif not isinstance(record["text"], str):
            raise InputError(f"{where}: text: expected a string, found {_shown(record['text'])}")
        else:
            yield cut_row(record["text"], number, tokenizer)


def parse_record(line: str, where: str) -> dict[str, Any]:
    """Returns the JSON object of a line.

    Raises:
        InputError: The line is not JSON, or another value.
    """
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}, character {error.colno}: not JSON ({error.msg}); expected a record a line"
        ) from None
    except (ValueError, RecursionError) as error:  # a number of too many digits, too many brackets
        raise InputError(f"{where}: not JSON that can be read ({error})") from None
    if not isinstance(record, dict):
        raise InputError(f"{where}: expected an object with named fields, found {_shown(record)}")
    return record


def _check_strings(tokens: object, where: str) -> tuple[str, ...]:
    if not isinstance(tokens, list):
        raise InputError(
            f"{where}: tokens: expected a list of strings, found {_shown(tokens)}; "
            "running text goes into 'text'"
        )
    for i, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InputError(f"{where}: tokens[{i}]: expected a string, found {_shown(token)}")
    return tuple(tokens)


def _shown(value: object) -> str:
    """Returns a value as JSON, cut to what fits a message."""
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."
