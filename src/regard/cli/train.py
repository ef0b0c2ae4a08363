"""`regard train`."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import regard
from regard.cli.completion import assignments, devices, preset_names
from regard.cli.options import Alignment, SeveralData, Source, Tagged, Target, ValidTagged
from regard.cli.plan_output import show_plan
from regard.errors import ConfigError, RegardError

if TYPE_CHECKING:
    from regard.training.train_model import Result

SILENCE = 3.0
"""Seconds that other processes outlast the first one, which reports the error: torchrun ends all as soon as one has."""


def train(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The model folder to write.", show_default=False)],
    data: SeveralData = None,
    source: Source = None,
    target: Target = None,
    alignment: Alignment = None,
    tagged: Tagged = None,
    valid_tagged: ValidTagged = None,
    valid: Annotated[
        str | None, typer.Option(metavar="CORPUS", help="Validation corpus; embedded corpora have their own.")
    ] = None,
    valid_source: Annotated[str | None, typer.Option(metavar="FILE", help="Validation source.")] = None,
    valid_target: Annotated[str | None, typer.Option(metavar="FILE", help="Validation target.")] = None,
    from_language: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE", help="Language of the sources, such as en: regard serve routes by it. Repeatable."
        ),
    ] = None,
    to_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Language of the targets; with --tagged, the tags say it.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Preset to start from (see: regard list presets, regard list visions).  "
            "[default: chosen for the corpus]",
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
            help="Change a setting (see: regard list settings). Repeatable.",
            autocompletion=assignments,
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Short for --set training.epochs=N.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Short for --set training.steps=N.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="Train for M minutes, with a cosine schedule that ends on time. Epochs, steps and patience do not "
            "apply unless given.",
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
        typer.Option(metavar="N", help="Train in N processes on this machine, one per GPU, as torchrun does."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the chosen settings with reasons and estimated cost; do not train.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --plan: print JSON.")] = False,
) -> None:
    """Train a model from raw text or pictures.

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
    options: dict[str, Any] = {
        "data": data,
        "source": source,
        "target": target,
        "alignment": alignment,
        "tagged": tagged or [],
        "valid": valid,
        "valid_source": valid_source,
        "valid_target": valid_target,
        "valid_tagged": valid_tagged or [],
        "from_language": from_language or [],
        "to_language": to_language,
        "preset": preset,
        "config": config,
        "start_from": from_,
        "settings": set_ or [],
        "epochs": epochs,
        "steps": steps,
        "minutes": minutes,
        "seed": seed,
        "device": device,
        "resume": resume,
        "overwrite": overwrite,
    }
    if as_json and not plan:
        raise ConfigError("--json goes with --plan.")
    if plan:
        from regard.training.training_request import TrainingRequest, resolve

        show_plan(resolve(TrainingRequest(out=out, **options), check_folder=False).plan, as_json)
        return
    options.update(out=out, tensorboard=tensorboard)
    if "WORLD_SIZE" in os.environ:  # torchrun started this process
        result = _train_with_others(options, devices, device, set_)
    elif devices is None:
        result = regard.train(**options)
    else:
        from regard.training.launch import check_devices, launch

        check_devices(devices, _device_of(device, set_))
        raise typer.Exit(launch(sys.argv[1:], devices))
    if result.end == "interrupted":
        raise typer.Exit(130)
    from regard.models.model_folder import open_folder
    from regard.task import task_of

    if os.environ.get("RANK", "0") == "0":
        trained = open_folder(out)
        typer.echo(f"The model is in {out}. {task_of(trained.model).try_it(trained, out)}", err=True)


def _train_with_others(
    options: dict[str, Any], devices: int | None, device: str | None, set_: list[str] | None
) -> "Result":
    """Train as one of several processes. Only the first one reports errors."""
    from regard.distributed import joined
    from regard.training.rank_consistency import check_command

    try:
        with joined(_device_of(device, set_)) as world:
            if devices not in (None, world.size):
                raise ConfigError(
                    f"--devices is {devices}, and torchrun has started {world.size} processes: leave --devices out."
                )
            check_command(world, sys.argv[1:])
            return regard.train(**options)
    except RegardError:
        if os.environ.get("RANK", "0") == "0":
            raise
        time.sleep(SILENCE)
        raise typer.Exit(2) from None


def _device_of(device: str | None, set_: list[str] | None) -> str:
    """Return the requested device, before any configuration is read."""
    given = [value for name, _, value in (one.partition("=") for one in set_ or []) if name == "training.device"]
    return [device or "auto", *given][-1]
