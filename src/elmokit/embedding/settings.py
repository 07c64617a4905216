"""The settings of `elmo embed`; needs no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from elmokit.config import StatePolicy

RowFormat = Literal["auto", "text", "raw", "conllu", "jsonl", "fasta"]
"""What a row of a text is; auto goes by the suffix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSettings:
    """Embeds the rows of a file.

    Example: elmo embed sentences.txt -o vectors.h5 --model my-elmo.zip --layers mean
    """

    input: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")]
    """Text to embed, plain or compressed (.gz, .xz, .zst); - reads standard input."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """File to write; its suffix chooses the format: .h5, .hdf5, .npz, .parquet or .jsonl."""
    model: str = "default"
    """Directory, zip or tar file of a checkpoint, hub:owner/name, default or zh-hant."""
    format: RowFormat = "auto"
    """What a row is. auto goes by the input's suffix; raw cuts running text into sentences."""
    tokenizer: str | None = None
    """whitespace, characters, words, spacy or spacy:LANG; by default the format's own, or for raw
    text the one that the model's card names."""
    layers: str = "all"
    """all, mean, top, one layer by number (0 is the token layer), or several as 0,1,2."""
    pooling: Literal["none", "mean", "max"] = "none"
    """One vector per token (none), or one per row."""
    dtype: Literal["float32", "float16"] = "float32"
    """Number format of the vectors written."""
    layout: Literal["per-sentence", "ragged"] = "per-sentence"
    """HDF5 only: one dataset per row, or all vectors in one dataset with offsets."""
    boundaries: bool = False
    """Keep the vectors of the begin and end of sentence."""
    batch_tokens: int | None = None
    """Tokens that run together (state fresh only; 8192 if not given)."""
    batch_size: int | None = None
    """Rows of a batch (state carry only; 64 if not given)."""
    part_rows: int = 5000
    """Rows that are sorted, embedded and saved together (state fresh)."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto takes a GPU if there is one."""
    threads: int | None = None
    """CPU threads; all cores if not given."""
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """fp32 is the reference; bf16 rounds the LSTM's weights; int8 (CPU) is fast and rounds most."""
    state: StatePolicy = "fresh"
    """fresh: vectors depend on their row alone. carry: row r of a batch continues row r before."""
    encoding: str = "utf-8"
    """Encoding of the input."""
    overwrite: bool = False
    """Replace an existing output once the new one is complete."""
    resume: bool = False
    """Go on with a run that was cut off; its settings must be the same."""
