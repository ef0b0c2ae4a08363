"""What CTranslate2 can represent: Transformers with softmax over inner products, and some kinds of positions."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from regard.config import AttentionConfig, ModelConfig
from regard.errors import ConfigError

SCORES = ("scaled-dot", "dot", "general")
"""Scores that are inner products of linear maps; the maps and temperatures are folded into the projections."""
POSITIONS = ("none", "sinusoidal", "learned", "rotary", "shaw")


class Limit(NamedTuple):
    """A setting, its value, and those that CTranslate2 has."""

    setting: str
    value: Any
    allowed: tuple[Any, ...]


def check_representable(model: ModelConfig) -> None:
    """Raise a ConfigError that names the first setting which CTranslate2 has no counterpart for."""
    for setting, value, allowed in _limits(model):
        if value not in allowed:
            only = " or ".join(_as_set(one) for one in allowed)
            raise ConfigError(
                f"CTranslate2 cannot represent this model: {setting} is {_as_set(value)}, and it has only {only}. "
                "Export it to ONNX instead: leave out --format."
            )


def _limits(model: ModelConfig) -> Iterator[Limit]:
    yield Limit("model.image", None if model.image is None else model.image.kind, (None,))
    yield Limit("model.task", model.task, ("write",))
    yield Limit("model.encoder.kind", model.encoder.kind, ("transformer",))
    yield Limit("model.decoder.kind", model.decoder.kind, ("transformer",))
    yield Limit("model.copy", model.copy, (False,))
    yield Limit("model.reverse_source", model.reverse_source, (False,))
    yield Limit("model.positions", model.positions, POSITIONS)
    assert model.attention is not None  # a Transformer decoder reads its source by nothing else
    yield from _of_attention("model.attention", model.attention, model.decoder.width)
    yield from _of_attention("model.self_attention", model.self_attention, model.decoder.width)
    yield Limit("model.attention.heads", model.attention.heads, (model.self_attention.heads,))


def _of_attention(name: str, config: AttentionConfig, width: int) -> Iterator[Limit]:
    yield Limit(f"{name}.score", config.score, SCORES)
    yield Limit(f"{name}.focus", config.focus, ("softmax",))
    yield Limit(f"{name}.reach", config.reach, ("global",))
    yield Limit(f"{name}.coverage", config.coverage, ("none",))
    yield Limit(f"{name}.head_width", config.head_width, (0, width // config.heads))


def _as_set(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
