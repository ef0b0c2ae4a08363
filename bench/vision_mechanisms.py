"""A page for each mechanism that sees: its equation, a picture from a trained model, when to use it, what it costs.

As bench/mechanisms.py, whose words and files these follow: `train` trains one small model for each system and scores
it, `draw` draws what was trained and notes all in docs/mechanisms/vision.json, and `pages` writes the pages from what
was measured, from the docstrings and from docs/mechanisms/vision.toml. Several mechanisms may share a model. Run: make
mechanisms
"""

import argparse
import json
import textwrap
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mechanisms import DOCS, IMAGES, from_docstring, made_with
from vision_limits import limits
from vision_pictures import (
    Drawn,
    draw_answer,
    draw_caption,
    draw_cells,
    draw_gates,
    draw_layers,
    draw_masks,
    draw_queries,
    draw_reasons,
)

from regard.attention.focus.hard import Hard
from regard.config import Config
from regard.data.pictures import Pictures, open_pictures
from regard.decoding.finder import Finder
from regard.decoding.labeller import Labeller
from regard.decoding.narrator import Narrator
from regard.decoding.respondent import Respondent
from regard.demo.caption import SHORT
from regard.evaluation.answered import evaluate_answers
from regard.evaluation.detected import evaluate_objects
from regard.evaluation.pictured import evaluate_captions, evaluate_classes
from regard.evaluation.report import Report
from regard.models.store import open_folder
from regard.models.xu import XuDecoder
from regard.presets.vision import vision
from regard.settings import override
from regard.training.loop import train
from regard.vision.base import blocks
from regard.vision.detection.detector import Detector
from regard.vision.detection.queries import AnchorQueries, LitLook, Spotlight
from regard.vision.encoder import ImageEncoder
from regard.vision.explain import grad_cam, rollout
from regard.vision.questions.cross import Cross
from regard.vision.questions.top_down import TopDown

FASHION = (
    "data.train=fashion-mnist",
    "data.valid=fashion-mnist",
    "model.image.channels=1",
    "model.image.size=28",
    "training.average=ema",
    "training.ema_decay=0.98",
    "training.save_every=0",
    "training.validate_every=300",
    "training.precision=auto",
)
NETWORK = (
    *FASHION,
    "model.image.width=64",
    "model.image.units=1",
    "model.image.normalise=batch",
    "model.dropout=0",
    "training.batch_tokens=1024",
    "training.steps=600",
    "training.optimizer=sgd",
    "training.momentum=0.9",
    "training.learning_rate=0.1",
    "training.weight_decay=5e-4",
    "training.clip=0",
)
TRANSFORMER = (*FASHION, "training.batch_tokens=1024", "training.steps=1500", "training.learning_rate=1e-3")
SCENES = ("data.train=scenes:20000", "data.valid=scenes:200", "model.image.size=32", "training.precision=auto")
CAPTIONS = (*SHORT, "training.told=1", "training.batch_tokens=256")
TESTS = {"fashion-mnist": "fashion-mnist", "scenes": "scenes:test:500"}


@dataclass(frozen=True)
class System:
    """A small model that shows one mechanism or several."""

    name: str
    preset: str
    changes: tuple[str, ...]

    @property
    def config(self) -> Config:
        return override(vision(self.preset), self.changes)

    @property
    def of_scenes(self) -> bool:
        return self.config.data.train[0].startswith("scenes")


@dataclass(frozen=True)
class Mechanism:
    """What a page is about."""

    kind: str
    name: str
    described: tuple[Any, ...]
    """What has docstrings with the equations."""
    setting: str
    system: str
    draw: Callable[[Path], Drawn]
    """Draws what the trained model in a folder attends to."""

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.name}"


def systems() -> Iterator[System]:
    """Yield every model that is trained."""
    yield System("plain", "resnet", NETWORK)
    yield System("squeeze-excitation", "hu2017-se", (*NETWORK, "model.image.reduction=4"))
    for name in ("soft-mask", "soft-mask-spatial"):
        yield System(name, "wang2017-residual", (*NETWORK, f"model.image.block={name}"))
    for name in (name for name in blocks if name.startswith("nonlocal")):
        everywhere = (*NETWORK, f"model.image.block={name}", "model.image.subsample=false")
        yield System(name, "wang2018-nonlocal", everywhere)
    yield System("vit", "dosovitskiy2020-vit-small", (*TRANSFORMER, "model.image.width=64"))
    for name in ("xu2015-soft", "xu2015-hard"):
        yield System(name, f"{name}-small", CAPTIONS)
    # Unless it is told where to look, the one look of a whole question learns too late for a page.
    yield System("anderson2017", "anderson2017-small", (*SCENES, "training.guided=0.5"))
    for name in ("asker", "carion2020"):
        yield System(name, f"{name}-small", SCENES)


def mechanisms() -> Iterator[Mechanism]:
    """Yield every page."""
    for name, block in blocks.items():
        drawing = draw_gates if name == "squeeze-excitation" else draw_masks if "mask" in name else draw_cells
        yield Mechanism("block", name, (block,), f"model.image.block = {name}", name, drawing)
    yield Mechanism("vision", "vit", (ImageEncoder,), "--preset dosovitskiy2020-vit", "vit", draw_layers)
    yield Mechanism("vision", "grad-cam", (grad_cam,), "regard attend", "plain", draw_reasons)
    yield Mechanism("vision", "rollout", (rollout,), "regard attend", "vit", draw_reasons)
    for name, parts in (("xu2015-soft", (XuDecoder,)), ("xu2015-hard", (XuDecoder, Hard))):
        yield Mechanism("vision", name, parts, f"--preset {name}", name, draw_caption)
    yield Mechanism("vision", "top-down", (TopDown,), "--preset anderson2017", "anderson2017", draw_answer)
    yield Mechanism("vision", "cross", (Cross,), "--preset asker", "asker", draw_answer)
    found = (Detector, AnchorQueries, LitLook, Spotlight)
    yield Mechanism("vision", "object-queries", found, "--preset carion2020", "carion2020", draw_queries)


# -- training ---------------------------------------------------------------------------------------------------------


def train_one(system: System, folder: Path) -> dict[str, Any]:
    """Train and score one model, unless that was done; what is measured goes beside it."""
    out = folder / system.name
    made = out / "measured.json"
    if made.is_file():
        return dict(json.loads(made.read_text(encoding="utf-8")))
    result = train(system.config, out, resume=(out / "config.toml").is_file())
    report, reader, pictures = evaluated(out)
    model = reader.model
    measured = {
        "scores": {score.name: round(score.value, 2) for score in report.scores if score.name in SCORES},
        "limits": limits(reader, report, pictures),
        "test": TESTS[system.config.data.train[0].partition(":")[0]],
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "steps": result.steps,
        "preset": system.preset,
        "data": system.config.data.train[0],
        "seed": system.config.seed,
        "training_seconds": round(result.seconds, 1),
        "milliseconds": cost_of(model, system),
        "made_with": made_with(),
    }
    made.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    return measured


SCORES = ("accuracy", "BLEU-4", "pointing", "AP@0.5", "mask IoU")


def evaluated(folder: Path) -> tuple[Report, Any, Pictures]:
    """Score a model on pictures that it has not seen; return what reads them, and these, too."""
    config = open_folder(folder)
    assert config.model.image is not None
    name = TESTS[config.data.train[0].partition(":")[0]]
    pictures = open_pictures((name,), "test", pixels=config.model.image.size)
    reader: Any
    if config.model.task == "classify":
        return evaluate_classes(reader := Labeller.load(folder), pictures), reader, pictures
    if config.model.task == "answer":
        return evaluate_answers(reader := Respondent.load(folder), pictures), reader, pictures
    if config.model.task == "detect":
        return evaluate_objects(reader := Finder.load(folder), pictures), reader, pictures
    return evaluate_captions(reader := Narrator.load(folder), pictures), reader, pictures


def cost_of(model: torch.nn.Module, system: System) -> float:
    """Time reading one of 32 pictures, forward and backward, on one CPU thread: the image encoder alone.

    It is the thread's own time, so that what else the machine does is not counted.
    """
    image = system.config.model.image
    assert image is not None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(1)
        times = []
        for _ in range(5):
            pictures = torch.rand(32, 1 if not system.of_scenes else 3, image.size, image.size)
            began = time.process_time()
            model.encoder.train()(pictures).states.square().sum().backward()  # type: ignore[union-attr]
            times.append(time.process_time() - began)
    finally:
        torch.set_num_threads(threads)
    return round(1000 * min(times) / 32, 2)


def train_all(folder: Path, only: list[str]) -> None:
    """Train what is asked for, one after the other."""
    for system in systems():
        if not only or system.name in only:
            print(system.name, train_one(system, folder)["scores"], flush=True)


def draw_all(folder: Path, only: list[str]) -> None:
    """Draw what was trained, and note what was measured and what the pictures show."""
    path = DOCS / "vision.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for system in systems():
        made = folder / system.name / "measured.json"
        if made.is_file() and (not only or system.name in only):
            known[system.name] = {**known.get(system.name, {}), **json.loads(made.read_text(encoding="utf-8"))}
    for mechanism in mechanisms():
        if (folder / mechanism.system / "measured.json").is_file() and (not only or mechanism.system in only):
            drawn = mechanism.draw(folder / mechanism.system)
            IMAGES.mkdir(parents=True, exist_ok=True)
            (IMAGES / f"{mechanism.key}.png").write_bytes(drawn.png)
            known[mechanism.system].setdefault("pictures", {})[mechanism.key] = drawn.words
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


# -- pages ------------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    texts = tomllib.loads((DOCS / "vision.toml").read_text(encoding="utf-8"))
    measured = json.loads((DOCS / "vision.json").read_text(encoding="utf-8"))
    every = [one for one in mechanisms() if one.key in measured.get(one.system, {}).get("pictures", {})]
    made = {f"{one.key}.md": page(one, texts[one.kind][one.name], measured) for one in every}
    made["vision.md"] = index(every, texts, measured)
    return made


def filled(text: str) -> str:
    """Break a text into lines, and no name in two."""
    return textwrap.fill(text, 120, break_on_hyphens=False)


def named(name: str) -> str:
    """Say which preset a model is, and how it differs from it."""
    (system,) = (one for one in systems() if one.name == name)
    if system.changes[: len(SCENES)] != SCENES:
        return f"`{system.preset}` made small"
    return " with ".join(f"`{part}`" for part in (system.preset, *system.changes[len(SCENES) :]))


def scored(measured: dict[str, Any]) -> str:
    """Say how good a model is."""
    return ", ".join(f"{name} {value}" for name, value in measured["scores"].items())


def page(mechanism: Mechanism, text: dict[str, str], every: dict[str, Any]) -> str:
    """Write one page."""
    measured, plain = every[mechanism.system], every["plain"]
    trained = (
        f"{measured['pictures'][mechanism.key]} The model: {named(mechanism.system)}, {measured['steps']:,} "
        f"steps on `{measured['data']}`, seed {measured['seed']}; on the test part of `{measured['test']}`: "
        f"{scored(measured)}."
    )
    cost = (
        f"Measured: the model has {measured['parameters']:,} parameters, and its image encoder takes "
        f"{measured['milliseconds']} ms for a picture, forward and backward, on one CPU thread"
    )
    if mechanism.kind == "block":
        cost += (
            f"; without the block these are {plain['parameters']:,} and {plain['milliseconds']} ms, and the accuracy "
            f"is {plain['scores']['accuracy']}"
        )
    described = "\n\n".join(from_docstring(one) for one in mechanism.described)
    beyond = text.get("limits", "").format(**measured["scores"], **measured.get("limits", {}))
    weak = f"## What this small model cannot do\n\n{filled(beyond)}\n\n" if beyond else ""
    return f"""# {text["title"]}

`{mechanism.setting}` · [all that see](vision.md) · [all mechanisms](README.md)

{described}

![what the model attends to](../images/mechanisms/{mechanism.key}.png)

{filled(trained)}

{weak}## When to use it

{filled(text["when"])}

## What it costs

{filled(text["cost"])}

{filled(cost + ".")}

Made with {measured["made_with"]}.
"""


def index(every: list[Mechanism], texts: dict[str, Any], measured: dict[str, Any]) -> str:
    """Write the page that lists all."""
    rows = [("none", "", "plain")] + [
        (f"[{texts[one.kind][one.name]['title']}]({one.key}.md)", f"`{one.setting}`", one.system) for one in every
    ]
    lines = "\n".join(
        f"| {title} | {setting} | {scored(measured[system])} | {measured[system]['parameters']:,} "
        f"| {measured[system]['milliseconds']} |"
        for title, setting, system in rows
    )
    return f"""# Mechanisms that see

A page for each: its equation, what a trained model attends to with it, when to use it, what it costs. The
[tutorial](../vision.md) trains and asks such models; [the others](README.md) work over cells of an image as over words.

| mechanism | how | score | parameters | ms a picture |
|---|---|---|---|---|
{lines}

Each row is one small model, trained for minutes on one CPU core: blocks in a residual network of three units and the
Vision Transformer on Fashion-MNIST, all others on [scenes](../vision.md#scenes) of 32 pixels. The numbers say that each
of them works and what it costs; one short run does not say which is best: the table of [the results](../results.md)
does, of three seeds and a whole training. Reading an image is timed forward and backward, on one CPU thread.

Written by `python bench/vision_mechanisms.py pages`, from models made by `python bench/vision_mechanisms.py train`.
"""


def main() -> None:
    """Train, draw, or write pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=("train", "draw", "pages"))
    parser.add_argument("only", nargs="*", help="systems, such as soft-mask; all if none is given")
    parser.add_argument("--folder", type=Path, default=Path("models/vision-mechanisms"), help="where the models go")
    options = parser.parse_intermixed_args()
    if options.what == "train":
        train_all(options.folder, options.only)
    elif options.what == "draw":
        draw_all(options.folder, options.only)
    else:
        for name, text in pages().items():
            (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
