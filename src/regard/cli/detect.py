"""`regard detect`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.caption import Images
from regard.cli.looking import check_files, tell_written
from regard.cli.options import Device, Model, check_at_least
from regard.cli.pictures import read_asked
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.vision.detection.predict import Thing


def detect(
    model: Model,
    images: Images = None,
    scene: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Look through an embedded scene, by its number. Repeatable.")
    ] = None,
    split: Annotated[str, typer.Option(metavar="PART", help="Which scenes: train, valid or test.")] = "test",
    least: Annotated[float, typer.Option(metavar="P", help="Leave out what is less probable than this.")] = 0.5,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw boxes and masks over the picture (.png, .svg, .pdf).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Find the things in pictures.

    A line is a probability, a class and its box (left, top, right, bottom, in pixels as the model reads them),
    separated by tabs; of several pictures, the picture's name comes first.
    """
    check_at_least(0, scene=min(scene or [0]))
    if not 0 <= least <= 1:
        raise ConfigError(f"--least is {least}; it must be from 0 to 1.")
    if not images and not scene:
        raise DataError("There is nothing to look through: give image files, a folder of them, or --scene N.")
    from regard.decoding.finder import Finder
    from regard.viz.trace import PICTURES

    check_files([] if out is None else [out], PICTURES)
    finder = Finder.load(model, device)
    names, pictures = read_asked(finder.config, images, scene, split)
    if out is not None and len(names) != 1:
        raise ConfigError(f"--out draws one picture, and {len(names)} were given: leave it out, or give one.")
    found = finder.find(pictures, least)
    for name, things in zip(names, found, strict=True):
        if as_json:
            print(json.dumps({"picture": name, "things": [_record(thing) for thing in things]}, ensure_ascii=False))
        else:
            _print(things, "" if len(names) == 1 else f"{name}\t")
    if out is not None:
        from regard.cli.attend_image import read_shown
        from regard.viz.boxes import Outlined, save_boxes

        image = pictures[0] if scene else read_shown(finder.config, Path(names[0]))[1]
        wide = image.shape[1] / pictures.shape[2]  # what is shown may have more pixels than the model reads
        boxes = [
            (left * wide, up * wide, right * wide, low * wide)
            for left, up, right, low in (thing.box for thing in found[0])
        ]
        drawn = [Outlined(thing.name, thing.score, box, thing.mask) for thing, box in zip(found[0], boxes, strict=True)]
        tell_written(out, save_boxes(image, drawn, out))


def _print(things: "Sequence[Thing]", first: str) -> None:
    for thing in things:
        box = "\t".join(f"{edge:.1f}" for edge in thing.box)
        print(f"{first}{thing.score:.4f}\t{thing.name}\t{box}")


def _record(thing: "Thing") -> dict[str, Any]:
    pixels = None if thing.mask is None else int(thing.mask.sum())
    box = [round(edge, 2) for edge in thing.box]
    return {"class": thing.name, "probability": round(thing.score, 6), "box": box, "pixels": pixels}
