"""`elmo task`: models of the paper's tasks, with ELMo in them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from elmokit.cli.printing import say
from elmokit.errors import ConfigError
from elmokit.tasks.registry import TaskName

if TYPE_CHECKING:
    from elmokit.tasks.config import TaskConfig
    from elmokit.tasks.saved import Trained
    from elmokit.tasks.task import Task

_TASK = tyro.conf.arg(metavar="TASK")
_MODEL = tyro.conf.arg(metavar="MODEL")
_SETTINGS = tyro.conf.arg(metavar="KEY=VALUE")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """Trains, evaluates and uses models of the paper's tasks, with ELMo in them.

    Example: elmo task train ner --train train.conll --dev dev.conll -o run
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What commands that train task models have in common."""

    task: Annotated[tyro.conf.Positional[TaskName], _TASK]
    """ner, tag, sentiment, classify, entailment, srl, qa or coref."""
    folder: Annotated[Path, tyro.conf.arg(name="output", aliases=["-o"], metavar="FOLDER")]
    """Directory of what is trained."""
    train: str | None = None
    """File to learn from (data.train)."""
    dev: str | None = None
    """File to choose the best epoch with (data.dev)."""
    elmo: str | None = None
    """Directory, zip or tar file of a model, hub:owner/name, default or zh-hant (elmo.model)."""
    elmo_at: Literal["input", "output", "both", "none"] | None = None
    """Where the task model reads ELMo; input if not given, none for the control (elmo.at)."""
    cache_dtype: Literal["float32", "float16"] | None = None
    """Number format of the layers that are kept; float16 takes half the space (cache.dtype)."""
    skip_bad: bool = False
    """Go on after an example that cannot be read, and count such examples (data.skip_bad)."""
    config: Path | None = None
    """YAML file of settings; the options here win over it."""
    set: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], _SETTINGS] = field(default=())
    """A setting that wins over all others, such as fit.epochs=10; may be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTrainSettings(RunSettings):
    """Trains a task model; RUN/model is the best one on dev, RUN/results.json what came out.

    Example: elmo task train ner --train train.conll --dev dev.conll -o run --elmo my-elmo.zip
    """

    seed: int | None = None
    """Decides initial weights, order of the examples and dropout."""
    resume: bool = False
    """Go on with the run after its last epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSettings:
    """Scores a trained task model on a file.

    Example: elmo task eval ner run/model test.conll
    """

    task: Annotated[tyro.conf.Positional[TaskName], _TASK]
    """ner, tag, sentiment, classify, entailment, srl, qa or coref."""
    model: Annotated[tyro.conf.Positional[Path], _MODEL]
    """Directory of a trained task model."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """Examples in the task's format."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """JSON file to write the results to; they are printed if not given."""
    elmo: str | None = None
    """Where the biLM is now, if not where it was in training."""
    skip_bad: bool = False
    """Go on after an example that cannot be read, and count such examples."""
    set: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], _SETTINGS] = field(default=())
    """A setting of the model's data, such as data.column=2; may be repeated."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""
    overwrite: bool = False
    """Replace existing results once there are new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPredictSettings:
    """Writes what a trained task model predicts, one row per row that was read.

    Example: elmo task predict ner run/model new.txt -o tagged.conll --format text
    """

    task: Annotated[tyro.conf.Positional[TaskName], _TASK]
    """ner, tag, sentiment, classify, entailment, srl, qa or coref."""
    model: Annotated[tyro.conf.Positional[Path], _MODEL]
    """Directory of a trained task model."""
    input: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")]
    """What to predict for; - reads standard input."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """File to write, in the task's format."""
    format: Literal["task", "text"] = "task"
    """task: the format of the training files, right answers not needed. text: an example a line,
    tokens between white space; for coref a sentence a line, a blank line between documents."""
    elmo: str | None = None
    """Where the biLM is now, if not where it was in training."""
    skip_bad: bool = False
    """Go on after an example that cannot be read; its lines are written as they are."""
    set: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], _SETTINGS] = field(default=())
    """A setting of the model's data, such as data.encoding=latin-1; may be repeated."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""
    overwrite: bool = False
    """Replace an existing file once the new one is complete."""


def explain(settings: TaskSettings) -> None:
    """Asks for one of the commands."""
    raise ConfigError("task: give train, eval or predict; see elmo task --help")


def train(settings: TaskTrainSettings) -> None:
    """Trains, and prints the score of the best model."""
    from elmokit.tasks.run import train as train_task

    task, config = read_run(settings, seed=settings.seed)
    results = train_task(task, config, resume=settings.resume)
    say(
        f"{settings.folder / 'model'}: dev {results['metric']} {results['score']:.4f} after epoch "
        f"{results['best_epoch']} of {results['epochs']}"
    )


def read_run(
    settings: RunSettings, *, seed: int | None = None
) -> "tuple[Task[Any, Any], TaskConfig]":
    """Returns the task and its run, from the YAML file and the options that win over it.

    Raises:
        ConfigError: A setting is unknown, missing or of a wrong type.
    """
    from elmokit.tasks.registry import get_task
    from elmokit.training.configfile import apply_settings, read_settings

    task = get_task(settings.task)
    data = {} if settings.config is None else read_settings(settings.config)
    given = {
        "run_dir": str(settings.folder),
        "data.train": settings.train,
        "data.dev": settings.dev,
        "data.skip_bad": settings.skip_bad or None,
        "elmo.model": settings.elmo,
        "elmo.at": settings.elmo_at,
        "cache.dtype": settings.cache_dtype,
        "seed": seed,
    }
    for key, value in given.items():
        if value is not None:
            _put(data, key, value)
    apply_settings(data, settings.set)
    files = data.get("data") or {}
    for name in ("train", "dev"):
        if isinstance(files, dict) and name not in files:
            raise ConfigError(f"data.{name}: is missing; give a file with --{name}")
    return task, task.config.from_dict(data, where=str(settings.config or "settings"))


def evaluate(settings: EvalSettings) -> None:
    """Scores a model, and prints the results or says where they are."""
    from elmokit.tasks.run import evaluate_file

    trained = _load(settings)
    results = evaluate_file(trained, settings.data, settings.output, overwrite=settings.overwrite)
    if settings.output is None:
        for line in json.dumps(results, indent=1).splitlines():
            say(line)
    else:
        metric = trained.task.metric(trained.lists)
        say(f"{settings.output}: {metric} {results[metric]:.4f}")


def predict(settings: TaskPredictSettings) -> None:
    """Predicts, and says where the predictions are."""
    from elmokit.tasks.run import predict_file

    number = predict_file(
        _load(settings),
        settings.input,
        settings.output,
        format=settings.format,
        overwrite=settings.overwrite,
    )
    say(f"{settings.output}: {number:,} examples predicted")


def _load(settings: EvalSettings | TaskPredictSettings) -> "Trained":
    """Loads the model with the settings of its data changed."""
    import dataclasses

    from elmokit.tasks import saved
    from elmokit.training.configfile import apply_settings

    trained = saved.load(
        settings.model, task=settings.task, device=settings.device, elmo=settings.elmo
    )
    data: dict[str, Any] = trained.config.to_dict()
    data["data"]["skip_bad"] = settings.skip_bad
    for setting in settings.set:
        if not setting.startswith("data."):
            raise ConfigError(f"--set {setting}: a trained model takes settings of data. only")
    apply_settings(data, settings.set)
    config = type(trained.config).from_dict(data, where="settings")
    return dataclasses.replace(trained, config=config)


def _put(data: dict[str, Any], key: str, value: object) -> None:
    *sections, name = key.split(".")
    for section in sections:
        if not isinstance(data.get(section), dict):
            data[section] = {}
        data = data[section]
    data[name] = value
