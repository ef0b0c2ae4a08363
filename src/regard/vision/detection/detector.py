"""The detector: an image in, a set of objects out."""

import math
from typing import cast

import torch
from torch import nn
from torch.nn import functional

from regard.config import DetectionConfig, ModelConfig
from regard.errors import ConfigError, ModelError
from regard.layers.dropout import Dropout
from regard.models.transformer_layer import check_choices
from regard.shapes import Float, Int, Tensor
from regard.vision.detection.detector_output import Detected
from regard.vision.detection.queries import Queries, Spotlight, centers, queries, waves
from regard.vision.detection.query_layer import QueryLayer
from regard.vision.detection.segmenter import Segmenter
from regard.vision.encoder import ImageEncoder
from regard.vision.initialisation import draw

NO_MASKS = "This detector finds boxes but no masks: train one with model.detection.mask_channels above 0."


class Detector(nn.Module):
    r"""An image encoder, object queries, and heads that predict classes and boxes (Carion et al. 2020, figure 2).

    .. math:: \hat p = \mathrm{softmax}(W x) \qquad \hat b = \sigma(\mathrm{MLP}(x))

    The same two heads, after one shared norm, are applied to the queries after every layer (section 3.2, auxiliary
    losses). Sinusoidal positions are added to the cells once more before attention, to keys and values alike. Differs
    from the paper: in that, and in its sizes; for `model.detection.kind=anchors` see `AnchorQueries`.
    """

    def __init__(self, model: ModelConfig, classes: int, dropout: Dropout) -> None:
        super().__init__()
        width, config = check_detector(model, classes), model.detection
        assert model.image is not None
        self.config, self.classes = config, classes
        self.encoder = ImageEncoder(model, dropout)
        self.queries: Queries = queries[config.kind](config.queries, model)
        self.W_p = nn.Linear(2 * (width // 4), width)
        look = self.queries.look
        self.stack = nn.ModuleList(QueryLayer(model, look, dropout, layer) for layer in range(model.decoder.layers))
        self.norm = nn.LayerNorm(width)
        self.W_c = nn.Linear(width, classes + 1)
        self.W_1, self.W_2, self.W_b = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 4)
        doublings = max(1, round(math.log2(model.image.size / self.encoder.stem.grid[0])))
        self.segmenter = (
            Segmenter(width, config.mask_channels, config.mask_maps, model.image.channels, doublings, self.queries.lit)
            if config.mask_channels
            else None
        )

    @property
    def layers(self) -> list[QueryLayer]:
        """The layers of queries, lowest first."""
        return cast(list[QueryLayer], list(self.stack))

    @torch.no_grad()
    def draw(self) -> None:
        """Initialise all weights, including parts with an initialisation of their own; anchors start unmoved."""
        draw(self)
        self.queries.draw()
        for module in self.modules():
            if isinstance(module, Spotlight):
                module.draw()
        if self.queries.lit:
            nn.init.zeros_(self.W_b.weight)

    def forward(self, images: Float[Tensor, "B C h w"], look: bool = False) -> Detected:
        """Detect objects in images; `look=True` returns the attention weights of each query."""
        encoded, grid, _ = self.encoder.see(images, look=False)
        cells = centers(grid, images.device)
        states = encoded.states
        width = self.W_p.in_features // 2
        states = states + self.W_p(waves(cells, width).to(self.W_p.weight.dtype))
        holds, boxes = (part.expand(images.shape[0], *part.shape) for part in self.queries.start())
        logits, found, weights = [], [], []
        for layer in self.layers:
            memory = layer.look.remember(states, encoded.mask)
            holds, seen = layer(holds, self.queries.places(boxes), memory, boxes, cells.to(boxes.dtype), look)
            read = self.norm(holds)
            shift = self.W_b(functional.relu(self.W_2(functional.relu(self.W_1(read)))))
            found.append(self.queries.move(boxes, shift.to(boxes.dtype)))
            boxes = found[-1].detach()
            logits.append(self.W_c(read))
            weights.append(seen)
        return Detected(
            torch.stack(logits, dim=1),
            torch.stack(found, dim=1),
            torch.stack(weights, dim=2) if look else None,
            self.norm(holds),
            states,
            encoded.mask,
            grid,
        )

    def segment(
        self, images: Float[Tensor, "B C h w"], found: Detected, rows: Int[Tensor, " P"], which: Int[Tensor, " P"]
    ) -> Float[Tensor, "P h w"]:
        """Return mask logits of query `which[p]` of image `rows[p]`, at the image's resolution."""
        if self.segmenter is None:
            raise ModelError(NO_MASKS)
        logits: Tensor = self.segmenter(images, found, rows, which)
        return logits


def check_detector(model: ModelConfig, classes: int) -> int:
    """Return the width of cells and queries; refuse configurations that no detector can be built from."""
    config = model.detection
    _check_detection(config)
    if classes < 1:
        raise ConfigError(f"A detector needs at least 1 class, got {classes}.")
    if model.image is None or model.image.kind == "regions":
        raise ConfigError("A detector reads images: set model.image.kind to resnet or patches.")
    if model.attention is None:
        raise ConfigError("Object queries attend to cells, but model.attention is none: give it attention.")
    if model.decoder.layers < 1:
        raise ConfigError(f"model.decoder.layers must be at least 1, got {model.decoder.layers}.")
    if model.decoder.width != model.image.width:
        raise ConfigError(
            f"model.decoder.width is {model.decoder.width} and model.image.width is {model.image.width}: object "
            "queries are as wide as cells, so set both to the same."
        )
    if model.image.width % 8:
        raise ConfigError(f"A detector needs a model.image.width that is a multiple of 8, got {model.image.width}.")
    if config.mask_channels and model.image.width % config.mask_maps:
        raise ConfigError(
            f"model.detection.mask_maps is {config.mask_maps}, which does not divide model.image.width, "
            f"{model.image.width}: change one of them."
        )
    if config.mask_channels % 2:
        raise ConfigError(f"model.detection.mask_channels must be even, got {config.mask_channels}.")
    check_choices(model, "decoder")
    return model.image.width


def make_detector(model: ModelConfig, classes: int) -> Detector:
    """Build a detector without initial weights; call its `draw` for these."""
    if not 0.0 <= model.dropout < 1.0:
        raise ConfigError(f"model.dropout must be at least 0 and below 1, got {model.dropout}.")
    return Detector(model, classes, Dropout(model.dropout, model.variational))


def _check_detection(config: DetectionConfig) -> None:
    """Refuse settings out of range."""
    for name, least in (("queries", 1), ("mask_channels", 0), ("mask_maps", 1)):
        if getattr(config, name) < least:
            raise ConfigError(f"model.detection.{name} must be at least {least}, got {getattr(config, name)}.")
    for name in ("nothing", "class_cost", "l1", "giou", "dice", "focal", "gamma"):
        if not getattr(config, name) >= 0:
            raise ConfigError(f"model.detection.{name} must be at least 0, got {getattr(config, name)}.")
