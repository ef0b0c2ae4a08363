"""Tokens of a corpus in memory-mapped files, so that a corpus larger than memory can be trained on.

A cache is a folder: `source.tokens` and `target.tokens` (all ids one after the other, each text with its end mark),
`source.offsets` and `target.offsets` (where each text starts, and where the last one ends: 64-bit), and `cache.json`.
All numbers are raw and little-endian. It is built beside its place and renamed: it is there whole, or not at all.
"""

import json
import operator
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus import Corpus
from regard.data.pair import Pair
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.data.vocabulary import EOS
from regard.errors import DataError
from regard.files import sync_folder, write_atomically

INDEX: Final = "cache.json"
_SIDES: Final = ("source", "target")
_FORMAT: Final = 1
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
            index = CacheIndex(**json.loads(path.read_bytes()))
            if index.format == _FORMAT:
                return cls(folder, index)
        except OSError as error:
            raise DataError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
        except (ValueError, TypeError):
            raise DataError(f"{path} is damaged. {_anew(folder)}") from None
        raise DataError(f"{folder} was made by another version of regard. {_anew(folder)}")

    @classmethod
    def build(cls, folder: Path, corpus: Iterable[Pair], tokenizers: Tokenizers, max_length: int) -> "TokenCache":
        """Tokenise a corpus into a folder, in one pass; a cache that is there already is replaced.

        Pairs with more than `max_length` tokens (the end mark not counted) on either side are left out and counted.
        """
        building, old = folder.with_name(f".{folder.name}.building"), folder.with_name(f".{folder.name}.old")
        try:
            for leftover in (building, old):
                shutil.rmtree(leftover, ignore_errors=True)
            building.mkdir(parents=True)
            _write(building, corpus, tokenizers, max_length)
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
    def reuse_or_build(cls, folder: Path, corpus: Corpus, tokenizers: Tokenizers, max_length: int) -> "TokenCache":
        """Open the cache that is there if it was made of the very same things, else build it."""
        try:
            cache = cls.open(folder)
        except DataError:
            return cls.build(folder, corpus, tokenizers, max_length)
        if cache.index.origin == _origin(corpus, tokenizers, max_length):
            return cache
        return cls.build(folder, corpus, tokenizers, max_length)


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


def _origin(corpus: Iterable[Pair], tokenizers: Tokenizers, max_length: int) -> str:
    if not isinstance(corpus, Corpus):
        return ""
    told = f"{corpus.identity()}\n{tokenizers.fingerprint}\n{max_length}"
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
        for path in (self._tokens, self._offsets):
            with open(path, "rb+") as file:
                os.fsync(file.fileno())


def _append(path: Path, numbers: NDArray[Any]) -> None:
    with open(path, "ab") as file:
        file.write(numbers.tobytes())


def _write(folder: Path, corpus: Iterable[Pair], tokenizers: Tokenizers, max_length: int) -> None:
    origin = _origin(corpus, tokenizers, max_length)
    small = max(tokenizers.source.size, tokenizers.target.size) <= 1 << 16
    dtype = "<u2" if small else "<i4"
    sides = [_Side(folder, side, getattr(tokenizers, side), dtype) for side in _SIDES]
    digest = blake2b(f"{tokenizers.fingerprint} {max_length}".encode(), digest_size=16)
    pairs = left_out = longest = 0
    for batch in _in_batches(corpus):
        digest.update("".join(f"{pair.source}\0{pair.target}\0" for pair in batch).encode())
        encoded = [sides[0].encode([p.source for p in batch]), sides[1].encode([p.target for p in batch])]
        lengths = [max(len(source), len(target)) for source, target in zip(*encoded, strict=True)]
        longest = max(longest, *lengths)
        for side, texts in zip(sides, encoded, strict=True):
            side.write([text for text, length in zip(texts, lengths, strict=True) if length <= max_length])
        kept = sum(length <= max_length for length in lengths)
        pairs, left_out = pairs + kept, left_out + len(batch) - kept
    if not pairs:
        raise _nothing_kept(left_out, longest, max_length)
    for side in sides:
        side.sync()
    index = CacheIndex(
        _FORMAT, pairs, left_out, longest, max_length, dtype, sides[0].count, sides[1].count, digest.hexdigest(), origin
    )
    write_atomically(folder / INDEX, json.dumps(asdict(index), indent=2).encode() + b"\n")


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
