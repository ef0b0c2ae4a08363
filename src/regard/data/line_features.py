"""Features of each line of a corpus, so that checks keep no text in memory: 62 bytes per line of any length.

Characters are processed by NumPy for thousands of lines at once; only hashing is line by line. Hashes have 64 bits: the
probability of any collision among a million texts is less than one in ten million.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.raw_lines import BLANK, EMPTY, MALFORMED, RawLine
from regard.data.unicode_scripts import CONTROL, FOLDED, SPACE, SUSPECT, TAGGING, Characters, Scripts

FAULTS: Final = ("", MALFORMED, EMPTY, BLANK)
MANGLED: Final = 1
"""Reads as if UTF-8 had been read as Latin-1 (mojibake)."""
MARKED_UP: Final = 2
"""Has a tag or an entity of HTML."""
CONTROLS: Final = 4
"""Has a control character, or the replacement character U+FFFD."""
_AT_ONCE: Final = 4096
_CHARACTERS_AT_ONCE: Final = 1 << 20
_LOOKED_AT: Final = 100_000
"""Maximum characters of a text that are classified; its hash, length and words are those of the whole."""
_SAMPLED: Final = 16
"""One line in this many is sampled for how many of its target's words occur in its source."""
_MOJIBAKE: Final = re.compile("Ã[\x80-\xbf–œŸ‰„Š€‡]|Â[\x80-\xbf]|â€|(?:[ÐÑ][\x80-\xbf‚ƒ„…†‡ˆ‰Š‹Œ‘’“”•–—˜™š›œžŸ]){2}")
_MARKUP: Final = re.compile(r"</?[A-Za-z][^<>]*>|&(?:amp|lt|gt|quot|apos|nbsp|#\d+|#x[0-9A-Fa-f]+);")


class Features(NamedTuple):
    """The features of each line; arrays with two rows are for sources and targets."""

    fault: NDArray[np.uint8]
    """Place in FAULTS."""
    aligned: NDArray[np.bool_]
    exact: NDArray[np.int64]
    """Hash of the exact text."""
    folded: NDArray[np.int64]
    """Hash of the folded text: lower case, all digits alike, without punctuation and white space."""
    length: NDArray[np.int32]
    """Length in characters."""
    words: NDArray[np.int32]
    script: NDArray[np.uint8]
    """The script of most of its letters."""
    letters: NDArray[np.int32]
    """The number of letters in that script."""
    oddities: NDArray[np.uint8]
    """Bit flags: MANGLED, MARKED_UP, CONTROLS."""


class Measured(NamedTuple):
    """The features of a corpus."""

    features: Features
    scripts: tuple[str, ...]
    """The names of scripts, by number."""
    shared: float
    """The share of the targets' words that occur in their sources."""


class _Texts(NamedTuple):
    """The features that concern single texts."""

    exact: list[int]
    folded: list[int]
    length: NDArray[np.int32]
    words: NDArray[np.int32]
    script: NDArray[np.uint8]
    letters: NDArray[np.int32]
    oddities: NDArray[np.uint8]


def measure(lines: Iterable[RawLine]) -> Measured:
    """Compute the features of a corpus in one pass."""
    scripts, parts, found, asked = Scripts(), [], 0, 0
    for batch in _batches(lines):
        parts.append(_features(batch, scripts))
        for pair in (entry.pair for entry in batch[::_SAMPLED] if not entry.fault):
            words, known = pair.target.split(), set(pair.source.split())
            found, asked = found + sum(word in known for word in words), asked + len(words)
    columns = zip(*parts, strict=True) if parts else [[part] for part in _features([], scripts)]
    whole = Features(*(np.concatenate(column, axis=-1) for column in columns))
    return Measured(whole, tuple(scripts.names), found / max(1, asked))


def _batches(lines: Iterable[RawLine]) -> Iterator[list[RawLine]]:
    """Group lines into batches, with fewer lines if they are long."""
    batch: list[RawLine] = []
    room, coming = _CHARACTERS_AT_ONCE, iter(lines)
    while more := list(islice(coming, 64)):
        batch += more
        room -= sum([len(entry.pair.source) + len(entry.pair.target) for entry in more])
        if len(batch) >= _AT_ONCE or room < 0:
            yield batch
            batch, room = [], _CHARACTERS_AT_ONCE
    if batch:
        yield batch


def _features(batch: Sequence[RawLine], scripts: Scripts) -> Features:
    texts = _describe([*(entry.pair.source for entry in batch), *(entry.pair.target for entry in batch)], scripts)
    return Features(
        np.array([FAULTS.index(entry.fault) for entry in batch], np.uint8),
        np.array([entry.pair.alignment is not None for entry in batch], np.bool_),
        *(np.asarray(column).reshape(2, -1) for column in texts),
    )


def _describe(texts: Sequence[str], scripts: Scripts) -> _Texts:
    length = np.fromiter(map(len, texts), np.int32, len(texts))
    exact = [hash(text) for text in texts]
    far = np.flatnonzero(length > _LOOKED_AT).tolist()
    in_all = [len(texts[place].split()) for place in far]
    if far:
        texts = [text[:_LOOKED_AT] for text in texts]
    sizes = np.minimum(length, _LOOKED_AT).astype(np.int64)
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
    characters, ends = scripts.look_up(codes), sizes.cumsum()
    spans = ends - sizes, ends
    script, letters = _majority(characters.script, sizes, len(scripts.names))
    folded = _hashes(characters, spans, exact)
    for place in far:  # only partly read: compare the exact hash instead
        folded[place] = exact[place]
    oddities = _oddities(texts, characters.kind, ends)
    words = _count(_starts_of_words(characters.kind, spans[0], sizes), spans).astype(np.int32)
    words[far] = in_all
    return _Texts(exact, folded, length, words, script, letters, oddities)


Spans = tuple[NDArray[np.int64], NDArray[np.int64]]


def _count(flags: NDArray[np.bool_], spans: Spans) -> NDArray[np.int64]:
    """Count the flags of each text."""
    total = np.concatenate(([0], flags.cumsum(dtype=np.int32)))
    return np.asarray(total[spans[1]] - total[spans[0]])


def _majority(script: NDArray[np.uint8], sizes: NDArray[Any], count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the most frequent script of each text's letters, and their number."""
    places = np.flatnonzero(script)
    owner = np.repeat(np.arange(len(sizes)), sizes)[places]
    counts = np.bincount(owner * count + script[places], minlength=len(sizes) * count).reshape(-1, count)
    return counts.argmax(axis=1).astype(np.uint8), counts.max(axis=1).astype(np.int32)


def _starts_of_words(kind: NDArray[np.uint8], starts: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.bool_]:
    space = (kind & SPACE) > 0
    after = np.concatenate(([True], space[:-1])) if len(space) else space
    after[starts[sizes > 0]] = True
    return ~space & after


def _hashes(characters: Characters, spans: Spans, exact: list[int]) -> list[int]:
    """Hash each folded text; one that folds to nothing keeps its exact hash."""
    kept = (characters.kind & FOLDED) == 0
    counts = _count(kept, spans)
    ends = 4 * counts.cumsum()
    left, starts, ends = characters.folded[kept].tobytes(), (ends - 4 * counts).tolist(), ends.tolist()
    return [hash(left[a:b]) if a < b else own for a, b, own in zip(starts, ends, exact, strict=True)]


def _oddities(texts: Sequence[str], kind: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.uint8]:
    found = np.zeros(len(texts), np.uint8)
    found[_having(kind, CONTROL, ends)] = CONTROLS
    for flag, pattern, oddity in ((SUSPECT, _MOJIBAKE, MANGLED), (TAGGING, _MARKUP, MARKED_UP)):
        for place in _having(kind, flag, ends).tolist():
            if pattern.search(texts[place]):
                found[place] |= oddity
    return found


def _having(kind: NDArray[np.uint8], flag: int, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which texts have a character of some kind."""
    return np.unique(np.searchsorted(ends, np.flatnonzero(kind & flag), side="right"))
