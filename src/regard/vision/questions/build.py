"""From a configuration to a model that answers questions."""

from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.vision.questions import cross, top_down  # noqa: F401 (importing them registers them)
from regard.vision.questions.base import Answerer, Parts, answerers


def make_answerer(model: ModelConfig, words: int, answers: int) -> Answerer:
    """Make an image encoder and what answers over it, without first weights."""
    for name, count in (("word", words), ("answer", answers)):
        if count < 1:
            raise ConfigError(f"An answerer needs at least 1 {name}, got {count}.")
    if not 0.0 <= model.dropout < 1.0:
        raise ConfigError(f"model.dropout must be at least 0 and below 1, got {model.dropout}.")
    parts = Parts(Dropout(model.dropout, model.variational), words, answers)
    return answerers[model.questions.kind](model, parts)
