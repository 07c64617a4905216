"""The one way in: a file or standard input -> rows, by format."""

from collections.abc import Iterator
from pathlib import Path

from elmokit.config import nearest
from elmokit.errors import ConfigError
from elmokit.text.conllu import read_conllu
from elmokit.text.fasta import read_fasta
from elmokit.text.jsonl import read_jsonl
from elmokit.text.lines import DECOMPRESSORS, read_lines, source_name
from elmokit.text.plain import read_raw, read_text
from elmokit.text.row import Row
from elmokit.text.tokenizers import cut_whitespace, cut_words, get_tokenizer

FORMATS = ("text", "raw", "conllu", "jsonl", "fasta")
"""Names of the formats; `auto` chooses among them by suffix, and never takes `raw`."""

_SUFFIXES = {
    ".conllu": "conllu",
    ".conll": "conllu",
    ".jsonl": "jsonl",
    ".fa": "fasta",
    ".fasta": "fasta",
    ".faa": "fasta",
}


def detect_format(path: str | Path) -> str:
    """Returns the format that a file's name stands for; `text` where it stands for none.

    A suffix of compression is passed over, and case plays no part. Standard input, `-`, is text.
    """
    path = Path(path)
    if path.suffix.lower() in DECOMPRESSORS:
        path = path.with_suffix("")
    return _SUFFIXES.get(path.suffix.lower(), "text")


def read_rows(
    source: str | Path,
    *,
    format: str = "auto",
    tokenizer: str | None = None,
    encoding: str = "utf-8",
    warn: bool = True,
) -> Iterator[Row]:
    """Reads rows one after another; the source is opened with the first.

    Args:
        source: A file, decompressed if it ends in .gz, .xz or .zst; `-` is standard input.
        format: `text`, `raw`, `conllu`, `jsonl`, `fasta`, or `auto` to go by the suffix.
        tokenizer: A name for `get_tokenizer`; None for the format's own (`str.split()` for text and
            JSONL, `words` for raw). CoNLL-U and FASTA come in tokens and take none.
        encoding: Encoding of the source, any that Python knows.
        warn: Whether records with odd symbols are logged (FASTA).

    Returns:
        An iterator. Its reading raises InputError if the source is missing, unreadable, damaged or
        not of this format and encoding.

    Raises:
        ConfigError: The format, tokeniser or encoding is unknown, or the format takes no tokeniser.
        MissingExtraError: The tokeniser is spaCy's and spaCy is not installed.
    """
    if format not in ("auto", *FORMATS):
        raise ConfigError(
            f"format: {format!r} is unknown{nearest(format, FORMATS)}; "
            f"use auto, {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    name = source_name(source)
    format = detect_format(source) if format == "auto" else format
    if tokenizer is not None and format in ("conllu", "fasta"):
        raise ConfigError(
            f"tokenizer: {name} is read as {format}, which comes in tokens; leave {tokenizer!r} out"
        )
    cut = None if tokenizer is None else get_tokenizer(tokenizer)
    lines = read_lines(source, encoding)
    match format:
        case "raw":
            return read_raw(lines, cut or cut_words)
        case "conllu":
            return read_conllu(lines, name)
        case "jsonl":
            return read_jsonl(lines, name, cut or cut_whitespace)
        case "fasta":
            return read_fasta(lines, name, warn=warn)
        case _:
            return read_text(lines, cut)
