"""Reading lines as they come, so that a slow writer is answered at once and a fast one in large batches."""

import queue
import threading
from collections.abc import Iterator
from typing import IO, NamedTuple

from regard.errors import DataError


class Lines(NamedTuple):
    """Some lines of a stream."""

    first: int
    """The number of the first, counted from 1."""
    texts: list[str]


def as_they_come(stream: IO[bytes], most: int = 1024) -> Iterator[Lines]:
    """Yield all lines that have arrived, at least one and at most `most` at a time, until the stream ends.

    A line ends with a newline alone (as for every other Unix tool), a carriage return before it is dropped, and so is
    a byte order mark before the first. A line that is not UTF-8 ends it with a DataError, after those before it.
    """
    waiting: queue.Queue[bytes | None] = queue.Queue(maxsize=most)

    def read() -> None:
        for line in stream:
            waiting.put(line)
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    number, ended = 0, False
    while not ended:
        texts: list[str] = []
        first = number + 1
        line = waiting.get()
        while line is not None:
            number += 1
            try:
                texts.append(_decode(line, number))
            except UnicodeDecodeError as error:
                if texts:
                    yield Lines(first, texts)
                raise DataError(
                    f"Line {number} of the input is not valid UTF-8 (byte {error.start + 1}): "
                    "convert it, for example with iconv -f latin1 -t utf-8."
                ) from None
            if waiting.empty() or len(texts) == most:
                break
            line = waiting.get()
        ended = line is None
        if texts:
            yield Lines(first, texts)


def _decode(line: bytes, number: int) -> str:
    text = line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    return text.removeprefix("\ufeff") if number == 1 else text
