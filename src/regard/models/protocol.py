"""The contract between encoders, decoders and everything that searches, trains or looks."""

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

from torch import nn

from regard.shapes import Bool, Float, Int, Tensor


class Encoded(NamedTuple):
    """What an encoder of anything yields: states to look at, which of them are real, and a summary to start from."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    summary: Float[Tensor, "B L E"]
    """The final state of each layer, from below (an LSTM's cell states follow its hidden ones, as further layers)."""


State = TypeVar("State")


class Step(NamedTuple):
    """What a decoder yields for one step."""

    logits: Float[Tensor, "B W"]
    state: Any
    """What to give to the next step: the decoder's own kind of state."""
    weights: Float[Tensor, "B L H S"]
    """Where it looked, per layer and head; no layers (`L = 0`) without attention."""


class Taught(NamedTuple):
    """What a decoder yields for all steps of known targets."""

    features: Float[Tensor, "B T D"]
    """What the output layer reads: `project` makes logits of it, for all positions or only those that count."""
    weights: Float[Tensor, "B T L H S"]


class Decoder(nn.Module, ABC, Generic[State]):
    """Searches know only `start`, `step` and `reorder`; training knows only `teach` and `project`.

    A `State` is opaque to them. It is never changed in place, so it can be kept, reordered and gone back to.
    """

    @abstractmethod
    def start(self, encoded: Encoded) -> State:
        """Return the state before the first token."""

    @abstractmethod
    def step(self, token: Int[Tensor, " B"], state: State) -> Step:
        """Read the token written last (first: the start mark) and score what may come next."""

    @abstractmethod
    def reorder(self, state: State, rows: Int[Tensor, " N"]) -> State:
        """Return the state whose row n is row `rows[n]` of the given one; rows may repeat or be left out."""

    @abstractmethod
    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded) -> Taught:
        """Run over given tokens (the start mark first), in parallel wherever the model allows.

        Position t equals what `step` gives after reading `tokens[:, :t + 1]`.
        """

    @abstractmethod
    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Make logits over the vocabulary of features."""
