"""Read lines as they arrive: a slow writer is answered at once, a fast one in large batches."""

import io
import select
from collections import deque
from collections.abc import Iterator
from typing import IO, NamedTuple

from regard.errors import DataError

Stream = IO[bytes] | io.BufferedIOBase
"""Standard input, another binary file, or bytes in memory."""
CHUNK = 1 << 16
"""Bytes per read: the capacity of a pipe."""


class Lines(NamedTuple):
    """Consecutive lines of a stream."""

    first: int
    """Number of the first line, counted from 1."""
    texts: list[str]


def as_they_come(stream: Stream, most: int = 1024) -> Iterator[Lines]:
    """Yield the lines that have arrived, at least one and at most `most` at a time, until the stream ends.

    Only a newline ends a line, as for other Unix tools. A carriage return before it is dropped, as is a byte order mark
    before the first line. A line that is not UTF-8 raises a DataError, after the lines before it were yielded.
    """
    arrived = _Arrived(stream)
    number = 0
    while waiting := arrived.wait(most):
        first, texts = number + 1, []
        for line in waiting:
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
        yield Lines(first, texts)


class _Arrived:
    """Lines that were read but not yet yielded, and the beginning of the next one."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._whole: deque[bytes] = deque()
        self._begun = bytearray()
        self._ended = False

    def wait(self, most: int) -> list[bytes]:
        """Wait for a line, then return it with all others that have arrived; empty at the end of the stream."""
        while not self._ended and (not self._whole or (len(self._whole) < most and self._more_is_there())):
            self._read()
        return [self._whole.popleft() for _ in range(min(most, len(self._whole)))]

    def _read(self) -> None:
        # read1 returns the result of one system call and buffers nothing, so `select` is right about what is left.
        chunk: bytes = self._stream.read1(CHUNK)  # type: ignore[union-attr]
        self._begun += chunk
        if not chunk:
            self._ended = True
            if self._begun:
                self._whole.append(bytes(self._begun))
        elif b"\n" in chunk:
            *whole, begun = self._begun.split(b"\n")
            self._whole.extend(map(bytes, whole))
            self._begun = begun

    def _more_is_there(self) -> bool:
        try:
            return bool(select.select([self._stream], [], [], 0)[0])
        except (io.UnsupportedOperation, ValueError):
            return True  # not a system file, so reading never blocks


def _decode(line: bytes, number: int) -> str:
    text = line.decode("utf-8").removesuffix("\r")
    return text.removeprefix("\ufeff") if number == 1 else text
