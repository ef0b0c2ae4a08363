"""The image encoder: a stem that makes cells, positions, and layers in which cells look at each other."""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from regard.attention.build import check_pruned
from regard.config import EncoderConfig, ImageConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.masks import erase
from regard.models.attention_hooks import watched
from regard.models.bridge import mean_state
from regard.models.protocol import Encoded, Encoder, Summary
from regard.models.transformer_layer import ACTIVATIONS, NORMS, EncoderLayer
from regard.shapes import Bool, Float, Int, Tensor
from regard.vision import patches, regions, resnet  # noqa: F401 (importing them registers them)
from regard.vision.blocks.base import Looks, watched_blocks
from regard.vision.grid_positions import Grid, grids
from regard.vision.stem import stems

POOLINGS = ("mean", "class")
NONE = "none"


class EncodedImage(NamedTuple):
    """What an image encoder yields, with all that is needed to lay it over the image."""

    encoded: Encoded
    grid: Grid
    """Rows and columns of the cells; state s lies in row s // columns and column s % columns."""
    looks: Looks
    """What blocks and layers attended to, by the module's name; empty where nobody asked."""


class ImageEncoder(Encoder):
    r"""Reads an image as if it were words: a decoder gets states of its cells, row by row.

    Layers are the Transformer's (Vaswani et al. 2017); over patches, with norms first, GELU and a class token this is
    the Vision Transformer (Dosovitskiy et al. 2020, equations 1 to 4):

    .. math::
        z'_l = \mathrm{MSA}(LN(z_{l-1})) + z_{l-1} \qquad z_l = \mathrm{MLP}(LN(z'_l)) + z'_l \qquad y = LN(z_L^0)

    The summary, `y`, is the class token's last state, or the mean of the cells'. The class token is no state: decoders
    look at cells alone. `model.image.contents` keeps what cells hold from drowning where they lie: what is to compare
    two places has to find them in one sum with all else. Differs from the paper: see `LearnedGrid`; any score, reach
    and focus of model.self_attention.
    """

    def __init__(self, model: ModelConfig, dropout: Dropout) -> None:
        super().__init__()
        config = check_encoder(model)
        self.state_width = config.width
        self.summary = Summary("", layers=1, width=config.width)
        self.stem = stems[config.kind](config)
        grid = self.stem.grid
        self.contents = config.contents
        self.position = None if config.positions == NONE else grids[config.positions](grid, config.width)
        self.dropout = dropout
        self.class_token = nn.Parameter(torch.zeros(config.width)) if config.pooling == "class" else None
        within = _layers(model, config)
        self.layers = nn.ModuleList(EncoderLayer(within, dropout, layer) for layer in range(config.layers))
        self.norm = nn.LayerNorm(config.width) if config.layers and config.norm == "pre" else None

    def forward(
        self,
        embedded: Float[Tensor, "B ..."],
        mask: Bool[Tensor, "B S"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
    ) -> Encoded:
        """Read images B×C×h×w, or regions B×S×D with a mask of those that are real."""
        return self._read(embedded, mask)[0]

    def see(
        self, source: Float[Tensor, "B ..."], mask: Bool[Tensor, "B S"] | None = None, look: bool = True
    ) -> EncodedImage:
        """Read, and tell how the cells lie and what was attended to on the way.

        A block's is by its name (`stem.stages.2.2`), a layer's B×T×H×S by `layers.0` and so on; with a class token,
        that is the first of the T and of the S.
        """
        if not look:
            return EncodedImage(*self._read(source, mask), {})
        with watched_blocks(self) as looks, watched(self.layers) as layers:
            encoded, grid = self._read(source, mask)
        own = {f"layers.{name.partition('.')[0]}": found[-1] for name, found in layers.items()}
        return EncodedImage(encoded, grid, {**looks, **own})

    def _read(self, source: Float[Tensor, "B ..."], mask: Bool[Tensor, "B S"] | None) -> tuple[Encoded, Grid]:
        states, real, grid = self.stem(source, mask)
        if self.contents:
            states = erase(self.contents * functional.layer_norm(states, states.shape[-1:]), real)
        if self.position is not None:
            states = erase(states + self.position(grid).to(states.dtype), real)
        if self.class_token is not None:
            token = self.class_token.to(states.dtype).expand(states.shape[0], 1, -1)
            states, real = torch.cat([token, states], dim=1), torch.cat([real.new_ones(real.shape[0], 1), real], dim=1)
        states = self.dropout(states)
        for layer in self.layers:
            states = layer(states, real)
        states = erase(states if self.norm is None else self.norm(states), real)
        if self.class_token is not None:
            return Encoded(states[:, 1:], real[:, 1:], states[:, :1]), grid
        encoded = Encoded(states, real, states[:, :0])
        return encoded._replace(summary=mean_state(encoded)[:, None]), grid


def _layers(model: ModelConfig, config: ImageConfig) -> ModelConfig:
    """Say of the layers over cells what is said of a text encoder's; positions of words are not theirs."""
    encoder = EncoderConfig(
        "transformer",
        layers=config.layers,
        width=config.width,
        feed_forward=config.feed_forward,
        activation=config.activation,
        norm=config.norm,
    )
    return replace(model, embedding=config.width, encoder=encoder, positions=NONE)


def check_encoder(model: ModelConfig) -> ImageConfig:
    """Return the settings of the image encoder; refuse what none can be made of."""
    config = model.image
    if config is None:
        raise ConfigError("model.image is none, so there is nothing to read images with: set model.image.kind.")
    for name, least in (("width", 1), ("size", 0), ("layers", 0), ("feed_forward", 1)):
        if getattr(config, name) < least:
            raise ConfigError(f"model.image.{name} must be at least {least}, got {getattr(config, name)}.")
    allowed = (("norm", NORMS), ("activation", tuple(ACTIVATIONS)), ("pooling", POOLINGS))
    for name, names in allowed:
        if (got := getattr(config, name)) not in names:
            raise ConfigError(f"model.image.{name} must be one of {', '.join(names)}, got {got!r}.")
    if config.pooling == "class" and not config.layers:
        raise ConfigError(
            "model.image.pooling=class has a token look at the cells in every layer, and model.image.layers is 0: "
            "give it layers, or take model.image.pooling=mean."
        )
    if not 0 <= config.contents < math.inf:
        raise ConfigError(f"model.image.contents must be 0 or more, got {config.contents}.")
    if config.kind != "regions" and config.size < 1:
        raise ConfigError(f"model.image.size must be at least 1, got {config.size}.")
    if config.layers and model.self_attention.focus == "hard":
        raise ConfigError(
            "model.self_attention.focus=hard is rewarded by the target that follows from each look, and the looks of "
            "cells at each other belong to none: take gumbel, which learns through what it draws."
        )
    if config.layers:
        check_pruned(model.self_attention, "model.self_attention", max(config.layers, model.decoder.layers))
    return config
