"""`regard ask`."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.image_inputs import read_inputs
from regard.cli.options import Device, Model, check_at_least
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.tasks.visual_questions.predictor import QuestionAnswer


def ask(
    model: Model,
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="IMAGE QUESTION...",
            help="An image file, and what to ask about it; with --scene, questions alone. None: stdin, one a line.",
            show_default=False,
        ),
    ] = None,
    scene: Annotated[
        int | None, typer.Option(metavar="N", help="Ask about an embedded scene, by its number, and not about a file.")
    ] = None,
    split: Annotated[str, typer.Option(metavar="PART", help="Which scenes: train, valid or test.")] = "test",
    top: Annotated[int, typer.Option(metavar="N", help="Print this many answers, the most probable first.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Answer questions about a picture.

    A line is a probability and an answer, separated by a tab; of several questions, the question comes first.

    \b
    regard ask models/see picture.png "how many red circles are there?"
    """  # noqa: D301 (a raw \b would not keep the lines apart)
    check_at_least(1, top=top)
    check_at_least(0, scene=scene)
    image, questions = _image_first(given or []) if scene is None else (None, _no_image(given or []))
    from regard.tasks.visual_questions.predictor import AnswerPredictor

    predictor = AnswerPredictor.load(model, device)
    scenes = None if scene is None else [scene]
    _, pictures = read_inputs(predictor.config, None if image is None else [image], scenes, split)
    if len(pictures) != 1:
        raise DataError(f"{image} has {len(pictures)} images: give one of them to ask about.")
    alone = len(questions) == 1
    for some in [questions] if questions else _from_stdin():
        answered = predictor.answer(pictures, [some], top=top)[0]
        if as_json:
            _print_json(answered)
        else:
            for one in answered:
                _print(one, "" if alone else f"{one.question}\t")
        sys.stdout.flush()


def _image_first(given: Sequence[str]) -> tuple[Path, list[str]]:
    if not given:
        raise DataError("There is nothing to ask about: give an image file, or --scene N.")
    if " " in given[0].strip() and not Path(given[0]).exists():
        raise DataError(f"No image {given[0]!r}: an image file comes first, then what to ask about it.")
    return Path(given[0]), [*given[1:]]


def _no_image(given: Sequence[str]) -> list[str]:
    if given and Path(given[0]).is_file():
        raise DataError(f"Give either an image file ({given[0]}) or --scene N, not both.")
    return [*given]


def _from_stdin() -> Iterator[list[str]]:
    """Yield questions as they come, a line each; empty lines ask nothing."""
    from regard.decoding.line_reader import as_they_come

    if sys.stdin.isatty():
        typer.echo("Type what to ask, a question a line; Ctrl-D ends.", err=True)
    for lines in as_they_come(sys.stdin.buffer):
        questions = [text for text in lines.texts if text.strip()]
        if questions:
            yield questions


def _print(answered: "QuestionAnswer", first: str) -> None:
    for answer, probability in answered.best:
        print(f"{first}{probability:.4f}\t{answer}")


def _print_json(answered: "Sequence[QuestionAnswer]") -> None:
    """Print an object a line: one for each question."""
    for one in answered:
        answers = [{"answer": answer, "probability": round(probability, 6)} for answer, probability in one.best]
        print(json.dumps({"question": one.question, "answer": one.text, "answers": answers}, ensure_ascii=False))
