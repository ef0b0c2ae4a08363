"""A corpus line by line, whatever is wrong with it: what checks read, where training stops at the first error."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from regard.data.corpus import Corpus, EmptyError, Files
from regard.data.line_files import LineError
from regard.data.mixed_corpora import MixedCorpora
from regard.data.pair import Pair
from regard.errors import DataError


class Entry(NamedTuple):
    """One line (of parallel files, one of each)."""

    pair: Pair
    """As it is to be read; of what cannot be read, the whole line is the source."""
    fault: str = ""
    """`malformed` or `empty` where training would refuse the line, else nothing."""
    why: str = ""
    """What training would say."""

    def reversed(self) -> "Entry":
        """Turn the pair round, if it is one."""
        return self if self.fault == MALFORMED else self._replace(pair=self.pair.reversed())


MALFORMED = "malformed"
EMPTY = "empty"
BLANK = "blank"
"""A line without text in a file of plain text, which is passed over."""


def entries(corpus: Corpus) -> Iterator[Entry]:
    """Yield every line of a corpus, in order; of one that no files hold, every pair.

    Raises a DataError only for what is wrong with a file as a whole: files that do not pair, one that is not text.
    """
    if isinstance(corpus, MixedCorpora):
        for part in corpus.parts:
            yield from entries(part)
        return
    if not isinstance(corpus, Files):
        yield from map(Entry, corpus)
        return
    number = 0
    for number, lines in enumerate(zip_longest(*(file.each() for file in corpus.files)), start=1):
        if None in lines:
            raise corpus.unequal(number, lines)
        yield _entry(corpus, number, lines)
    if not number:
        raise corpus.nothing()


def _entry(corpus: Files, number: int, lines: tuple[str | LineError, ...]) -> Entry:
    texts = [line for line in lines if isinstance(line, str)]
    if len(texts) < len(lines):
        error = next(line for line in lines if isinstance(line, LineError))
        return _malformed([line if isinstance(line, str) else line.text for line in lines], error)
    if not corpus.paired and not texts[0].strip():
        return Entry(Pair("", ""), BLANK)
    try:
        return Entry(corpus.pair(number, texts))
    except EmptyError as error:
        return Entry(error.pair, EMPTY, str(error))
    except DataError as error:
        return _malformed(texts, error)


def _malformed(texts: list[str], error: DataError) -> Entry:
    return Entry(Pair("\t".join(texts), ""), MALFORMED, str(error))
