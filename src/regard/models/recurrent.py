"""What the recurrent decoders share: embeddings, layers, a way to look, a readout and the output layer."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from torch import nn

from regard.attention import Attention, Memory
from regard.config import DecoderConfig
from regard.errors import ConfigError
from regard.layers.cells import Cell, CellState, cells
from regard.layers.dropout import Dropout
from regard.layers.readout import Readout
from regard.models.bridge import Bridge
from regard.models.protocol import Decoder, Encoded, Step, Taught
from regard.registry import Registry
from regard.shapes import Bool, Float, Int, Tensor


class RecurrentState(NamedTuple):
    """What is carried from step to step."""

    cells: tuple[CellState, ...]
    """One for each layer, from below."""
    memory: Memory | None
    """What can be looked at; None without attention."""
    fixed: Float[Tensor, "B E"]
    """The encoder's last state: what a decoder without attention has of the source."""
    fed: Float[Tensor, "B F"]
    """What the step before feeds into this one (of no width without input feeding)."""
    mask: Bool[Tensor, "B S"]
    position: int
    """How many steps were taken."""


class Parts(NamedTuple):
    """The pieces that `regard.models.build` makes a recurrent decoder of."""

    embedding: nn.Embedding
    attention: Attention | None
    bridge: Bridge
    dropout: Dropout
    state_width: int
    """Width of the encoder's states."""
    target_size: int
    tie_output: bool


class RecurrentDecoder(Decoder[RecurrentState]):
    """Base of the decoders that step and look in different orders."""

    readout: Readout

    def __init__(self, config: DecoderConfig, parts: Parts, first_width: int) -> None:
        """`first_width` is the width of what enters the lowest layer at every step outside the recurrence."""
        super().__init__()
        self.embedding = parts.embedding
        self.attention = parts.attention
        self.bridge = parts.bridge
        self.dropout = parts.dropout
        self.residual = config.residual
        widths = [first_width] + [config.width] * (config.layers - 1)
        self.stack = nn.ModuleList(cells[config.cell](width, config.width) for width in widths)

    @property
    def layers(self) -> list[Cell]:
        """The cells of the stack, from below."""
        return cast(list[Cell], list(self.stack))

    def _make_output(self, parts: Parts) -> None:
        """Make the output layer over the readout, which the subclass has set."""
        width = self.readout.output_width
        self.output = nn.Linear(width, parts.target_size)
        if parts.tie_output:
            if width != self.embedding.embedding_dim:
                raise ConfigError(
                    f"model.tie shares the target embeddings ({self.embedding.embedding_dim} wide) with the output "
                    f"layer, which reads {width}: set model.decoder.readout_width={self.embedding.embedding_dim} "
                    "(with model.decoder.readout=maxout or tanh), or model.tie=none."
                )
            self.output.weight = self.embedding.weight

    def start(self, encoded: Encoded) -> RecurrentState:
        """Remember the source and carry its last states over."""
        memory = None if self.attention is None else self.attention.remember(encoded.states, encoded.mask)
        top = encoded.summary.shape[1] // (2 if self.bridge.reads_memory else 1) - 1
        fed = encoded.states.new_zeros(encoded.states.shape[0], self._fed_width())
        return RecurrentState(
            self.bridge(encoded.summary), memory, encoded.summary[:, top], fed, encoded.mask, position=0
        )

    def _fed_width(self) -> int:
        return 0

    def reorder(self, state: RecurrentState, rows: Int[Tensor, " N"]) -> RecurrentState:
        """Pick rows of everything."""
        return _pick(state, rows)  # type: ignore[no-any-return]

    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Apply the output layer."""
        logits: Tensor = self.output(features)
        return logits

    def step(self, token: Int[Tensor, " B"], state: RecurrentState) -> Step:
        """Take one step: the first of a run over one token."""
        taught, after = self._run(token[:, None], state)
        return Step(self.project(taught.features[:, 0]), after, taught.weights[:, 0])

    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded) -> Taught:
        """Run over given tokens."""
        return self._run(tokens, self.start(encoded))[0]

    def _run(self, tokens: Int[Tensor, "B T"], state: RecurrentState) -> tuple[Taught, RecurrentState]:
        raise NotImplementedError

    def _look(self, query: Float[Tensor, "B T Q"], state: RecurrentState) -> tuple[Tensor, Tensor]:
        """Return context "B T V" and weights "B T L H S" for queries; without attention the fixed vector and none."""
        if self.attention is None or state.memory is None:
            batch, steps = query.shape[:2]
            weights = query.new_zeros(batch, steps, 0, 1, state.mask.shape[1])
            return state.fixed[:, None].expand(-1, steps, -1), weights
        context, weights = self.attention(query, state.memory, state.position)
        return context, weights[:, :, None, None]

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


decoders: Registry[Callable[[DecoderConfig, Parts], RecurrentDecoder]] = Registry("decoder", "decoders")


def _pick(tree: Any, rows: Tensor) -> Any:
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows)
    if isinstance(tree, tuple):
        picked = [_pick(branch, rows) for branch in tree]
        return type(tree)(*picked) if hasattr(tree, "_fields") else tuple(picked)
    return tree
