"""Hypotheses, and the history of a search from which they are traced back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.runtime.token_limits import Floats, Ints


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """The result of a search for one sentence, with the attention weights of each step."""

    tokens: list[int]
    """The tokens, without the start token; the last is the end token, unless the maximum length was reached first."""
    score: float
    """The ranking score, after penalties."""
    log_probs: list[float]
    """Log-probability of each token given those before it."""
    weights: Floats
    """Attention: steps × layers × heads × source positions, without padding."""


class End(NamedTuple):
    """The place in a history where a hypothesis ends."""

    sentence: int
    length: int
    slot: int
    score: float


class Taken(NamedTuple):
    """One step of a search: M extensions of each of B sentences, and the attention of R = B × N decoder rows."""

    sentences: Ints
    """The sentences still searched, in order."""
    tokens: Ints
    parents: Ints
    """The slot of the step before that each one extends."""
    log_probs: Floats
    weights: Floats | None
    """Rows × layers × heads × source positions."""


class History(list[Taken]):
    """Every step of a search, never reordered: what was dropped stays, and back-pointers find what was kept."""

    def trace(self, ends: Sequence[End], real: NDArray[np.bool_]) -> list[Hypothesis]:
        """Reconstruct the hypotheses that end at the given places; `real` is the mask of all sentences."""
        sentence, length, slot = (np.array([end[part] for end in ends], np.int64) for part in range(3))
        tokens = np.zeros((len(self), len(ends)), np.int64)
        log_probs, rows = np.zeros(tokens.shape, np.float32), np.zeros_like(tokens)
        for t in reversed(range(len(self))):
            step, on = self[t], length > t
            at = (np.searchsorted(step.sentences, sentence[on]), slot[on])
            tokens[t, on], log_probs[t, on] = step.tokens[at], step.log_probs[at]
            slot[on] = step.parents[at]
            rows[t, on] = at[0] * (self[t - 1].tokens.shape[1] if t else 1) + slot[on]
        found = []
        for column, end in enumerate(ends):
            until, mask = range(end.length), real[end.sentence]
            looks = [
                step.weights[rows[t, column]] for t, step in zip(until, self, strict=False) if step.weights is not None
            ]
            weights = np.stack(looks)[..., mask] if looks else np.zeros((end.length, 0, 1, mask.sum()), np.float32)
            own = slice(end.length)
            found.append(Hypothesis(tokens[own, column].tolist(), end.score, log_probs[own, column].tolist(), weights))
        return found
