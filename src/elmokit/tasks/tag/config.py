"""Settings of `tag`; needs no torch."""

from dataclasses import dataclass
from typing import Literal

from elmokit.metrics.spans import InvalidPolicy
from elmokit.tasks.config import DataSection
from elmokit.tasks.readers.conllu import Field
from elmokit.text.lines import DECOMPRESSORS

_CONLLU = ".conllu"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagData(DataSection):
    """CoNLL-U, or columns with a word a line."""

    format: Literal["auto", "conllu", "columns"] = "auto"
    """auto: CoNLL-U if the name of the training file ends in .conllu (or .conllu.gz, .xz, .zst),
    else columns."""
    field: Field = "upos"
    """Column of CoNLL-U."""
    column: int = -1
    """Where tags are in columns: 1 for the first column, -1 for the last."""
    invalid_tags: InvalidPolicy = "refuse"
    """What becomes of an impossible sequence of tags that write spans, such as chunks. conlleval:
    read as CoNLL's scorer does. discard: no span."""

    @property
    def is_conllu(self) -> bool:
        """Whether files are CoNLL-U."""
        endings = (_CONLLU, *(_CONLLU + ending for ending in DECOMPRESSORS))
        if self.format == "auto":
            return self.train.lower().endswith(endings)
        return self.format == "conllu"
