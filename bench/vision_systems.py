"""The vision mechanisms, and the models that show them: small ones trained here, larger ones trained by recipes."""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from vision_pictures import (
    RELATION,
    Drawn,
    draw_answer,
    draw_caption,
    draw_cells,
    draw_gates,
    draw_layers,
    draw_masks,
    draw_pixels,
    draw_queries,
    draw_reasons,
)

from regard.attention.focus.hard import Hard
from regard.attention.multi_head import Heads
from regard.attention.score.scaled_dot import ScaledDot
from regard.config import Config
from regard.config_io import override
from regard.models.transformer import TransformerDecoder
from regard.models.xu2015 import XuDecoder
from regard.presets.vision import vision
from regard.tasks.captioning.demo import SHORT
from regard.vision.blocks.base import blocks
from regard.vision.captioner import Captioner
from regard.vision.detection.detector import Detector
from regard.vision.detection.queries import AnchorQueries, GaussianAttention, Spotlight
from regard.vision.detection.segmenter import Segmenter
from regard.vision.encoder import ImageEncoder
from regard.vision.explain import grad_cam, rollout
from regard.vision.questions.cross_transformer import Cross
from regard.vision.questions.top_down import TopDown

RECIPES = Path(__file__).parents[1] / "recipes"
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
CAPTIONS = (
    *SHORT,
    "data.train=scenes:40000",
    "training.guided=1",
    "training.steps=15000",
    "training.validate_every=5000",
)
"""The demo's captioner, trained longer and with guided attention."""


class Variant(NamedTuple):
    """A variant of a recipe."""

    recipe: str
    name: str

    @property
    def config(self) -> Config:
        """Its configuration."""
        terms = tomllib.loads((RECIPES / f"{self.recipe}.toml").read_text(encoding="utf-8"))
        (own,) = (one for one in terms["variant"] if one["name"] == self.name)
        steps = [f"training.steps={terms['steps']}"] if "steps" in terms else []
        changes = [f"data.train={terms['data']}", *terms["set"], *steps, *own.get("set", [])]
        return override(vision(own["preset"]), changes)


@dataclass(frozen=True)
class System:
    """A model that shows one or several mechanisms, trained here or by a recipe."""

    name: str
    preset: str = ""
    changes: tuple[str, ...] = ()
    variant: Variant | None = None

    @cached_property
    def config(self) -> Config:
        return self.variant.config if self.variant is not None else override(vision(self.preset), self.changes)


@dataclass(frozen=True)
class Mechanism:
    """The mechanism of a page."""

    kind: str
    name: str
    described: tuple[Any, ...]
    """The classes whose docstrings have the equations."""
    setting: str
    system: str
    draw: Callable[[Path], Drawn]
    """Draws the attention of the trained model in a folder."""

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.name}"


def systems() -> Iterator[System]:
    """Yield every model that is shown."""
    yield System("plain", "resnet", NETWORK)
    yield System("squeeze-excitation", "hu2017-se", (*NETWORK, "model.image.reduction=4"))
    for name in ("soft-mask", "soft-mask-spatial"):
        yield System(name, "wang2017-residual", (*NETWORK, f"model.image.block={name}"))
    for name in (name for name in blocks if name.startswith("nonlocal")):
        everywhere = (*NETWORK, f"model.image.block={name}", "model.image.subsample=false")
        yield System(name, "wang2018-nonlocal", everywhere)
    yield System("vit", "dosovitskiy2020-vit-small", (*TRANSFORMER, "model.image.width=64"))
    yield System("xu2015-soft", variant=Variant("scenes_captions", "soft-guided"))
    yield System("xu2015-hard", variant=Variant("scenes_captions", "hard-guided"))
    yield System("captioner", "captioner-small", CAPTIONS)
    # Without guided attention, the single attention step of a whole question learns too slowly for a page.
    yield System("anderson2017", "anderson2017-small", (*SCENES, "training.guided=0.5"))
    yield System("asker", variant=Variant("scenes_questions", "asker-guided"))
    yield System("carion2020", variant=Variant("scenes_detection", "anchors"))


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
    writes = (Captioner, TransformerDecoder, Heads, ScaledDot)
    yield Mechanism("vision", "captioner", writes, "--preset captioner", "captioner", partial(draw_caption, layer=-1))
    yield Mechanism("vision", "top-down", (TopDown,), "--preset anderson2017", "anderson2017", draw_answer)
    words = partial(draw_answer, question=RELATION, layer=0)
    yield Mechanism("vision", "cross", (Cross,), "--preset asker", "asker", words)
    found = (Detector, AnchorQueries, GaussianAttention, Spotlight)
    yield Mechanism("vision", "object-queries", found, "--preset carion2020", "carion2020", draw_queries)
    yield Mechanism("vision", "masks", (Segmenter,), "model.detection.mask_channels = 16", "carion2020", draw_pixels)
