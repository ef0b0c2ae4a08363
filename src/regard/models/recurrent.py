"""What the recurrent decoders share: embeddings, layers, a way to look, a readout and the output layer."""

from typing import Any, NamedTuple, cast

import torch
from torch import nn

from regard.attention import Attended, Attention, Carry, Memory, build_attention, join_extras
from regard.config import ModelConfig
from regard.layers.cells import Cell, CellState, cells
from regard.layers.readout import Readout
from regard.models.bridge import Bridge
from regard.models.output import make_output
from regard.models.protocol import Decoder, Encoded, Step, Taught
from regard.models.registries import Parts
from regard.shapes import Bool, Float, Int, Tensor


class RecurrentState(NamedTuple):
    """What is carried from step to step."""

    cells: tuple[CellState, ...]
    """One for each layer, from below."""
    memory: Memory | None
    """What can be looked at; None without attention."""
    carry: Carry
    """What the last look left for the next."""
    fixed: Float[Tensor, "B E"]
    """The encoder's last state: what a decoder without attention has of the source."""
    fed: Float[Tensor, "B F"]
    """What the step before feeds into this one (of no width without input feeding)."""
    mask: Bool[Tensor, "B S"]


class RecurrentDecoder(Decoder[RecurrentState]):
    """Base of the decoders that step and look in different orders."""

    readout: Readout

    def __init__(self, model: ModelConfig, parts: Parts, first_width: int) -> None:
        """`first_width` is the width of what enters the lowest layer at every step outside the recurrence."""
        super().__init__()
        config = model.decoder
        self.embedding = parts.embedding
        self.attention: Attention | None = None
        self.context_width = parts.summary.width * parts.summary.directions
        if model.attention is not None:
            self.attention = build_attention(model.attention, config.width, parts.state_width)
            self.context_width = self.attention.context_width
        self.bridge = Bridge(parts.summary, parts.state_width, config, self.attention is not None)
        self.summary = parts.summary
        self.dropout = parts.dropout
        self.residual = config.residual
        widths = [first_width] + [config.width] * (config.layers - 1)
        self.stack = nn.ModuleList(cells[config.cell](width, config.width) for width in widths)

    @property
    def layers(self) -> list[Cell]:
        """The cells of the stack, from below."""
        return cast(list[Cell], list(self.stack))

    def _make_output(self, model: ModelConfig, parts: Parts) -> None:
        """Make the output layer over the readout, which the subclass has set."""
        width = parts.embedding.embedding_dim
        fix = f"set model.decoder.readout_width={width} (with model.decoder.readout=maxout or tanh)"
        self.output = make_output(self.readout.output_width, parts, tied=model.tie != "none", fix=fix)

    def start(self, encoded: Encoded) -> RecurrentState:
        """Remember the source and carry its last states over."""
        memory = None if self.attention is None else self.attention.remember(encoded.states, encoded.mask)
        batch = encoded.states.shape[0]
        fixed = (
            encoded.summary[:, self.summary.layers - 1] if self.summary.layers else encoded.states.new_zeros(batch, 0)
        )
        fed = encoded.states.new_zeros(batch, self._fed_width())
        return RecurrentState(self.bridge(encoded), memory, Carry(), fixed, fed, encoded.mask)

    def _fed_width(self) -> int:
        return 0

    def reorder(self, state: RecurrentState, rows: Int[Tensor, " N"]) -> RecurrentState:
        """Pick rows of everything."""
        return pick(state, rows)  # type: ignore[no-any-return]

    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Apply the output layer."""
        logits: Tensor = self.output(features)
        return logits

    def step(self, token: Int[Tensor, " B"], state: RecurrentState) -> Step:
        """Take one step: the first of a run over one token."""
        taught, after = self._run(token[:, None], state, look=True)
        assert taught.weights is not None
        return Step(self.project(taught.features[:, 0]), after, taught.weights[:, 0])

    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded, look: bool = True) -> Taught:
        """Run over given tokens."""
        return self._run(tokens, self.start(encoded), look)[0]

    def _run(self, tokens: Int[Tensor, "B T"], state: RecurrentState, look: bool) -> tuple[Taught, RecurrentState]:
        raise NotImplementedError

    def _look(self, query: Float[Tensor, "B T Q"], state: RecurrentState, look: bool = True) -> Attended:
        """Look with queries; without attention, what is seen is the fixed vector."""
        if self.attention is None or state.memory is None:
            carry = Carry(state.carry.position + query.shape[1])
            return Attended(state.fixed[:, None].expand(-1, query.shape[1], -1), None, carry)
        attended: Attended = self.attention(query, state.memory, state.carry, look)
        return attended

    def _taught(self, features: Float[Tensor, "B T D"], looks: list[Attended], state: RecurrentState) -> Taught:
        """Put together what looks at consecutive steps, or one look at all of them, have yielded."""
        if self.attention is None:
            weights = features.new_zeros(*features.shape[:2], 0, 1, state.mask.shape[1])
            return Taught(features, weights)
        found = [attended.weights for attended in looks if attended.weights is not None]
        stacked = torch.cat(found, dim=1)[:, :, None] if found else None
        return Taught(features, stacked, join_extras([attended.extras for attended in looks]))

    def _climb(
        self, entering: Float[Tensor, "B G"], state: tuple[CellState, ...], scales: list[Tensor], t: int
    ) -> tuple[tuple[CellState, ...], Float[Tensor, "B D"]]:
        """Take one step of all layers: their new states, and what leaves the topmost.

        `entering` is the input side of the lowest, `scales` the dropout between. A residual is added to what leaves a
        layer, not to what it carries on (Wu et al. 2016, section 3.1).
        """
        lowest = self.layers[0](entering, state[0])
        after, below = [lowest], lowest.hidden
        for depth in range(1, len(self.layers)):
            scale = scales[depth - 1]
            dropped = below * scale[:, min(t, scale.shape[1] - 1)]
            cell = self.layers[depth](self.layers[depth].inputs(dropped), state[depth])
            after.append(cell)
            below = cell.hidden + dropped if self.residual else cell.hidden
        return tuple(after), below

    def _scales_between_layers(self, tokens: Int[Tensor, "B T"], width: int) -> list[Tensor]:
        like = self.embedding.weight.new_empty(1).expand(*tokens.shape, width)
        return [self.dropout.scales(like) for _ in range(len(self.layers) - 1)]


def pick(tree: Any, rows: Tensor) -> Any:
    """Pick rows of every tensor of a state: nested tuples of tensors, numbers and None."""
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows)
    if isinstance(tree, tuple):
        picked = [pick(branch, rows) for branch in tree]
        return type(tree)(*picked) if hasattr(tree, "_fields") else tuple(picked)
    return tree
