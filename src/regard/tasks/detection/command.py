"""`regard detect`."""

import json
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.cli.attention_output import check_files, tell_written
from regard.cli.image_inputs import Skipped, read_inputs
from regard.cli.options import Device, Model, check_at_least
from regard.errors import ConfigError, DataError, DisplayError
from regard.tasks.captioning.command import Images

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from regard.data.image_files import Box
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
    masks: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the pixels of each thing as a PNG file of the picture's size, white on black: "
            "picture-01-star.png, the most probable first.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Find the things in pictures.

    A line is a probability, a class and its box (left, top, right, bottom, in pixels of the picture, turned as its EXIF
    data says; of a scene, in the 128 by 128 that it is painted with), separated by tabs; of several pictures, the
    picture's name comes first. Models read the largest square in the middle: what is beside it is not found.
    What cannot be read is told of and left out.
    """
    check_at_least(0, scene=min(scene or [0]))
    if not 0 <= least <= 1:
        raise ConfigError(f"--least is {least}; it must be from 0 to 1.")
    if not images and not scene:
        raise DataError("There is nothing to look through: give image files, a folder of them, or --scene N.")
    from regard.data.image_files import read_image
    from regard.data.region_features import counted
    from regard.tasks.detection.predictor import DetectionPredictor
    from regard.viz.trace import PICTURES

    check_files([] if out is None else [out], PICTURES)
    predictor = DetectionPredictor.load(model, device)
    if masks is not None:
        predictor.check_masks()
    skipped = Skipped()
    names, pictures = read_inputs(predictor.config, images, scene, split, skip=skipped)
    given = len(names) + skipped.count
    if out is not None and given != 1:
        raise ConfigError(f"--out draws one picture, and {given} were given: leave it out, or give one.")
    if masks is not None and names:
        _make_folder(masks)
    found, short = predictor.detect(pictures, least), _short_names(names)
    before = len(names) - len(scene or [])
    for place, (name, things) in enumerate(zip(names, found, strict=True)):
        whole = read_image(name) if place < before else _painted(split, (scene or [])[place - before])
        seen = _Seen(name, whole.shape[0], whole.shape[1], pictures.shape[1])
        files = [] if masks is None else seen.write_masks(things, masks / short[place])
        if as_json:
            print(json.dumps(seen.record(things, files), ensure_ascii=False))
        else:
            seen.print(things, "" if given == 1 else f"{name}\t")
            if not things:
                typer.echo(f"{name}: nothing is as probable as {least:g}. Ask for less with --least.", err=True)
        if out is not None:
            _draw(whole, seen, things, out)
    if masks is not None and names:
        typer.echo(f"Wrote {counted(sum(map(len, found)), 'mask')} to {masks}", err=True)
    skipped.leave()


class _Seen(NamedTuple):
    """A picture that was looked through."""

    name: str
    height: int
    width: int
    read: int
    """Rows and columns of what the model read of it."""

    def on_whole(self, box: "Box") -> "Box":
        """Turn a box in what was read into one of the whole picture."""
        from regard.data.image_files import on_whole

        return on_whole(box, self.read, (self.height, self.width))

    def print(self, things: "Sequence[Thing]", first: str) -> None:
        """Print a line for each thing."""
        for thing in things:
            box = "\t".join(f"{edge:.1f}" for edge in self.on_whole(thing.box))
            print(f"{first}{thing.score:.4f}\t{thing.name}\t{box}")

    def write_masks(self, things: "Sequence[Thing]", start: Path) -> list[str]:
        """Write the pixels of each thing, in files whose names begin alike; return these."""
        from regard.data.image_files import mask_on_whole
        from regard.viz.picture_files import write_output
        from regard.viz.png import png

        files = []
        for number, thing in enumerate(things, start=1):
            assert thing.mask is not None
            files.append(f"{start}-{number:02d}-{_plain(thing.name)}.png")
            mask = mask_on_whole(thing.mask, (self.height, self.width))
            write_output(Path(files[-1]), png(mask[..., None].astype("uint8") * 255))
        return files

    def record(self, things: "Sequence[Thing]", files: Sequence[str]) -> dict[str, Any]:
        """Return what is printed of it as JSON; files are those of masks, if there are any."""
        from regard.data.image_files import mask_on_whole

        whole = self.height, self.width
        told = [
            {
                "class": thing.name,
                "probability": round(thing.score, 6),
                "box": [round(edge, 2) for edge in self.on_whole(thing.box)],
                "pixels": None if thing.mask is None else int(mask_on_whole(thing.mask, whole).sum()),
            }
            for thing in things
        ]
        for one, file in zip(told, files, strict=False):
            one["mask"] = file
        return {"picture": self.name, "width": self.width, "height": self.height, "things": told}


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DisplayError(f"Cannot write masks to {folder}: {(error.strerror or str(error)).lower()}.") from None


def _short_names(names: Sequence[str]) -> list[str]:
    """Return what files about each picture begin with: its name without folder and ending, numbered if it recurs."""
    found: dict[str, None] = {}
    for name in names:
        stem = _plain(Path(name).stem)
        every = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
        found[next(one for one in every if one not in found)] = None
    return [*found]


def _plain(name: str) -> str:
    """Make of a name one that a file can have."""
    return re.sub(r"[^\w.-]+", "-", name)


def _painted(split: str, number: int) -> "NDArray[np.uint8]":
    from regard.data.scenes import PIXELS, scene

    return scene(split, number, pixels=PIXELS[1]).painting.image


def _draw(whole: "NDArray[np.uint8]", seen: _Seen, things: "Sequence[Thing]", out: Path) -> None:
    """Draw what was found over the whole picture."""
    from regard.viz.bounding_boxes import Outlined, save_boxes

    square = seen.on_whole((0, 0, seen.read, seen.read))
    drawn = [Outlined(thing.name, thing.score, seen.on_whole(thing.box), thing.mask, square) for thing in things]
    tell_written(out, save_boxes(whole, drawn, out))
