"""A page for each mechanism that sees: its equation, a picture from a trained model, when to use it, what it costs.

As bench/mechanisms.py, whose words and files these follow: `train` trains one small model for each system and scores
it, `draw` draws what was trained and notes all in docs/mechanisms/vision.json, and `pages` writes the pages from what
was measured, from the docstrings and from docs/mechanisms/vision.toml. Several mechanisms may share a model.

Some systems are those of recipes, which want a GPU: they are not trained here. Whoever has run the recipe gives `train`
and `draw` the model folder, which is scored and drawn as all others; without it, what was measured before stays:

    python bench/vision_mechanisms.py train xu2015-soft --model xu2015-soft=models/scenes-captions/models/soft-guided

Run: make mechanisms
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from mechanisms import DOCS, IMAGES, made_with
from vision_limits import limits
from vision_pages import pages
from vision_systems import System, mechanisms, systems

from regard.config import Config, ModelConfig
from regard.data.pictures import Pictures, open_pictures
from regard.evaluation.alignment_error_rate import Reading
from regard.evaluation.report import Report
from regard.models.model_folder import learned, open_folder
from regard.tasks.captioning.demo import LAYER
from regard.tasks.captioning.evaluation import evaluate_captions
from regard.tasks.captioning.predictor import CaptionPredictor
from regard.tasks.detection.evaluation import evaluate_objects
from regard.tasks.detection.predictor import DetectionPredictor
from regard.tasks.image_classification.evaluation import evaluate_classes
from regard.tasks.image_classification.predictor import ImageClassPredictor
from regard.tasks.visual_questions.evaluation import evaluate_answers
from regard.tasks.visual_questions.predictor import AnswerPredictor
from regard.training.train_model import train

TESTS = {"fashion-mnist": "fashion-mnist", "scenes": "scenes:test:500"}
SCORES = {"accuracy": 2, "BLEU-4": 2, "pointing": 2, "AP@0.5": 4, "mask IoU": 4}
"""Those that pages have, and to how many digits."""
Given = dict[str, Path]
"""Model folders by the names of systems."""


def train_one(system: System, folder: Path, given: Given) -> dict[str, Any] | None:
    """Train and score one model, unless that was done, and note it; None where only a recipe can make the model."""
    made = folder / system.name / "measured.json"
    if made.is_file():
        return dict(json.loads(made.read_text(encoding="utf-8")))
    if system.name not in given and system.variant is not None:
        print(f"{system.name}: run recipes/{system.variant.recipe}.sh, and give --model {system.name}=FOLDER")
        return None
    model = given.get(system.name, folder / system.name)
    if system.name not in given:
        train(system.config, model, resume=(model / "config.toml").is_file())
    measured = measure(system, model)
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    return measured


def measure(system: System, folder: Path) -> dict[str, Any]:
    """Score a model that is the system's."""
    config = open_folder(folder)
    if without_channels(config) != without_channels(system.config):
        sys.exit(f"{folder} is not what is shown as {system.name}: its config.toml has other settings of the model.")
    report, reader, pictures = evaluated(folder, config)
    return {
        "scores": {
            score.name: round(score.value, SCORES[score.name]) for score in report.scores if score.name in SCORES
        },
        "limits": limits(reader, report, pictures),
        "test": test_of(config),
        "parameters": learned(reader.model),
        "steps": config.training.steps,
        "preset": config.preset,
        "data": config.data.train[0],
        "seed": config.seed,
        "training_seconds": seconds(folder),
        "milliseconds": cost_of(reader.model, config),
        "made_with": made_with(),
    }


def without_channels(config: Config) -> ModelConfig:
    """Return a model's settings, but for what is found out in training: how many colours there are."""
    assert config.model.image is not None
    return replace(config.model, image=replace(config.model.image, channels=0))


def test_of(config: Config) -> str:
    """Return what a model is scored on."""
    return TESTS[config.data.train[0].partition(":")[0]]


def seconds(folder: Path) -> float:
    """Return how long a training took."""
    last = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    return round(float(json.loads(last)["seconds"]), 1)


def evaluated(folder: Path, config: Config) -> tuple[Report, Any, Pictures]:
    """Score a model on pictures that it has not seen; return what reads them, and these, too."""
    assert config.model.image is not None
    pictures = open_pictures((test_of(config),), "test", pixels=config.model.image.size)
    reader: Any
    if config.model.task == "classify":
        return evaluate_classes(reader := ImageClassPredictor.load(folder), pictures), reader, pictures
    if config.model.task == "answer":
        return evaluate_answers(reader := AnswerPredictor.load(folder), pictures), reader, pictures
    if config.model.task == "detect":
        return evaluate_objects(reader := DetectionPredictor.load(folder), pictures), reader, pictures
    looks = Reading(layer=LAYER)  # the last layer's come before the word
    return evaluate_captions(reader := CaptionPredictor.load(folder), pictures, reading=looks), reader, pictures


def cost_of(model: torch.nn.Module, config: Config) -> float:
    """Time reading one of 32 pictures, forward and backward, on one CPU thread: the image encoder alone.

    It is the thread's own time, so that what else the machine does is not counted.
    """
    image = config.model.image
    assert image is not None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(1)
        times = []
        for _ in range(5):
            pictures = torch.rand(32, image.channels, image.size, image.size)
            began = time.process_time()
            model.encoder.train()(pictures).states.square().sum().backward()  # type: ignore[union-attr]
            times.append(time.process_time() - began)
    finally:
        torch.set_num_threads(threads)
    return round(1000 * min(times) / 32, 2)


def train_all(folder: Path, only: list[str], given: Given) -> None:
    """Train what is asked for, one after the other."""
    for system in systems():
        if (not only or system.name in only) and (measured := train_one(system, folder, given)) is not None:
            print(system.name, measured["scores"], flush=True)


def draw_all(folder: Path, only: list[str], given: Given) -> None:
    """Draw what was trained, and note what was measured and what the pictures show."""
    path = DOCS / "vision.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    drawn = {name for system in systems() if not only or (name := system.name) in only}
    drawn = {name for name in drawn if (folder / name / "measured.json").is_file()}
    for name in drawn:
        measured = json.loads((folder / name / "measured.json").read_text(encoding="utf-8"))
        known[name] = {**known.get(name, {}), **measured}
    for mechanism in mechanisms():
        if mechanism.system in drawn:
            picture = mechanism.draw(given.get(mechanism.system, folder / mechanism.system))
            IMAGES.mkdir(parents=True, exist_ok=True)
            (IMAGES / f"{mechanism.key}.png").write_bytes(picture.png)
            known[mechanism.system].setdefault("pictures", {})[mechanism.key] = picture.words
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def a_model(text: str) -> tuple[str, Path]:
    """Read NAME=FOLDER."""
    name, equals, folder = text.partition("=")
    names = [system.name for system in systems()]
    if name not in names or not equals or not (Path(folder) / "config.toml").is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER with a model folder and one of {names}")
    return name, Path(folder)


def main() -> None:
    """Train, draw, or write pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=("train", "draw", "pages"))
    parser.add_argument("only", nargs="*", help="systems, such as soft-mask; all if none is given")
    parser.add_argument("--folder", type=Path, default=Path("models/vision-mechanisms"), help="where the models go")
    parser.add_argument(
        "--model",
        type=a_model,
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="take a system's model from a folder, such as one that a recipe has made; repeatable",
    )
    options = parser.parse_intermixed_args()
    if options.what == "train":
        train_all(options.folder, options.only, dict(options.model))
    elif options.what == "draw":
        draw_all(options.folder, options.only, dict(options.model))
    else:
        for name, text in pages().items():
            (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
