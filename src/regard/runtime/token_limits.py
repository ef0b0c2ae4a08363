"""Which tokens each position may have: forced prefixes, banned tokens, minimum and maximum lengths."""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ConfigError
from regard.runtime.search_options import SearchOptions

NEVER = np.float32(-np.inf)
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class TokenLimits:
    """The limits of the sentences of one batch."""

    def __init__(
        self,
        start: int,
        end: int,
        banned: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        longest: Sequence[int],
        min_length: int = 0,
    ) -> None:
        """`longest` is the maximum number of tokens of each sentence, the end token included."""
        self.start, self.end, self.min_length = start, end, min_length
        self.banned = np.array(sorted(set(banned)), np.int64)
        width = max(map(len, prefixes), default=0)
        self.forced = np.full((len(prefixes), width), -1, np.int64)
        """The tokens that each sentence must start with, then -1."""
        for row, prefix in zip(self.forced, prefixes, strict=True):
            row[: len(prefix)] = prefix
        self.longest = np.array(longest, np.int64)

    @classmethod
    def of(
        cls,
        export: Mapping[str, Any],
        options: SearchOptions,
        lengths: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        banned: Sequence[int],
    ) -> "TokenLimits":
        """Compute the limits of an exported model for sources of these lengths; check the prefixes."""
        search, marks = export["search"], export["marks"]
        width, most = max(map(len, prefixes), default=0), search["most"]
        if any(marks["end"] in prefix for prefix in prefixes):
            raise ConfigError("A prefix contains the end token; leave it out, so that there is something to search.")
        if 0 < options.max_length < width:
            raise ConfigError(
                f"A prefix has {width} tokens but decoding.max_length is {options.max_length}: set it to {width} or "
                "more."
            )
        if most is not None and most < width:
            raise ConfigError(
                f"A prefix, or a text to be continued, has {width} tokens but the model has only {most} positions: "
                f"shorten it to {most} tokens or fewer."
            )
        longest = [
            min(_longest(search, options, length, len(prefix)), most or sys.maxsize)
            for length, prefix in zip(lengths, prefixes, strict=True)
        ]
        return cls(marks["start"], marks["end"], banned, prefixes, longest, options.min_length)

    def forbid(self, log_probs: Floats, length: int, sentences: Ints) -> None:
        """Set what position `length` may not have to -inf, in place; `log_probs` is sentences × slots × words."""
        forced = self.forced[sentences, length - 1] if length <= self.forced.shape[1] else np.array([], np.int64)
        rows = np.flatnonzero(forced >= 0)
        own = log_probs[rows, :, forced[rows]]
        log_probs[..., self.banned] = NEVER
        if length <= self.min_length:
            log_probs[..., self.end] = NEVER
        log_probs[rows] = NEVER
        log_probs[rows, :, forced[rows]] = own


def _longest(search: Mapping[str, Any], options: SearchOptions, source: int, prefix: int) -> int:
    """Return the maximum length of one sentence, the end token included."""
    usual = search["longest"] or math.ceil(options.max_ratio * source) + search["spare"]
    return int(options.max_length or max(usual, prefix + search["spare"], options.min_length + 1))
