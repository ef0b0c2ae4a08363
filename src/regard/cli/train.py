"""`regard train`."""

from pathlib import Path
from typing import Annotated

import typer

from regard import settings
from regard.cli.options import Data, Source, Target, corpus_parts
from regard.config import Config
from regard.errors import ConfigError, TrainingError


def train(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The model folder to make.", show_default=False)],
    preset: Annotated[str, typer.Option(help="What to start from: regard list presets.")] = "bahdanau2014-small",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A config.toml instead of a preset.")] = None,
    data: Data = None,
    source: Source = None,
    target: Target = None,
    valid: Annotated[
        str | None, typer.Option(metavar="CORPUS", help="Validation corpus; embedded ones bring their own.")
    ] = None,
    valid_source: Annotated[str | None, typer.Option(metavar="FILE", help="Validation source.")] = None,
    valid_target: Annotated[str | None, typer.Option(metavar="FILE", help="Validation target.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting: regard list settings. Repeatable."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Short for --set training.epochs=…")] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set seed=…")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, or cuda.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard's files.")] = False,
) -> None:
    """Train a model: tokenizer, network and all, from raw text to a model folder.

    regard train --source train.en --target train.de --valid-source val.en --valid-target val.de --out models/en-de
    """
    train_parts = corpus_parts(data, source, target)
    valid_parts = corpus_parts(valid, valid_source, valid_target, "valid")
    chosen = _starting_point(out, preset, config, resume)
    named = {
        "data.train": list(train_parts) or None,
        "data.valid": list(valid_parts) or None,
        "training.epochs": epochs,
        "training.device": device,
        "seed": seed,
    }
    for name, value in named.items():
        if value is not None:
            chosen = settings.assign(chosen, name, value)
    chosen = settings.override(chosen, set_ or [])
    if not chosen.data.train:
        raise ConfigError(
            "There is nothing to train on: give --source and --target, or --data with a .tsv or .jsonl file, "
            "- for stdin, or an embedded name (regard list corpora)."
        )
    from regard.training.loop import train as run

    run(chosen, out, resume=resume, overwrite=overwrite, tensorboard=tensorboard)


def _starting_point(out: Path, preset: str, config: Path | None, resume: bool) -> Config:
    from regard.presets import preset as named

    if resume and config is None:
        if not (out / "config.toml").is_file():
            raise TrainingError(f"There is nothing to resume in {out}: leave out --resume to start there.")
        return settings.read_toml(out / "config.toml")
    return named(preset) if config is None else settings.read_toml(config)
