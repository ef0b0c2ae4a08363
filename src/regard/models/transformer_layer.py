"""The layers of a Transformer: each sublayer's input is added to its output."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from regard.attention import Attended, Attention, Carry, Extras, Memory, build_attention
from regard.attention.attention import add_extras
from regard.batched_weight_gradients import as_multiplied
from regard.config import DecoderConfig, EncoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.models.protocol import index_state
from regard.shapes import Bool, Float, Int, Place, Tensor

NORMS = ("pre", "post")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}


class Residual(nn.Module):
    r"""The residual connection and norm around a sublayer `f` (Vaswani et al. 2017, section 3.1; Xiong et al. 2020).

    .. math:: \mathrm{post}: y = \mathrm{norm}(x + f(x)) \qquad \mathrm{pre}: y = x + f(\mathrm{norm}(x))

    In training, dropout acts on the output of `f` (section 5.4). There are two methods, as sublayers take different
    arguments: `f` gets `enter(x)`, and `leave(x, f(...))` is `y`.
    """

    def __init__(self, width: int, norm: str, dropout: Dropout) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.before = norm == "pre"
        self.dropout = dropout

    def enter(self, inputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the sublayer's input, cast once to the dtype of its matrix products."""
        return as_multiplied(self.norm(inputs) if self.before else inputs)

    def leave(self, inputs: Float[Tensor, "B T D"], outputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Add the sublayer's output to its input."""
        added: Tensor = self.dropout(outputs, inputs)
        return added if self.before else self.norm(added)


class FeedForward(nn.Module):
    r"""The feed-forward network, applied at every position (Vaswani et al. 2017, section 3.3).

    .. math:: f(x) = \max(0, x W_1 + b_1)\, W_2 + b_2

    With `activation=gelu` it is that of Radford et al. 2018. Differs from the paper: there is dropout on its hidden
    units too, as in the authors' own code.
    """

    def __init__(self, config: EncoderConfig | DecoderConfig, dropout: Dropout) -> None:
        super().__init__()
        self.W_1 = nn.Linear(config.width, config.feed_forward)
        self.W_2 = nn.Linear(config.feed_forward, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = dropout

    def forward(self, inputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Apply it to all positions."""
        outputs: Tensor = self.W_2(self.dropout(self.activation(self.W_1(inputs))))
        return outputs


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network (Vaswani et al. 2017, section 3.1)."""

    def __init__(self, model: ModelConfig, dropout: Dropout, layer: int) -> None:
        super().__init__()
        config = model.encoder
        self.self_attention = _look_at_itself(model, config.width, causal=False, layer=layer)
        self.feed_forward = FeedForward(config, dropout)
        self.around_look, self.around_network = (Residual(config.width, config.norm, dropout) for _ in range(2))

    def forward(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Run over a whole sequence."""
        entering = self.around_look.enter(states)
        seen = self.self_attention(entering, self.self_attention.remember(entering, mask), look=False)
        states = self.around_look.leave(states, seen.context)
        return self.around_network.leave(states, self.feed_forward(self.around_network.enter(states)))


class LayerState(NamedTuple):
    """What a decoder layer carries from step to step."""

    past: Memory | None
    """Keys and values of its own past (the KV cache); None before the first step."""
    source: Memory | None
    """Keys and values of the source; None in a language model."""
    carry: Carry = Carry()
    """What the last attention to the source left for the next."""
    seen: Float[Tensor, "B D"] | None = None
    """A fixed context that replaces attention to the source: that of one position."""


class LayerStepped(NamedTuple):
    """Result of a decoder layer for some steps."""

    outputs: Float[Tensor, "B T D"]
    state: LayerState
    weights: Float[Tensor, "B T H S"] | None
    """Attention weights over the source; None in a language model and if not requested."""
    extras: Extras


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, then the feed-forward network (section 3.1).

    A language model has no source and no attention to one.
    """

    def __init__(self, model: ModelConfig, state_width: int, dropout: Dropout, layer: int) -> None:
        super().__init__()
        config = model.decoder
        self.self_attention = _look_at_itself(model, config.width, causal=True, layer=layer)
        self.around_past = Residual(config.width, config.norm, dropout)
        self.attention: Attention | None = None
        if model.attention is not None:
            self.attention = build_attention(model.attention, config.width, state_width, layer=layer)
            _check_context(self.attention, config.width)
            self.around_source = Residual(config.width, config.norm, dropout)
        self.feed_forward = FeedForward(config, dropout)
        self.around_network = Residual(config.width, config.norm, dropout)

    def start(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> LayerState:
        """Compute keys and values of the source, once."""
        return LayerState(None, None if self.attention is None else self.attention.remember(states, mask))

    @property
    def is_steady(self) -> bool:
        """Whether every step is computed the same way, without a host sync."""
        return self.self_attention.steady and (self.attention is None or self.attention.steady)

    def steady(self, state: LayerState, rows: int, steps: int) -> LayerState:
        """Preallocate the KV cache for `steps` steps of `rows` hypotheses."""
        weight = self.around_past.norm.weight
        nothing = weight.new_zeros(rows, steps, len(weight))
        return state._replace(past=self.self_attention.remember(nothing, nothing.new_ones(rows, steps).bool()))

    def alone(self, state: LayerState, rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> LayerState:
        """Return a state with these rows' past that attends to one source position."""
        past: Memory | None = index_state(state.past, rows)
        if self.attention is None or state.source is None:
            return LayerState(past, None)
        return LayerState(past, None, seen=self.attention.alone(state.source, rows, places))

    def forward(self, inputs: Float[Tensor, "B T D"], state: LayerState, position: Place, look: bool) -> LayerStepped:
        """Run some steps, the first of them at `position`."""
        entering = self.around_past.enter(inputs)
        past = self._remember(entering, state.past, position)
        own: Attended = self.self_attention(entering, past, Carry(position), look=False)
        outputs = self.around_past.leave(inputs, own.context)
        state = state._replace(past=past)
        weights, extras = None, [own.extras]
        if self.attention is not None:
            seen = self._look(self.attention, outputs, state, look)
            outputs = self.around_source.leave(outputs, seen.context)
            state = state._replace(carry=seen.carry)
            weights = seen.weights if look else None
            extras.append(seen.extras)
        outputs = self.around_network.leave(outputs, self.feed_forward(self.around_network.enter(outputs)))
        return LayerStepped(outputs, state, weights, add_extras(extras))

    def _look(self, attention: Attention, outputs: Float[Tensor, "B T D"], state: LayerState, look: bool) -> Attended:
        if state.seen is not None:
            return Attended(state.seen[:, None], None, state.carry)
        assert state.source is not None
        attended: Attended = attention(self.around_source.enter(outputs), state.source, state.carry, look)
        return attended

    def _remember(self, entering: Float[Tensor, "B T D"], past: Memory | None, position: Place) -> Memory:
        if past is not None and isinstance(position, Tensor) and not torch.compiler.is_exporting():
            return self.self_attention.enter(past, entering, position)
        if past is not None:
            return self.self_attention.extend(past, entering)
        # Padding is at the end of a target, where no real position attends to it: no mask is needed.
        return self.self_attention.remember(entering, entering.new_ones(entering.shape[:2]).bool())


def check_choices(model: ModelConfig, side: str) -> None:
    """Refuse an unknown norm or activation; `side` is encoder or decoder."""
    config = model.encoder if side == "encoder" else model.decoder
    for setting, got, allowed in (("norm", config.norm, NORMS), ("activation", config.activation, ACTIVATIONS)):
        if got not in allowed:
            raise ConfigError(f"model.{side}.{setting} must be one of {', '.join(allowed)}, got {got!r}.")


def check_layers(model: ModelConfig, side: str) -> None:
    """Refuse sizes that no Transformer layer can have; `side` is encoder or decoder."""
    config = model.encoder if side == "encoder" else model.decoder
    if config.feed_forward < 1:
        raise ConfigError(f"model.{side}.feed_forward must be at least 1, got {config.feed_forward}.")
    if config.width != model.embedding:
        raise ConfigError(
            f"model.{side}.width is {config.width} and model.embedding is {model.embedding}: a transformer adds the "
            "outputs of its layers to its embeddings, so set both to the same."
        )


def _look_at_itself(model: ModelConfig, width: int, *, causal: bool, layer: int) -> Attention:
    return build_attention(
        model.self_attention, width, width, itself=True, causal=causal, position=model.positions, layer=layer
    )


def _check_context(attention: Attention, width: int) -> None:
    """Refuse a context of the wrong width, which cannot be added; a projected one always fits."""
    if attention.context_width != width:
        raise ConfigError(
            f"model.attention has no projections, so its context is as wide as the encoder's states, "
            f"{attention.context_width}, and cannot be added to the states of a transformer of width {width}: set "
            "model.attention.project=true."
        )
