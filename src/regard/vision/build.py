"""From a configuration to a model that reads images, with its first weights."""

from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.models.build import check_model, make_embedding, make_position
from regard.models.registries import Parts, decoders
from regard.vision.captioner import Captioner
from regard.vision.classifier import Classifier
from regard.vision.detection.detector import Detector, make_detector
from regard.vision.encoder import ImageEncoder
from regard.vision.initialisation import draw
from regard.vision.questions.base import Answerer
from regard.vision.questions.build import make_answerer


def build_captioner(config: ModelConfig, target_size: int) -> Captioner:
    """Make an image encoder, and a decoder as a translator has one; weights are drawn from torch's generator."""
    model = make_captioner(config, target_size)
    draw(model)
    return model


def make_captioner(config: ModelConfig, target_size: int) -> Captioner:
    """Make the same model without first weights."""
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
    model = make_classifier(config, classes)
    draw(model)
    return model


def make_classifier(config: ModelConfig, classes: int) -> Classifier:
    """Make the same model without first weights."""
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
