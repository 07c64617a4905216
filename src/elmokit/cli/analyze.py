"""`elmo analyze`: the paper's analyses of a biLM, each a table, a JSON file and figures."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from elmokit.cli.printing import say
from elmokit.cli.reporting import ReportSettings, tell
from elmokit.embedding.settings import RowFormat
from elmokit.errors import ConfigError

if TYPE_CHECKING:
    from elmokit.analysis.output import Report
    from elmokit.embedding.embedder import Embedder

_FILES = tyro.conf.arg(metavar="FILE...", help_behavior_hint="(required)")
_CORPUS = tyro.conf.arg(metavar="CORPUS")
_INDEX = tyro.conf.arg(metavar="INDEX")
_SENTENCE = tyro.conf.arg(metavar="SENTENCE")
_WORD = tyro.conf.arg(metavar="WORD")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeSettings:
    """Looks inside a biLM, and at what task models make of it.

    Example: elmo analyze probe --train train.conllu --dev dev.conllu -o probe
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    model: str = "default"
    """Directory, zip or tar file of a checkpoint, hub:owner/name, default or zh-hant."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reported(ReportSettings, _Common):
    layers: str = "all"
    """all, one layer by number (0 is the token layer), or several as 0,1,2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings(_Reported):
    """Tells how well a simple classifier reads tags or word senses off each layer.

    Example: elmo analyze probe --train train.conllu --dev dev.conllu -o probe
    """

    train: Annotated[tuple[str, ...], _FILES]
    """Examples to learn from: CoNLL-U, or .tsv files of senses (id, sense, place of the word from
    0, sentence, between tabs)."""
    dev: Annotated[tuple[str, ...], _FILES]
    """Examples to be scored on."""
    field: Literal["upos", "xpos"] | None = None
    """Column of the tags (CoNLL-U); upos if not given."""
    max_train: int | None = None
    """Sentences to learn from, the first ones of each file; all if not given."""
    max_dev: int | None = None
    """Sentences to be scored on, the first ones of each file; all if not given."""
    seeds: int = 1
    """How often to learn; of several seeds each takes 80 % of the training examples."""
    first_senses: str | None = None
    """Lines of word and sense, between tabs: the answer for a word that training lacks (.tsv)."""
    encoding: str = "utf-8"
    """Encoding of the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings(_Common):
    """Embeds every token of a corpus, for `elmo analyze neighbors` to search.

    Example: elmo analyze index corpus.txt corpus-index
    """

    corpus: Annotated[tyro.conf.Positional[str], _CORPUS]
    """Text to index, plain or compressed (.gz, .xz, .zst); - reads standard input."""
    index: Annotated[tyro.conf.Positional[Path], _INDEX]
    """Folder to make: 1.5 bytes per number, 0.8 GB for a million tokens, 256 wide, and layer."""
    format: RowFormat = "auto"
    """What a row is. auto goes by the suffix; raw cuts running text into sentences."""
    tokenizer: str | None = None
    """whitespace, characters, words, spacy or spacy:LANG; by default the format's own."""
    encoding: str = "utf-8"
    """Encoding of the corpus."""
    overwrite: bool = False
    """Replace an index once the new one is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborsSettings(_Reported):
    """Finds the tokens of an index that are nearest to a word in a sentence.

    Example: elmo analyze neighbors corpus-index "He sat on the bank of the river ." bank -k 5
    """

    index: Annotated[tyro.conf.Positional[Path], _INDEX]
    """Folder that `elmo analyze index` made, with the same model."""
    sentence: Annotated[tyro.conf.Positional[str], _SENTENCE]
    """Tokens between white space, in quotes as one argument."""
    word: Annotated[tyro.conf.Positional[str], _WORD]
    """A token of the sentence."""
    occurrence: int = 1
    """Which of several like it."""
    k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 10
    """Neighbours for each layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilaritySettings(_Reported):
    """Compares two sentences token by token, by cosine.

    Example: elmo analyze similarity "He went to the bank ." "She sat on the bank ." -o similarity
    """

    first: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FIRST")]
    """Tokens between white space, in quotes as one argument."""
    second: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SECOND")]
    """The other sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensesSettings(_Reported):
    """Draws a map of a word's occurrences, with clusters; FOLDER/senses.html is a page to explore.

    Example: elmo analyze senses corpus.txt bank -o bank
    """

    corpus: Annotated[tyro.conf.Positional[str], _CORPUS]
    """Text; or a .tsv file of senses (id, sense, place of the word from 0, sentence, between tabs),
    where purity is measured."""
    word: Annotated[tyro.conf.Positional[str], _WORD]
    """The word, whatever its case; in a .tsv file the entry that an id begins with will do."""
    projection: Literal["pca", "umap"] = "pca"
    """How vectors become points; umap needs the package umap-learn."""
    max_clusters: int = 8
    """Most clusters that may be suggested."""
    max_occurrences: int = 500
    """Occurrences to draw, the first ones; a text is read no further."""
    format: RowFormat = "auto"
    """What a row is (no .tsv file). auto goes by the suffix."""
    tokenizer: str | None = None
    """whitespace, characters, words, spacy or spacy:LANG; by default the format's own."""
    encoding: str = "utf-8"
    """Encoding of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSettings(_Reported):
    """Measures how far vectors depend on state and left context, and says what to do.

    Example: elmo analyze drift text.txt -o drift
    """

    corpus: Annotated[tyro.conf.Positional[str], _CORPUS]
    """Running text: its sentences in their order."""
    max_sentences: int = 400
    """Sentences to read, the first ones; the second half of them is measured."""
    format: RowFormat = "auto"
    """What a row is. auto goes by the suffix; raw cuts running text into sentences."""
    tokenizer: str | None = None
    """whitespace, characters, words, spacy or spacy:LANG; by default the format's own."""
    encoding: str = "utf-8"
    """Encoding of the text."""


def explain(settings: AnalyzeSettings) -> None:
    """Asks for one of the commands."""
    raise ConfigError(
        "analyze: give probe, index, neighbors, similarity, senses, drift, layers, placement, "
        "efficiency or weights; see elmo analyze --help"
    )


def probe(settings: ProbeSettings) -> None:
    """Probes layers and prints accuracies."""
    from elmokit.analysis.examples import parse_layers
    from elmokit.analysis.probe import run_probe
    from elmokit.analysis.reports import probe_report

    def report(emb: "Embedder") -> "Report":
        scores, title = run_probe(
            emb,
            settings.train,
            settings.dev,
            layers=parse_layers(settings.layers, emb),
            field=settings.field,
            limits=(settings.max_train, settings.max_dev),
            seeds=settings.seeds,
            first_senses=settings.first_senses,
            encoding=settings.encoding,
        )
        return probe_report(scores, _facts(settings), title=title)

    _run("probe", settings, report)


def index(settings: IndexSettings) -> None:
    """Makes an index and says what is in it."""
    from elmokit.analysis.examples import read_sentences
    from elmokit.analysis.indexing import build_index, check_index_place
    from elmokit.embedding.embedder import Embedder

    check_index_place(settings.index, overwrite=settings.overwrite)
    emb = Embedder.from_pretrained(settings.model, device=settings.device)
    built = build_index(
        emb, _sentences(settings, read_sentences), settings.index, overwrite=settings.overwrite
    )
    say(
        f"{settings.index}: {built.num_tokens:,} tokens of {len(built.types):,} types in "
        f"{built.num_sentences:,} sentences"
    )


def neighbors(settings: NeighborsSettings) -> None:
    """Finds neighbours and prints them."""
    from elmokit.analysis.examples import parse_layers
    from elmokit.analysis.index import Index
    from elmokit.analysis.neighbors import find_neighbors, find_word
    from elmokit.analysis.reports import neighbors_report

    tokens = settings.sentence.split()
    place = find_word(tokens, settings.word, settings.occurrence)
    opened = Index(settings.index)

    def report(emb: "Embedder") -> "Report":
        layers = None if settings.layers == "all" else parse_layers(settings.layers, emb)
        found = find_neighbors(emb, opened, tokens, place, layers=layers, k=settings.k)
        return neighbors_report(found, _facts(settings))

    _run("neighbors", settings, report)


def similarity(settings: SimilaritySettings) -> None:
    """Compares two sentences and prints the nearest tokens."""
    from elmokit.analysis.examples import parse_layers
    from elmokit.analysis.reports import similarity_report
    from elmokit.analysis.similarity import similarity as compare

    first, second = settings.first.split(), settings.second.split()

    def report(emb: "Embedder") -> "Report":
        layers = parse_layers(settings.layers, emb)
        return similarity_report(first, second, layers, compare(emb, first, second, layers))

    _run("similarity", settings, report)


def senses(settings: SensesSettings) -> None:
    """Maps the occurrences of a word and prints the clusters."""
    from elmokit.analysis.examples import SENSES_SUFFIX, parse_layers, read_senses, read_sentences
    from elmokit.analysis.reports import senses_report
    from elmokit.analysis.senses import map_senses, occurrences, with_senses

    for name in ("max_clusters", "max_occurrences"):
        if getattr(settings, name) < 3 - (name == "max_clusters"):
            raise ConfigError(f"{name}: {getattr(settings, name)} is too few for a map")
    if settings.corpus.endswith(SENSES_SUFFIX):
        examples = with_senses(read_senses(settings.corpus, settings.encoding), settings.word)
        examples = examples[: settings.max_occurrences]
    else:
        sentences = _sentences(settings, read_sentences)
        examples = occurrences(sentences, settings.word, settings.max_occurrences)

    def report(emb: "Embedder") -> "Report":
        maps = map_senses(
            emb,
            examples,
            layers=parse_layers(settings.layers, emb),
            projection=settings.projection,
            max_clusters=settings.max_clusters,
        )
        return senses_report(settings.word, examples, maps, _facts(settings), model=emb.bilm.title)

    _run("senses", settings, report)


def drift(settings: DriftSettings) -> None:
    """Measures drift and prints it with the advice."""
    from elmokit.analysis.drift import LEAST, measure_drift
    from elmokit.analysis.examples import first, parse_layers, read_sentences
    from elmokit.analysis.reports import drift_report

    if settings.max_sentences < LEAST:
        raise ConfigError(f"max_sentences: {settings.max_sentences} must be {LEAST} or more")
    sentences = first(settings.max_sentences, _sentences(settings, read_sentences))

    def report(emb: "Embedder") -> "Report":
        found = measure_drift(emb, sentences, parse_layers(settings.layers, emb))
        return drift_report(found, _facts(settings))

    _run("drift", settings, report)


def _run(name: str, settings: _Reported, report: "Callable[[Embedder], Report]") -> None:
    """Loads the model, makes the report, prints it and writes its files."""
    from elmokit.analysis.output import check_folder
    from elmokit.embedding.embedder import Embedder

    if settings.folder is not None:
        check_folder(settings.folder, name, overwrite=settings.overwrite)
    emb = Embedder.from_pretrained(settings.model, device=settings.device)
    tell(report(emb), settings.folder, emb)


def _sentences(settings: Any, read: Callable[..., Any]) -> Any:
    return read(
        settings.corpus,
        format=settings.format,
        tokenizer=settings.tokenizer,
        encoding=settings.encoding,
    )


def _facts(settings: Any) -> dict[str, Any]:
    """Returns the settings that a result depends on, as JSON values."""
    free = {"model", "device", "folder", "overwrite"}
    return {
        key: str(value) if isinstance(value, Path) else value
        for key, value in dataclasses.asdict(settings).items()
        if key not in free
    }
