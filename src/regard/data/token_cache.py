"""Tokens of a corpus in memory-mapped files, so that a corpus larger than memory can be trained on.

A cache is a folder: `source.tokens` and `target.tokens` (all ids concatenated, each text with its end token),
`source.offsets` and `target.offsets` (the start of each text, and the end of the last: 64-bit), and `cache.json`. If
gold alignments were requested and there are any, `links.tokens` has their links as pairs of positions (target token,
source token), and `links.offsets` the start of each text's links. All numbers are raw and little-endian. A cache is
built under a temporary name and renamed, so it is complete or absent.
"""

import json
import operator
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from regard.atomic_files import folder_anew, write_atomically
from regard.data.corpus import Corpus
from regard.data.pair import Pair
from regard.data.parallel_tokenization import TOKEN_TYPES, messages, pack_all, position_dtype, token_dtype
from regard.data.tokenizers import Tokenizers
from regard.errors import DataError
from regard.folder_files import member, parse_json, read_member

INDEX: Final = "cache.json"
_SIDES: Final = ("source", "target")
_FORMAT: Final = 2


@dataclass(frozen=True)
class CacheIndex:
    """The content of cache.json."""

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
    """A checksum of the texts, the tokenizers and max_length: if equal, the tokens are equal."""
    origin: str
    """An identifier of the same that needs no pass over the corpus; empty if there is none."""
    aligned: int
    """Kept pairs with a gold alignment; 0 if links were not requested."""
    links: int
    """Number of their token links."""
    each: list[int] = field(default_factory=list)
    """Kept pairs of each of several concatenated corpora; empty for a single corpus."""


class TokenCache:
    """The tokens of all pairs that are not too long; `source(i)` and `target(i)` include the end token."""

    def __init__(self, folder: Path, index: CacheIndex) -> None:
        self.folder = folder
        self.index = index
        tokens = [getattr(index, f"{side}_tokens") for side in _SIDES]
        self.tokens = tuple(
            _map(folder / f"{side}.tokens", index.dtype, count) for side, count in zip(_SIDES, tokens, strict=True)
        )
        self.offsets = tuple(_map(folder / f"{side}.offsets", "<i8", index.pairs + 1) for side in _SIDES)
        lengths = [np.diff(offsets) for offsets in self.offsets]
        whole = (
            int(offsets[0]) == 0 and int(offsets[-1]) == count and (not len(each) or int(each.min()) >= 0)
            for offsets, each, count in zip(self.offsets, lengths, tokens, strict=True)
        )
        if not all(whole):
            raise DataError(f"{folder} is damaged: its offsets do not fit its tokens. {_anew(folder)}")
        self.source_lengths, self.target_lengths = (each.astype(np.int32) for each in lengths)
        self.links: NDArray[Any] | None = None
        """Positions (target token, source token) of the links of all pairs; `link_offsets` separates the pairs."""
        self.link_offsets: NDArray[Any] | None = None
        if index.aligned:
            self.links, self.link_offsets = self._map_links()

    def _map_links(self) -> tuple[NDArray[Any], NDArray[Any]]:
        positions = _map(self.folder / "links.tokens", position_dtype(self.index.max_length), 2 * self.index.links)
        offsets = _map(self.folder / "links.offsets", "<i8", self.index.pairs + 1)
        if int(offsets[-1]) != self.index.links:
            raise DataError(f"{self.folder} is damaged: its offsets do not fit its links. {_anew(self.folder)}")
        return positions.reshape(-1, 2), offsets

    def __len__(self) -> int:
        return self.index.pairs

    @property
    def left_out(self) -> int:
        """The number of pairs left out as longer than max_length."""
        return self.index.left_out

    @property
    def fingerprint(self) -> str:
        """A checksum of the texts, the tokenizers and max_length: if equal, the caches are equal."""
        return self.index.fingerprint

    def source(self, row: SupportsIndex) -> NDArray[np.int64]:
        """Return the ids of a source text, end token included."""
        return self._text(0, row)

    def target(self, row: SupportsIndex) -> NDArray[np.int64]:
        """Return the ids of a target text, end token included."""
        return self._text(1, row)

    def _text(self, side: int, row: SupportsIndex) -> NDArray[np.int64]:
        place = operator.index(row)
        if not 0 <= place < len(self):
            raise IndexError(f"row {place} of {len(self)}")
        start, end = self.offsets[side][place : place + 2]
        return self.tokens[side][start:end].astype(np.int64)

    @classmethod
    def open(cls, folder: Path) -> "TokenCache":
        """Open an existing cache."""
        path = folder / INDEX
        try:
            record = parse_json(read_member(folder, INDEX))
            # Checked first: another format may have other entries.
            if record["format"] == _FORMAT:
                if record["dtype"] not in TOKEN_TYPES:
                    raise ValueError
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
        """Tokenize a corpus into a folder in one pass, replacing any existing cache.

        Pairs with more than `max_length` tokens (without end token) on either side are left out and counted. With
        `links`, gold alignments are stored as token links for `make_batch`; `index.aligned` counts the pairs that have
        one.
        """
        try:
            with folder_anew(folder) as building:
                _write(building, corpus, tokenizers, max_length, links)
        except OSError as error:
            raise DataError(f"Cannot write the tokens to {folder}: {(error.strerror or str(error)).lower()}.") from None
        return cls.open(folder)

    @classmethod
    def reuse_or_build(
        cls, folder: Path, corpus: Corpus, tokenizers: Tokenizers, max_length: int, links: bool = False
    ) -> "TokenCache":
        """Open the existing cache if it was made from the same inputs, else build it."""
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
        # A plain ndarray view, since np.memmap makes each access slower.
        return np.memmap(member(path.parent, path.name), dtype, "r", shape=(count,)).view(np.ndarray)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None


def _origin(corpus: Iterable[Pair], tokenizers: Tokenizers, max_length: int, links: bool) -> str:
    if not isinstance(corpus, Corpus):
        return ""
    told = f"{corpus.identity()}\n{tokenizers.fingerprint}\n{max_length}\n{links}"
    return blake2b(told.encode(), digest_size=16).hexdigest()


class _Texts:
    """Appends texts, or the links of texts, to a file of numbers and a file of offsets."""

    def __init__(self, folder: Path, name: str) -> None:
        self._numbers, self._offsets = (folder / f"{name}.{what}" for what in ("tokens", "offsets"))
        self.count = 0
        _append(self._numbers, b"")
        _append(self._offsets, np.zeros(1, "<i8").tobytes())

    def write(self, numbers: bytes, lengths: bytes) -> int:
        """Append texts, given as concatenated numbers and lengths; return the number of texts."""
        ends = self.count + np.frombuffer(lengths, "<i8").cumsum()
        _append(self._numbers, numbers)
        _append(self._offsets, ends.astype("<i8").tobytes())
        self.count = int(ends[-1]) if len(ends) else self.count
        return len(ends)

    def keep(self) -> None:
        """Flush and sync the files to disk."""
        for path in (self._numbers, self._offsets):
            with open(path, "rb+") as file:
                os.fsync(file.fileno())

    def remove(self) -> None:
        """Delete the files."""
        self._numbers.unlink()
        self._offsets.unlink()


def _append(path: Path, content: bytes) -> None:
    with open(path, "ab") as file:
        file.write(content)


def _write(folder: Path, corpus: Iterable[Pair], tokenizers: Tokenizers, max_length: int, links: bool) -> None:
    origin = _origin(corpus, tokenizers, max_length, links)
    source, target, linked = (_Texts(folder, name) for name in (*_SIDES, "links"))
    corpora = corpus.parts if isinstance(corpus, Corpus) else (corpus,)
    each, coming = [0] * len(corpora), deque[int]()
    digest = blake2b(f"{tokenizers.fingerprint} {max_length}".encode(), digest_size=16)
    pairs = left_out = longest = aligned = 0

    def digested() -> Iterator[bytes]:
        for number, one in enumerate(corpora):
            for message in messages(one, links):
                digest.update(message)
                coming.append(number)
                yield message

    told = folder / "tokenizers"
    with closing(pack_all(digested(), tokenizers, max_length, links, told)) as batches:
        for packed in batches:
            kept = source.write(packed.source, packed.source_lengths)
            pairs += kept
            each[coming.popleft()] += kept
            target.write(packed.target, packed.target_lengths)
            linked.write(packed.links, packed.link_counts)
            counts = np.frombuffer(packed.counts, "<i8").tolist()
            left_out, longest, aligned = left_out + counts[0], max(longest, counts[1]), aligned + counts[2]
    shutil.rmtree(told, ignore_errors=True)
    if not pairs:
        raise _nothing_kept(left_out, longest, max_length)
    source.keep()
    target.keep()
    if aligned:
        linked.keep()
    else:
        linked.remove()
    index = CacheIndex(
        format=_FORMAT,
        pairs=pairs,
        left_out=left_out,
        longest=longest,
        max_length=max_length,
        dtype=token_dtype(tokenizers),
        source_tokens=source.count,
        target_tokens=target.count,
        fingerprint=digest.hexdigest(),
        origin=origin,
        aligned=aligned,
        links=linked.count,
        each=each if len(each) > 1 else [],
    )
    write_atomically(folder / INDEX, json.dumps(asdict(index), indent=2).encode() + b"\n")


def _nothing_kept(left_out: int, longest: int, max_length: int) -> DataError:
    if not left_out:
        return DataError("The corpus is empty: there is nothing to learn from.")
    return DataError(
        f"All {left_out:,} pairs are longer than data.max_length = {max_length} tokens. "
        f"The longest text has {longest:,}: raise data.max_length, or cut the texts into sentences."
    )
