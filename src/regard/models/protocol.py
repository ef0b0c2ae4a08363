"""The contract between encoders, decoders and everything that searches, trains or looks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import nn

from regard.attention import Extras
from regard.errors import ModelError
from regard.shapes import Bool, Float, Int, Tensor


class Encoded(NamedTuple):
    """What an encoder of anything yields: states to look at, which of them are real, and a summary to start from."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    summary: Float[Tensor, "B L E"]
    """The final state of each layer, from below (an LSTM's cell states follow its hidden ones, as further layers)."""
    memories: Float[Tensor, "B S D"] | None = None
    """The memory behind each state, where the encoder keeps them all (LSTMN)."""
    tokens: Int[Tensor, "B S"] | None = None
    """What was read, in its own order, for decoders that copy."""


class Summary(NamedTuple):
    """What an encoder's summary holds."""

    cell: str
    """The kind of cell whose final states it is; empty if it is no cell's."""
    layers: int
    width: int
    """Of one direction."""
    directions: int = 1

    @property
    def has_memory(self) -> bool:
        """Whether the memories of LSTM cells follow the hidden states."""
        return self.cell == "lstm"


class Encoder(nn.Module, ABC):
    """Reads a source that is embedded already."""

    state_width: int
    summary: Summary
    asks_lengths: ClassVar[bool] = False
    """Whether it needs to know on the host how long sources are."""

    @abstractmethod
    def forward(
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> Encoded:
        """Read the embedded source; a row's result depends on its real positions alone.

        `lengths`, if given, tells on the host what the mask tells on the device: who needs it there need not wait.
        """


State = TypeVar("State")


class Step(NamedTuple):
    """What a decoder yields for one step."""

    logits: Float[Tensor, "B W"]
    state: Any
    """What to give to the next step: the decoder's own kind of state."""
    weights: Float[Tensor, "B L H S"] | None
    """Where it looked, per layer and head; no layers (`L = 0`) without attention; None where nobody asked."""
    features: Float[Tensor, "B D"] | None = None
    """What the output layer read."""


class Copied(NamedTuple):
    """What a decoder that copies makes of its looks: a mixture of the output layer's words and the source's."""

    generated: Float[Tensor, "*B T"]
    """How much of the probability is left to the output layer."""
    shares: Float[Tensor, "*B T S"]
    """What each place of the source gives to its token; nothing where that cannot be copied."""
    words: Int[Tensor, "*B S"]
    """The target token of each place, whether it can be copied or not."""

    def of(self, targets: Int[Tensor, "*B T"]) -> Float[Tensor, "*B T"]:
        """Return how probable copying makes each of these tokens."""
        return (self.shares * (self.words[..., None, :] == targets[..., None])).sum(dim=-1)


class Taught(NamedTuple):
    """What a decoder yields for all steps of known targets."""

    features: Float[Tensor, "B T D"]
    """What the output layer reads: `project` makes logits of it, for all positions or only those that count."""
    weights: Float[Tensor, "B T L H S"] | None
    """Where it looked, per layer and head; None where that was not asked for and need not exist."""
    extras: Extras = Extras()
    """What the looks tell the loss."""
    copied: Copied | None = None
    """What decoders that copy add to the output layer: `logits` mixes them, `project` does not."""


class Decoder(nn.Module, ABC, Generic[State]):
    """Searches know only `start`, `step` and the two ways to reorder; training knows only `teach` and `project`.

    Who asks where a word came from needs `alone` beside them.

    A `State` is opaque to them. It is never changed in place, so it can be kept, reordered and gone back to.
    """

    output: nn.Linear
    """What `project` applies; training reads its weights too, to make the loss without keeping logits."""
    grows: bool = False
    """Whether a step takes the longer the more steps there is room for in a steady state."""
    copies: bool = False
    """Whether it needs to know the tokens of a source."""
    tells_last: bool = False
    """Whether it yields the weights of its last layer (as its only one) where nobody asks for those of all."""

    @property
    def most(self) -> int | None:
        """Most tokens that it can write; None for any number."""
        return None

    @abstractmethod
    def start(self, encoded: Encoded) -> State:
        """Return the state before the first token."""

    @abstractmethod
    def step(self, token: Int[Tensor, " B"], state: State, look: bool = True) -> Step:
        """Read the token written last (first: the start mark) and score what may come next.

        Without `look`, weights are made only where they are needed on the way.
        """

    @abstractmethod
    def reorder(self, state: State, rows: Int[Tensor, " N"]) -> State:
        """Return the state whose row n is row `rows[n]` of the given one; rows may repeat or be left out."""

    def reorder_within(self, state: State, rows: Int[Tensor, " N"]) -> State:
        """Reorder where row n and row `rows[n]` have read the same source: what is known of it can stay as it is."""
        return self.reorder(state, rows)

    def steady(self, encoded: Encoded, steps: int, copies: int) -> State | None:
        """Return the state before the first token of `copies` hypotheses of each sentence, as one of fixed shapes.

        It has room for so many steps, and each leaves tensors of the same shapes, whatever its number, which is itself
        a tensor: so a GPU can take them all by one recorded graph. Some of it is changed in place. What is known of a
        source is there once, for all of its hypotheses. None where a step is not like the others, or has to be asked
        how long it is.
        """
        return None

    def alone(self, state: State, rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> State:
        """Return a state whose row n has gone as far as row `rows[n]`, but sees place `places[n]` of the source alone.

        It sees that whatever it looks for, in every layer and head; the state is good for one step. Without attention
        it sees what it has always seen.
        """
        raise ModelError(f"{type(self).__name__} has no `alone`, by which it would tell where a word came from.")

    @abstractmethod
    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded, look: bool = True) -> Taught:
        """Run over given tokens (the start mark first), in parallel wherever the model allows.

        Position t equals what `step` gives after reading `tokens[:, :t + 1]`. Without `look`, weights are made only
        where they are needed on the way.
        """

    @abstractmethod
    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Make logits over the vocabulary of features."""

    def logits(self, taught: Taught, real: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "*N W"]:
        """Score every word at every position that was taught, or at the real ones alone: what `step` yields there."""
        return self.project(taught.features if real is None else taught.features[real])

    def copied_as(self, source: Sequence[int]) -> list[int]:
        """Return the target tokens that it can copy from a source; none unless it copies."""
        return []


def pick(tree: Any, rows: Tensor) -> Any:
    """Pick rows of every tensor of a state: nested tuples of tensors, numbers (which may be tensors) and None."""
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows) if tree.dim() else tree
    if isinstance(tree, tuple):
        picked = [pick(branch, rows) for branch in tree]
        return type(tree)(*picked) if hasattr(tree, "_fields") else tuple(picked)
    return tree


def leaves(tree: Any) -> Iterator[Tensor]:
    """Yield the tensors of a state."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple):
        for branch in tree:
            yield from leaves(branch)
