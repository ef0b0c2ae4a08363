"""Read a corpus line by line without stopping at errors, for checks; training stops at the first error."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from regard.data.corpus import Corpus, EmptyError, FileCorpus
from regard.data.line_files import LineError
from regard.data.mixed_corpora import MixedCorpora
from regard.data.pair import Pair
from regard.errors import DataError


class RawLine(NamedTuple):
    """One line (of parallel files, one of each)."""

    pair: Pair
    """The parsed pair; if the line is malformed, the whole line as the source."""
    fault: str = ""
    """`malformed` or `empty` if training would reject the line, else empty."""
    why: str = ""
    """The error message of training."""

    def reversed(self) -> "RawLine":
        """Swap source and target, unless the line is malformed."""
        return self if self.fault == MALFORMED else self._replace(pair=self.pair.reversed())


MALFORMED = "malformed"
EMPTY = "empty"
BLANK = "blank"
"""The fault of a blank line of plain text, which is skipped."""


def entries(corpus: Corpus) -> Iterator[RawLine]:
    """Yield every line of a corpus in order; for a generated corpus, every pair.

    Raises a DataError only for problems of a whole file: parallel files of different lengths, a file that is not text.
    """
    if isinstance(corpus, MixedCorpora):
        for part in corpus.parts:
            yield from entries(part)
        return
    if not isinstance(corpus, FileCorpus):
        yield from map(RawLine, corpus)
        return
    number = 0
    for number, lines in enumerate(zip_longest(*(file.each() for file in corpus.files)), start=1):
        if None in lines:
            raise corpus.unequal(number, lines)
        yield _entry(corpus, number, lines)
    if not number:
        raise corpus.nothing()


def _entry(corpus: FileCorpus, number: int, lines: tuple[str | LineError, ...]) -> RawLine:
    texts = [line for line in lines if isinstance(line, str)]
    if len(texts) < len(lines):
        error = next(line for line in lines if isinstance(line, LineError))
        return _malformed([line if isinstance(line, str) else line.text for line in lines], error)
    if not corpus.paired and not texts[0].strip():
        return RawLine(Pair("", ""), BLANK)
    try:
        return RawLine(corpus.pair(number, texts))
    except EmptyError as error:
        return RawLine(error.pair, EMPTY, str(error))
    except DataError as error:
        return _malformed(texts, error)


def _malformed(texts: list[str], error: DataError) -> RawLine:
    return RawLine(Pair("\t".join(texts), ""), MALFORMED, str(error))
