"""The Transformer: its encoder, and its decoder, which without an encoder is a language model."""

from typing import NamedTuple, cast

import torch
from torch import nn

from regard.attention import Attention
from regard.attention.attention import add_extras
from regard.attention.build import check_pruned
from regard.batched_weight_gradients import as_multiplied
from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.masks import erase
from regard.models.bridge import mean_state
from regard.models.output_layer import make_output
from regard.models.protocol import Decoder, Encoded, Encoder, Step, Summary, TeacherForced, index_state
from regard.models.registries import DecoderParts, decoders, encoders
from regard.models.transformer_layer import (
    DecoderLayer,
    EncoderLayer,
    LayerState,
    LayerStepped,
    check_layers,
)
from regard.shapes import Bool, Float, Int, Place, Tensor


@encoders.register("transformer")
class TransformerEncoder(Encoder):
    """Layers of self-attention over the source (Vaswani et al. 2017, section 3.1).

    With `norm=pre` a final norm follows the layers, whose sums would grow otherwise. The summary, for decoders that
    start from one (Chen et al. 2018) or have nothing else, is the mean of the states, as one layer.
    Differs from the paper: any score, reach, focus and kind of positions; the projections of heads have biases.
    """

    def __init__(self, model: ModelConfig, dropout: Dropout) -> None:
        super().__init__()
        check_layers(model, "encoder")
        config = model.encoder
        check_pruned(model.self_attention, "model.self_attention", _most_layers(model))
        self.state_width = config.width
        self.summary = Summary("", layers=1, width=config.width)
        self.layers = nn.ModuleList(EncoderLayer(model, dropout, layer) for layer in range(config.layers))
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else None

    @property
    def own_attentions(self) -> list[Attention]:
        """The self-attention of each layer."""
        return [cast(EncoderLayer, layer).self_attention for layer in self.layers]

    def forward(
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> Encoded:
        """Encode the embedded source; padding enters and leaves as zero, whatever it contains."""
        states = erase(embedded, mask)
        for layer in self.layers:
            states = layer(states, mask)
        states = states if self.norm is None else self.norm(states)
        encoded = Encoded(erase(states, mask), mask, states[:, :0])
        return encoded._replace(summary=mean_state(encoded)[:, None])


class TransformerState(NamedTuple):
    """What is carried from step to step: the KV cache of each layer."""

    layers: tuple[LayerState, ...]
    """One for each layer, lowest first."""
    position: Place
    """Number of steps so far."""
    mask: Bool[Tensor, "B S"]


@decoders.register("transformer")
class TransformerDecoder(Decoder[TransformerState]):
    """Layers that attend to the steps before and to the source (Vaswani et al. 2017, section 3.1).

    Teacher forcing runs all steps at once. When decoding, keys and values of earlier steps are cached. Without an
    encoder (`model.encoder.kind=none`) it is the language model of Radford et al. 2018.
    Differs from the paper: as the encoder does; and the output layer has a bias.
    """

    grows = True

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        super().__init__()
        check_layers(model, "decoder")
        config = model.decoder
        if model.attention is None and parts.state_width:
            raise ConfigError(
                "A transformer decoder reads the source only by attention, but model.attention is none: give it "
                "attention, or set model.encoder.kind=none for a language model."
            )
        check_pruned(model.self_attention, "model.self_attention", _most_layers(model))
        if model.attention is not None:
            check_pruned(model.attention, "model.attention", config.layers)
        self.embedding = parts.embedding
        self.dropout = parts.dropout
        self.stack = nn.ModuleList(
            DecoderLayer(model, parts.state_width, parts.dropout, layer) for layer in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else None
        fix = f"set model.embedding={config.width}"
        self.output = make_output(config.width, parts, tied=model.tie != "none", fix=fix)

    @property
    def layers(self) -> list[DecoderLayer]:
        """The layers of the stack, lowest first."""
        return cast(list[DecoderLayer], list(self.stack))

    @property
    def most(self) -> int | None:
        """Maximum target length: the number of positions, if they are learned."""
        return self.embedding.longest

    @property
    def source_attentions(self) -> list[Attention]:
        """The attention to the source of each layer; none in a language model."""
        return [layer.attention for layer in self.layers if layer.attention is not None]

    @property
    def own_attentions(self) -> list[Attention]:
        """The self-attention of each layer."""
        return [layer.self_attention for layer in self.layers]

    def start(self, encoded: Encoded) -> TransformerState:
        """Compute each layer's keys and values of the source."""
        states = as_multiplied(encoded.states)  # once for all layers
        layers = tuple(layer.start(states, encoded.mask) for layer in self.layers)
        return TransformerState(layers, 0, encoded.mask)

    def steady(self, encoded: Encoded, steps: int, copies: int) -> TransformerState | None:
        """Preallocate the KV cache of each layer."""
        if not all(layer.is_steady for layer in self.layers):
            return None
        begun, rows = self.start(encoded), len(encoded.mask) * copies
        layers = [layer.steady(own, rows, steps) for layer, own in zip(self.layers, begun.layers, strict=True)]
        none_yet = torch.zeros((), dtype=torch.long, device=encoded.mask.device)
        carried = [layer._replace(carry=layer.carry._replace(position=none_yet)) for layer in layers]
        return TransformerState(tuple(carried), none_yet, encoded.mask)

    def step(self, token: Int[Tensor, " B"], state: TransformerState, look: bool = True) -> Step:
        """Run one step with the KV cache."""
        taught, after = self._run(token[:, None], state, look)
        weights = None if taught.weights is None else taught.weights[:, 0]
        features = taught.features[:, 0]
        return Step(self.project(features), after, weights, features)

    def reorder(self, state: TransformerState, rows: Int[Tensor, " N"]) -> TransformerState:
        """Select rows of the whole state."""
        return index_state(state, rows)  # type: ignore[no-any-return]

    def reorder_within(self, state: TransformerState, rows: Int[Tensor, " N"]) -> TransformerState:
        """Select rows of what differs between the hypotheses of one source."""
        layers = [
            layer._replace(past=index_state(layer.past, rows), carry=index_state(layer.carry, rows))
            for layer in state.layers
        ]
        return state._replace(layers=tuple(layers))

    def alone(self, state: TransformerState, rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> TransformerState:
        """Replace each layer's attention to the source by its context for one position."""
        layers = [layer.alone(own, rows, places) for layer, own in zip(self.layers, state.layers, strict=True)]
        return TransformerState(tuple(layers), state.position, state.mask[rows])

    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded, look: bool = True) -> TeacherForced:
        """Run over given tokens, all at once."""
        return self._run(tokens, self.start(encoded), look)[0]

    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Apply the output layer."""
        logits: Tensor = self.output(features)
        return logits

    def _run(
        self, tokens: Int[Tensor, "B T"], state: TransformerState, look: bool
    ) -> tuple[TeacherForced, TransformerState]:
        below = self.dropout(self.embedding(tokens, state.position))
        stepped: list[LayerStepped] = []
        for layer, before in zip(self.layers, state.layers, strict=True):
            stepped.append(layer(below, before, state.position, look or (self.tells_last and layer is self.layers[-1])))
            below = stepped[-1].outputs
        features = below if self.norm is None else self.norm(below)
        found = [layer.weights for layer in stepped if layer.weights is not None]
        no_layers = features.new_zeros(*tokens.shape, 0, 1, state.mask.shape[1])
        weights = torch.stack(found, dim=2) if found else no_layers
        after = TransformerState(tuple(layer.state for layer in stepped), state.position + tokens.shape[1], state.mask)
        kept = weights if look or self.tells_last else None
        return TeacherForced(features, kept, add_extras([layer.extras for layer in stepped])), after


def _most_layers(model: ModelConfig) -> int:
    """Return the number of layers of the deeper side; both sides share `model.self_attention`."""
    sides = (model.encoder, model.decoder)
    return max(side.layers for side in sides if side.kind == "transformer")
