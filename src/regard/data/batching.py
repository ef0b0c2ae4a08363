"""Batching by tokens, with sentences of similar length together, in an order determined by seed and epoch."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from regard.data.special_tokens import BOS, PAD
from regard.data.token_cache import TokenCache
from regard.shapes import Bool, Int, Tensor

_WINDOW: Final = 1 << 17
"""Pairs that are sorted by length at a time. A smaller window is more random, a larger one has less padding."""
PICTURE: Final = 16
"""Tokens that a picture counts as in batching, since encoding one costs more than a word."""
IGNORED: Final = -1
"""The padding value of `tokens_out` in a filled batch, ignored by the loss."""


class BatchShape(NamedTuple):
    """Sizes of a batch."""

    rows: int
    """The number of sources."""
    source: int
    target: int
    links: int
    each: int = 1
    """The number of targets per source."""


class Batch(NamedTuple):
    """Sentence pairs as tensors, or pictures and their captions. Masks are true where there is a token.

    The decoder reads `tokens_in` (start token, then the text) and is trained to output `tokens_out` (the text, then the
    end token).
    """

    source: Tensor
    """Tokens B×S; or region features B×S×D; or pixels B×h×w×C (uint8), whose mask is one true column.

    Several captions may share a picture: then every picture has `each` of them, and there are B / `each` pictures.
    """
    source_mask: Bool[Tensor, "N S"]
    tokens_in: Int[Tensor, "B T"]
    tokens_out: Int[Tensor, "B T"]
    target_mask: Bool[Tensor, "B T"]
    rows: NDArray[Any]
    """The row numbers of the pairs in the cache."""
    links: Int[Tensor, "N 3"] | None = None
    """Gold alignments, where the cache has them: each row (b, t, s) links position t of `tokens_out` in pair b with
    position s of `source`. Pairs without an alignment have no rows."""
    written: Int[Tensor, " N"] | None = None
    """The flat indices where the target mask is true; reading them from a mask on a GPU would synchronise with it."""
    lengths: Int[Tensor, " B"] | None = None
    """The number of source tokens of each pair. It stays on the CPU, as `pack_padded_sequence` requires."""
    is_filled: bool = False
    """Whether it was padded by `filled`; the number of actual pairs is that of `rows`."""
    named: Bool[Tensor, "B T K"] | None = None
    """The objects of its picture that each token of `tokens_out` names; None if unknown."""
    covered: Bool[Tensor, "N K S"] | None = None
    """The cells of a picture that each of its objects covers."""

    def to(self, device: torch.device | str) -> "Batch":
        """Copy the tensors to a device; copies from pinned memory to a GPU are asynchronous."""
        later = torch.device(device).type == "cuda"
        return self._map(lambda tensor: tensor.to(device, non_blocking=later))

    def pinned(self) -> "Batch":
        """Copy the tensors to pinned memory."""
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
            named=None if self.named is None else change(self.named),
            covered=None if self.covered is None else change(self.covered),
        )

    def at_tokens(self, values: Tensor) -> Tensor:
        """Return the entries of `values` (B T …) at target tokens, without padding, row after row (N …).

        A filled batch keeps its padding, where `tokens_out` is IGNORED.
        """
        if self.is_filled:
            return values.flatten(0, 1)
        return values[self.target_mask] if self.written is None else values.flatten(0, 1)[self.written]

    @property
    def places(self) -> Bool[Tensor, "B T S"] | None:
        """The cells covered by the objects that each token of `tokens_out` names; None if unknown."""
        if self.named is None or self.covered is None:
            return None
        return self.named.float() @ self.covered.repeat_interleave(self.each, dim=0).float() > 0

    @property
    def each(self) -> int:
        """The number of targets per source; they are consecutive rows."""
        return len(self.tokens_out) // len(self.source)

    @property
    def count(self) -> int:  # type: ignore[override]
        """The number of target tokens, by which the summed loss is divided."""
        return int(self.target_mask.sum())

    def regular(self, batch_tokens: int, longest: int) -> "Batch":
        """Pad the batch to one of a few fixed shapes, with no text longer than `longest`."""
        return self.filled(few_shape(self.shape, batch_tokens, longest))

    def filled(self, shape: BatchShape) -> "Batch":
        """Pad the batch with empty rows and columns to a given shape, on the CPU.

        An added row has a source of one token, so that there is something to attend to, and no target. Links are padded
        to the number in `shape` with sentence number -1.
        """
        rows, source, target = (new - old for new, old in zip(shape[:3], self.shape[:3], strict=True))
        read, write = (0, source, 0, rows), (0, target, 0, rows * self.each)
        further = (0, 0) * (self.source.dim() - 2)  # no padding of pixels or features
        source_mask = functional.pad(self.source_mask, read)
        source_mask[len(self.source) :, 0] = True
        target_mask = functional.pad(self.target_mask, write)
        tokens_out = functional.pad(self.tokens_out, write).masked_fill_(~target_mask, IGNORED)
        return Batch(
            functional.pad(self.source, (*further, *read), value=PAD),
            source_mask,
            functional.pad(self.tokens_in, write, value=PAD),
            tokens_out,
            target_mask,
            self.rows,
            None
            if self.links is None
            else functional.pad(self.links, (0, 0, 0, shape.links - len(self.links)), value=-1),
            None,
            None if self.lengths is None else functional.pad(self.lengths, (0, rows), value=1),
            is_filled=True,
            named=None if self.named is None else functional.pad(self.named, (0, 0, *write)),
            covered=None if self.covered is None else functional.pad(self.covered, (0, 0, 0, 0, 0, rows)),
        )

    def tensors(self) -> list[Tensor]:
        """Return the tensors that are moved to a device."""
        parts = (self.source, self.source_mask, self.tokens_in, self.tokens_out, self.target_mask, self.links)
        return [part for part in (*parts, self.written, self.named, self.covered) if part is not None]

    @property
    def shape(self) -> BatchShape:
        """The shape of the batch."""
        links = 0 if self.links is None else len(self.links)
        rows, source = self.source.shape[:2]
        return BatchShape(
            rows, source if self.source.dim() == 2 else PICTURE, self.tokens_out.shape[1], links, self.each
        )


def twice(batch: Batch) -> Batch:
    """Return the batch concatenated with itself: all pairs in order, then all once more."""
    links, written, lengths = batch.links, batch.written, batch.lengths
    if links is not None:
        again = links.clone()
        again[:, 0] += batch.source.shape[0]
        links = torch.cat((links, again.masked_fill_(links[:, :1] < 0, -1)))
    return Batch(
        batch.source.repeat(2, *[1] * (batch.source.dim() - 1)),
        batch.source_mask.repeat(2, 1),
        batch.tokens_in.repeat(2, 1),
        batch.tokens_out.repeat(2, 1),
        batch.target_mask.repeat(2, 1),
        np.tile(batch.rows, 2),
        links,
        None if written is None else torch.cat((written, written + batch.tokens_out.numel())),
        None if lengths is None else lengths.repeat(2),
        batch.is_filled,
        None if batch.named is None else batch.named.repeat(2, 1, 1),
        None if batch.covered is None else batch.covered.repeat(2, 1, 1),
    )


class BatchOrder:
    """The batches of each epoch, as rows of a cache.

    A batch of B pairs whose longest text has L tokens, end token included, has B·L <= batch_tokens; a pair longer than
    that is a batch by itself. Each epoch has every pair once, or those that `draw` gives. With `few_shapes`, L is
    rounded up by `rounded`, so that batches padded to `few_shape` have only a few shapes.
    """

    def __init__(
        self,
        source_lengths: NDArray[Any],
        target_lengths: NDArray[Any],
        batch_tokens: int,
        seed: int,
        few_shapes: bool = False,
        draw: Callable[[int], NDArray[np.int64]] | None = None,
    ) -> None:
        """`draw` returns the pairs of an epoch: a pure function of its number."""
        self._lengths = np.stack((source_lengths, target_lengths)).astype(np.int32)
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._few_shapes = few_shapes
        self._draw = draw

    @classmethod
    def of(
        cls,
        cache: TokenCache,
        batch_tokens: int,
        seed: int,
        few_shapes: bool = False,
        draw: Callable[[int], NDArray[np.int64]] | None = None,
    ) -> "BatchOrder":
        """Order the pairs of a cache."""
        return cls(cache.source_lengths, cache.target_lengths, batch_tokens, seed, few_shapes, draw)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the batches of an epoch, in order, each as rows of the cache.

        Only raw random bits are drawn, which NumPy keeps stable across releases.
        """
        random = np.random.PCG64([self._seed % 2**64, epoch])
        drawn = np.arange(self._lengths.shape[1]) if self._draw is None else self._draw(epoch)
        order = drawn[_permutation(random, len(drawn))]
        batches: list[NDArray[np.int64]] = []
        for start in range(0, len(order), _WINDOW):
            window = order[start : start + _WINDOW]
            source, target = self._lengths[:, window]
            # The sort is stable: pairs of equal length stay shuffled.
            like = window[np.lexsort((source, target, np.maximum(source, target)))]
            batches += self._fill(like)
        return [batches[i] for i in _permutation(random, len(batches))]

    def _fill(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Split sorted rows into batches, each as large as allowed."""
        longest = self._lengths[:, rows].max(axis=0).astype(np.int64)
        if self._few_shapes:
            longest = np.array([rounded(length) for length in longest.tolist()])
        batches, start = [], 0
        while start < len(rows):
            most = max(1, self._batch_tokens // int(longest[start]))
            # Rows are sorted by their longer side: the last one of a batch is its longest.
            padded = longest[start : start + most] * np.arange(1, 1 + len(longest[start : start + most]))
            end = start + max(1, int(np.searchsorted(padded, self._batch_tokens, side="right")))
            batches.append(rows[start:end])
            start = end
        return batches


def rounded(length: int) -> int:
    """Round a length up, by at most a quarter: to one of four between each power of two and the next."""
    step = 1 << max(0, (length - 1).bit_length() - 3)
    return -(-length // step) * step


def few_shape(shape: BatchShape, batch_tokens: int, longest: int) -> BatchShape:
    """Return the fixed shape that a batch is padded to with `few_shapes`; the number of rows follows from the lengths.

    Lengths are not rounded up beyond `longest`: a model may support no more positions.
    """
    rows = max(shape.rows, batch_tokens // shape.each // max(rounded(shape.source), rounded(shape.target)))
    source, target = (max(length, min(rounded(length), longest)) for length in (shape.source, shape.target))
    return BatchShape(rows, source, target, max(shape.links, 2 * rows * target) if shape.links else 0, shape.each)


def _permutation(random: np.random.PCG64, count: int) -> NDArray[np.int64]:
    return np.argsort(random.random_raw(count), kind="stable")


@runtime_checkable
class Tokens(Protocol):
    """The interface batches are made from: a token cache, or the tokens of one epoch."""

    @property
    def tokens(self) -> tuple[NDArray[Any], ...]:
        """The ids of the sources and of the targets, one text after the other."""

    @property
    def offsets(self) -> tuple[NDArray[Any], ...]:
        """The start of each source and target, and the end of the last."""

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """The number of tokens of each source, end token included."""

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """The number of tokens of each target, end token included."""

    @property
    def links(self) -> NDArray[Any] | None:
        """The token links of gold alignments, if there are any."""

    @property
    def link_offsets(self) -> NDArray[Any] | None:
        """The start of each pair's links, and the end of the last."""


def make_batch(cache: Tokens, rows: NDArray[Any], device: torch.device | str = "cpu") -> Batch:
    """Collate rows of a cache into a padded batch, with alignment links if the cache was built with `links=True`."""
    source, source_mask = _gather(cache, 0, rows)
    return _beside(cache, rows, source, source_mask).to(device)


def draw_each(starts: NDArray[Any], pictures: NDArray[Any], each: int, raw: NDArray[Any]) -> NDArray[np.int64]:
    """Draw `each` captions of, or questions about, each of some pictures; return their numbers.

    Items repeat only if a picture has fewer than `each`. `raw` has a random number for every item; the items of a
    picture lie between its start and the next one's, and there is at least one.
    """
    counts = np.diff(starts)
    order = np.lexsort((raw, np.repeat(np.arange(len(counts)), counts)))  # shuffled within each picture
    places = starts[pictures][:, None] + np.arange(each) % counts[pictures][:, None]
    return np.asarray(order[places].ravel(), np.int64)


def make_picture_batch(cache: TokenCache, rows: NDArray[Any], pictures: NDArray[Any]) -> Batch:
    """Collate captions, given as rows of a cache, with their pictures: pixels, or region features.

    Several consecutive rows may share a picture, the same number for each.
    """
    real = np.ones((len(pictures), 1 if pictures.ndim == 4 else pictures.shape[1]), np.bool_)
    return _beside(cache, rows, np.ascontiguousarray(pictures), real)


def _beside(cache: Tokens, rows: NDArray[Any], source: NDArray[Any], source_mask: NDArray[np.bool_]) -> Batch:
    """Collate the targets of pairs, given their sources."""
    tokens_out, target_mask = _gather(cache, 1, rows)
    tokens_in = np.full_like(tokens_out, PAD)
    tokens_in[:, 0] = BOS
    # The end token is an output but never an input.
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
    )


def _gather(cache: Tokens, side: int, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    starts = cache.offsets[side][rows]
    lengths = (cache.source_lengths, cache.target_lengths)[side][rows]
    steps = np.arange(lengths.max())
    mask = steps < lengths[:, None]
    ids = np.full(mask.shape, PAD, np.int64)
    ids[mask] = cache.tokens[side][(starts[:, None] + steps)[mask]]
    return ids, mask


def _gather_links(cache: Tokens, rows: NDArray[Any]) -> Int[Tensor, "N 3"] | None:
    if cache.links is None or cache.link_offsets is None:
        return None
    starts, ends = cache.link_offsets[rows], cache.link_offsets[np.asarray(rows) + 1]
    # Link n of a pair is at the start of its links plus n: one gather for all pairs.
    pair = np.repeat(np.arange(len(starts)), ends - starts)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(ends - starts) - (ends - starts), ends - starts)
    positions = cache.links[starts[pair] + within].astype(np.int64)
    return torch.from_numpy(np.concatenate((pair[:, None], positions), axis=1))


def pad_sources(sources: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Pad sources to one tensor and its mask; no end token is added."""
    longest = max(map(len, sources), default=0)
    ids = torch.full((len(sources), longest), PAD, dtype=torch.int64)
    mask = torch.zeros((len(sources), longest), dtype=torch.bool)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = torch.tensor(source, dtype=torch.int64)
        mask[row, : len(source)] = True
    return ids, mask
