"""Tokenize pairs to packed arrays: in this process, or in several worker processes for a large corpus.

A worker is a separate program (`python -m regard.data.parallel_tokenization`) that reads messages from stdin and
answers on stdout, in order. It exits when its input ends, so also when its parent dies. It is not forked, so it shares
no threads or GPU state with the parent.
"""

import contextlib
import os
import signal
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final, NamedTuple

import numpy as np

from regard.data.alignments import parse_alignment, token_links
from regard.data.pair import Alignment, Pair
from regard.data.special_tokens import EOS
from regard.data.tokenizers import Tokenizers
from regard.errors import DataError
from regard.worker_environment import cores

AT_ONCE: Final = 4096
"""Pairs per message."""
ALONE: Final = 8
"""Messages that are packed in this process; workers are started only for a longer corpus."""
MOST: Final = 8
"""Maximum number of workers: more would wait for this process to read the corpus."""
_NONE: Final = "None"
_SIZE: Final = struct.Struct("<q")


class Packed(NamedTuple):
    """A batch of tokenized pairs in the raw format of a cache, without pairs that are too long."""

    source: bytes
    """Concatenated tokens, each text with its end token."""
    target: bytes
    source_lengths: bytes
    """The number of tokens of each text, end token included (64-bit)."""
    target_lengths: bytes
    links: bytes
    """Links as positions (target token, source token); empty unless requested."""
    link_counts: bytes
    """The number of links of each pair (64-bit)."""
    counts: bytes
    """Pairs left out, tokens of the longest text (without end token), pairs with a gold alignment (64-bit)."""


class Packer:
    """Tokenizes and packs the pairs of a `message`."""

    def __init__(self, tokenizers: Tokenizers, max_length: int, links: bool) -> None:
        self._tokenizers, self._max_length, self._links = tokenizers, max_length, links
        self._dtype, self._position_dtype = token_dtype(tokenizers), position_dtype(max_length)
        self._end = np.array([EOS], self._dtype).tobytes()

    def __call__(self, packed: bytes) -> Packed:
        """Tokenize the texts, and convert gold alignments to token links."""
        parts = packed.decode().split("\0")[:-1]
        each = 3 if self._links else 2
        texts = parts[0::each], parts[1::each]
        sides = [
            self._tokenizers.source.pack(texts[0], self._dtype),
            self._tokenizers.target.pack(texts[1], self._dtype),
        ]
        lengths = np.array([[len(ids) for ids in side] for side in sides]) // len(self._end)
        longer = lengths.max(axis=0)
        kept = np.flatnonzero(longer <= self._max_length)
        aligned, link_counts, links = 0, np.zeros(0, "<i8"), b""
        if self._links:
            alignments = [_alignment(parts[3 * row + 2], texts[0][row], texts[1][row]) for row in kept]
            found = [
                [] if alignment is None else self._linked(alignment, sides[0][row], sides[1][row])
                for row, alignment in zip(kept, alignments, strict=True)
            ]
            aligned = sum(alignment is not None for alignment in alignments)
            link_counts = np.array([len(one) for one in found], "<i8")
            links = np.fromiter(chain.from_iterable(chain.from_iterable(found)), self._position_dtype).tobytes()
        counts = np.array([len(longer) - len(kept), longer.max(initial=0), aligned], "<i8")
        source, target = (self._end.join([*(side[row] for row in kept), b""]) for side in sides)
        source_lengths, target_lengths = ((own[kept] + 1).astype("<i8").tobytes() for own in lengths)
        return Packed(
            source, target, source_lengths, target_lengths, links, link_counts.tobytes(), counts=counts.tobytes()
        )

    def _linked(self, alignment: Alignment, source: bytes, target: bytes) -> list[tuple[int, int]]:
        ids = (np.frombuffer(side, self._dtype).tolist() for side in (source, target))
        words = [
            side.words(own) for side, own in zip((self._tokenizers.source, self._tokenizers.target), ids, strict=True)
        ]
        return token_links(alignment, *words)


def message(pairs: Iterable[Pair], links: bool) -> bytes:
    """Serialise pairs for a packer, with gold alignments if `links`. No text has a NUL, which separates them."""
    if links:
        return "".join([f"{pair.source}\0{pair.target}\0{pair.alignment}\0" for pair in pairs]).encode()
    return "".join([f"{pair.source}\0{pair.target}\0" for pair in pairs]).encode()


def messages(corpus: Iterable[Pair], links: bool) -> Iterator[bytes]:
    """Serialise a corpus for a packer in batches."""
    pairs = iter(corpus)
    while batch := list(islice(pairs, AT_ONCE)):
        yield message(batch, links)


TOKEN_TYPES = ("<u2", "<i4")
"""The types of numbers that token ids are stored in."""


def token_dtype(tokenizers: Tokenizers) -> str:
    """Return the smallest integer type for the ids of both vocabularies."""
    return TOKEN_TYPES[max(tokenizers.source.size, tokenizers.target.size) > 1 << 16]


def position_dtype(max_length: int) -> str:
    """Return the smallest integer type for positions up to that of the end token."""
    return "<u2" if max_length < 1 << 16 else "<i4"


def _alignment(written: str, source: str, target: str) -> Alignment | None:
    return None if written == _NONE else parse_alignment(written, source, target, at="")


def pack_all(
    messages: Iterable[bytes], tokenizers: Tokenizers, max_length: int, links: bool, folder: Path
) -> Generator[Packed, None, None]:
    """Yield the packed pairs of each message, in order; the result does not depend on the number of workers.

    `folder` is a temporary folder with the tokenizers for the workers; it is created only if there are any.
    """
    packer, coming = Packer(tokenizers, max_length, links), iter(messages)
    first = list(islice(coming, ALONE + 1))
    count = processors()
    if len(first) <= ALONE or count < 2 or not sys.executable:
        yield from map(packer, chain(first, coming))
        return
    folder.mkdir()
    tokenizers.save(folder)
    arguments = [str(folder), str(max_length), str(int(links))]
    with _Processes(count, arguments) as processes:
        yield from processes.map(chain(first, coming))


def processors() -> int:
    """Return the number of packing processes: one for each CPU core that this process may use."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), MOST, int(threads) if threads.isdecimal() and int(threads) else MOST)


class _Processes:
    """A pool of worker processes, each served by a thread of this process that waits for its answers."""

    def __init__(self, count: int, arguments: Sequence[str]) -> None:
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        # -P: do not import modules from the current folder.
        command = [sys.executable, "-P", "-m", "regard.data.parallel_tokenization", *arguments]
        path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        self._all: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(count)
        for _ in range(count):
            try:
                started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            except OSError:  # no resources for another one
                if self._all:
                    break
                raise
            self._all.append(started)
            self._free.put(started)

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        # A worker is still busy only after a failure: nobody waits for its answer.
        for process in self._all:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._all:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):  # an incomplete message that nobody will read
                    pipe.close()

    def map(self, messages: Iterable[bytes]) -> Iterator[Packed]:
        """Yield the answers in the order of the messages; only a few more than there are workers are in flight."""
        waiting: deque[Future[Packed]] = deque()
        for text in messages:
            waiting.append(self._threads.submit(self._ask, text))
            if len(waiting) > 2 * len(self._all):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _ask(self, text: bytes) -> Packed:
        process = self._free.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, (text,))
            answer = _receive(process.stdout, len(Packed._fields))
        except (OSError, EOFError):
            raise DataError(f"A worker process for tokenization died ({_how(process)}).") from None
        finally:
            self._free.put(process)
        if not answer[-1]:
            raise DataError(answer[0].decode())
        return Packed(*answer)


def _how(process: "subprocess.Popen[bytes]") -> str:
    code = process.wait()
    return f"killed by signal {-code}: out of memory?" if code < 0 else f"exit code {code}"


def _send(pipe: IO[bytes], parts: Sequence[bytes]) -> None:
    for part in parts:
        pipe.write(_SIZE.pack(len(part)))
        pipe.write(part)
    pipe.flush()


def _receive(pipe: IO[bytes], count: int) -> list[bytes]:
    return [_read(pipe, *_SIZE.unpack(_read(pipe, _SIZE.size))) for _ in range(count)]


def _read(pipe: IO[bytes], size: int) -> bytes:
    read = pipe.read(size)
    if len(read) < size:
        raise EOFError
    return read


def serve(pack: Callable[[bytes], Packed], coming: IO[bytes], going: IO[bytes]) -> None:
    """Answer messages until the input ends; a user error is sent as an answer without counts."""
    while True:
        try:
            (text,) = _receive(coming, 1)
        except EOFError:
            return
        try:
            answer = pack(text)
        except DataError as error:
            answer = Packed(str(error).encode(), b"", b"", b"", b"", b"", counts=b"")
        _send(going, answer)


def main() -> None:
    """Run a worker; the arguments are the tokenizers' folder, the maximum length, and 1 for links."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    folder, max_length, links = sys.argv[1:]
    packer = Packer(Tokenizers.load(Path(folder)), int(max_length), links == "1")
    try:
        serve(packer, sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
