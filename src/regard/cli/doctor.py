"""`regard doctor`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Data, Device, Source, Target, check_at_least, check_target
from regard.data.corpus_arguments import check_split, corpus_parts
from regard.errors import ConfigError, DataError, ModelError
from regard.task_table import entry_of


def doctor(
    model: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MODEL]", help="The model folder to examine; without it, the machine is shown.", show_default=False
        ),
    ] = None,
    data: Data = None,
    source: Source = None,
    target: Target = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Part of an embedded corpus: train, valid or test.  [default: valid]"),
    ] = None,
    sentences: Annotated[int, typer.Option(metavar="N", help="Examine it on the first N pairs.")] = 200,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the report (.png, .svg, .pdf).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Find what is wrong with a model; without one, show the machine.

    A translator or a language model is run over sentence pairs that it was not trained on. Checked are its attention
    (uniform, stuck, saturated, off by one, dead and duplicate heads), its outputs (omissions, repetitions, length,
    exposure bias), its vocabulary, gradients and calibration. Each finding comes with its evidence, likely causes and
    the settings to try.
    """
    if model is None:
        given = {"--data": data, "--source": source, "--target": target, "--split": split, "--out": out}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise ConfigError(f"{', '.join(wrong)}: give the model folder to examine as well.")
        _machine(as_json)
        return
    check_at_least(1, sentences=sentences)
    parts = corpus_parts(data, source, target)
    if not parts:
        raise DataError("There is nothing to examine the model on: give --data, or --source and --target.")
    check_split(split, parts)
    if out is not None:
        check_target(out)
    _model(model, parts, split or "valid", sentences, out, as_json, device)


def _machine(as_json: bool) -> None:
    from regard.doctor import examine

    findings = examine()
    if as_json:
        print(json.dumps({finding.what: finding.found for finding in findings}, ensure_ascii=False, indent=2))
        return
    widest = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{finding.what:<{widest}}  {finding.found}")


def _model(
    model: Path, parts: tuple[str, ...], split: str, sentences: int, out: Path | None, as_json: bool, device: str
) -> None:
    from regard.cli.attention_output import tell_written
    from regard.models.model_folder import open_folder
    from regard.viz.picture_files import check_suffix
    from regard.viz.trace import PICTURES

    if out is not None:
        check_suffix(out, PICTURES)
    entry = entry_of(open_folder(model).model)
    if entry.command != "translate":
        raise ModelError(f"{model} holds {entry.what}; translators and language models can be examined.")
    from regard.data.corpus import for_model, open_corpus
    from regard.decoding.translator import Translator
    from regard.diagnosis.diagnosis import diagnose

    translator = Translator.load(model, device)
    corpus = for_model(open_corpus(parts, split), translator.model.reads)
    found = diagnose(translator, corpus, data=corpus.name, most=sentences)
    if out is not None:
        tell_written(out, found.save(out))
    print(json.dumps(found.to_json(), ensure_ascii=False, indent=2) if as_json else found)
