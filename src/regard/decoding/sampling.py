r"""Sampling: tokens drawn from the model's own distribution, or from the likely part of it.

One draw is a search of its own with one hypothesis. Its token number t comes from one number between 0 and 1, which a
hash makes of the seed, the sentence, the number of the draw and t alone: whatever else is in the batch changes nothing,
and the first of several draws is the draw that would have been made alone.
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
from regard.decoding.search_loop import Choose, Chosen, Outcome, best, run
from regard.decoding.search_methods import Request, methods
from regard.decoding.token_limits import Rules
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Bool, Float, Int, Tensor

_GOLDEN: Final = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: multiples of it are spread as evenly as can be."""


@methods.register("sample")
def sample(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: Request
) -> list[list[Hypothesis]]:
    """Draw each token at random, as probable as the model has it (temperature, top-k, nucleus: Holtzman et al. 2020).

    `n_best` is the number of draws. They come in the order in which they were drawn, and their score is their
    log-probability: that of the model itself, not that of what was made of it to draw from.
    """
    outcome = draw(decoder, encoded, options, request, request.n_best)
    return by_sentence(outcome.trace(outcome.ends), request.n_best)


def draw(decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: Request, count: int) -> Outcome:
    """Draw `count` hypotheses of each sentence; draw k of sentence n is number n * count + k of the outcome."""
    # One hypothesis is ranked with no other.
    options = replace(options, beam=1, length_penalty=0.0, coverage_penalty=0.0)
    rules = Rules.make(encoded.mask, options, request, copies=count)
    keys = range(len(encoded.mask)) if request.keys is None else request.keys
    numbers = uniform(options.seed, keys, count, int(rules.limits.max()))
    choose = Draw(torch.from_numpy(numbers).to(encoded.mask.device), options)
    return run(decoder, encoded, rules, replace(request, n_best=1), choose, copies=count)


def by_sentence(found: Sequence[list[Hypothesis]], count: int) -> list[list[Hypothesis]]:
    """Put the draws of a sentence, each found by itself, together again."""
    alone = [hypothesis for (hypothesis,) in found]
    return [alone[first : first + count] for first in range(0, len(alone), count)]


class Draw(Choose):
    r"""Draw a token by inverting the distribution function: the first one whose cumulative probability is above u.

    The distribution is :math:`p(w)^{1/\tau}`, normalised, of the tokens that may be written; of these the `top_k` most
    probable (Fan et al. 2018), and of these the nucleus: the smallest set of the most probable ones that has at least
    the probability `top_p` (Holtzman et al. 2020, equations 2 and 3).
    """

    moves = False

    def __init__(self, numbers: Float[Tensor, "R T"], options: DecodingConfig) -> None:
        self.numbers = numbers
        self.temperature = max(options.temperature, torch.finfo(torch.float32).tiny)  # it is to stay above 0
        self.top_k, self.top_p = options.top_k, options.top_p

    def __call__(
        self,
        totals: Float[Tensor, "B 1"],
        possible: Float[Tensor, "B 1 W"],
        length: int,
        sentences: Int[Tensor, " B"],
    ) -> Chosen:
        """Draw one token for each hypothesis."""
        scores, names = possible[:, 0], None
        if self.top_k or self.top_p < 1:
            scores, names = best(scores, self.top_k or scores.shape[1])
        # The largest is taken off first, so that no temperature is so low that nothing is left.
        probabilities = ((scores - scores.amax(dim=1, keepdim=True)) / self.temperature).softmax(dim=1)
        if self.top_p < 1:
            probabilities = probabilities.masked_fill(~nucleus(probabilities, self.top_p), 0.0)
        reached = probabilities.cumsum(dim=1, dtype=torch.float64)
        wanted = self.numbers[sentences, length - 1, None] * reached[:, -1:]
        # What has no probability reaches no further than what stands before it, so it is never the first above. Where
        # nothing has any, what is found does not matter (the caller sees that it is impossible): but it is to exist.
        places = torch.searchsorted(reached, wanted, right=True).clamp(max=scores.shape[1] - 1)
        tokens = places if names is None else names.gather(1, places)
        return Chosen(tokens, torch.zeros_like(tokens))


def nucleus(probabilities: Float[Tensor, "B N"], top_p: float) -> Bool[Tensor, "B N"]:
    """Tell which of the probabilities, largest first, are needed to reach `top_p`; the first always is."""
    before = probabilities.cumsum(dim=1) - probabilities
    return before < top_p


def uniform(seed: int, keys: Sequence[int], count: int, steps: int) -> NDArray[np.float64]:
    """Return numbers from 0 to 1 (never 1), `steps` for each of `count` draws of each key: SplitMix64 (Steele 2014)."""
    with np.errstate(over="ignore"):
        start = _mix(_words(keys) + _mix(_words([seed])) * np.uint64(_GOLDEN))
        start = _mix(start[:, None] + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)).reshape(-1)
        bits = _mix(start[:, None] + np.arange(1, steps + 1, dtype=np.uint64) * np.uint64(_GOLDEN))
    return (bits >> np.uint64(12)).astype(np.float64) * 2.0**-52


def key(content: bytes) -> int:
    """Return a number for what is read, the same on every machine: what is drawn depends on it."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")


def _words(numbers: Sequence[int]) -> NDArray[np.uint64]:
    return np.array([number % 2**64 for number in numbers], dtype=np.uint64)


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all bits."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
