r"""Sampling from the model's distribution, or from its most probable part.

Each sample is a search with one hypothesis. Its token number t is chosen by a number between 0 and 1, a hash of the
seed, the sentence, the index of the sample and t: nothing else in the batch matters, and the first of several samples
is the one that would have been drawn alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import DecodingConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search_loop import ExtensionSelector, Outcome, SelectedExtensions, best, run_search
from regard.decoding.search_methods import DecodingRequest, methods
from regard.decoding.token_limits import Rules
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Bool, Float, Int, Tensor

_GOLDEN: Final = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio, whose multiples are spread most evenly."""


@methods.register("sample")
def sample(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: DecodingRequest
) -> list[list[Hypothesis]]:
    """Sample each token (temperature, top-k, nucleus: Holtzman et al. 2020).

    `n_best` is the number of samples. They are returned in the order in which they were drawn, and their score is the
    log-probability under the model itself, not under the modified distribution.
    """
    outcome = draw(decoder, encoded, options, request, request.n_best)
    return by_sentence(outcome.trace(outcome.ends), request.n_best)


def draw(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: DecodingRequest, count: int
) -> Outcome:
    """Sample `count` hypotheses of each sentence; sample k of sentence n is number n * count + k of the outcome."""
    # A single hypothesis is not ranked against others.
    options = replace(options, beam=1, length_penalty=0.0, coverage_penalty=0.0)
    rules = Rules.make(encoded.mask, options, request, copies=count)
    keys = range(len(encoded.mask)) if request.keys is None else request.keys
    numbers = uniform(options.seed, keys, count, int(rules.limits.max()))
    choose = Draw(torch.from_numpy(numbers).to(encoded.mask.device), options)
    return run_search(decoder, encoded, rules, replace(request, n_best=1), choose, copies=count)


def by_sentence(found: Sequence[list[Hypothesis]], count: int) -> list[list[Hypothesis]]:
    """Group the samples of each sentence."""
    alone = [hypothesis for (hypothesis,) in found]
    return [alone[first : first + count] for first in range(0, len(alone), count)]


class Draw(ExtensionSelector):
    r"""Sample a token by inverting the cumulative distribution: the first token whose cumulative probability exceeds u.

    The distribution is :math:`p(w)^{1/\tau}`, normalised, over the allowed tokens; of these the `top_k` most probable
    (Fan et al. 2018), and of these the nucleus: the smallest set of the most probable ones whose probability is at
    least `top_p` (Holtzman et al. 2020, equations 2 and 3).
    """

    moves = False

    def __init__(self, numbers: Float[Tensor, "R T"], options: DecodingConfig) -> None:
        self.numbers = numbers
        self.temperature = max(options.temperature, torch.finfo(torch.float32).tiny)  # must stay above 0 in float32
        self.top_k, self.top_p = options.top_k, options.top_p

    def __call__(
        self,
        totals: Float[Tensor, "B 1"],
        possible: Float[Tensor, "B 1 W"],
        length: int,
        sentences: Int[Tensor, " B"],
    ) -> SelectedExtensions:
        """Sample one token for each hypothesis."""
        scores, names = possible[:, 0], None
        if self.top_k or self.top_p < 1:
            scores, names = best(scores, self.top_k or scores.shape[1])
        # Subtract the maximum first, so that a low temperature does not make all probabilities underflow.
        probabilities = ((scores - scores.amax(dim=1, keepdim=True)) / self.temperature).softmax(dim=1)
        if self.top_p < 1:
            probabilities = probabilities.masked_fill(~nucleus(probabilities, self.top_p), 0.0)
        reached = probabilities.cumsum(dim=1, dtype=torch.float64)
        wanted = self.numbers[sentences, length - 1, None] * reached[:, -1:]
        # A token of zero probability has the same cumulative sum as the one before it, so it is never chosen. If all
        # are zero the choice does not matter, as the caller sees that it is impossible, but the index must exist.
        places = torch.searchsorted(reached, wanted, right=True).clamp(max=scores.shape[1] - 1)
        tokens = places if names is None else names.gather(1, places)
        return SelectedExtensions(tokens, torch.zeros_like(tokens))


def nucleus(probabilities: Float[Tensor, "B N"], top_p: float) -> Bool[Tensor, "B N"]:
    """Return which probabilities, sorted from the largest, are needed to reach `top_p`; the first always is."""
    before = probabilities.cumsum(dim=1) - probabilities
    return before < top_p


def uniform(seed: int, keys: Sequence[int], count: int, steps: int) -> NDArray[np.float64]:
    """Return numbers in [0, 1), `steps` for each of `count` samples of each key: SplitMix64 (Steele 2014)."""
    with np.errstate(over="ignore"):
        start = _mix(_words(keys) + _mix(_words([seed])) * np.uint64(_GOLDEN))
        start = _mix(start[:, None] + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)).reshape(-1)
        bits = _mix(start[:, None] + np.arange(1, steps + 1, dtype=np.uint64) * np.uint64(_GOLDEN))
    return (bits >> np.uint64(12)).astype(np.float64) * 2.0**-52


def key(content: bytes) -> int:
    """Return a machine-independent hash of the source, which seeds its samples."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")


def _words(numbers: Sequence[int]) -> NDArray[np.uint64]:
    return np.array([number % 2**64 for number in numbers], dtype=np.uint64)


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix every bit into all bits."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
