"""Subword regularisation: a new segmentation of every text per epoch (`tokenizer.sampling`), given seed and epoch.

The tokens of a whole epoch are drawn before it starts, in a thread during the previous epoch, so that batching uses the
true lengths and costs no time. A word's first `WAYS` occurrences in an epoch are segmented independently; further ones
pick one of these segmentations. Each occurrence still has the right distribution, but frequent words cost no more than
rare ones.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.data.batching import Batch, BatchOrder, make_batch
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tagged, Tokenizer, Tokenizers
from regard.data.tokenizers.subword_sampling import spans
from regard.data.tokenizers.subwords import Subwords

WAYS: Final = 32
_TEXTS_AT_ONCE: Final = 20_000
Order = Callable[[NDArray[np.int32], NDArray[np.int32]], BatchOrder]
"""Makes a BatchOrder from the lengths of sources and targets."""


@dataclass(frozen=True)
class EpochTokens:
    """The tokens of one epoch, in the interface that `make_batch` reads."""

    tokens: tuple[NDArray[Any], ...]
    offsets: tuple[NDArray[np.int64], ...]
    source_lengths: NDArray[np.int32]
    target_lengths: NDArray[np.int32]
    links: None = None
    link_offsets: None = None


class Resampled:
    """The pairs of a cache, segmented anew in each epoch.

    Pair n of epoch e has the number e·pairs + n, so that the row numbers of a batch determine its epoch.
    """

    def __init__(self, cache: TokenCache, tokenizers: Tokenizers, sampling: float, seed: int, epochs: int) -> None:
        self._pairs, self._seed, self._epochs = len(cache), seed, epochs
        self._sides = [
            _Side(cache, side, tokenizer, sampling)
            for side, tokenizer in enumerate((tokenizers.source, tokenizers.target))
        ]
        self._drawn: dict[int, Future[EpochTokens]] = {}
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "regard-resampling")

    def batches(self, epoch: int, order: Order) -> list[NDArray[np.int64]]:
        """Return the batches of an epoch (counted from 1); start drawing the tokens of the next epoch."""
        drawn = self.tokens(epoch)
        if epoch < self._epochs:
            self._begin(epoch + 1)
        batches = order(drawn.source_lengths, drawn.target_lengths).batches(epoch)
        return [rows + epoch * self._pairs for rows in batches]

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """Collate a batch returned by `batches`."""
        epoch = int(rows[0]) // self._pairs
        return make_batch(self.tokens(epoch), rows - epoch * self._pairs)

    def count(self, rows: NDArray[np.int64]) -> int:
        """Return how many target tokens these pairs have."""
        epoch = int(rows[0]) // self._pairs
        return int(self.tokens(epoch).target_lengths[rows - epoch * self._pairs].sum())

    def tokens(self, epoch: int) -> EpochTokens:
        """Return the tokens of an epoch."""
        return self._begin(epoch).result()

    def _begin(self, epoch: int) -> Future[EpochTokens]:
        with self._lock:
            if epoch not in self._drawn:
                # Batches are prefetched: the previous epoch may still be in use.
                self._drawn = {one: future for one, future in self._drawn.items() if abs(one - epoch) <= 2}
                self._drawn[epoch] = self._thread.submit(self._draw, epoch)
            return self._drawn[epoch]

    def _draw(self, epoch: int) -> EpochTokens:
        source, target = (side.draw(self._seed, epoch) for side in self._sides)
        tokens, offsets = zip(source, target, strict=True)
        source_lengths, target_lengths = (np.diff(one).astype(np.int32) for one in offsets)
        return EpochTokens(tokens, offsets, source_lengths, target_lengths)


class _Side:
    """The texts of one side as words, each of which has several segmentations."""

    def __init__(self, cache: TokenCache, side: int, tokenizer: Tokenizer, sampling: float) -> None:
        plain = tokenizer.plain if isinstance(tokenizer, Tagged) else tokenizer
        assert isinstance(plain, Subwords)
        tokens, offsets = cache.tokens[side], cache.offsets[side]
        self._side, self._dtype, self._longest = side, tokens.dtype, cache.index.max_length + 1  # the end token
        # Special tokens and tags count as words with a single segmentation.
        alone = np.array([not text and i not in plain.byte_ids for i, text in enumerate(plain.inventory.texts)])
        alone = np.concatenate((alone, np.ones(tokenizer.size - plain.size, np.bool_)))
        starts = np.concatenate((plain.starts_word, np.ones(tokenizer.size - plain.size, np.bool_))) | alone
        self._words, self._of_text, known = _words(tokens, offsets, starts)
        ids = [np.frombuffer(word, self._dtype) for word in known]
        self._usual, self._usual_sizes = np.concatenate(ids), np.array([len(word) for word in ids], np.int64)
        counts = np.bincount(self._words, minlength=len(known))
        fixed = alone[[word[0] for word in ids]]
        self._ways = np.where(fixed, 0, np.minimum(counts, WAYS))
        kept = [word.tolist() if way else [] for word, way in zip(ids, self._ways.tolist(), strict=True)]
        self._cutter = plain.cutter(kept, sampling)

    def draw(self, seed: int, epoch: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the tokens of an epoch, and the start of each text."""
        random = np.random.PCG64([seed % 2**64, epoch, self._side])
        cut = self._cutter.cut(np.repeat(np.arange(len(self._ways)), self._ways), random)
        ids = np.concatenate((self._usual, cut.ids.astype(self._dtype)))
        sizes = np.concatenate((self._usual_sizes, cut.sizes))
        # Segmentation n is the default one of word n; the drawn ones follow.
        first = len(self._ways) + self._ways.cumsum() - self._ways
        ways = self._ways[self._words]
        drawn = random.random_raw(len(self._words)) % np.maximum(ways, 1).astype(np.uint64)
        chosen = np.where(ways > 0, first[self._words] + drawn.astype(np.int64), self._words)
        too_long = np.diff(self._starts(sizes[chosen])) > self._longest
        chosen = np.where(np.repeat(too_long, np.diff(self._of_text)), self._words, chosen)
        starts = sizes.cumsum() - sizes
        return ids[spans(starts[chosen], sizes[chosen])], self._starts(sizes[chosen])

    def _starts(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the start of each text, and the end of the last, for these numbers of tokens per word."""
        return np.asarray(np.concatenate(([0], sizes.cumsum()))[self._of_text])


def _words(
    tokens: NDArray[Any], offsets: NDArray[np.int64], starts: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int64], list[bytes]]:
    """Return the word ids of all texts, the start of each text, and the tokens of each word id."""
    known: dict[bytes, int] = {}
    numbers, of_text, count, width = [], [np.zeros(1, np.int64)], 0, tokens.dtype.itemsize
    for start in range(0, len(offsets) - 1, _TEXTS_AT_ONCE):
        own = offsets[start : start + _TEXTS_AT_ONCE + 1] - offsets[start]
        part = tokens[offsets[start] : offsets[start] + own[-1]]
        begins = starts[part]
        begins[own[:-1]] = True
        places = np.append(np.flatnonzero(begins), len(part))
        raw, ends = part.tobytes(), (places * width).tolist()
        words = [known.setdefault(raw[a:b], len(known)) for a, b in pairwise(ends)]
        numbers.append(np.array(words, np.int32))
        of_text.append(count + np.searchsorted(places, own[1:]))
        count += len(words)
    return np.concatenate(numbers), np.concatenate(of_text), list(known)
