"""Pairs of texts as packed tokens: in this process, or for a large corpus in several beside it.

A worker is a program of its own (`python -m regard.data.parallel_tokenization`), which reads messages from its standard
input and answers on its standard output, one after the other. It ends when its input does, whatever became of the
process that started it. Nothing is forked: threads and a GPU of the starting process are none of its business.
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
"""Pairs packed in one go."""
ALONE: Final = 8
"""So many batches are packed in this process; a corpus that is longer is worth the start of others."""
MOST: Final = 8
"""Processes: more would wait for this one to read the corpus."""
_NONE: Final = "None"
_SIZE: Final = struct.Struct("<q")


class Packed(NamedTuple):
    """A batch of pairs as a cache has them, all as raw numbers; pairs that are too long are left out."""

    source: bytes
    """Tokens one after the other, each text with its end mark."""
    target: bytes
    source_lengths: bytes
    """Tokens of each text, the end mark included: 64-bit."""
    target_lengths: bytes
    links: bytes
    """Positions (target token, source token), one link after the other; empty unless links were asked for."""
    link_counts: bytes
    """Links of each pair: 64-bit."""
    counts: bytes
    """Pairs left out, tokens of the longest text (without the end mark), pairs with a gold alignment: 64-bit."""


class Packer:
    """Packs pairs; what it is given is what `message` made of them."""

    def __init__(self, tokenizers: Tokenizers, max_length: int, links: bool) -> None:
        self._tokenizers, self._max_length, self._links = tokenizers, max_length, links
        self._dtype, self._position_dtype = token_dtype(tokenizers), position_dtype(max_length)
        self._end = np.array([EOS], self._dtype).tobytes()

    def __call__(self, packed: bytes) -> Packed:
        """Encode the texts, and link the tokens that a gold alignment links."""
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
    """Write pairs for a packer, their gold alignments too if links are wanted. No text holds a NUL."""
    if links:
        return "".join([f"{pair.source}\0{pair.target}\0{pair.alignment}\0" for pair in pairs]).encode()
    return "".join([f"{pair.source}\0{pair.target}\0" for pair in pairs]).encode()


def messages(corpus: Iterable[Pair], links: bool) -> Iterator[bytes]:
    """Write a corpus for a packer, so many pairs at a time."""
    pairs = iter(corpus)
    while batch := list(islice(pairs, AT_ONCE)):
        yield message(batch, links)


def token_dtype(tokenizers: Tokenizers) -> str:
    """Return the numbers that hold every id of both vocabularies."""
    return "<u2" if max(tokenizers.source.size, tokenizers.target.size) <= 1 << 16 else "<i4"


def position_dtype(max_length: int) -> str:
    """Return the numbers that hold positions up to that of the end mark."""
    return "<u2" if max_length < 1 << 16 else "<i4"


def _alignment(written: str, source: str, target: str) -> Alignment | None:
    return None if written == _NONE else parse_alignment(written, source, target, at="")


def pack_all(
    messages: Iterable[bytes], tokenizers: Tokenizers, max_length: int, links: bool, folder: Path
) -> Generator[Packed, None, None]:
    """Yield what each message becomes, in order; the result is the same whoever packs it.

    `folder` is for what the other processes need to be told; it is there only if there are such.
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
    """Return how many processes may pack: one for each processor that this one may use."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), MOST, int(threads) if threads.isdecimal() and int(threads) else MOST)


class _Processes:
    """Processes that pack. Each is spoken to by a thread of this one, which waits for the answer."""

    def __init__(self, count: int, arguments: Sequence[str]) -> None:
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        # -P: a file of the folder that we happen to be in is not to be taken for one of Python's modules.
        command = [sys.executable, "-P", "-m", "regard.data.parallel_tokenization", *arguments]
        path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        self._all: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(count)
        for _ in range(count):
            try:
                started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            except OSError:  # no room for another one
                if self._all:
                    break
                raise
            self._all.append(started)
            self._free.put(started)

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        # In the middle of something only if that has failed already: nobody waits for the answer.
        for process in self._all:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._all:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):  # half a message, that nobody will read
                    pipe.close()

    def map(self, messages: Iterable[bytes]) -> Iterator[Packed]:
        """Yield the answers in the order of the messages; few more than there are processes are held at a time."""
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
            raise DataError(f"A process that was tokenising the corpus ended ({_how(process)}).") from None
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
    """Answer messages until there are no more; an error that is the user's to mend is an answer without counts."""
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
    """Pack as the arguments say: the folder of the tokenizers, the greatest length, 1 if links are wanted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one hears of it, and ends this one
    folder, max_length, links = sys.argv[1:]
    packer = Packer(Tokenizers.load(Path(folder)), int(max_length), links == "1")
    try:
        serve(packer, sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
