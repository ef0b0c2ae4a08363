"""Which tokens each position may have: forced prefixes, banned tokens, minimum and maximum lengths."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import ConfigError
from regard.folder_files import MOST_SEARCHED
from regard.runtime.export_entries import Entries
from regard.runtime.search_options import SearchOptions

NEVER = np.float32(-np.inf)
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Vocabulary:
    """What an export says of the tokens that are written: the entries `marks` and `search` of export.json."""

    size: int
    padding: int
    start: int
    end: int
    banned: tuple[int, ...]
    """Tokens that are never generated."""
    spare: int
    """Tokens that are always allowed beyond those of the source and the prefix."""
    longest: int
    """Maximum number of tokens of a language model; 0 for a limit by the source."""
    most: int | None
    """Positions of the decoder."""

    @classmethod
    def of(cls, export: Entries) -> "Vocabulary":
        """Read the entries of export.json."""
        marks, search, longest = export.part("marks"), export.part("search"), int(MOST_SEARCHED["max_length"])
        size = export.part("target").whole("size", least=4)
        padding, start, end = (marks.whole(name, most=size - 1) for name in ("padding", "start", "end"))
        banned = search.wholes("banned", most=size - 1)
        if end in banned:
            raise search.wrong("search.banned has marks.end, without which no text ends")
        spare, own = search.whole("spare", most=longest), search.whole("longest", most=longest)
        return cls(size, padding, start, end, tuple(banned), spare, own, search.whole_or_none("most", least=1))


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
        vocabulary: Vocabulary,
        options: SearchOptions,
        lengths: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        banned: Sequence[int],
    ) -> "TokenLimits":
        """Compute the limits of an exported model for sources of these lengths; check the prefixes."""
        width, most = max(map(len, prefixes), default=0), vocabulary.most
        if any(vocabulary.end in prefix for prefix in prefixes):
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
            min(_longest(vocabulary, options, length, len(prefix)), most or sys.maxsize)
            for length, prefix in zip(lengths, prefixes, strict=True)
        ]
        return cls(vocabulary.start, vocabulary.end, banned, prefixes, longest, options.min_length)

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


def _longest(vocabulary: Vocabulary, options: SearchOptions, source: int, prefix: int) -> int:
    """Return the maximum length of one sentence, the end token included."""
    usual = vocabulary.longest or math.ceil(options.max_ratio * source) + vocabulary.spare
    return int(options.max_length or max(usual, prefix + vocabulary.spare, options.min_length + 1))
