"""Hypotheses, and the search history from which they are reconstructed by following back-pointers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.shapes import Bool, Float, Int, Tensor


@dataclass(eq=False)
class Hypothesis:
    """The result of a search for one sentence, with the attention weights of each step."""

    tokens: list[int]
    """The tokens, without the start token; the last is the end token, unless the maximum length was reached first."""
    score: float
    """The ranking score, after penalties."""
    log_probs: list[float]
    """Log-probability of each token given those before it."""
    weights: Float[Tensor, "T L H S"]
    """Attention at each step, on the CPU; S counts only real source positions."""
    candidates: list[list[tuple[int, float]]] = field(default_factory=list)
    """For each step, the most probable tokens with their probabilities, best first; empty if not requested."""


class End(NamedTuple):
    """The place in a history where a hypothesis ends."""

    sentence: int
    length: int
    slot: int
    score: float


class Path(NamedTuple):
    """One column per hypothesis, one row per step: its token, and the decoder row that generated it."""

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    rows: NDArray[np.int64]


class History:
    """Every step of a search, on the device, never reordered.

    Slot n of a sentence extends the hypothesis in slot `parents[n]` of the step before. Dropped hypotheses stay in the
    history; `trace` follows the back-pointers of those that were kept, once, at the end. R counts the decoder's rows:
    one for each slot of the step before.
    """

    def __init__(self) -> None:
        self.tokens: list[Int[Tensor, "B N"]] = []
        self.parents: list[Int[Tensor, "B N"]] = []
        self.log_probs: list[Float[Tensor, "B N"]] = []
        self.sentences: list[list[int]] = []
        self.weights: list[Float[Tensor, "R L H S"]] = []
        self.candidates: list[tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]] = []

    def record(
        self,
        sentences: list[int],
        tokens: Int[Tensor, "B N"],
        parents: Int[Tensor, "B N"],
        log_probs: Float[Tensor, "B N"],
        weights: Float[Tensor, "R L H S"] | None,
    ) -> None:
        """Add a step: the choices for each sentence still searched, and the attention of the decoder's rows."""
        self.sentences.append(sentences)
        self.tokens.append(tokens)
        self.parents.append(parents)
        self.log_probs.append(log_probs)
        if weights is not None:
            self.weights.append(weights)

    def trace(self, ends: Sequence[End], real: Bool[Tensor, "B S"]) -> list[Hypothesis]:
        """Reconstruct the hypotheses that end at the given places."""
        if not ends:
            return []
        path = self._follow(ends)
        if self.weights:
            weights = self._gather(self.weights, path.rows).float().cpu()
        else:
            weights = torch.zeros(*path.rows.shape, 0, 1, real.shape[1])
        probable = self._probable(path.rows) if self.candidates else [[] for _ in ends]
        found = []
        for column, (end, mask) in enumerate(zip(ends, real.cpu()[[end.sentence for end in ends]], strict=True)):
            until = slice(end.length)
            found.append(
                Hypothesis(
                    tokens=path.tokens[until, column].tolist(),
                    score=end.score,
                    log_probs=path.log_probs[until, column].tolist(),
                    weights=weights[until, column][..., mask],
                    candidates=probable[column][until],
                )
            )
        return found

    def written(self, ends: Sequence[End]) -> list[list[int]]:
        """Return only the tokens of the hypotheses that end at the given places."""
        path = self._follow(ends)
        return [path.tokens[: end.length, column].tolist() for column, end in enumerate(ends)]

    def _follow(self, ends: Sequence[End]) -> Path:
        """Follow the back-pointers from all ends at once, on the host, with three copies from the device in all."""
        tokens, parents, log_probs = map(_to_host, (self.tokens, self.parents, self.log_probs))
        sentence, length, slot = (np.array(part) for part in list(zip(*ends, strict=True))[:3])
        shape = (len(tokens), len(ends))
        path = Path(np.zeros(shape, np.int64), np.zeros(shape, np.float32), np.zeros(shape, np.int64))
        width_before = [1] + [step.shape[1] for step in tokens]
        for t in reversed(range(len(tokens))):
            on = length > t
            at = (np.searchsorted(self.sentences[t], sentence[on]), slot[on])
            path.tokens[t, on] = tokens[t][at]
            path.log_probs[t, on] = log_probs[t][at]
            slot[on] = parents[t][at]
            path.rows[t, on] = at[0] * width_before[t] + slot[on]
        return path

    def _gather(self, steps: Sequence[Tensor], rows: NDArray[np.int64]) -> Tensor:
        """Select from every step the row of each hypothesis (any row after its end)."""
        index = torch.from_numpy(rows).to(steps[0].device)
        return torch.stack([step.index_select(0, row) for step, row in zip(steps, index, strict=True)])

    def _probable(self, rows: NDArray[np.int64]) -> list[list[list[tuple[int, float]]]]:
        log_probs = self._gather([values for values, _ in self.candidates], rows).exp().tolist()
        tokens = self._gather([indices for _, indices in self.candidates], rows).tolist()
        return [
            [list(zip(tokens[t][column], log_probs[t][column], strict=True)) for t in range(len(tokens))]
            for column in range(rows.shape[1])
        ]


def _to_host(steps: Sequence[Tensor]) -> list[NDArray[np.generic]]:
    """Copy the tensors of all steps to the host in one transfer, whatever their sizes."""
    joined = torch.cat([step.flatten() for step in steps]).cpu()
    parts = torch.split(joined, [step.numel() for step in steps])
    return [part.view(step.shape).numpy() for part, step in zip(parts, steps, strict=True)]
