"""What the pages of mechanisms that see are illustrated with: what a small trained model attends to, as a PNG."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import Config
from regard.data.image_files import on_whole
from regard.data.pictures import open_pictures
from regard.data.scenes import scene
from regard.tasks.captioning.demo import overlay
from regard.tasks.captioning.predictor import CaptionPredictor
from regard.tasks.detection.predictor import DetectionPredictor
from regard.tasks.image_classification.predictor import ImageClassPredictor
from regard.tasks.visual_questions.predictor import AnswerPredictor
from regard.vision.blocks.base import Looks
from regard.vision.class_heatmaps import heat_maps
from regard.vision.pixels import from_pixels
from regard.viz.figure_style import save_figure
from regard.viz.image_trace import ImageTrace
from regard.viz.overlay_picture import HeatMap, save_maps

SHOWN = 0
"""Which test picture of Fashion-MNIST is shown: an ankle boot."""
SCENE, QUESTION, RELATION = 0, "how many green things are there?", "is the blue thing below the star?"
"""Which test scene is described, and what is asked about it: something to count, or a relation."""
SAID = "the green ring is around the blue cross and below the green star"
"""What is said of that scene."""
FOUND = 3
"""In which test scene things are found: five of them."""
ASKED = 4
"""Of how many of these things masks are shown."""
SEEN = 128
"""Pixels of a scene that people are shown; models read fewer."""
LARGEST = 55_000
"""Bytes that a picture may have, or it is made smaller."""
MANY = 1000
"""Pictures that gates are averaged over."""


class Drawn(NamedTuple):
    """A picture, and what it shows in a sentence."""

    png: bytes
    words: str


def _png(save: Callable[[Path], Any]) -> bytes:
    """Let something be saved, and make it small: few colours do, if those of small things are among them."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.png"
        save(path)
        image = Image.open(path).convert("RGB")
        for eighths, colours in ((5, 96), (4, 64), (3, 48)):
            size = (image.width * eighths // 8, image.height * eighths // 8)
            small = image.resize(size, Image.Resampling.LANCZOS)
            few = small.quantize(colours, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
            few.save(path, optimize=True)
            if path.stat().st_size < LARGEST:
                break
        return path.read_bytes()


def _clothes() -> Any:
    return open_pictures(("fashion-mnist",), "test")


def _seen(folder: Path) -> tuple[NDArray[np.uint8], str, Looks, tuple[int, int]]:
    """Let a classifier look at the test picture that is shown."""
    predictor, clothes = ImageClassPredictor.load(folder), _clothes()
    picture = clothes.image(SHOWN)
    with torch.inference_mode():
        seen = predictor.model.eval().see(torch.from_numpy(picture.copy())[None])
    return picture, clothes.labels[clothes.label(SHOWN)], seen.looks, seen.grid


def _maps(picture: NDArray[np.uint8], maps: Sequence[HeatMap], words: str) -> Drawn:
    return Drawn(_png(lambda path: save_maps(picture, maps, path)), words)


def draw_masks(folder: Path) -> Drawn:
    """Show the masks of each stage: their mean, and the one that differs most from place to place."""
    picture, label, looks, _ = _seen(folder)
    maps = []
    for number, mask in enumerate(looks.values(), 1):
        cells = mask[0].float().numpy()
        channel = int(cells.std(axis=(1, 2)).argmax())
        maps.append(HeatMap(f"stage {number}", cells.mean(axis=0), "mean of its masks"))
        maps.append(HeatMap(f"stage {number}", cells[channel], f"of channel {channel}"))
    return _maps(picture, maps, f"Masks over a picture of the test set ({label}), stage by stage.")


def draw_cells(folder: Path) -> Drawn:
    """Show where three cells look in the first block: on the object, at its edge, and beside it."""
    picture, label, looks, _ = _seen(folder)
    weights = next(iter(looks.values()))[0, :, 0].float().numpy()  # T S
    side = round(len(weights) ** 0.5)
    bright = picture[..., 0].astype(float).reshape(side, -1, side, picture.shape[1] // side).mean(axis=(1, 3))
    inside, edge = int(bright.argmax()), int(np.abs(bright - bright.max() / 2).argmin())
    maps = [
        HeatMap(f"{what}: {cell // side + 1},{cell % side + 1}", weights[cell].reshape(side, side), "row, column")
        for what, cell in (("bright", inside), ("edge", edge), ("ground", int(bright.argmin())))
    ]
    words = (
        f"Attention of three of the {side} × {side} cells of the second stage, in a picture of the test set ({label}): "
        "the brightest, one of half its brightness, and one of the background."
    )
    return _maps(picture, maps, words)


def draw_layers(folder: Path) -> Drawn:
    """Show where the class token looks, layer by layer."""
    picture, label, looks, grid = _seen(folder)
    maps = [
        HeatMap(name.replace("layers.", "layer "), weights[0, 0, :, 1:].mean(dim=0).view(grid).numpy(), "mean of heads")
        for name, weights in looks.items()
    ]
    return _maps(picture, maps, f"Attention of the class token in each layer, in a picture of the test set ({label}).")


def draw_reasons(folder: Path) -> Drawn:
    """Show what speaks for the most probable classes: Grad-CAM, or rollout."""
    predictor, clothes = ImageClassPredictor.load(folder), _clothes()
    maps = heat_maps(predictor.model.eval(), clothes.image(SHOWN), predictor.labels.names)
    label = clothes.labels[clothes.label(SHOWN)]
    return _maps(clothes.image(SHOWN), maps, f"Evidence for the classes of a picture of the test set ({label}).")


def draw_gates(folder: Path) -> Drawn:
    """Show the gates of the last unit: the mean for each class."""
    predictor, clothes = ImageClassPredictor.load(folder), _clothes()
    with torch.inference_mode():
        seen = predictor.model.eval().see(torch.from_numpy(clothes.images(range(MANY)).copy()))
    gates = list(seen.looks.values())[-1].float().numpy()
    labels = np.array([clothes.label(index) for index in range(MANY)])
    means = np.stack([gates[labels == place].mean(axis=0) for place in range(len(clothes.labels))])
    means = means[:, np.argsort(-means.mean(axis=0))]

    def draw(figure: Any) -> None:
        figure.set_size_inches(6.4, 2.4)
        axes = figure.add_subplot()
        shown = axes.imshow(means, aspect="auto", vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
        axes.set_yticks(range(len(clothes.labels)), clothes.labels, size=7)
        axes.set_xticks([])
        axes.set_xlabel(f"{means.shape[1]} channels of the last unit", size=8)
        figure.colorbar(shown, ax=axes, label="gate").ax.tick_params(labelsize=7)

    words = f"The gates of the last unit, averaged for each class over {MANY:,} test pictures; channels with the "
    return Drawn(_png(lambda path: save_figure(path, clothes.labels, draw)), f"{words}largest gates are on the left.")


def _scene(config: Config, number: int = SCENE) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return a test scene as a model reads it, and as people are shown it."""
    assert config.model.image is not None
    read, seen = (open_pictures(("scenes:50",), "test", pixels=size) for size in (config.model.image.size, SEEN))
    return read.image(number), seen.image(number)


def draw_caption(folder: Path, layer: int | None = None) -> Drawn:
    """Show where a captioner looks, word by word, while it is made to write a right caption that names all things."""
    predictor = CaptionPredictor.load(folder)
    read, _ = _scene(predictor.config)
    own, ((given,),) = predictor.caption(read[None])[0], predictor.align(read[None], [[SAID]])
    trace = overlay(given, scene("test", SCENE, pixels=SEEN))
    words = (
        f"Attention of the decoder{_of_layer(layer)}, scene {SCENE} of the test set, under teacher forcing of "
        f"“{SAID}”; the objects that a word refers to are outlined. In free decoding it writes “{own.text}”."
    )
    return Drawn(_png(lambda path: trace.save(path, layer=layer, quiet=True)), words)


def _of_layer(layer: int | None) -> str:
    """Say which layer is shown: the first, the last, or what there is."""
    return {None: "", 0: " in the first layer", -1: " in the last layer"}[layer]


def draw_answer(folder: Path, question: str = QUESTION, layer: int | None = None) -> Drawn:
    """Show where a question looks, or its words."""
    predictor = AnswerPredictor.load(folder)
    scene, shown = _scene(predictor.config)
    ((answered,),) = predictor.answer(scene[None], [[question]], look=True)
    trace = ImageTrace(answered.trace(), shown, answered.grid)
    words = (
        f"Attention over the image{_of_layer(layer)}, scene {SCENE} of the test set, for the question “{question}”, "
        f"answered with “{answered.text}”."
    )
    return Drawn(_png(lambda path: trace.save(path, layer=layer, quiet=True)), words)


def draw_queries(folder: Path) -> Drawn:
    """Show where the queries that found something looked, and the boxes that they found."""
    predictor = DetectionPredictor.load(folder)
    scene, shown = _scene(predictor.config, FOUND)
    (things,) = predictor.detect(scene[None])
    looked = predictor.look(scene, things)
    boxes = tuple((on_whole(thing.box, len(scene), (SEEN, SEEN)),) for thing in things)
    trace = ImageTrace(looked.trace, shown, looked.grid, None, boxes)
    found = ", ".join(f"{thing.name} ({thing.score:.0%})" for thing in things)
    words = f"Attention of the queries that found something in scene {FOUND} of the test set, and their boxes: {found}."
    return Drawn(_png(lambda path: trace.save(path, quiet=True)), words)


def draw_pixels(folder: Path) -> Drawn:
    """Show the maps that the masks of found things begin with, and below them the masks."""
    predictor = DetectionPredictor.load(folder)
    scene, shown = _scene(predictor.config, FOUND)
    (things,) = predictor.detect(scene[None])
    gold = open_pictures(("scenes:50",), "test", pixels=len(scene)).objects(FOUND).masks
    with torch.inference_mode():
        found = predictor.model.eval()(from_pixels(torch.from_numpy(scene[None].copy())))
        assert predictor.model.segmenter is not None
        maps = predictor.model.segmenter.attend(found)[0].mean(dim=1).numpy().reshape(-1, *found.grid)  # N h w
    masks = [thing.mask for thing in things if thing.mask is not None]
    panels = [HeatMap(thing.name, maps[thing.query], "mean of its maps") for thing in things[:ASKED]]
    panels.append(HeatMap("all masks", np.any(masks, axis=0).astype(np.float32)))
    for thing, mask in zip(things[:ASKED], masks[:ASKED], strict=True):
        overlap = max((mask & right).sum() / (mask | right).sum() for right in gold)
        panels.append(HeatMap(thing.name, mask.astype(np.float32), f"mask, IoU {overlap:.2f}"))
    words = (
        f"Scene {FOUND} of the test set. Above: where {ASKED} of the queries that found something attend for their "
        f"masks, the mean of {predictor.config.model.detection.mask_maps} maps over {found.grid[0]} × {found.grid[1]} "
        f"cells. Below: the masks of {len(scene)} × {len(scene)} pixels made from these, with their IoU with the "
        "gold masks."
    )
    return _maps(shown, panels, words)
