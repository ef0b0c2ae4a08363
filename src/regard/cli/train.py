"""`regard train`."""

from pathlib import Path
from typing import Annotated

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
from regard.errors import ConfigError, TrainingError
from regard.training.time_budget import BY_TIME, now, within

PRESET = "bahdanau2014-small"
"""The preset to start from where no plan is made."""


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
    began = now()
    train_parts, mixed = training_parts(data, source, target, alignment)
    valid_parts = corpus_parts(valid, valid_source, valid_target, "valid")
    base = _starting_point(out, preset, config, resume, from_)
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

    from regard.presets.vision import any_preset

    chosen = changes(base or any_preset(PRESET))
    if not (chosen.data.train or chosen.data.mixed or chosen.data.tagged):
        raise ConfigError(
            "There is nothing to train on: give --source and --target, or --data with a .tsv or .jsonl file, "
            "- for stdin, or an embedded name (regard list corpora)."
        )
    from regard.task import task_of
    from regard.training.planning import can_plan, plan_for, told
    from regard.training.resume import check_target
    from regard.training.setting_checks import check, check_links
    from regard.training.train_model import train as run
    from regard.training.trainer import INTERRUPTED

    if not resume:
        check_links(chosen)
    made = None
    if not resume and config is None and can_plan(chosen, base):
        check(chosen)
        if not plan:
            check_target(out, resume, overwrite)
        names = [*given, *(one.partition("=")[0].strip() for one in set_ or []), *(BY_TIME if minutes else ())]
        made = plan_for(changes, names, base)
        chosen = made.config
    if plan or as_json:
        show_plan(made, as_json, plan)
        return
    lines = told(made) if made is not None else ()
    ended = run(chosen, out, resume=resume, overwrite=overwrite, tensorboard=tensorboard, began=began, plan=lines).end
    if ended == INTERRUPTED:
        raise typer.Exit(130)
    typer.echo(f"The model is in {out}. {task_of(chosen.model).try_it(chosen, out)}", err=True)


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
        if not (out / "config.toml").is_file():
            new = not out.exists() or (out.is_dir() and not any(out.iterdir()))
            instead = "leave out --resume to start there" if new else "give the folder of a run"
            raise TrainingError(f"There is nothing to resume in {out}: {instead}.")
        return config_io.read_toml(out / "config.toml")
    return any_preset(preset) if preset is not None else None


def _of_model(model: Path, preset: str | None, config: Path | None, resume: bool) -> Config:
    for name, given in (("--preset", preset), ("--config", config)):
        if given is not None:
            raise ConfigError(f"Give either --from or {name}, not both: a model brings its own configuration.")
    if resume:
        raise TrainingError("--from starts a new run and --resume goes on with one: give one of them.")
    from regard.training.finetune import configuration_of

    return configuration_of(model)
