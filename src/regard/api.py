"""What `import regard` offers: `load`, `train` and `evaluate`. The command line calls the same functions.

Their keywords are the options of the commands of the same name, and messages name these options. torch is imported
only when one of them is called.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from regard.errors import ConfigError, DataError, TrainingError

if TYPE_CHECKING:
    from regard.evaluation.report import Report
    from regard.training.train_model import Result as TrainingResult

StrPath: TypeAlias = str | Path
Pairs: TypeAlias = Iterable[tuple[str, str]]
Settings: TypeAlias = Mapping[str, Any] | Sequence[str]

IN_MEMORY = "pairs in memory"
"""What a corpus is called in a report that has no name."""


def load(*folders: StrPath, device: str = "cpu") -> Any:
    """Open the folder of a trained model, ready to be used.

    What is returned depends on the model's task, which its attribute `task` names: a `Translator` for translation and
    language modelling, a `TextLabeller`, a `CaptionPredictor`, an `ImageClassPredictor`, an `AnswerPredictor` (visual
    questions) or a `DetectionPredictor`. Who wants a static type annotates the variable, or calls `Translator.load`.

    Several translators with the same vocabularies translate as one, an ensemble. `device` is cpu, cuda or auto.
    """
    from regard.decoding.translator import Translator
    from regard.models.model_folder import open_folder
    from regard.task import task_of

    if len(folders) != 1:
        return Translator.load(folders, device)
    folder = Path(folders[0])
    return task_of(open_folder(folder).model).load(folder, device)


def train(
    data: StrPath | Sequence[StrPath] | Pairs | None = None,
    *,
    out: StrPath,
    source: StrPath | None = None,
    target: StrPath | None = None,
    alignment: StrPath | None = None,
    tagged: Sequence[str] = (),
    valid: StrPath | Pairs | None = None,
    valid_source: StrPath | None = None,
    valid_target: StrPath | None = None,
    valid_tagged: Sequence[str] = (),
    from_language: str | Sequence[str] = (),
    to_language: str | None = None,
    preset: str | None = None,
    config: StrPath | None = None,
    start_from: StrPath | None = None,
    settings: Settings = (),
    epochs: int | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    tensorboard: bool = False,
    quiet: bool = False,
) -> "TrainingResult":
    """Train a model into the folder `out`; what is not set is chosen from the data, as `regard train` does.

    `data` and `valid` are files (.tsv, .jsonl), embedded corpora (`dates:20000`) or pairs `(source, target)`; several
    names of `data` are mixed, and two parallel files are `source` and `target`. Pairs are written to OUT.train.jsonl
    and OUT.valid.jsonl beside the model folder, since a run that is resumed reads them again.

    `settings` maps names to values (`{"model.dropout": 0.1}`) or lists assignments (`["model.dropout=0.1"]`).
    `start_from` is a model folder to fine-tune (`--from`). Progress goes to stderr, unless `quiet`. Ctrl-C ends
    training after the current step: the result's `end` is then `interrupted`, and `resume=True` goes on.

    Load what was trained with `regard.load(result.folder)`.

    In a script that torchrun starts, its processes share the training (docs/distributed.md): call it in all of them.
    """
    began = time.perf_counter()
    from regard.config_io import read_toml
    from regard.distributed import joined
    from regard.models.model_folder import CONFIG
    from regard.training.launch import is_restart
    from regard.training.planning import plan_lines
    from regard.training.progress import Silent
    from regard.training.train_model import train as run
    from regard.training.training_request import Resolved, TrainingRequest, resolve

    folder = Path(out)
    with (
        joined(device or "auto") as world,
        _pairs_beside(folder, {"train": data, "valid": valid}, resume, overwrite) as named,
    ):
        request = TrainingRequest(
            out=folder,
            data=named["train"],
            source=_text(source),
            target=_text(target),
            alignment=_text(alignment),
            tagged=tagged,
            valid=next(iter(named["valid"]), None),
            valid_source=_text(valid_source),
            valid_target=_text(valid_target),
            valid_tagged=valid_tagged,
            from_language=[from_language] if isinstance(from_language, str) else from_language,
            to_language=to_language,
            preset=preset,
            config=_path(config),
            start_from=_path(start_from),
            settings=settings,
            epochs=epochs,
            steps=steps,
            minutes=minutes,
            seed=seed,
            device=device,
            resume=resume,
            overwrite=overwrite,
        )
        if world.joined and world.lead(lambda: is_restart(folder)):  # by torchrun, after a process was lost
            resume, overwrite = True, False
            chosen = Resolved(world.lead(lambda: read_toml(folder / CONFIG)), None)
        else:
            chosen = world.lead(lambda: resolve(request))
        return run(
            chosen.config,
            folder,
            resume=resume,
            overwrite=overwrite,
            tensorboard=tensorboard,
            reporter=Silent() if quiet else None,
            began=began,
            plan=plan_lines(chosen.plan) if chosen.plan is not None else (),
        )


def evaluate(
    model: Any,
    data: StrPath | Pairs | None = None,
    *,
    source: StrPath | None = None,
    target: StrPath | None = None,
    alignment: StrPath | None = None,
    split: str | None = None,
    ensemble: Sequence[StrPath] = (),
    to: str | None = None,
    group: bool = False,
    layer: int | None = None,
    head: int | None = None,
    shift: bool = False,
    posterior: bool = False,
    reverse_model: StrPath | None = None,
    symmetrise: str | None = None,
    beam: int | None = None,
    batch: int | None = None,
    settings: Settings = (),
    device: str = "auto",
) -> "Report":
    """Score a model on a corpus, as `regard evaluate` does: `report["BLEU"].value`, `print(report)`.

    `model` is a folder, or what `load` returned. `data` is a file, an embedded corpus (`dates:500`, of which `split` is
    taken: test unless given), pairs `(source, target)`, or for models that read pictures a folder of them; two parallel
    files are `source` and `target`.

    `ensemble` names the folders of models that translate together with it (`--with`). How attention is read off as a
    word alignment is said by `layer`, `head`, `shift`, `posterior`, `reverse_model` and `symmetrise`. `settings` are
    those of the search (`decoding.…`), as for `train`. An option that means nothing for the model's task is refused.
    """
    from regard.data.corpus_arguments import check_split, corpus_parts
    from regard.evaluation.alignment_error_rate import alignment_reading
    from regard.models.model_folder import open_folder
    from regard.task import EvaluationRequest, open_task
    from regard.task_table import BY_NAME, as_options, entry_of, leave_out

    with _pairs_in_a_file(data) as name:
        parts = corpus_parts(name, _text(source), _text(target), alignment=_text(alignment))
        if not parts:
            raise DataError("There is nothing to score on: give --data, or --source and --target.")
        reading = alignment_reading(layer, head, shift, posterior, reverse_model, symmetrise)
        given = as_options(
            ensemble=ensemble,
            to=to,
            group=group,
            layer=layer,
            head=head,
            shift=shift,
            posterior=posterior,
            reverse_model=reverse_model,
            beam=beam,
            settings=settings,
        )
        asked = EvaluationRequest(
            parts,
            split or "test",
            device,
            beam=beam,
            batch_size=batch,
            changes=_assignments(settings),
            reading=reading,
            ensemble=[Path(each) for each in ensemble],
            to=to,
            group=group,
            reverse_model=_path(reverse_model),
            model=str(model) if isinstance(model, str | Path) else "the model",
        )
        opened = None if isinstance(model, str | Path) else model
        if opened is not None and ensemble:
            raise ConfigError("An ensemble is opened from folders: load them together, or give a folder as the model.")
        entry = entry_of(open_folder(Path(model)).model) if opened is None else BY_NAME[opened.task]
        leave_out(given, open_task(entry).scoring_options, asked.model, entry.what)
        check_split(split, parts)
        reader = load(model, *ensemble, device=device) if opened is None else opened
        report = open_task(entry).evaluate(reader, asked)
        return report if data is None or isinstance(data, str | Path) else replace(report, data=IN_MEMORY)


def _text(given: StrPath | None) -> str | None:
    return None if given is None else str(given)


def _assignments(settings: Settings) -> list[str]:
    from regard.config_io import toml_value

    if not isinstance(settings, Mapping):
        return [*settings]
    return [f"{name}={toml_value(value)}" for name, value in settings.items()]


def _path(given: StrPath | None) -> Path | None:
    return None if given is None else Path(given)


def _lines(name: str, pairs: Iterable[Any]) -> bytes:
    """Write pairs as JSONL."""
    from regard.data.pair import Pair, record

    lines = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise DataError(
                f"{name} has {pair!r}, which is no pair: give a file, an embedded corpus, or texts as (source, target)."
            )
        lines.append(f"{record(Pair(*pair))}\n")
    if not lines:
        raise DataError(f"{name} has no pairs.")
    return "".join(lines).encode()


@contextlib.contextmanager
def _pairs_in_a_file(data: StrPath | Pairs | None) -> Iterator[str | None]:
    """Give a corpus a name for a while, if it has none: that of a file that holds its pairs."""
    if data is None or isinstance(data, str | Path):
        yield _text(data)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.jsonl"
        file.write_bytes(_lines("data", data))
        yield str(file)


@contextlib.contextmanager
def _pairs_beside(
    folder: Path, corpora: Mapping[str, Any], resume: bool, overwrite: bool
) -> Iterator[dict[str, Sequence[str]]]:
    """Give corpora names: what is pairs is written beside the model folder; if no run begins, files are as before."""
    from regard.atomic_files import write_atomically
    from regard.models.model_folder import CONFIG
    from regard.training.resume import check_target

    named: dict[str, Sequence[str]] = {}
    written: dict[Path, bytes] = {}
    for part, given in corpora.items():
        names = _names(given)
        if names is None:
            file = Path(f"{folder}.{part}.jsonl")
            written[file] = _lines("data" if part == "train" else part, given)
            names = [str(file)]
        named[part] = names
    if len(named["valid"]) > 1:
        raise DataError("valid is one corpus: several that are to be one go into one file.")
    before, config = {file: _content(file) for file in written}, _content(folder / CONFIG)
    if written:
        check_target(folder, resume, overwrite)
        folder.parent.mkdir(parents=True, exist_ok=True)
    for file, lines in written.items():
        if resume and before[file] not in (None, lines):
            raise TrainingError(f"{file} has other pairs than were given, and the run began with it: give the same.")
    try:
        for file, lines in written.items():
            write_atomically(file, lines)
        yield named
    except BaseException:
        if _content(folder / CONFIG) == config:
            for file, content in before.items():
                if content is None:
                    file.unlink(missing_ok=True)
                else:
                    write_atomically(file, content)
        raise


def _names(given: Any) -> Sequence[str] | None:
    """Return the names of corpora; None for pairs."""
    if given is None or isinstance(given, str | Path):
        return [] if given is None else [str(given)]
    named = isinstance(given, list | tuple) and bool(given) and all(isinstance(one, str | Path) for one in given)
    return [str(one) for one in given] if named else None


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
