"""Subword regularisation: sample segmentations of words at random (Kudo 2018; Provilkov et al. 2020).

Words are given by the ids of their default segmentation. Samples depend only on the given random bits, unlike
SentencePiece's own sampler, which has one generator per process. NumPy segments thousands of words at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_NEVER: Final = np.iinfo(np.int32).max
"""The rank of two symbols that cannot be merged."""
_AT_ONCE: Final = 8192
"""Words that are segmented at a time."""


class Inventory(NamedTuple):
    """The subwords of a vocabulary."""

    texts: tuple[str, ...]
    """The text of each id as in the model, `▁` for a space; empty for special tokens and bytes."""
    scores: NDArray[np.float64]


class Cut(NamedTuple):
    """Segmented words."""

    ids: NDArray[np.int32]
    """The subword ids of all words, concatenated."""
    sizes: NDArray[np.int64]
    """The number of subwords of each word."""


class Cutter(ABC):
    """Samples segmentations of a fixed set of words."""

    def cut(self, words: NDArray[np.int64], random: np.random.PCG64) -> Cut:
        """Sample a segmentation of each word, given by its index in the set; a word may occur several times."""
        parts = [self._cut(words[start : start + _AT_ONCE], random) for start in range(0, len(words), _AT_ONCE)]
        if not parts:
            return Cut(np.zeros(0, np.int32), np.zeros(0, np.int64))
        return Cut(np.concatenate([part.ids for part in parts]), np.concatenate([part.sizes for part in parts]))

    @abstractmethod
    def _cut(self, words: NDArray[np.int64], random: np.random.PCG64) -> Cut: ...


class DroppedMerges(Cutter):
    """BPE-dropout (Provilkov et al. 2020, algorithm 1).

    A word starts as characters. At each step, each possible merge is dropped with probability `rate`, and the best of
    the others is applied (the leftmost of equals); if none is left, the word is done. A rate of 0 gives BPE.
    """

    def __init__(self, inventory: Inventory, words: Sequence[Sequence[int]], rate: float) -> None:
        self._rate = rate
        ids = {text: i for i, text in enumerate(inventory.texts) if text}
        longer = [i for text, i in ids.items() if len(text) > 1]
        ranked = sorted(longer, key=lambda i: -inventory.scores[i])
        self._made = np.array(ranked, np.int32)  # the subword of each rank
        self._count = len(inventory.texts)
        merges = {
            ids[left] * self._count + ids[right]: rank
            for rank, piece in enumerate(ranked)
            for left, right in _halves(inventory.texts[piece])
            if left in ids and right in ids
        }
        self._pairs = np.array([*sorted(merges), np.iinfo(np.int64).max], np.int64)
        self._ranks = np.array([*(merges[pair] for pair in self._pairs[:-1].tolist()), _NEVER], np.int32)
        spelt = [_characters(text, i, ids) for i, text in enumerate(inventory.texts)]
        self._sizes = np.array([sum(len(spelt[i]) for i in word) for word in words], np.int64)
        self._symbols = np.fromiter((symbol for word in words for i in word for symbol in spelt[i]), np.int32)

    def _cut(self, words: NDArray[np.int64], random: np.random.PCG64) -> Cut:
        starts = self._sizes.cumsum() - self._sizes
        symbols = self._symbols[spans(starts[words], self._sizes[words])]
        owner = np.repeat(np.arange(len(words)), self._sizes[words])
        rank = self._rank(symbols, owner, np.arange(len(symbols)))
        done = []
        while len(symbols):
            offered = np.flatnonzero(rank != _NEVER)
            if self._rate:
                offered = offered[~_chances(random, len(offered), self._rate)]
            best = _best_of_each(rank[offered], offered, owner[offered])
            merged = np.zeros(len(words), np.bool_)
            merged[owner[best]] = True
            going = merged[owner]
            done.append((owner[~going], symbols[~going]))
            symbols[best] = self._made[rank[best]]
            going[best + 1] = False  # merged into the symbol before
            places = going.cumsum()[best] - 1
            symbols, owner, rank = symbols[going], owner[going], rank[going]
            for near in (places, places[places > 0] - 1):
                rank[near] = self._rank(symbols, owner, near)
        return _in_order(done, len(words))

    def _rank(self, symbols: NDArray[np.int32], owner: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the merge ranks of symbols with the ones that follow; _NEVER if they cannot be merged."""
        after = np.minimum(at + 1, len(symbols) - 1)
        pairs = symbols[at].astype(np.int64) * self._count + symbols[after]
        found = np.searchsorted(self._pairs, pairs)
        real = (self._pairs[found] == pairs) & (owner[at] == owner[after]) & (after > at)
        return np.where(real, self._ranks[found], np.int32(_NEVER))


class SampledPaths(Cutter):
    """Subword regularisation (Kudo 2018, section 3.2): sample a segmentation x with probability ∝ P(x)^α.

    Samples from all segmentations (l = ∞ in the paper), by forward filtering and backward sampling.
    """

    def __init__(self, inventory: Inventory, words: Sequence[Sequence[int]], alpha: float) -> None:
        ids = {text: i for i, text in enumerate(inventory.texts) if text}
        longest = max(map(len, ids), default=1)
        units = ["".join(inventory.texts[i] or chr(0) for i in word) for word in words]
        whole = [[i for i in word if not inventory.texts[i]] for word in words]
        self._lengths = np.array([len(word) for word in units], np.int64)
        self._ends = (self._lengths + 1).cumsum() - 1  # a node before, between and after the characters of a word
        first = self._ends - self._lengths
        found = (
            number
            for base, word, others in zip(first.tolist(), units, whole, strict=True)
            for start, end, piece in _arcs(word, others, ids, longest)
            for number in (base + end, base + start, piece)
        )
        arcs = np.fromiter(found, np.int64).reshape(-1, 3)
        self._end, self._start, self._piece = arcs[np.argsort(arcs[:, 0], kind="stable")].T
        self._first = first
        self._chances = self._filter(alpha * inventory.scores[self._piece])

    def _filter(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return, for each arc, its end node plus the cumulative probability, up to this arc, of the node's arcs."""
        forward = np.full(int(self._ends.max(initial=-1)) + 1, -np.inf)
        forward[self._first] = 0.0
        nodes, begins = np.unique(self._end, return_index=True)
        counts = np.diff(np.append(begins, len(self._end)))
        place = nodes - self._first[np.searchsorted(self._first, nodes, side="right") - 1]
        for step in np.unique(place).tolist():
            here = place == step
            arcs = spans(begins[here], counts[here])
            at = counts[here].cumsum() - counts[here]
            forward[nodes[here]] = np.logaddexp.reduceat(forward[self._start[arcs]] + scores[arcs], at)
        reached = np.isfinite(forward[self._start])
        chance = np.where(reached, np.exp(forward[self._start] + scores - np.where(reached, forward[self._end], 0)), 0)
        summed = chance.cumsum()
        within = summed - np.repeat(np.append(0.0, summed)[begins], counts)
        within[begins + counts - 1] = 1.0  # despite rounding
        return np.asarray(self._end + np.minimum(within, 1.0))

    def _cut(self, words: NDArray[np.int64], random: np.random.PCG64) -> Cut:
        owner, done = np.flatnonzero(self._lengths[words]), []
        node = self._ends[words[owner]]
        while len(node):
            arc = np.searchsorted(self._chances, node + _uniform(random, len(node)), side="right")
            done.append((owner, self._piece[arc].astype(np.int32)))
            node = self._start[arc]
            going = node > self._first[words[owner]]
            node, owner = node[going], owner[going]
        return _in_order(done[::-1], len(words))


def spans(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenated indices of spans with these starts and sizes."""
    ends = sizes.cumsum()
    places: NDArray[np.int64] = np.repeat(starts - (ends - sizes), sizes)
    places += np.arange(len(places))
    return places


def _halves(text: str) -> Iterator[tuple[str, str]]:
    return ((text[:cut], text[cut:]) for cut in range(1, len(text)))


def _characters(text: str, i: int, ids: dict[str, int]) -> list[int]:
    """Split a subword into the ids of its characters; without text, or if a character has no id, it stays whole."""
    return [ids[character] for character in text] if text and all(one in ids for one in text) else [i]


def _arcs(word: str, others: Sequence[int], ids: dict[str, int], longest: int) -> Iterator[tuple[int, int, int]]:
    """Yield each subword that occurs in a word, with start and end; ids without text (NUL here) yield themselves."""
    coming = iter(others)
    for start in range(len(word)):
        if word[start] == "\0":
            yield start, start + 1, next(coming)
            continue
        for end in range(start + 1, min(len(word), start + longest) + 1):
            piece = ids.get(word[start:end])
            if piece is not None:
                yield start, end, piece


def _best_of_each(rank: NDArray[np.int32], place: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of the lowest rank of each owner, the leftmost of equals; owners are sorted."""
    if not len(place):
        return place
    begins = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
    return np.asarray(np.minimum.reduceat(rank.astype(np.int64) << 32 | place, begins) & 0xFFFFFFFF)


def _in_order(done: list[tuple[NDArray[np.int64], NDArray[np.int32]]], count: int) -> Cut:
    """Concatenate the symbols of words, word by word, each in order."""
    if not done:
        return Cut(np.zeros(0, np.int32), np.zeros(count, np.int64))
    owner, symbols = (np.concatenate(column) for column in zip(*done, strict=True))
    return Cut(symbols[np.argsort(owner, kind="stable")], np.bincount(owner, minlength=count))


def _chances(random: np.random.PCG64, count: int, rate: float) -> NDArray[np.bool_]:
    """Draw booleans that are true with probability `rate`, from raw bits, which NumPy keeps stable across releases."""
    bits = random.random_raw(-(-count // 2)).view("<u4")[:count]
    return np.asarray(bits < np.uint32(min(round(rate * 2**32), 2**32 - 1)))


def _uniform(random: np.random.PCG64, count: int) -> NDArray[np.float64]:
    drawn: NDArray[Any] = random.random_raw(count) >> np.uint64(11)
    return drawn * 2.0**-53
