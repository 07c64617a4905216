"""Selects the text that a shipped model learns from, by licence, with what must be attributed.

    corpus=../shared/corpus
    python recipes/select_text.py $corpus/en $corpus/en-modern -o .bench/english/text

A folder holds train-*.txt.gz and heldout.txt.gz, one sentence a line and an empty line after every
document, and documents.tsv.gz with source and licence of each; the README.md beside the folders has
a table of the attributions. Written are

- train-FOLDER-*.txt.gz, the documents whose licence asks for attribution at most,
- train-FOLDER-*-again.txt.gz, the modern ones of them once more, so that an epoch reads them twice,
- heldout-FOLDER.txt.gz, all held-out text, which is only measured,
- heldout-mixed.txt.gz, some of it from each folder, to measure with while training,
- NOTICE, the attributions of what is in train-*.
"""

import argparse
import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KEPT = {
    "Public domain in the USA; edition CC0-1.0": "",
    "US federal government work / CC0-1.0": "",
    "US federal government work (public domain)": "",
    "public domain (US federal government works)": "",
    "public domain (Federal Reserve System, US government)": "",
    "public domain / CC0-1.0": "",
    "CC0-1.0": "",
    "Unlicense (public domain dedication)": "",
    "CC BY 4.0": "https://creativecommons.org/licenses/by/4.0/",
    "CC BY 3.0": "https://creativecommons.org/licenses/by/3.0/",
    "CC BY 2.0 FR": "https://creativecommons.org/licenses/by/2.0/fr/",
    "CC BY (per article; a few CC0/public domain)": "https://creativecommons.org/licenses/",
    "CC BY (per story)": "https://creativecommons.org/licenses/",
    "CC BY 4.0 (collection); texts US federal government works": (
        "https://creativecommons.org/licenses/by/4.0/"
    ),
    "CC BY 4.0 (AMI, ICSI corpora); MIT (QMSum)": "https://creativecommons.org/licenses/by/4.0/",
    "Open Government Licence v2.0": (
        "https://www.nationalarchives.gov.uk/doc/open-government-licence/version/2/"
    ),
    "MIT": "https://opensource.org/license/mit",
    "MIT or Apache-2.0": "https://opensource.org/license/mit",
    "Public domain in the USA": "",
    "Public domain (statutes; Article 9, Copyright Act of Taiwan)": "",
}
"""Licences of text to learn from -> where their terms are; empty if they ask for nothing."""

DROPPED = {
    "CC BY-SA 3.0",
    "CC BY-SA 4.0",
    "MASC terms: free for research and development, including commercial development",
}
"""Licences of text to leave out."""

BOOKS = {
    "standardebooks/": (
        "Standard Ebooks, standardebooks.org: {} books of the 18th to the early 20th century. "
        "Public domain in the USA; edition CC0-1.0."
    ),
    "gutenbergbooks/": (
        "Project Gutenberg: {} Chinese books of the 14th to the early 20th century, without its "
        "header, trailer and name. Public domain in the USA."
    ),
}
"""How the names of sources begin that are a book each -> what NOTICE says of all together."""

OLD = (*BOOKS, "nltk_data inaugural ")
"""How the names of sources begin whose text is mostly older than a hundred years."""

MIXED_TOKENS = 25_000
"""About how many tokens of a folder's held-out text go into the mixed one."""

CHANGES = (
    "All of it was changed before training: prose was extracted, cut into sentences and tokens, "
    "and sentences were dropped."
)


@dataclass(frozen=True, slots=True)
class Document:
    """A document and what documents.tsv.gz tells of it."""

    source: str
    licence: str
    part: str
    lines: list[str]

    @property
    def is_modern(self) -> bool:
        """Whether its source is one of recent text."""
        return not self.source.startswith(OLD)

    @property
    def num_tokens(self) -> int:
        """Tokens between spaces."""
        return sum(len(line.split()) for line in self.lines)


def is_kept(licence: str) -> bool:
    """Tells whether text under a licence is learnt from.

    Raises:
        ValueError: Nobody has decided about the licence.
    """
    if (licence in KEPT) == (licence in DROPPED):
        raise ValueError(f"licence {licence!r}: must be in exactly one of KEPT and DROPPED")
    return licence in KEPT


def read_documents(folder: Path) -> Iterator[tuple[str, list[Document]]]:
    """Yields each file's name and documents.

    Raises:
        ValueError: The text is not what documents.tsv.gz describes.
    """
    rows = defaultdict(list)
    with gzip.open(folder / "documents.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            rows[row["file"]].append(row)
    for name in sorted(rows):
        with gzip.open(folder / name, "rt", encoding="utf-8") as file:
            texts = [text.split("\n") for text in file.read().removesuffix("\n\n").split("\n\n")]
        found = [str(len(lines)) for lines in texts]
        if found != [row["lines"] for row in rows[name]]:
            raise ValueError(f"{folder / name}: other documents than documents.tsv.gz lists")
        yield (
            name,
            [
                Document(row["source"], row["licence"], row["part"], lines)
                for row, lines in zip(rows[name], texts, strict=True)
            ],
        )


def write_documents(path: Path, documents: list[Document]) -> None:
    """Writes text, an empty line after every document; the same text gives the same bytes."""
    text = "".join("\n".join(document.lines) + "\n\n" for document in documents)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    tokens = sum(document.num_tokens for document in documents)
    print(f"{path.name:34} {len(documents):>6,} documents {tokens:>11,} tokens")


def thin_out(documents: list[Document], num_tokens: int) -> list[Document]:
    """Returns documents from the whole length of a list, about so many tokens in all."""
    share = num_tokens / sum(document.num_tokens for document in documents)
    chosen = []
    due = 0.0
    for document in documents:
        due += share * document.num_tokens
        if due >= document.num_tokens / 2:
            chosen.append(document)
            due -= document.num_tokens
    return chosen


def read_attributions(readme: Path) -> dict[str, str]:
    """Returns source -> attribution, from the tables that have columns for both."""
    attributions = {}
    column = None
    for line in readme.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if cells[0] == "source":
            names = [name for name in cells if name.endswith("attribution")]
            column = cells.index(names[0]) if names else None
        elif not line.startswith("|"):
            column = None
        elif column is not None:
            attributions[cells[0]] = cells[column].removesuffix(": see the list below")
    return attributions


def notice(documents: list[Document], attributions: dict[str, str]) -> str:
    """Returns the NOTICE of a model that learnt from documents.

    Raises:
        KeyError: A source has no attribution.
    """
    parts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for document in documents:
        parts[document.source, document.licence].append(document.part)
    asked: list[str] = []
    free: list[str] = []
    for prefix, text in BOOKS.items():
        if books := sum(source.startswith(prefix) for source, _ in parts):
            free.append(f"- {text.format(books)}")
    for source, licence in sorted(parts, key=lambda pair: pair[0].casefold()):
        if source.startswith(tuple(BOOKS)):
            continue
        terms = KEPT[licence]
        entry = f"- {source}: {attributions[source]}. {licence}{terms and f', {terms}'}."
        if "(per " in licence:
            entry += f" Used are: {'; '.join(sorted(parts[source, licence]))}."
        (asked if terms else free).append(entry)
    return "\n".join(
        [
            "This model has learnt from the following text.",
            f"{CHANGES} None of the authors endorses the model.",
            "\nText whose licence asks for attribution:\n",
            *asked,
            "\nText in the public domain or dedicated to it:\n",
            *free,
            "",
        ]
    )


def select(folder: Path, output: Path) -> tuple[list[Document], list[Document]]:
    """Writes a folder's files; returns what to learn from, and its share of the mixed held-out."""
    learnt: list[Document] = []
    mixed: list[Document] = []
    for name, documents in read_documents(folder):
        stem = name.removesuffix(".txt.gz")
        if stem == "heldout":
            write_documents(output / f"heldout-{folder.name}.txt.gz", documents)
            mixed = thin_out(documents, MIXED_TOKENS)
            continue
        kept = [document for document in documents if is_kept(document.licence)]
        stem = stem.replace("train-", f"train-{folder.name}-")
        write_documents(output / f"{stem}.txt.gz", kept)
        modern = [document for document in kept if document.is_modern]
        write_documents(output / f"{stem}-again.txt.gz", modern)
        learnt += kept
    return learnt, mixed


def main() -> None:
    """Reads the command line and selects."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="folders of a corpus")
    parser.add_argument("-o", "--output", required=True, type=Path, help="folder to write")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    learnt, mixed = [], []
    attributions: dict[str, str] = {}
    for folder in args.folders:
        attributions |= read_attributions(folder.parent / "README.md")
        chosen, measured = select(folder, args.output)
        learnt += chosen
        mixed += measured
    write_documents(args.output / "heldout-mixed.txt.gz", mixed)
    (args.output / "NOTICE").write_text(notice(learnt, attributions), encoding="utf-8")


if __name__ == "__main__":
    main()
