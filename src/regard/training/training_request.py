"""What a run was asked for, and the configuration that follows: a preset, a file or a model, settings, the plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import regard.presets  # noqa: F401 (importing it registers them)
from regard import config_io
from regard.config import Config
from regard.data.corpus_arguments import corpus_parts, training_parts
from regard.data.languages import check_code
from regard.errors import ConfigError, TrainingError
from regard.models.model_folder import CONFIG
from regard.presets.vision import any_preset
from regard.training.finetune import configuration_of
from regard.training.plan_rules import Plan
from regard.training.planning import can_plan, plan_for
from regard.training.resume import check_target
from regard.training.setting_checks import check, check_links
from regard.training.time_budget import BY_TIME, within

PRESET = "bahdanau2014-small"
"""What is started from where there is nothing to plan for."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """The options of `regard train`, by their names; `start_from` is --from, `settings` are those of --set."""

    out: Path
    data: Sequence[str] | None = None
    source: str | None = None
    target: str | None = None
    alignment: str | None = None
    tagged: Sequence[str] = ()
    valid: str | None = None
    valid_source: str | None = None
    valid_target: str | None = None
    valid_tagged: Sequence[str] = ()
    from_language: Sequence[str] = ()
    to_language: str | None = None
    preset: str | None = None
    config: Path | None = None
    start_from: Path | None = None
    settings: Mapping[str, Any] | Sequence[str] = ()
    """Values by name, or NAME=VALUE as it is typed."""
    epochs: int | None = None
    steps: int | None = None
    minutes: float | None = None
    seed: int | None = None
    device: str | None = None
    resume: bool = False
    overwrite: bool = False


class Resolved(NamedTuple):
    """What is to be trained."""

    config: Config
    plan: Plan | None
    """What was chosen from the corpus, and why; None where nothing was left to choose."""


def resolve(request: TrainingRequest, check_folder: bool = True) -> Resolved:
    """Return the configuration that was asked for, with what nobody set chosen from the corpus.

    With `check_folder`, a folder that cannot be trained into is refused before the corpus is read.
    """
    given = _given(request)
    base = _starting_point(request)
    changes = _changes(request, given)
    chosen = changes(base or any_preset(PRESET))
    if not (chosen.data.train or chosen.data.mixed or chosen.data.tagged):
        raise ConfigError(
            "There is nothing to train on: give --source and --target, or --data with a .tsv or .jsonl file, "
            "- for stdin, or an embedded name (regard list corpora)."
        )
    if request.resume:
        return Resolved(chosen, None)
    check_links(chosen)
    if request.config is not None or not can_plan(chosen, base):
        return Resolved(chosen, None)
    check(chosen)
    if check_folder:
        check_target(request.out, request.resume, request.overwrite)
    settings = (one.partition("=")[0].strip() for one in request.settings)
    plan = plan_for(changes, [*given, *settings, *(BY_TIME if request.minutes else ())], base)
    return Resolved(plan.config, plan)


def _given(request: TrainingRequest) -> dict[str, Any]:
    """Return the settings that options of their own stand for."""
    parts, mixed = training_parts([*(request.data or ())], request.source, request.target, request.alignment)
    valid = corpus_parts(request.valid, request.valid_source, request.valid_target, "valid")
    named = {
        **({"data.train": list(parts), "data.mixed": list(mixed)} if parts or mixed else {}),
        "data.valid": list(valid) or None,
        "data.tagged": list(request.tagged) or None,
        "data.valid_tagged": list(request.valid_tagged) or None,
        "data.from_language": [check_code(code, "--from-language") for code in request.from_language] or None,
        "data.to_language": check_code(request.to_language, "--to-language") if request.to_language else None,
        "training.epochs": request.epochs,
        "training.steps": request.steps,
        "training.device": request.device,
        "seed": request.seed,
    }
    return {name: value for name, value in named.items() if value is not None}


def _changes(request: TrainingRequest, given: dict[str, Any]) -> Callable[[Config], Config]:
    def changes(start: Config) -> Config:
        if request.minutes is not None:
            start = within(start, request.minutes, request.resume)
        for name, value in given.items():
            start = config_io.assign(start, name, value)
        if not isinstance(request.settings, Mapping):
            return config_io.override(start, request.settings)
        for name, value in request.settings.items():
            start = config_io.assign(start, name, value)
        return start

    return changes


def _starting_point(request: TrainingRequest) -> Config | None:
    preset, config, out = request.preset, request.config, request.out
    if request.start_from is not None:
        return _of_model(request, request.start_from)
    if preset is not None and config is not None:
        raise ConfigError("Give either --preset or --config, not both: each is a whole configuration.")
    if preset is not None and request.resume:
        raise TrainingError("--preset starts a new run and --resume goes on with one: give one of them.")
    if config is not None:
        return config_io.read_toml(config)
    if request.resume:
        if not (out / CONFIG).is_file():
            new = not out.exists() or (out.is_dir() and not any(out.iterdir()))
            instead = "leave out --resume to start there" if new else "give the folder of a run"
            raise TrainingError(f"There is nothing to resume in {out}: {instead}.")
        return config_io.read_toml(out / CONFIG)
    return any_preset(preset) if preset is not None else None


def _of_model(request: TrainingRequest, model: Path) -> Config:
    for name, given in (("--preset", request.preset), ("--config", request.config)):
        if given is not None:
            raise ConfigError(f"Give either --from or {name}, not both: a model brings its own configuration.")
    if request.resume:
        raise TrainingError("--from starts a new run and --resume goes on with one: give one of them.")
    return configuration_of(model)
