"""Read lines as they arrive: a slow writer is answered at once, a fast one in large batches."""

import io
import select
import sys
from collections import deque
from collections.abc import Iterator
from hashlib import sha256
from typing import IO, NamedTuple

from regard.errors import DataError

Stream = io.BufferedIOBase | IO[bytes]
"""Standard input, another binary file, or bytes in memory."""
CHUNK = 1 << 16
"""Bytes per read: the capacity of a pipe."""
BLOCK = 1024
"""Lines per block: what is translated at once. Of a file, only the last block is smaller."""
ALL = range(1, sys.maxsize)
"""The numbers of all lines."""


class Lines(NamedTuple):
    """Consecutive lines of a stream."""

    first: int
    """Number of the first line, counted from 1."""
    texts: list[str]


def as_they_come(stream: Stream, most: int = BLOCK, wanted: range = ALL) -> Iterator[Lines]:
    """Yield the lines that have arrived, at least one and at most `most` at a time, until the stream ends.

    `wanted` has the numbers of the lines to yield; those before it are skipped.

    Only a newline ends a line, as for other Unix tools. A carriage return before it is dropped, as is a byte order mark
    before the first line. A line that is not UTF-8 raises a DataError, after the lines before it were yielded.
    """
    arrived = _Arrived(stream)
    arrived.pass_over(wanted.start - 1)
    number = wanted.start - 1
    while waiting := arrived.wait(min(most, wanted.stop - 1 - number)):
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
        while most and not self._ended and (not self._whole or (len(self._whole) < most and self._more_is_there())):
            self._read()
        return [self._whole.popleft() for _ in range(min(most, len(self._whole)))]

    def pass_over(self, count: int) -> None:
        """Skip the first lines without keeping them."""
        while count > 0 and (chunk := self._stream.read1(CHUNK)):  # type: ignore[union-attr]
            ends = chunk.count(b"\n")
            if ends >= count:
                at = 0
                for _ in range(count):
                    at = chunk.index(b"\n", at) + 1
                *whole, begun = chunk[at:].split(b"\n")
                self._whole.extend(whole)
                self._begun = bytearray(begun)
            count -= ends

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


def count_lines(stream: Stream) -> tuple[int, str]:
    """Count the lines of a stream; return their number and a checksum of the stream (SHA-256)."""
    digest, lines, last = sha256(), 0, b"\n"
    while chunk := stream.read(1 << 20):
        digest.update(chunk)
        lines += chunk.count(b"\n")
        last = chunk[-1:]
    return lines + (last != b"\n"), digest.hexdigest()
