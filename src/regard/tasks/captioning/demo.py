"""The demo for pictures: train a captioner on the embedded scenes, score it, describe pictures, show its attention.

The captioner is a Transformer: it learns as much per step as the models of Xu et al. 2015, in half the time per step.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from regard.config import Config
from regard.config_io import override
from regard.data.pictures import open_scenes
from regard.data.scenes import Scene
from regard.demo import train_once
from regard.evaluation.alignment_error_rate import Reading
from regard.presets.vision import vision
from regard.tasks.captioning.evaluation import evaluate_captions
from regard.tasks.captioning.predictor import CaptionPredictor, PictureCaption
from regard.viz.image_trace import Box, ImageTrace

PIXELS = 32
"""Height and width of the scenes that the model reads."""
SHOWN_PIXELS = 128
COMMON = (
    f"model.image.size={PIXELS}",
    "model.image.width=64",
    "model.image.units=1",
    "model.image.positions=learned",
    "model.image.layers=1",
    "model.image.feed_forward=128",
    "model.dropout=0.0",
    "training.doubly_stochastic=0.0",
    "training.label_smoothing=0.0",
    "training.metric=loss",
    "training.beta2=0.98",
    "training.warmup=200",
    "training.epochs=1000",
    "training.patience=0",
    "training.save_every=0",
    "decoding.length_penalty=0.0",
)
SHORT = (
    *COMMON,
    "data.train=scenes:12000",
    "data.valid=scenes:valid:200",
    "training.batch_tokens=384",
    "training.told=2",
    "training.precision=float32",
    "training.learning_rate=0.002",
    "training.steps=5000",
    "training.validate_every=2500",
)
"""Training in about four minutes. Small batches, because the number of steps limits quality, not the number of
pictures. Two captions per picture, because encoding a picture costs more than decoding a caption. At this size bfloat16
is not faster."""
LONG = (
    *COMMON,
    "data.train=scenes:40000",
    "data.valid=scenes:valid:400",
    "model.image.width=128",
    "training.batch_tokens=1024",
    "training.learning_rate=0.002",
    "training.steps=15000",
    "training.validate_every=1500",
)
"""About twenty times the demo's training."""

TEST = "scenes:test:400"
EXAMPLES = (0, 4, 5, 9)
"""Test scenes whose captions and attention are shown."""
MOST_WORDS = 12
"""Attention of longer captions is not drawn on the terminal, where it takes too many lines, but in the files only."""
BEAM = 3
LAYER = -1
"""The layer whose attention is scored and shown, averaged over heads: the last, nearest to the output."""
DOING = "Training a small captioner (a residual network, and a Transformer that looks at it) on the embedded scenes."


def configuration(long: bool = False) -> Config:
    """Return the configuration that the demo trains."""
    return override(vision("captioner-small"), LONG if long else SHORT)


def show(folder: Path, *, long: bool, width: int, color: bool, say: Callable[[str], None]) -> None:
    """Train a model (or reuse a trained one), score it, describe a few scenes and draw the attention."""
    model = folder / ("captioner-long" if long else "captioner")
    train_once(configuration(long), model, "scenes", DOING, say)
    predictor = CaptionPredictor.load(model)
    test = open_scenes(TEST, pixels=PIXELS)
    say(f"\nScoring {len(test)} scenes, half of them with combinations that training never saw ...\n")
    say(str(evaluate_captions(predictor, test, beam=BEAM, reading=Reading(layer=LAYER))))
    say("\nWhere the model looks while it writes (one picture for each word):")
    pictures = _look(predictor, folder, width, color, say)
    say(_what_next(model, pictures))


def _look(predictor: CaptionPredictor, folder: Path, width: int, color: bool, say: Callable[[str], None]) -> list[Path]:
    written: list[Path] = []
    drawing = importlib.util.find_spec("matplotlib") is not None
    if not drawing:
        say("(Without matplotlib there are no strips in files, only pages: pip install matplotlib.)")
    place = folder / "scenes"
    place.mkdir(parents=True, exist_ok=True)
    read, seen = open_scenes("scenes:test", pixels=PIXELS), open_scenes("scenes:test", pixels=SHOWN_PIXELS)
    for number, found in zip(EXAMPLES, predictor.caption(read.images(EXAMPLES), beam=BEAM, candidates=5), strict=True):
        scene = seen.scene(number)
        said = [caption.text for caption in scene.captions]
        wrong = "" if found.text in said else f"  (right would be: {said[0]})\n"
        trace = overlay(found, scene)
        say(f"\nscene {number}: {found.text}\n{wrong}")
        if len(trace.words) <= MOST_WORDS:
            say(trace.render(width, color, layer=LAYER))
        for suffix in (".png", ".html") if drawing else (".html",):
            path = place / f"{number}{suffix}"
            for note in trace.save(path, layer=LAYER, title=found.text, quiet=True):
                say(note)
            written.append(path)
    return written


def overlay(found: PictureCaption, scene: Scene) -> ImageTrace:
    """Return the attention over a scene; if the caption is correct, the objects its words name are outlined."""
    gold = next((caption for caption in scene.captions if caption.text == found.text), None)
    words, boxes = found.best.attention.target, scene.painting.boxes
    outlines: tuple[tuple[Box, ...], ...] = ()
    if gold is not None:
        told = [tuple(_box(boxes[thing]) for thing in things) for things in gold.things]
        outlines = (*told, *((),) * (len(words) - len(told)))  # the end token names nothing
    return ImageTrace(found.best.attention, scene.painting.image, found.grid, outlines=outlines)


def _box(box: object) -> Box:
    left, top, right, bottom = (float(edge) for edge in box)  # type: ignore[attr-defined]
    return left, top, right, bottom


def _what_next(model: Path, pictures: list[Path]) -> str:
    place = pictures[0].parent
    strips = f"pictures in {place}/*.png, and as " if any(path.suffix == ".png" for path in pictures) else ""
    pages = "*.html" if strips else f"{place}/*.html"
    return f"""
Saved as {strips}pages to step through word by word: {pages}

Try next (regard is in .venv/bin if you came by make):
  regard data scenes:test:20 --out scenes                      see the scenes and their captions
  regard caption {model} scenes/*.png
  regard attend {model} scenes/000000.png --out look.html
  regard evaluate {model} --data scenes:2000
  regard demo --task caption --long                            train longer for a better model
"""
