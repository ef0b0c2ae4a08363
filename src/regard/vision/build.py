"""Build models that read images from a configuration, with initial weights."""

from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.models.build import check_model, make_embedding, make_position
from regard.models.registries import DecoderParts, decoders
from regard.vision.captioner import Captioner
from regard.vision.classifier import Classifier
from regard.vision.detection.detector import Detector, make_detector
from regard.vision.encoder import ImageEncoder
from regard.vision.initialisation import draw
from regard.vision.questions.base import Answerer
from regard.vision.questions.build import make_answerer


def build_captioner(config: ModelConfig, target_size: int) -> Captioner:
    """Build an image encoder with a translator's decoder; weights are sampled from torch's generator."""
    model = make_captioner(config, target_size)
    draw(model)
    return model


def make_captioner(config: ModelConfig, target_size: int) -> Captioner:
    """Build the same model without initial weights."""
    if config.encoder.kind != "none":
        raise ConfigError(
            f"A captioner reads an image and no text, but model.encoder.kind is {config.encoder.kind}: set it to none."
        )
    check_model(config, target_size, target_size)
    dropout = Dropout(config.dropout, config.variational)
    embedding = make_embedding(config, target_size, config.decoder.kind, make_position(config))
    encoder = ImageEncoder(config, dropout)
    parts = DecoderParts(embedding, dropout, encoder.state_width, encoder.summary, target_size)
    return Captioner(encoder, decoders[config.decoder.kind](config, parts), dropout)


def build_classifier(config: ModelConfig, classes: int) -> Classifier:
    """Build an image encoder with a linear map to classes; weights are sampled from torch's generator."""
    model = make_classifier(config, classes)
    draw(model)
    return model


def make_classifier(config: ModelConfig, classes: int) -> Classifier:
    """Build the same model without initial weights."""
    if classes < 1:
        raise ConfigError(f"A classifier needs at least 1 class, got {classes}.")
    if not 0.0 <= config.dropout < 1.0:
        raise ConfigError(f"model.dropout must be at least 0 and below 1, got {config.dropout}.")
    dropout = Dropout(config.dropout, config.variational)
    return Classifier(ImageEncoder(config, dropout), classes, dropout)


def build_answerer(config: ModelConfig, words: int, answers: int) -> Answerer:
    """Build a question answering model over an image encoder; weights are sampled from torch's generator."""
    model = make_answerer(config, words, answers)
    model.draw()
    return model


def build_detector(config: ModelConfig, classes: int) -> Detector:
    """Build an image encoder with object queries; weights are sampled from torch's generator."""
    model = make_detector(config, classes)
    model.draw()
    return model
