"""`elmo embed`: a file in, a file of vectors out, in parts that survive a crash."""

import codecs
import dataclasses
import hashlib
import io
import itertools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit.config import Card
from elmokit.embedding.devices import Precision
from elmokit.embedding.embedder import BATCH_TOKENS, Embedder
from elmokit.embedding.parts import PartedOutput
from elmokit.embedding.place import check_place
from elmokit.embedding.progress import Progress
from elmokit.embedding.selection import LayerChoice, Selection
from elmokit.embedding.settings import EmbedSettings
from elmokit.embedding.summary import COUNTS, count, counted, describe
from elmokit.embedding.writers import EmbeddedRow, Volume, writer_for
from elmokit.embedding.writers.record import to_json
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.nn import State
from elmokit.nn.pooling import check_pooling
from elmokit.nn.threads import threads
from elmokit.text import Row, is_tokenizer, read_rows
from elmokit.text.lines import check_encoding

logger = logging.getLogger(__name__)

_MAX_THREADS = 1024
_CARRY_BATCH_SIZE = 64
"""Rows of a batch with carried state, as AllenNLP's command has it."""


def embed_file(settings: EmbedSettings) -> Mapping[str, int]:
    """Embeds the rows of a file.

    Args:
        settings: What to embed, how, and where to.

    Returns:
        The counts of `elmokit.embedding.summary`, over all rows (those of a resumed run included).

    Raises:
        InputError: The input cannot be read as what it was said to be.
        ConfigError: A setting is wrong or contradicts another.
        CheckpointError: The model cannot be loaded.
        OutputError: The output is in the way, cannot be written, or cannot be resumed.
    """
    started = time.monotonic()
    _check(settings)
    with threads(settings.threads):
        emb = Embedder.from_pretrained(
            settings.model,
            device=settings.device,
            precision=settings.precision,
            state=settings.state,
            batch_tokens=settings.batch_tokens or BATCH_TOKENS,
        )
        settings = _cut_as_in_training(settings, emb.bilm.card)
        selection = Selection.parse(_layers(settings.layers), None, emb.num_outputs)
        fixed = _fixed(settings, emb)
        volume = None if settings.input == "-" else _survey(settings, emb, selection)
        with PartedOutput.open(
            settings.output,
            settings=fixed,
            layout=settings.layout,
            overwrite=settings.overwrite,
            resume=settings.resume,
        ) as output:
            logger.info("model %s: %s", settings.model, emb.bilm.title)
            if volume is not None:
                _announce(settings, volume)
            total = None if volume is None else volume.num_tokens
            with Progress(total, output.num_tokens_done) as progress:
                try:
                    if not output.is_complete:
                        _embed_rows(settings, emb, selection, output, progress)
                except KeyboardInterrupt:
                    _say_how_to_go_on(settings, output)
                    raise
                rate = progress.rate
            if volume is not None and output.num_rows_done != volume.num_rows:
                raise InputError(
                    f"{settings.input}: changed while it was embedded ({volume.num_rows:,} rows "
                    f"before, {output.num_rows_done:,} now); embed it again with --overwrite"
                )
            counts = {name: output.summary.get(name, 0) for name in COUNTS}
            logger.info("%s: joining %s", settings.output, counted(len(output.parts), "part"))
            output.finish()
    seconds = time.monotonic() - started
    line = describe(counts, rate, seconds, knows_characters=emb.bilm.knows_characters)
    logger.info("%s: %s", settings.output, line)
    return counts


def _say_how_to_go_on(settings: EmbedSettings, output: PartedOutput) -> None:
    if settings.input != "-" and output.num_rows_done:
        done = counted(output.num_rows_done, "row")
        logger.info("%s: %s saved; go on with --resume", output.directory, done)


def _embed_rows(
    settings: EmbedSettings,
    emb: Embedder,
    selection: Selection,
    output: PartedOutput,
    progress: Progress,
) -> None:
    """Embeds the rows that are not in the output yet, part by part."""
    if emb.state == "carry":
        emb.carried.state = _load_state(output.last_state(), emb.bilm.device)
    pooling = None if settings.pooling == "none" else check_pooling(settings.pooling)
    parts = emb.cut_parts(
        itertools.islice(_rows(settings), output.num_rows_done, None),
        selection,
        batch_size=settings.batch_size or _CARRY_BATCH_SIZE,
        part_rows=settings.part_rows,
        length=lambda row: len(row.tokens),
    )
    for part in parts:
        emb.clear_cache()  # so that a part's bits do not depend on the parts before it
        vectors = emb.embed_part(
            [row.tokens for row in part],
            selection,
            boundaries=settings.boundaries,
            pooling=pooling,
            to_cpu=True,
            on_batch=progress.advance,
        )
        output.write(
            _records(part, vectors, output.num_rows_done, settings.dtype),
            summary=count(part, emb.bilm),
            state=_dump_state(emb.carried.state) if emb.state == "carry" else None,
        )


def _records(
    rows: Sequence[Row], vectors: Sequence[torch.Tensor], first: int, dtype: str
) -> list[EmbeddedRow]:
    return [
        EmbeddedRow(
            index=first + place,
            tokens=row.tokens,
            vectors=vectors[place].cpu().numpy().astype(np.dtype(dtype), copy=False),
            id=row.id,
            line=row.line,
            offsets=row.offsets,
        )
        for place, row in enumerate(rows)
    ]


def _rows(settings: EmbedSettings, *, warn: bool = True) -> Iterator[Row]:
    return read_rows(
        settings.input,
        format=settings.format,
        tokenizer=settings.tokenizer,
        encoding=settings.encoding,
        warn=warn,
    )


def _survey(settings: EmbedSettings, emb: Embedder, selection: Selection) -> Volume:
    """Reads the input once: finds its faults before hours of work, and what there is to write."""
    num_rows = num_tokens = num_characters = 0
    for row in _rows(settings, warn=False):
        num_rows += 1
        num_tokens += len(row.tokens)
        num_characters += sum(
            len(token) if token.isascii() else len(to_json(token)) - 2 for token in row.tokens
        )
    num_layers = len(selection.layers) if selection.keep_axis else 1
    return Volume(
        num_rows=num_rows,
        num_tokens=num_tokens,
        num_characters=num_characters,
        num_vectors=num_rows
        if settings.pooling != "none"
        else num_tokens + 2 * settings.boundaries * num_rows,
        vector_dim=num_layers * emb.dim,
        dtype=settings.dtype,
    )


def _announce(settings: EmbedSettings, volume: Volume) -> None:
    size = writer_for(settings.output, settings.layout).estimate_bytes(volume)
    logger.info(
        "%s: %s, %s; %s will hold about %s",
        settings.input,
        counted(volume.num_rows, "row"),
        counted(volume.num_tokens, "token"),
        settings.output,
        _readable(size),
    )


def _readable(size: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _check(settings: EmbedSettings) -> None:
    """Refuses settings that contradict each other, before anything is loaded."""
    writer_for(settings.output, settings.layout)
    check_place(settings.output, overwrite=settings.overwrite, resume=settings.resume)
    for name in ("batch_tokens", "batch_size", "part_rows", "threads"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise ConfigError(f"{name}: {value} must be 1 or more")
    if settings.threads is not None and settings.threads > _MAX_THREADS:
        raise ConfigError(f"threads: {settings.threads} must be {_MAX_THREADS} or fewer")
    check_encoding(settings.encoding)
    both_exist = settings.output.exists() and Path(settings.input).exists()
    if both_exist and settings.output.samefile(settings.input):
        raise OutputError(f"{settings.output}: is the input; give another name with -o")
    if settings.batch_size is not None and settings.state == "fresh":
        raise ConfigError("batch_size: belongs to state carry; with state fresh set batch_tokens")
    if settings.batch_tokens is not None and settings.state == "carry":
        raise ConfigError("batch_tokens: belongs to state fresh; with state carry set batch_size")
    if settings.pooling != "none" and settings.boundaries:
        raise ConfigError("boundaries: pooled vectors leave them out; drop pooling or boundaries")
    if settings.input == "-" and settings.resume:
        raise OutputError("resume: standard input cannot be read again; put the text into a file")


def _cut_as_in_training(settings: EmbedSettings, card: Card) -> EmbedSettings:
    """Takes the tokeniser that the model's card names for raw text, unless the user names one."""
    if settings.format != "raw" or settings.tokenizer is not None:
        return settings
    if not is_tokenizer(card.tokenizer):
        return settings
    logger.info("tokenizer %s, as the model's card says", card.tokenizer)
    return dataclasses.replace(settings, tokenizer=card.tokenizer)


def _layers(text: str) -> LayerChoice:
    """Reads `all`, `mean`, `top`, `1` (no layer axis) or `0,1,2` (with one)."""
    if text in ("all", "mean", "top"):
        return text  # type: ignore[return-value]  # one of the three
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"layers: {text!r} is not all, mean, top, a number such as 1, or several such as 0,1,2"
        ) from None
    return numbers[0] if "," not in text else numbers


def _fixed(settings: EmbedSettings, emb: Embedder) -> dict[str, Any]:
    """Returns everything that decides the output's content."""
    free = {"input", "output", "model", "device", "threads", "overwrite", "resume", "layout"}
    fixed = {k: v for k, v in dataclasses.asdict(settings).items() if k not in free}
    return {
        **fixed,
        "encoding": codecs.lookup(settings.encoding).name,
        "input_sha256": None if settings.input == "-" else _file_digest(settings.input),
        "model_sha256": _model_digest(emb, settings.precision),
        "model_name": emb.bilm.card.name,
    }


def _file_digest(path: str) -> str:
    """Reads the input once; it is read twice more, for the survey and for the vectors."""
    if Path(path).is_fifo() or Path(path).is_char_device():
        raise InputError(f"{path}: can be read only once; give it as standard input, with - for it")
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _model_digest(emb: Embedder, precision: Precision) -> str:
    digest = hashlib.sha256()
    if precision == "int8":
        digest.update(repr(emb.bilm.activations).encode())
    for name, tensor in sorted(emb.bilm.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().numpy().data)
    return digest.hexdigest()


def _dump_state(state: State | None) -> bytes:
    buffer = io.BytesIO()
    torch.save(None if state is None else [part.cpu() for part in state], buffer)
    return buffer.getvalue()


def _load_state(data: bytes | None, device: torch.device) -> State | None:
    if data is None:
        return None
    parts = torch.load(io.BytesIO(data), weights_only=True, map_location=device)
    return State(*parts)
