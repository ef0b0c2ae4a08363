"""Read text files line by line: plain, .gz or .xz, with one clear message for anything that cannot be read.

A file is reopened for each pass and never held in memory. Standard input and pipes, which can be read only once, are
first spooled to an anonymous temporary file.
"""

import gzip
import io
import lzma
import os
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import DataError, did_you_mean

Read = TypeVar("Read")

STDIN = "-"
LONGEST_LINE = 1 << 24
"""In bytes; a file with a longer line is rejected as not text, so that it cannot fill the memory."""

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
_NOT_READ = {
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"PK\x03\x04": "zip",
}
_CHUNK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


class LineError(DataError):
    """A line that is not valid text; `text` is what can be decoded of it."""

    def __init__(self, message: str, line: bytes | str = "") -> None:
        super().__init__(message)
        self.text = line if isinstance(line, str) else line.decode("utf-8", "replace").rstrip("\r\n")


@dataclass(frozen=True)
class LineFile:
    """A text file that can be iterated any number of times; `identity` changes when its content does."""

    name: str
    identity: str
    open_raw: Callable[[], io.BufferedReader]

    def __iter__(self) -> Iterator[str]:
        """Yield the lines as text, without their ends (LF or CR LF) and without a byte order mark."""
        for number, line in enumerate(self._raw_lines(), start=1):
            yield self._text(number, line)

    def each(self) -> "Iterator[str | LineError]":
        """Yield the lines, with a LineError in place of an invalid one, for checks that continue after errors."""
        for number, line in enumerate(self._raw_lines(), start=1):
            try:
                yield self._text(number, line)
            except LineError as error:
                yield error

    def _text(self, number: int, line: bytes) -> str:
        if len(line) >= LONGEST_LINE:
            raise DataError(f"{self.at(number)}: longer than {LONGEST_LINE >> 20} MB. Is this a text file?")
        if number == 1 and line.startswith(_BOM):
            line = line[len(_BOM) :]
        # Before the NUL check: UTF-16 is full of NULs, and its byte order mark is not UTF-8.
        if number == 1 and line.startswith(_UTF16_BOMS):
            raise DataError(f"{self.name} is UTF-16, not UTF-8. Convert it: iconv -f UTF-16 -t UTF-8 {self.name}")
        if b"\0" in line:
            raise LineError(f"{self.at(number)}: a NUL byte. Is this a text file? Remove the byte if it is.", line)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise LineError(
                f"{self.at(number)}: not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1:,}). "
                f"Convert the file, for instance: iconv -f LATIN1 -t UTF-8 {self.name}",
                line,
            ) from None
        return text.removesuffix("\n").removesuffix("\r")

    def at(self, number: int) -> str:
        """Return the name of a line for messages."""
        return f"{self.name}, line {number:,}"

    def _raw_lines(self) -> Iterator[bytes]:
        return self.read_with(lambda stream: iter(partial(stream.readline, LONGEST_LINE), b""))

    def read_with(self, read: Callable[[io.BufferedIOBase], Iterator[Read]]) -> Iterator[Read]:
        """Open the file, unpacked, and yield what a function reads of it."""
        try:
            with self.open_raw() as raw, _decompressed(self.name, raw) as stream:
                yield from read(stream)
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            raise DataError(f"{self.name} is truncated or damaged ({error}). Fetch or compress it again.") from None
        except OSError as error:
            raise _unreadable(self.name, error) from None


def open_lines(given: str) -> LineFile:
    """Return a re-iterable text file; standard input (`-`) and pipes are spooled."""
    if given == STDIN:
        return _once(STDIN, sys.stdin, lambda: _spool("standard input", sys.stdin.buffer.read))
    path = Path(given)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise DataError(f"{given} is a folder, not a file.{files_in(path)}")
        if stat.S_ISREG(status.st_mode):
            with path.open("rb"):  # fail early on a file without read permission
                pass
            identity = f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
            return LineFile(given, identity, lambda: path.open("rb"))
        return _once(given, (status.st_dev, status.st_ino), lambda: _spool_pipe(path))
    except FileNotFoundError:
        raise DataError(f"No file {given!r}{_why_missing(path)}") from None
    except OSError as error:
        raise _unreadable(given, error) from None


_spooled: dict[str, tuple[object, LineFile]] = {}
"""Spooled inputs, so that opening one again returns the same content."""


def _once(name: str, source: object, spool: Callable[[], LineFile]) -> LineFile:
    """Spool an input, identified by name and source, unless it has been spooled already."""
    before, file = _spooled.get(name, (None, None))
    if file is None or before != source:
        file = spool()
        _spooled[name] = source, file
    return file


def _spool_pipe(path: Path) -> LineFile:
    with path.open("rb") as pipe:
        return _spool(str(path), pipe.read)


def _unreadable(name: str, error: OSError) -> DataError:
    return DataError(f"Cannot read {name}: {(error.strerror or str(error)).lower()}.")


def _why_missing(path: Path) -> str:
    if path.is_symlink():
        return f": it is a link to {os.readlink(path)!r}, which does not exist."
    if not path.parent.is_dir():
        return f". There is no folder {str(path.parent)!r} either."
    return "." + did_you_mean(path.name, sorted(entry.name for entry in path.parent.iterdir()))


def files_in(folder: Path) -> str:
    """Return a hint that lists files of a folder, for a user who gave the folder instead of a file."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError:
        names = []
    if not names:
        return " Give the files in it."
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return f" Give the files in it: {shown}"


def _decompressed(name: str, raw: io.BufferedReader) -> io.BufferedIOBase:
    """Decompress by the magic bytes, whatever the file name."""
    start = raw.peek(8)[:8]
    if start.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)
    if start.startswith(_XZ):
        return io.BufferedReader(_Xz(raw))
    for magic, kind in _NOT_READ.items():
        if start.startswith(magic):
            raise DataError(f"{name} is {kind} data. Only text, .gz and .xz can be read: decompress it first.")
    for ending, kind in ((".gz", "gzip"), (".xz", "xz")):
        if start and name.endswith(ending):
            raise DataError(f"{name} is not {kind} data. If it is plain text, rename it without {ending}.")
    return raw


class _Xz(io.RawIOBase):
    """Reader of concatenated xz streams; Python's own reader silently stops at a damaged one."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw, self._stream = raw, lzma.LZMADecompressor()

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, into: Any) -> int:
        """Decompress into a buffer."""
        while True:
            given = b""
            if self._stream.eof:
                given = self._stream.unused_data.lstrip(b"\0")  # zeros may stand between two streams
                while not given:
                    chunk = self._raw.read(_CHUNK)
                    if not chunk:
                        return 0
                    given = chunk.lstrip(b"\0")
                self._stream = lzma.LZMADecompressor()
            elif self._stream.needs_input:
                given = self._raw.read(_CHUNK)
                if not given:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            data = self._stream.decompress(given, len(into))
            if data:
                into[: len(data)] = data
                return len(data)


def _spool(name: str, read: Callable[[int], bytes]) -> LineFile:
    """Copy an input that can be read only once to an anonymous temporary file."""
    try:
        spooled = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when the LineFile goes
        digest = _copy(read, spooled)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"Cannot keep {name} for a second pass: {reason}. Set TMPDIR to a folder with room.") from None
    file = LineFile(name, f"{name} {digest}", lambda: io.BufferedReader(_Pass(spooled)))
    weakref.finalize(file, spooled.close)
    return file


def _copy(read: Callable[[int], bytes], spooled: io.BufferedRandom) -> str:
    digest = blake2b(digest_size=16)
    try:
        while chunk := read(1 << 20):
            digest.update(chunk)
            spooled.write(chunk)
        spooled.flush()
    except OSError:
        spooled.close()
        raise
    return digest.hexdigest()


class _Pass(io.RawIOBase):
    """One pass over a shared file with its own position, so that several passes can run at the same time."""

    def __init__(self, file: io.BufferedRandom) -> None:
        self._file = file
        self._place = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        chunk = os.pread(self._file.fileno(), len(buffer), self._place)
        buffer[: len(chunk)] = chunk
        self._place += len(chunk)
        return len(chunk)
