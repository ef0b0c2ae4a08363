"""Batches filled by tokens, among sentences of like length, in an order that is a pure function of seed and epoch."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.cache import TokenCache
from regard.data.vocabulary import BOS, PAD
from regard.shapes import Bool, Int, Tensor

_WINDOW: Final = 1 << 17
"""Pairs that are sorted by length together. Smaller is more random, larger leaves less padding."""


class Batch(NamedTuple):
    """Sentence pairs as tensors. Masks are true where there is a token.

    The decoder reads `tokens_in` (the beginning mark, then the text), to write `tokens_out` (the text, then the end).
    """

    source: Int[Tensor, "B S"]
    source_mask: Bool[Tensor, "B S"]
    tokens_in: Int[Tensor, "B T"]
    tokens_out: Int[Tensor, "B T"]
    target_mask: Bool[Tensor, "B T"]
    rows: NDArray[Any]
    """Which pairs of the cache these are."""
    links: Int[Tensor, "N 3"] | None = None
    """Gold alignments, where the cache has them: each row (b, t, s) links position t of `tokens_out` in pair b with
    position s of `source`. Pairs without an alignment have no rows."""
    written: Int[Tensor, " N"] | None = None
    """Where the target mask is true, counted row after row: to ask a mask on a GPU would be to wait for it."""
    lengths: Int[Tensor, " B"] | None = None
    """Source tokens of each pair. It stays on the host, which is who asks for it (`pack_padded_sequence`)."""

    def to(self, device: torch.device | str) -> "Batch":
        """Copy the tensors to a device; to a GPU the copies are under way when this returns, if they were `pinned`."""
        later = torch.device(device).type == "cuda"
        return self._map(lambda tensor: tensor.to(device, non_blocking=later))

    def pinned(self) -> "Batch":
        """Copy the tensors to memory that a GPU can copy from by itself."""
        return self._map(torch.Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return self._replace(
            source=change(self.source),
            source_mask=change(self.source_mask),
            tokens_in=change(self.tokens_in),
            tokens_out=change(self.tokens_out),
            target_mask=change(self.target_mask),
            links=None if self.links is None else change(self.links),
            written=None if self.written is None else change(self.written),
        )

    def at_tokens(self, values: Tensor) -> Tensor:
        """Return what `values` (B T …) has at the tokens to be written, row after row (N …), without the padding."""
        return values[self.target_mask] if self.written is None else values.flatten(0, 1)[self.written]


def twice(batch: Batch) -> Batch:
    """Return a batch that has each pair of another two times: all in their order, and all once more."""
    links, written, lengths = batch.links, batch.written, batch.lengths
    if links is not None:
        pairs = torch.tensor([batch.source.shape[0], 0, 0])
        links = torch.cat((links, links + pairs.to(links.device, non_blocking=True)))
    return Batch(
        batch.source.repeat(2, 1),
        batch.source_mask.repeat(2, 1),
        batch.tokens_in.repeat(2, 1),
        batch.tokens_out.repeat(2, 1),
        batch.target_mask.repeat(2, 1),
        np.tile(batch.rows, 2),
        links,
        None if written is None else torch.cat((written, written + batch.tokens_out.numel())),
        None if lengths is None else lengths.repeat(2),
    )


class BatchOrder:
    """Which pairs make up which batch of which epoch.

    A batch of B pairs whose longest text has L tokens, end mark included, has B·L <= batch_tokens; a pair that is
    longer by itself is a batch of its own. Each epoch has every pair once.
    """

    def __init__(
        self, source_lengths: NDArray[Any], target_lengths: NDArray[Any], batch_tokens: int, seed: int
    ) -> None:
        self._lengths = np.stack((source_lengths, target_lengths)).astype(np.int32)
        self._batch_tokens = batch_tokens
        self._seed = seed

    @classmethod
    def of(cls, cache: TokenCache, batch_tokens: int, seed: int) -> "BatchOrder":
        """Order the pairs of a cache."""
        return cls(cache.source_lengths, cache.target_lengths, batch_tokens, seed)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the batches of an epoch, in order; each is rows of the cache.

        Only raw random bits are drawn, which NumPy keeps the same from release to release.
        """
        random = np.random.PCG64([self._seed % 2**64, epoch])
        order = _permutation(random, self._lengths.shape[1])
        batches: list[NDArray[np.int64]] = []
        for start in range(0, len(order), _WINDOW):
            window = order[start : start + _WINDOW]
            source, target = self._lengths[:, window]
            # Among equal lengths, the shuffled order stays.
            like = window[np.lexsort((source, target, np.maximum(source, target)))]
            batches += self._fill(like)
        return [batches[i] for i in _permutation(random, len(batches))]

    def _fill(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Cut sorted rows into batches, each as large as it may be."""
        longest = self._lengths[:, rows].max(axis=0).astype(np.int64)
        batches, start = [], 0
        while start < len(rows):
            most = max(1, self._batch_tokens // int(longest[start]))
            # Rows are sorted by their longer side: the last one of a batch is its longest.
            padded = longest[start : start + most] * np.arange(1, 1 + len(longest[start : start + most]))
            end = start + max(1, int(np.searchsorted(padded, self._batch_tokens, side="right")))
            batches.append(rows[start:end])
            start = end
        return batches


def _permutation(random: np.random.PCG64, count: int) -> NDArray[np.int64]:
    return np.argsort(random.random_raw(count), kind="stable")


def make_batch(cache: TokenCache, rows: NDArray[Any], device: torch.device | str = "cpu") -> Batch:
    """Gather pairs of a cache into padded tensors, with their links if the cache was built with `links=True`."""
    source, source_mask = _gather(cache, 0, rows)
    tokens_out, target_mask = _gather(cache, 1, rows)
    tokens_in = np.full_like(tokens_out, PAD)
    tokens_in[:, 0] = BOS
    # The end mark is written but never read.
    tokens_in[:, 1:] = np.where(target_mask[:, 1:], tokens_out[:, :-1], PAD)
    return Batch(
        source=torch.from_numpy(source),
        source_mask=torch.from_numpy(source_mask),
        tokens_in=torch.from_numpy(tokens_in),
        tokens_out=torch.from_numpy(tokens_out),
        target_mask=torch.from_numpy(target_mask),
        rows=np.asarray(rows),
        links=_gather_links(cache, rows),
        written=torch.from_numpy(np.flatnonzero(target_mask)),
        lengths=torch.from_numpy(source_mask.sum(axis=1)),
    ).to(device)


def _gather(cache: TokenCache, side: int, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    starts = cache.offsets[side][rows]
    lengths = (cache.source_lengths, cache.target_lengths)[side][rows]
    steps = np.arange(lengths.max())
    mask = steps < lengths[:, None]
    ids = np.full(mask.shape, PAD, np.int64)
    ids[mask] = cache.tokens[side][(starts[:, None] + steps)[mask]]
    return ids, mask


def _gather_links(cache: TokenCache, rows: NDArray[Any]) -> Int[Tensor, "N 3"] | None:
    if cache.links is None or cache.link_offsets is None:
        return None
    starts, ends = cache.link_offsets[rows], cache.link_offsets[np.asarray(rows) + 1]
    # Row n of a pair's links is its first one's place plus n: one gather for all pairs.
    pair = np.repeat(np.arange(len(starts)), ends - starts)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(ends - starts) - (ends - starts), ends - starts)
    positions = cache.links[starts[pair] + within].astype(np.int64)
    return torch.from_numpy(np.concatenate((pair[:, None], positions), axis=1))


def pad_sources(sources: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Make one tensor and its mask of sources as they are given: who wants the end mark has it there already."""
    longest = max(map(len, sources), default=0)
    ids = torch.full((len(sources), longest), PAD, dtype=torch.int64)
    mask = torch.zeros((len(sources), longest), dtype=torch.bool)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = torch.tensor(source, dtype=torch.int64)
        mask[row, : len(source)] = True
    return ids, mask
