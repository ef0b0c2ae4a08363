"""Tokens of a corpus in memory-mapped files, so that a corpus larger than memory can be trained on.

A cache is a folder: `source.tokens` and `target.tokens` (all ids one after the other, each text with its end mark),
`source.offsets` and `target.offsets` (where each text starts, and where the last one ends: 64-bit), and `cache.json`.
Where gold alignments were asked for and there are some, `links.tokens` has their links as pairs of positions (target
token, source token), and `links.offsets` where those of each text start. All numbers are raw and little-endian. It is
built beside its place and renamed: it is there whole, or not at all.
"""

import json
import operator
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from regard.data.alignments import token_links
from regard.data.corpus import Corpus
from regard.data.pair import Alignment, Pair
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.data.vocabulary import EOS
from regard.errors import DataError
from regard.files import sync_folder, write_atomically

INDEX: Final = "cache.json"
_SIDES: Final = ("source", "target")
_FORMAT: Final = 2
_AT_ONCE: Final = 4096
"""Pairs encoded in one go."""


@dataclass(frozen=True)
class CacheIndex:
    """What cache.json holds."""

    format: int
    pairs: int
    left_out: int
    """Pairs with more than max_length tokens on either side."""
    longest: int
    """Tokens of the longest text in the corpus, kept or not."""
    max_length: int
    dtype: str
    source_tokens: int
    target_tokens: int
    fingerprint: str
    """Stands for the texts, the tokenizers and max_length: equal means equal tokens."""
    origin: str
    """Stands for the same, but can be told without reading the corpus; empty where it cannot."""
    aligned: int
    """Pairs that were kept with the links of a gold alignment: none where links were not asked for."""
    links: int
    """How many links these have, in tokens."""


class TokenCache:
    """The tokens of all pairs that are not too long; `source(i)` and `target(i)` end with the end mark."""

    def __init__(self, folder: Path, index: CacheIndex) -> None:
        self.folder = folder
        self.index = index
        tokens = [getattr(index, f"{side}_tokens") for side in _SIDES]
        self.tokens = tuple(
            _map(folder / f"{side}.tokens", index.dtype, count) for side, count in zip(_SIDES, tokens, strict=True)
        )
        self.offsets = tuple(_map(folder / f"{side}.offsets", "<i8", index.pairs + 1) for side in _SIDES)
        if any(int(offsets[-1]) != count for offsets, count in zip(self.offsets, tokens, strict=True)):
            raise DataError(f"{folder} is damaged: its offsets do not fit its tokens. {_anew(folder)}")
        self.source_lengths, self.target_lengths = (np.diff(offsets).astype(np.int32) for offsets in self.offsets)
        self.links: NDArray[Any] | None = None
        """Positions (target token, source token) of all pairs, one after the other; `link_offsets` parts them."""
        self.link_offsets: NDArray[Any] | None = None
        if index.aligned:
            self.links, self.link_offsets = self._map_links()

    def _map_links(self) -> tuple[NDArray[Any], NDArray[Any]]:
        positions = _map(self.folder / "links.tokens", _position_dtype(self.index.max_length), 2 * self.index.links)
        offsets = _map(self.folder / "links.offsets", "<i8", self.index.pairs + 1)
        if int(offsets[-1]) != self.index.links:
            raise DataError(f"{self.folder} is damaged: its offsets do not fit its links. {_anew(self.folder)}")
        return positions.reshape(-1, 2), offsets

    def __len__(self) -> int:
        return self.index.pairs

    @property
    def left_out(self) -> int:
        """How many pairs were longer than max_length."""
        return self.index.left_out

    @property
    def fingerprint(self) -> str:
        """Stand for the texts, the tokenizers and max_length: two caches with one fingerprint hold the same."""
        return self.index.fingerprint

    def source(self, row: SupportsIndex) -> NDArray[np.int64]:
        """Return the ids of a source text, with its end mark."""
        return self._text(0, row)

    def target(self, row: SupportsIndex) -> NDArray[np.int64]:
        """Return the ids of a target text, with its end mark."""
        return self._text(1, row)

    def _text(self, side: int, row: SupportsIndex) -> NDArray[np.int64]:
        place = operator.index(row)
        if not 0 <= place < len(self):
            raise IndexError(f"row {place} of {len(self)}")
        start, end = self.offsets[side][place : place + 2]
        return self.tokens[side][start:end].astype(np.int64)

    @classmethod
    def open(cls, folder: Path) -> "TokenCache":
        """Open a cache that was built before."""
        path = folder / INDEX
        try:
            record = json.loads(path.read_bytes())
            # Before anything else: another format may have other entries.
            if record["format"] == _FORMAT:
                return cls(folder, CacheIndex(**record))
        except OSError as error:
            raise DataError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
        except (ValueError, TypeError, KeyError):
            raise DataError(f"{path} is damaged. {_anew(folder)}") from None
        raise DataError(f"{folder} was made by another version of regard. {_anew(folder)}")

    @classmethod
    def build(
        cls, folder: Path, corpus: Iterable[Pair], tokenizers: Tokenizers, max_length: int, links: bool = False
    ) -> "TokenCache":
        """Tokenise a corpus into a folder, in one pass; a cache that is there already is replaced.

        Pairs with more than `max_length` tokens (the end mark not counted) on either side are left out and counted.
        With `links`, gold alignments are kept too, token by token, and `make_batch` gives them; `index.aligned` is
        how many pairs had one.
        """
        building, old = folder.with_name(f".{folder.name}.building"), folder.with_name(f".{folder.name}.old")
        try:
            for leftover in (building, old):
                shutil.rmtree(leftover, ignore_errors=True)
            building.mkdir(parents=True)
            _write(building, corpus, tokenizers, max_length, links)
            if folder.exists():
                folder.rename(old)
            building.rename(folder)
            sync_folder(folder.parent)
        except OSError as error:
            raise DataError(f"Cannot write the tokens to {folder}: {(error.strerror or str(error)).lower()}.") from None
        finally:
            for leftover in (building, old):
                shutil.rmtree(leftover, ignore_errors=True)
        return cls.open(folder)

    @classmethod
    def reuse_or_build(
        cls, folder: Path, corpus: Corpus, tokenizers: Tokenizers, max_length: int, links: bool = False
    ) -> "TokenCache":
        """Open the cache that is there if it was made of the very same things, else build it."""
        try:
            cache = cls.open(folder)
        except DataError:
            return cls.build(folder, corpus, tokenizers, max_length, links)
        if cache.index.origin == _origin(corpus, tokenizers, max_length, links):
            return cache
        return cls.build(folder, corpus, tokenizers, max_length, links)


def _anew(folder: Path) -> str:
    return f"Remove {folder}; it will be made anew."


def _map(path: Path, dtype: str, count: int) -> NDArray[Any]:
    try:
        size, wanted = path.stat().st_size, count * np.dtype(dtype).itemsize
        if size != wanted:
            raise DataError(f"{path} is damaged: it has {size:,} bytes, not {wanted:,}. {_anew(path.parent)}")
        # A plain view of the mapping: NumPy's own class for it makes each access slower.
        return np.memmap(path, dtype, "r", shape=(count,)).view(np.ndarray)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None


def _position_dtype(max_length: int) -> str:
    """Hold positions up to that of the end mark."""
    return "<u2" if max_length < 1 << 16 else "<i4"


def _origin(corpus: Iterable[Pair], tokenizers: Tokenizers, max_length: int, links: bool) -> str:
    if not isinstance(corpus, Corpus):
        return ""
    told = f"{corpus.identity()}\n{tokenizers.fingerprint}\n{max_length}\n{links}"
    return blake2b(told.encode(), digest_size=16).hexdigest()


class _Side:
    """Writes one side's tokens and offsets, a batch at a time."""

    def __init__(self, folder: Path, side: str, tokenizer: Tokenizer, dtype: str) -> None:
        self._tokens, self._offsets = (folder / f"{side}.{what}" for what in ("tokens", "offsets"))
        self._tokenizer, self._dtype = tokenizer, dtype
        self.count = 0
        _append(self._offsets, np.zeros(1, "<i8"))

    def encode(self, texts: list[str]) -> list[list[int]]:
        return self._tokenizer.encode_all(texts)

    def write(self, texts: list[list[int]]) -> None:
        lengths = np.fromiter((len(text) + 1 for text in texts), np.int64, len(texts))
        ids = (token for text in texts for token in (*text, EOS))
        _append(self._tokens, np.fromiter(ids, self._dtype, int(lengths.sum())))
        _append(self._offsets, (self.count + lengths.cumsum()).astype("<i8"))
        self.count += int(lengths.sum())

    def sync(self) -> None:
        _sync(self._tokens, self._offsets)


class _Links:
    """Writes the links of gold alignments, a batch at a time."""

    def __init__(self, folder: Path, tokenizers: Tokenizers, dtype: str) -> None:
        self._links, self._offsets = folder / "links.tokens", folder / "links.offsets"
        self._tokenizers, self._dtype = tokenizers, dtype
        self.aligned = self.count = 0
        _append(self._offsets, np.zeros(1, "<i8"))
        _append(self._links, np.zeros(0, dtype))

    def write(self, alignments: Iterable[Alignment | None], sources: list[list[int]], targets: list[list[int]]) -> None:
        links = []
        for alignment, source, target in zip(alignments, sources, targets, strict=True):
            found: list[tuple[int, int]] = []
            if alignment is not None:
                self.aligned += 1
                words = self._tokenizers.source.words(source), self._tokenizers.target.words(target)
                found = token_links(alignment, *words)
            links.append(found)
        lengths = np.fromiter((len(found) for found in links), np.int64, len(links))
        ends = chain.from_iterable(chain.from_iterable(links))
        _append(self._links, np.fromiter(ends, self._dtype, 2 * int(lengths.sum())))
        _append(self._offsets, (self.count + lengths.cumsum()).astype("<i8"))
        self.count += int(lengths.sum())

    def finish(self) -> None:
        """Keep the files, or where no pair had an alignment none of them."""
        if self.aligned:
            _sync(self._links, self._offsets)
        else:
            self._links.unlink()
            self._offsets.unlink()


def _sync(*paths: Path) -> None:
    for path in paths:
        with open(path, "rb+") as file:
            os.fsync(file.fileno())


def _append(path: Path, numbers: NDArray[Any]) -> None:
    with open(path, "ab") as file:
        file.write(numbers.tobytes())


def _write(folder: Path, corpus: Iterable[Pair], tokenizers: Tokenizers, max_length: int, links: bool) -> None:
    origin = _origin(corpus, tokenizers, max_length, links)
    small = max(tokenizers.source.size, tokenizers.target.size) <= 1 << 16
    dtype = "<u2" if small else "<i4"
    sides = [_Side(folder, side, getattr(tokenizers, side), dtype) for side in _SIDES]
    linked = _Links(folder, tokenizers, _position_dtype(max_length)) if links else None
    digest = blake2b(f"{tokenizers.fingerprint} {max_length}".encode(), digest_size=16)
    pairs = left_out = longest = 0
    for batch in _in_batches(corpus):
        digest.update("".join(_digested(pair, links) for pair in batch).encode())
        encoded = [sides[0].encode([p.source for p in batch]), sides[1].encode([p.target for p in batch])]
        lengths = [max(len(source), len(target)) for source, target in zip(*encoded, strict=True)]
        longest = max(longest, *lengths)
        kept = [row for row, length in enumerate(lengths) if length <= max_length]
        texts = [[side[row] for row in kept] for side in encoded]
        for side, these in zip(sides, texts, strict=True):
            side.write(these)
        if linked is not None:
            linked.write((batch[row].alignment for row in kept), *texts)
        pairs, left_out = pairs + len(kept), left_out + len(batch) - len(kept)
    if not pairs:
        raise _nothing_kept(left_out, longest, max_length)
    for side in sides:
        side.sync()
    if linked is not None:
        linked.finish()
    index = CacheIndex(
        format=_FORMAT,
        pairs=pairs,
        left_out=left_out,
        longest=longest,
        max_length=max_length,
        dtype=dtype,
        source_tokens=sides[0].count,
        target_tokens=sides[1].count,
        fingerprint=digest.hexdigest(),
        origin=origin,
        aligned=linked.aligned if linked is not None else 0,
        links=linked.count if linked is not None else 0,
    )
    write_atomically(folder / INDEX, json.dumps(asdict(index), indent=2).encode() + b"\n")


def _digested(pair: Pair, links: bool) -> str:
    return f"{pair.source}\0{pair.target}\0" + (f"{pair.alignment}\0" if links else "")


def _nothing_kept(left_out: int, longest: int, max_length: int) -> DataError:
    if not left_out:
        return DataError("The corpus is empty: there is nothing to learn from.")
    return DataError(
        f"All {left_out:,} pairs are longer than data.max_length = {max_length} tokens. "
        f"The longest text has {longest:,}: raise data.max_length, or cut the texts into sentences."
    )


def _in_batches(corpus: Iterable[Pair]) -> Iterator[list[Pair]]:
    pairs = iter(corpus)
    while batch := list(islice(pairs, _AT_ONCE)):
        yield batch
