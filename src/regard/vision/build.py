"""From a configuration to a model that reads images, with its first weights."""

import torch
from torch import nn

from regard.config import ModelConfig
from regard.errors import ConfigError, did_you_mean
from regard.layers.dropout import Dropout
from regard.models.build import (
    NothingDrawn,
    build_model,
    check_model,
    initialise,
    make_embedding,
    make_position,
)
from regard.models.build import build_empty as build_empty_of_texts
from regard.models.registries import Parts, decoders
from regard.vision.captioner import Captioner
from regard.vision.classifier import Classifier
from regard.vision.encoder import ImageEncoder
from regard.vision.positions import LearnedGrid

CLASSIFY = "classify"
TASKS = ("write", CLASSIFY)


def build(config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
    """Make the model that a configuration describes, of texts or of images; a classifier's targets are its classes."""
    if config.image is None:
        return build_model(config, source_size, target_size)
    model = _assemble(config, target_size)
    draw(model)
    return model


def build_empty(config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
    """Make the same model, but draw no weights: others are to be read into it."""
    if config.image is None:
        return build_empty_of_texts(config, source_size, target_size)
    with NothingDrawn():
        return _assemble(config, target_size)


def _assemble(config: ModelConfig, target_size: int) -> Captioner | Classifier:
    return _classifier(config, target_size) if config.task == CLASSIFY else _captioner(config, target_size)


def check_task(config: ModelConfig) -> None:
    """Refuse a task that there is none of, or that nothing is there for."""
    if config.task not in TASKS:
        raise ConfigError(
            f"model.task must be one of {', '.join(TASKS)}, got {config.task!r}.{did_you_mean(config.task, TASKS)}"
        )
    if config.task == CLASSIFY and config.image is None:
        raise ConfigError("model.task=classify is for images, and model.image is none: set model.image.kind.")


def build_captioner(config: ModelConfig, target_size: int) -> Captioner:
    """Make an image encoder, and a decoder as a translator has one; weights are drawn from torch's generator."""
    model = _captioner(config, target_size)
    draw(model)
    return model


def _captioner(config: ModelConfig, target_size: int) -> Captioner:
    if config.encoder.kind != "none":
        raise ConfigError(
            f"A captioner reads an image and no text, and model.encoder.kind is {config.encoder.kind}: set it to none."
        )
    check_model(config, target_size, target_size)
    dropout = Dropout(config.dropout, config.variational)
    embedding = make_embedding(config, target_size, config.decoder.kind, make_position(config))
    encoder = ImageEncoder(config, dropout)
    parts = Parts(embedding, dropout, encoder.state_width, encoder.summary, target_size)
    return Captioner(encoder, decoders[config.decoder.kind](config, parts), dropout)


def build_classifier(config: ModelConfig, classes: int) -> Classifier:
    """Make an image encoder and one linear map to classes; weights are drawn from torch's generator."""
    model = _classifier(config, classes)
    draw(model)
    return model


def _classifier(config: ModelConfig, classes: int) -> Classifier:
    if classes < 1:
        raise ConfigError(f"A classifier needs at least 1 class, got {classes}.")
    if not 0.0 <= config.dropout < 1.0:
        raise ConfigError(f"model.dropout must be at least 0 and below 1, got {config.dropout}.")
    dropout = Dropout(config.dropout, config.variational)
    return Classifier(ImageEncoder(config, dropout), classes, dropout)


@torch.no_grad()
def draw(model: nn.Module) -> None:
    """Draw first weights as `regard.models.build` does, but convolutions by He et al. 2015, equation 14.

    Positions that are learned start small, and the norms that end non-local blocks start from zero.
    """
    initialise(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, LearnedGrid):
            module.draw()
