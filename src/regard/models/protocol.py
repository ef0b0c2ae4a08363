"""The contract between encoders, decoders and everything that searches, trains or looks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
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


class Taught(NamedTuple):
    """What a decoder yields for all steps of known targets."""

    features: Float[Tensor, "B T D"]
    """What the output layer reads: `project` makes logits of it, for all positions or only those that count."""
    weights: Float[Tensor, "B T L H S"] | None
    """Where it looked, per layer and head; None where that was not asked for and need not exist."""
    extras: Extras = Extras()
    """What the looks tell the loss."""


class Decoder(nn.Module, ABC, Generic[State]):
    """Searches know only `start`, `step` and the two ways to reorder; training knows only `teach` and `project`.

    Who asks where a word came from needs `alone` beside them.

    A `State` is opaque to them. It is never changed in place, so it can be kept, reordered and gone back to.
    """

    output: nn.Linear
    """What `project` applies; training reads its weights too, to make the loss without keeping logits."""
    grows: ClassVar[bool] = False
    """Whether a step takes the longer the more steps there is room for in a steady state."""

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
