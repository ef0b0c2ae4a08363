"""Base class of the recurrent decoders: embeddings, layers, attention, a readout and the output layer."""

from contextlib import AbstractContextManager
from typing import ClassVar, NamedTuple, cast

import torch
from torch import nn

from regard.attention import Attended, Attention, Carry, Extras, Memory, build_attention
from regard.attention.attention import join_extras
from regard.attention.build import check_pruned
from regard.batched_weight_gradients import decoder_loop
from regard.config import DecoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.readout import Readout
from regard.layers.rnn_cells import Cell, CellState, cells
from regard.models.bridge import Bridge
from regard.models.output_layer import make_output
from regard.models.protocol import Decoder, Encoded, Step, TeacherForced, index_state
from regard.models.registries import DecoderParts
from regard.models.tape_attention import TapeAttention
from regard.shapes import Bool, Float, Int, Tensor


class Past(NamedTuple):
    """The earlier states that a decoder with self-attention keeps."""

    memory: Memory | None
    """All steps so far; None before the first."""
    seen: Float[Tensor, "B D"]
    """The last context of the self-attention."""


class RecurrentState(NamedTuple):
    """What is carried from step to step."""

    cells: tuple[CellState, ...]
    """One for each layer, lowest first."""
    memory: Memory | None
    """The source's keys and values; None without attention."""
    carry: Carry
    """What the last attention step left for the next."""
    fixed: Float[Tensor, "B E"]
    """The encoder's last state, which a decoder without attention uses as context."""
    fed: Float[Tensor, "B F"]
    """What the previous step feeds into this one (of width zero without input feeding)."""
    mask: Bool[Tensor, "B S"]
    past: tuple[Past, ...] = ()
    """Earlier states, for each layer with self-attention."""


class RecurrentDecoder(Decoder[RecurrentState]):
    """Base of the decoders that attend and step in different orders."""

    goes_on: ClassVar[bool] = False
    """Whether it takes over the encoder's last states unchanged, where they fit."""
    needs_source: ClassVar[bool] = True
    """Whether every step needs something from a source."""
    readout: Readout

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        super().__init__()
        config = model.decoder
        _check_rates(config)
        if model.attention is not None:
            check_pruned(model.attention, "model.attention", layers=1)
        self.embedding = parts.embedding
        self.attention = self._build_attention(model, parts)
        self.context_width = (
            parts.summary.width * parts.summary.directions if self.attention is None else self.attention.context_width
        )
        if self.needs_source and not self.context_width:
            raise ConfigError(
                f"The {config.kind} decoder reads from a source at every step, but model.encoder.kind=none has no "
                "source: set model.decoder.kind=luong, looking-back, lstmn or transformer."
            )
        self.bridge = Bridge(parts.summary, parts.state_width, config, self.attention is not None, goes_on=self.goes_on)
        self.summary = parts.summary
        self.dropout = parts.dropout
        self.context_dropout = Dropout(config.context_dropout, model.variational)
        before_output = model.dropout if config.output_dropout < 0 else config.output_dropout
        self.output_dropout = Dropout(before_output, model.variational)
        self.residual = config.residual

    def _build_attention(self, model: ModelConfig, parts: DecoderParts) -> Attention | TapeAttention | None:
        """Build the attention to the source, with queries as wide as a state."""
        if model.attention is None:
            return None
        return build_attention(model.attention, model.decoder.width, parts.state_width)

    def _make_stack(self, config: DecoderConfig, first_width: int, upper_width: int) -> None:
        """Build the cells, given the input widths of the lowest and of the upper ones."""
        widths = [first_width] + [upper_width] * (config.layers - 1)
        self.stack = nn.ModuleList(cells[config.cell](width, config.width) for width in widths)

    @property
    def layers(self) -> list[Cell]:
        """The cells of the stack, lowest first."""
        return cast(list[Cell], list(self.stack))

    def _make_output(self, model: ModelConfig, parts: DecoderParts) -> None:
        """Build the output layer over the readout, which the subclass has set."""
        width = parts.embedding.embedding_dim
        fix = f"set model.decoder.readout_width={width} (with model.decoder.readout=maxout or tanh)"
        self.output = make_output(self.readout.output_width, parts, tied=model.tie != "none", fix=fix)

    @property
    def most(self) -> int | None:
        """Maximum target length: the number of positions, if they are learned."""
        return self.embedding.longest

    @property
    def source_attentions(self) -> list[Attention]:
        """The attention to the source, if there is any."""
        inner = self.attention.attention if isinstance(self.attention, TapeAttention) else self.attention
        return [] if inner is None else [inner]

    def start(self, encoded: Encoded) -> RecurrentState:
        """Compute the source's keys and values, and the initial state from its last states."""
        memory = None if self.attention is None else self._remember(self.attention, encoded)
        batch = encoded.states.shape[0]
        fixed = (
            encoded.summary[:, self.summary.layers - 1] if self.summary.layers else encoded.states.new_zeros(batch, 0)
        )
        fed = encoded.states.new_zeros(batch, self._fed_width())
        return RecurrentState(self.bridge(encoded), memory, Carry(), fixed, fed, encoded.mask)

    def steady(self, encoded: Encoded, steps: int, copies: int) -> RecurrentState | None:
        """Start each hypothesis; the source's keys and values are stored once per source."""
        if self.attention is not None and not (isinstance(self.attention, Attention) and self.attention.steady):
            return None
        begun = self.start(encoded)
        if begun.past:
            return None
        state = self.reorder(
            begun, torch.arange(len(encoded.mask), device=encoded.mask.device).repeat_interleave(copies)
        )
        none_yet = torch.zeros((), dtype=torch.long, device=encoded.mask.device)
        return state._replace(memory=begun.memory, carry=Carry(none_yet))

    def _remember(self, attention: Attention | TapeAttention, encoded: Encoded) -> Memory:
        assert isinstance(attention, Attention)
        return attention.remember(self.context_dropout(encoded.states), encoded.mask)

    def _fed_width(self) -> int:
        return 0

    def reorder(self, state: RecurrentState, rows: Int[Tensor, " N"]) -> RecurrentState:
        """Select rows of the whole state."""
        return index_state(state, rows)  # type: ignore[no-any-return]

    def reorder_within(self, state: RecurrentState, rows: Int[Tensor, " N"]) -> RecurrentState:
        """Select rows of what differs between the hypotheses of one source."""
        cells, carry, fed, past = index_state((state.cells, state.carry, state.fed, state.past), rows)
        return state._replace(cells=cells, carry=carry, fed=fed, past=past)

    def alone(self, state: RecurrentState, rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> RecurrentState:
        """Drop the memory: the value at one position becomes the fixed context."""
        if self.attention is None or state.memory is None:
            return self.reorder(state, rows)
        seen = self.attention.alone(state.memory, rows, places)
        return self.reorder(state._replace(memory=None), rows)._replace(fixed=seen)

    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Apply the output layer."""
        logits: Tensor = self.output(features)
        return logits

    def step(self, token: Int[Tensor, " B"], state: RecurrentState, look: bool = True) -> Step:
        """Run one step: `_run` over one token."""
        look = look or self.tells_last
        taught, after = self._run(token[:, None], state, look)
        weights = taught.weights[:, 0] if look and taught.weights is not None else None
        features = taught.features[:, 0]
        return Step(self.project(features), after, weights, features)

    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded, look: bool = True) -> TeacherForced:
        """Run over given tokens."""
        return self._run(tokens, self.start(encoded), look or self.tells_last)[0]

    def _run(
        self, tokens: Int[Tensor, "B T"], state: RecurrentState, look: bool
    ) -> tuple[TeacherForced, RecurrentState]:
        raise NotImplementedError

    def _looping(self, tokens: Int[Tensor, "B T"], state: RecurrentState) -> AbstractContextManager[None]:
        """Run a loop over tokens in which every step attends to the same memory."""
        memory = () if state.memory is None else (state.memory.keys, state.memory.values)
        return decoder_loop(tokens.shape[1], *memory)

    def _look(self, query: Float[Tensor, "B T Q"], state: RecurrentState, look: bool = True) -> Attended:
        """Attend with queries; without attention, the context is the fixed vector."""
        if self.attention is None or state.memory is None:
            carry = Carry(state.carry.position + query.shape[1])
            return Attended(state.fixed[:, None].expand(-1, query.shape[1], -1), None, carry)
        attended: Attended = self.attention(query, state.memory, state.carry, look)
        return attended

    def _taught(self, features: Float[Tensor, "B T D"], looks: list[Attended], state: RecurrentState) -> TeacherForced:
        """Join the results of consecutive steps, or take that of one call over all steps."""
        if self.attention is None:
            weights = features.new_zeros(*features.shape[:2], 0, 1, state.mask.shape[1])
            return TeacherForced(features, weights)
        found = [attended.weights for attended in looks if attended.weights is not None]
        stacked = torch.cat(found, dim=1)[:, :, None] if found else None
        return TeacherForced(features, stacked, join_extras([attended.extras for attended in looks]))

    def _climb(
        self, lowest: CellState, state: tuple[CellState, ...], scales: list[Tensor], t: int
    ) -> tuple[tuple[CellState, ...], Float[Tensor, "B D"]]:
        """Run one step of the layers above the lowest; return the new states of all and the output of the topmost.

        `scales` is the dropout between layers. A residual is added to a layer's output, not to its recurrent state (Wu
        et al. 2016, section 3.1).
        """
        after, below = [lowest], lowest.hidden
        for depth in range(1, len(self.layers)):
            dropped = scaled(below, scales[depth - 1], t)
            cell = self.layers[depth](self.layers[depth].inputs(dropped), state[depth])
            after.append(cell)
            below = cell.hidden + dropped if self.residual else cell.hidden
        return tuple(after), below

    def _run_layers(self, embedded: Float[Tensor, "B T E"], state: RecurrentState) -> Float[Tensor, "B T D"]:
        """Run all layers over all steps, each in one call; return the output of the topmost."""
        outputs = embedded
        for depth, layer in enumerate(self.layers):
            entering = outputs if depth == 0 else self.dropout(outputs)
            outputs = layer.run(entering, state.cells[depth])
            if self.residual and depth > 0:
                outputs = outputs + entering
        return outputs

    def _scales_between_layers(self, tokens: Int[Tensor, "B T"], width: int) -> list[Tensor]:
        like = self.embedding.weight.new_empty(1).expand(*tokens.shape, width)
        return [self.dropout.scales(like) for _ in range(len(self.stack) - 1)]


def join_steps(steps: list[Extras]) -> Extras:
    """Concatenate the extras of steps; a step without any, as it had nothing to attend to, counts as zero."""
    parts = [[part for part in kind if part is not None] for kind in zip(*steps, strict=True)]
    whole = (
        step._replace(
            **{
                name: torch.zeros_like(told[0])
                for name, told, part in zip(Extras._fields, parts, step, strict=True)
                if part is None and told
            }
        )
        for step in steps
    )
    return join_extras(list(whole))


def scaled(step: Float[Tensor, "B D"], scales: Float[Tensor, "B T D"], t: int) -> Float[Tensor, "B D"]:
    """Apply the dropout of step t; variational dropout has one mask for all steps."""
    return step * scales[:, min(t, scales.shape[1] - 1)]


def _check_rates(config: DecoderConfig) -> None:
    if not 0.0 <= config.context_dropout < 1.0:
        raise ConfigError(
            f"model.decoder.context_dropout must be at least 0 and below 1, got {config.context_dropout}."
        )
    if not (0.0 <= config.output_dropout < 1.0 or config.output_dropout == -1.0):
        raise ConfigError(
            "model.decoder.output_dropout must be at least 0 and below 1, or -1 to use model.dropout, got "
            f"{config.output_dropout}."
        )
