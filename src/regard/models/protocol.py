"""The interface between encoders, decoders, and everything that trains or searches with them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import nn

from regard.attention import Attention, Extras
from regard.errors import ModelError
from regard.shapes import Bool, Float, Int, Tensor


class Encoded(NamedTuple):
    """Output of an encoder: states to attend to, which of them are real, and a summary to start a decoder from."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    summary: Float[Tensor, "B L E"]
    """The final state of each layer, lowest first (an LSTM's memories follow its hidden states, as further layers)."""
    memories: Float[Tensor, "B S D"] | None = None
    """The memory behind each state, where the encoder keeps them all (LSTMN)."""
    tokens: Int[Tensor, "B S"] | None = None
    """The source tokens in their original order, for decoders that copy."""


class Summary(NamedTuple):
    """Contents of an encoder's summary."""

    cell: str
    """Name of the recurrent cell whose final states it holds; empty if it is not from a recurrent cell."""
    layers: int
    width: int
    """Width of one direction."""
    directions: int = 1

    @property
    def has_memory(self) -> bool:
        """Whether the memories of LSTM cells follow the hidden states."""
        return self.cell == "lstm"


class Encoder(nn.Module, ABC):
    """Encodes an embedded source."""

    state_width: int
    summary: Summary
    asks_lengths: ClassVar[bool] = False
    """Whether it needs the source lengths on the host."""

    @property
    def own_attentions(self) -> list[Attention]:
        """The self-attention modules, lowest first; those of a Transformer."""
        return []

    @abstractmethod
    def forward(
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> Encoded:
        """Encode the embedded source; the result for a row depends on its real positions alone.

        `lengths` are those of the mask, on the host: an encoder that needs them there avoids a host sync.
        """


State = TypeVar("State")


class Step(NamedTuple):
    """Result of one decoder step."""

    logits: Float[Tensor, "B W"]
    state: Any
    """State for the next step, of the decoder's own type."""
    weights: Float[Tensor, "B L H S"] | None
    """Attention weights per layer and head; no layers (`L = 0`) without attention; None if not requested."""
    features: Float[Tensor, "B D"] | None = None
    """Input of the output layer."""


class Copied(NamedTuple):
    """The copying part of a pointer-generator: how much of the distribution comes from which source tokens."""

    generated: Float[Tensor, "*B T"]
    """Probability mass left to the output layer."""
    shares: Float[Tensor, "*B T S"]
    """Probability mass that each source position gives to its token; zero where it cannot be copied."""
    words: Int[Tensor, "*B S"]
    """The target token at each source position, whether it can be copied or not."""

    def of(self, targets: Int[Tensor, "*B T"]) -> Float[Tensor, "*B T"]:
        """Return the probability that copying gives to each of these tokens."""
        return (self.shares * (self.words[..., None, :] == targets[..., None])).sum(dim=-1)


class TeacherForced(NamedTuple):
    """Result of teacher forcing over all steps."""

    features: Float[Tensor, "B T D"]
    """Input of the output layer: `project` computes logits, for all positions or for some."""
    weights: Float[Tensor, "B T L H S"] | None
    """Attention weights per layer and head; None if not requested and not needed."""
    extras: Extras = Extras()
    """What attention adds to the loss."""
    copied: Copied | None = None
    """The copying part of decoders that copy: `logits` includes it, `project` does not."""


class Decoder(nn.Module, ABC, Generic[State]):
    """Interface of decoders. Searches use `start`, `step` and the two ways to reorder; training `teach` and `project`.

    Tracing where a word came from uses `alone` too.

    A `State` is opaque to them. It is never changed in place, so it can be kept, reordered and reused.
    """

    output: nn.Linear
    """The layer that `project` applies; training reads its weights to compute the loss without keeping the logits."""
    grows: bool = False
    """Whether a step of a steady state is slower the more steps it has room for."""
    copies: bool = False
    """Whether it needs the source tokens."""
    tells_last: bool = False
    """Whether it returns the weights of its last layer (as the only layer) if those of all layers are not requested."""

    @property
    def most(self) -> int | None:
        """Maximum number of tokens that it can generate; None if unlimited."""
        return None

    @property
    def source_attentions(self) -> list[Attention]:
        """The attention modules to the source, one for each layer of `Step.weights`; none without attention."""
        return []

    @property
    def own_attentions(self) -> list[Attention]:
        """The self-attention modules whose query number t is that of step t, lowest first; those of a Transformer."""
        return []

    @abstractmethod
    def start(self, encoded: Encoded) -> State:
        """Return the state before the first token."""

    @abstractmethod
    def step(self, token: Int[Tensor, " B"], state: State, look: bool = True) -> Step:
        """Read the last token (first: the start token) and return the logits of the next one.

        With `look=False`, attention weights are computed only where the decoder needs them.
        """

    @abstractmethod
    def reorder(self, state: State, rows: Int[Tensor, " N"]) -> State:
        """Return the state whose row n is row `rows[n]` of the given one; rows may repeat or be left out."""

    def reorder_within(self, state: State, rows: Int[Tensor, " N"]) -> State:
        """Reorder rows among hypotheses of the same source; what depends on the source alone can stay as it is."""
        return self.reorder(state, rows)

    def steady(self, encoded: Encoded, steps: int, copies: int) -> State | None:
        """Return the state before the first token of `copies` hypotheses per sentence, with tensors of fixed shapes.

        It has room for `steps` steps, each of which returns tensors of the same shapes and takes its number as a
        tensor, so that a GPU can replay all steps from one captured CUDA graph. Parts of it change in place. What
        depends on the source is stored once for all its hypotheses. None if steps differ from one another, or need a
        host sync.
        """
        return None

    def alone(self, state: State, rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> State:
        """Return a state whose row n continues row `rows[n]`, but attends to source position `places[n]` alone.

        That holds for every query, layer and head; the state is good for one step. Without attention nothing changes.
        """
        raise ModelError(f"{type(self).__name__} has no `alone`, which tracing where a word came from needs.")

    @abstractmethod
    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded, look: bool = True) -> TeacherForced:
        """Teacher forcing: run over given tokens (the start token first), in parallel wherever the model allows.

        Position t equals what `step` returns after reading `tokens[:, :t + 1]`. With `look=False`, attention weights
        are computed only where the decoder needs them.
        """

    @abstractmethod
    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Compute logits over the vocabulary from features."""

    def logits(self, taught: TeacherForced, real: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "*N W"]:
        """Return logits at every position of `teach`, or at the real ones only: what `step` returns there."""
        return self.project(taught.features if real is None else taught.features[real])

    def copied_as(self, source: Sequence[int]) -> list[int]:
        """Return the target tokens that it can copy from a source; none unless it copies."""
        return []


def index_state(tree: Any, rows: Tensor) -> Any:
    """Select rows of every tensor of a state: nested tuples of tensors, numbers (or scalar tensors) and None."""
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows) if tree.dim() else tree
    if isinstance(tree, tuple):
        picked = [index_state(branch, rows) for branch in tree]
        return type(tree)(*picked) if hasattr(tree, "_fields") else tuple(picked)
    return tree


def leaves(tree: Any) -> Iterator[Tensor]:
    """Yield the tensors of a state."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple):
        for branch in tree:
            yield from leaves(branch)
