"""From a configuration to a model that reads images, with its first weights."""

from torch import nn

from regard.config import ModelConfig
from regard.errors import ConfigError, did_you_mean
from regard.layers.dropout import Dropout
from regard.models.build import NothingDrawn, build_model, check_model, make_embedding, make_position
from regard.models.build import build_empty as build_empty_of_texts
from regard.models.pointer_generator import check_copying
from regard.models.registries import Parts, decoders
from regard.vision.captioner import Captioner
from regard.vision.classifier import Classifier
from regard.vision.detection.detector import Detector, make_detector
from regard.vision.encoder import ImageEncoder
from regard.vision.initialisation import draw
from regard.vision.questions.base import Answerer
from regard.vision.questions.build import make_answerer

WRITE, CLASSIFY, ANSWER, DETECT = TASKS = ("write", "classify", "answer", "detect")
"""What is made of what was read; of texts, only the first."""


def build(config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
    """Make the model that a configuration describes, of texts or of images, and draw its first weights.

    The sizes are of vocabularies. Of an image nothing is read but pixels, except that an answerer reads the words of
    questions; what is written are words, or classes, or answers.
    """
    if config.image is None:
        return build_model(config, source_size, target_size)
    model = _assemble(config, source_size, target_size)
    model.draw() if isinstance(model, Answerer | Detector) else draw(model)
    return model


def build_empty(config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
    """Make the same model, but draw no weights: others are to be read into it."""
    if config.image is None:
        return build_empty_of_texts(config, source_size, target_size)
    with NothingDrawn():
        return _assemble(config, source_size, target_size)


def _assemble(config: ModelConfig, source_size: int, target_size: int) -> Captioner | Classifier | Answerer | Detector:
    if config.task == CLASSIFY:
        return _classifier(config, target_size)
    if config.task == ANSWER:
        return make_answerer(config, source_size, target_size)
    return make_detector(config, target_size) if config.task == DETECT else _captioner(config, target_size)


def check_task(config: ModelConfig) -> None:
    """Refuse a task that there is none of, or that nothing is there for."""
    if config.task not in TASKS:
        raise ConfigError(
            f"model.task must be one of {', '.join(TASKS)}, got {config.task!r}.{did_you_mean(config.task, TASKS)}"
        )
    if config.task != WRITE and config.image is None:
        raise ConfigError(f"model.task={config.task} is for images, and model.image is none: set model.image.kind.")
    check_copying(config)


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


def build_answerer(config: ModelConfig, words: int, answers: int) -> Answerer:
    """Make an image encoder and what answers over it; weights are drawn from torch's generator."""
    model = make_answerer(config, words, answers)
    model.draw()
    return model


def build_detector(config: ModelConfig, classes: int) -> Detector:
    """Make an image encoder and object queries over it; weights are drawn from torch's generator."""
    model = make_detector(config, classes)
    model.draw()
    return model
