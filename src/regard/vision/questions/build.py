"""Build a model that answers questions from a configuration."""

from regard.attention.base import coverages
from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.vision.questions import cross_transformer, top_down  # noqa: F401 (importing them registers them)
from regard.vision.questions.base import Answerer, AnswererParts, answerers


def make_answerer(model: ModelConfig, words: int, answers: int) -> Answerer:
    """Build an image encoder and an answerer over it, without initial weights."""
    for name, count in (("word", words), ("answer", answers)):
        if count < 1:
            raise ConfigError(f"An answerer needs at least 1 {name}, got {count}.")
    if not 0.0 <= model.dropout < 1.0:
        raise ConfigError(f"model.dropout must be at least 0 and below 1, got {model.dropout}.")
    _check_looks(model)
    parts = AnswererParts(Dropout(model.dropout, model.variational), words, answers)
    return answerers[model.questions.kind](model, parts)


def _check_looks(model: ModelConfig) -> None:
    """Refuse attention that depends on earlier steps: questions about an image attend as if they were independent."""
    for name, instead in (("coverage", "none"), ("reach", "global")):
        got = getattr(model.attention, name, instead)
        if got in (*coverages, "local-m"):
            raise ConfigError(
                f"model.attention.{name}={got} depends on earlier attention steps, so questions about one image would "
                f"change each other's answers: set model.attention.{name}={instead}."
            )
