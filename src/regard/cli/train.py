"""`regard train`."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from regard import config_io
from regard.cli.completion import assignments, devices, preset_names
from regard.cli.options import (
    Alignment,
    SeveralData,
    Source,
    Tagged,
    Target,
    ValidTagged,
    corpus_parts,
    training_parts,
)
from regard.cli.plan_output import show_plan
from regard.config import Config
from regard.errors import ConfigError, RegardError, TrainingError
from regard.training.time_budget import BY_TIME, now, within

CONFIG = "config.toml"
SILENCE = 3.0
"""Seconds that other processes outlast the first one: torchrun ends all as soon as one has ended."""
PRESET = "bahdanau2014-small"
"""What is started from where there is nothing to plan for."""


def train(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The model folder to make.", show_default=False)],
    data: SeveralData = None,
    source: Source = None,
    target: Target = None,
    alignment: Alignment = None,
    tagged: Tagged = None,
    valid_tagged: ValidTagged = None,
    valid: Annotated[
        str | None, typer.Option(metavar="CORPUS", help="Validation corpus; embedded ones bring their own.")
    ] = None,
    valid_source: Annotated[str | None, typer.Option(metavar="FILE", help="Validation source.")] = None,
    valid_target: Annotated[str | None, typer.Option(metavar="FILE", help="Validation target.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What to start from: regard list presets, regard list visions.  [default: chosen from the corpus]",
            autocompletion=preset_names,
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A config.toml instead of a preset.")] = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="MODEL", help="Start from a model's weights, vocabulary and settings."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting: regard list settings. Repeatable.",
            autocompletion=assignments,
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Short for --set training.epochs=N.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Short for --set training.steps=N.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="Train for so many minutes: a cosine schedule that ends when they do, and no limit of epochs, steps "
            "or patience but those given.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Short for --set seed=N.")] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="auto, cpu or cuda: short for --set training.device=NAME.", autocompletion=devices
        ),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(metavar="N", help="Train in N processes on this machine, one for each GPU, as torchrun does."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard's files.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would be trained, why, and how long it takes; train nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --plan: print JSON.")] = False,
) -> None:
    """Train a model, from raw text or pictures to a model folder.

    \b
    regard train --source train.en --target train.de \\
                 --valid-source val.en --valid-target val.de --out models/en-de
    regard train --data phrasebook:20000 --out models/fr --set model.dropout=0.1
    regard train --data 'own.tsv*2' --data web.tsv --out models/mixed
    regard train --from models/en-de --data medical.tsv --out models/medical
    regard train --preset captioner-small --data scenes:20000 --out models/see
    regard train --preset xu2015-soft --source photos --target said.tsv \\
                 --out models/photos
    regard train --preset hu2017-se-small --data fashion-mnist --out models/wear
    regard train --preset asker-small --data scenes --out models/ask
    regard train --preset carion2020-small --data scenes --out models/find
    """  # noqa: D301 (a raw \b would not keep the lines apart)
    began = now()
    train_parts, mixed = training_parts(data, source, target, alignment)
    valid_parts = corpus_parts(valid, valid_source, valid_target, "valid")
    named = {
        **({"data.train": list(train_parts), "data.mixed": list(mixed)} if train_parts or mixed else {}),
        "data.valid": list(valid_parts) or None,
        "data.tagged": tagged or None,
        "data.valid_tagged": valid_tagged or None,
        "training.epochs": epochs,
        "training.steps": steps,
        "training.device": device,
        "seed": seed,
    }
    given = {name: value for name, value in named.items() if value is not None}

    def changes(start: Config) -> Config:
        if minutes is not None:
            start = within(start, minutes, resume)
        for name, value in given.items():
            start = config_io.assign(start, name, value)
        return config_io.override(start, set_ or [])

    names = [*given, *(one.partition("=")[0].strip() for one in set_ or []), *(BY_TIME if minutes else ())]
    asked = _Asked(out, changes, names, resume, overwrite, tensorboard, began, preset, config, from_, plan)
    if plan or as_json:
        show_plan(_prepared(asked)[1], as_json, plan)
    elif not _is_one_of_several():
        if devices is not None:
            raise typer.Exit(_launched(devices, device, set_))
        _train(asked, *_prepared(asked))
    else:
        _train_with_others(asked, devices, device, set_)


@dataclass(frozen=True)
class _Asked:
    """What was typed."""

    out: Path
    changes: Callable[[Config], Config]
    names: Sequence[str]
    """Settings that were given."""
    resume: bool
    overwrite: bool
    tensorboard: bool
    began: float
    preset: str | None
    config: Path | None
    model: Path | None
    plans_only: bool


def _prepared(asked: _Asked) -> tuple[Config, Any]:
    """Return what is to be trained, planned where nobody said it, and the plan."""
    from regard.presets.vision import any_preset

    out, resume = asked.out, asked.resume
    base = _starting_point(out, asked.preset, asked.config, resume, asked.model)
    chosen = asked.changes(base or any_preset(PRESET))
    if not (chosen.data.train or chosen.data.mixed or chosen.data.tagged):
        raise ConfigError(
            "There is nothing to train on: give --source and --target, or --data with a .tsv or .jsonl file, "
            "- for stdin, or an embedded name (regard list corpora)."
        )
    from regard.training.planning import can_plan, plan_for
    from regard.training.resume import check_target
    from regard.training.setting_checks import check, check_links

    if not resume:
        check_links(chosen)
    if resume or asked.config is not None or not can_plan(chosen, base):
        return chosen, None
    check(chosen)
    if not asked.plans_only:
        check_target(out, resume, asked.overwrite)
    made = plan_for(asked.changes, asked.names, base)
    return made.config, made


def _train(asked: _Asked, chosen: Config, made: Any) -> None:
    """Train in this process, alone or with others."""
    from regard.distributed import current
    from regard.task import task_of
    from regard.training.planning import told
    from regard.training.train_model import train
    from regard.training.trainer import INTERRUPTED

    ended = train(
        chosen,
        asked.out,
        resume=asked.resume,
        overwrite=asked.overwrite,
        tensorboard=asked.tensorboard,
        began=asked.began,
        plan=told(made) if made is not None else (),
    ).end
    if ended == INTERRUPTED:
        raise typer.Exit(130)
    if current().first:
        typer.echo(f"The model is in {asked.out}. {task_of(chosen.model).try_it(chosen, asked.out)}", err=True)


def _is_one_of_several() -> bool:
    """Say whether torchrun started this process; torch is not needed to know."""
    return "WORLD_SIZE" in os.environ


def _launched(count: int, device: str | None, set_: list[str] | None) -> int:
    """Start torchrun's agent with this same command, and return its exit status."""
    from regard.training.launch import check_devices, launch

    check_devices(count, _device_of(device, set_))
    return launch(sys.argv[1:], count)


def _device_of(device: str | None, set_: list[str] | None) -> str:
    """Return the device that is asked for, before a configuration is read."""
    given = [value for name, _, value in (one.partition("=") for one in set_ or []) if name == "training.device"]
    return [device or "auto", *given][-1]


def _train_with_others(asked: _Asked, devices: int | None, device: str | None, set_: list[str] | None) -> None:
    """Train as one of the processes that torchrun has started. The first one alone says what goes wrong."""
    from regard.distributed import joined
    from regard.training.launch import is_restart
    from regard.training.same_everywhere import check_command

    first = os.environ.get("RANK", "0") == "0"
    try:
        with joined(_device_of(device, set_)) as world:
            if devices not in (None, world.size):
                raise ConfigError(
                    f"--devices is {devices}, and torchrun has started {world.size} processes: leave --devices out."
                )
            check_command(world, sys.argv[1:])
            if world.lead(lambda: is_restart(asked.out)):
                again = replace(asked, resume=True, overwrite=False)
                _train(again, world.lead(lambda: config_io.read_toml(asked.out / CONFIG)), None)
            else:
                _train(asked, *world.lead(lambda: _prepared(asked)))
    except RegardError:
        if first:
            raise
        time.sleep(SILENCE)
        raise typer.Exit(2) from None


def _starting_point(
    out: Path, preset: str | None, config: Path | None, resume: bool, model: Path | None
) -> Config | None:
    import regard.presets  # noqa: F401 (importing it registers them)
    from regard.presets.vision import any_preset

    if model is not None:
        return _of_model(model, preset, config, resume)
    if preset is not None and config is not None:
        raise ConfigError("Give either --preset or --config, not both: each is a whole configuration.")
    if preset is not None and resume:
        raise TrainingError("--preset starts a new run and --resume goes on with one: give one of them.")
    if config is not None:
        return config_io.read_toml(config)
    if resume:
        if not (out / CONFIG).is_file():
            new = not out.exists() or (out.is_dir() and not any(out.iterdir()))
            instead = "leave out --resume to start there" if new else "give the folder of a run"
            raise TrainingError(f"There is nothing to resume in {out}: {instead}.")
        return config_io.read_toml(out / CONFIG)
    return any_preset(preset) if preset is not None else None


def _of_model(model: Path, preset: str | None, config: Path | None, resume: bool) -> Config:
    for name, given in (("--preset", preset), ("--config", config)):
        if given is not None:
            raise ConfigError(f"Give either --from or {name}, not both: a model brings its own configuration.")
    if resume:
        raise TrainingError("--from starts a new run and --resume goes on with one: give one of them.")
    from regard.training.finetune import configuration_of

    return configuration_of(model)
