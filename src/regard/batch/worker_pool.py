"""Worker processes on one machine that translate blocks of lines side by side, in order and as the lines come.

A worker is a program of its own (`python -m regard.batch.worker`), which reads a message from its standard input and
answers on its standard output, again and again. It ends when its input does, whatever became of the process that
started it. Each has a GPU of its own, or its share of the cores (`regard.worker_environment`).
"""

import contextlib
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

from regard import errors
from regard.batch.translate_options import Output, TranslateOptions
from regard.decoding.line_reader import Lines
from regard.errors import RegardError
from regard.worker_environment import worker_environment

AHEAD = 2
"""Blocks for each worker that are read before the first of them is written: a fast reader waits for a slow writer."""
_SIZE = struct.Struct("<q")


class WorkerPool:
    """Processes that translate blocks of lines, each spoken to by a thread of this one."""

    def __init__(self, options: TranslateOptions, workers: int) -> None:
        self._workers: list[_Worker] = []
        try:
            for number in range(1, workers + 1):
                self._workers.append(_Worker(number, workers, options))
            for worker in self._workers:
                self.reads = bool(worker.answer("it started")["reads"])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()
            for pipe in (worker.process.stdin, worker.process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):  # half a message, which nobody will read
                    pipe.close()

    def translated(self, blocks: Iterator[Lines]) -> Iterator[Output]:
        """Yield what becomes of each block, in order."""
        return in_order([worker.ask for worker in self._workers], blocks)


def in_order(workers: Sequence[Callable[[Lines], Output]], blocks: Iterator[Lines]) -> Iterator[Output]:
    """Yield what becomes of each block, in order; each worker has a thread, and takes the next block when it is free.

    What goes wrong with a block is yielded in its place.
    """
    made, taken = _Made(len(workers) * AHEAD), _Numbered(blocks)
    for worker in workers:
        # Not waited for at the end: one may be reading from a terminal.
        threading.Thread(target=_serve, args=(worker, taken, made), daemon=True).start()
    for number in count():
        output = made.wait_for(number)
        if output is None:
            return
        yield output


def _serve(worker: Callable[[Lines], Output], taken: "_Numbered", made: "_Made") -> None:
    """Let a worker translate blocks until there are no more, or one fails."""
    while True:
        made.wait_for_room()
        number, lines, problem = taken.next()
        if lines is None:
            made.put(number, None if problem is None else Output([], error=problem))
            return
        try:
            answer = worker(lines)
        except Exception as error:
            made.put(number, Output([], error=error))
            return
        made.put(number, answer)


class _Numbered:
    """Blocks for whoever asks for the next one, numbered from 0."""

    def __init__(self, blocks: Iterator[Lines]) -> None:
        self._blocks = blocks
        self._lock = threading.Lock()
        self._number = -1

    def next(self) -> tuple[int, Lines | None, Exception | None]:
        """Return a number and its block; none where there are no more, or what is wrong with the next."""
        with self._lock:
            self._number += 1
            try:
                return self._number, next(self._blocks, None), None
            except Exception as error:
                return self._number, None, error


class _Made:
    """What was made and not yet fetched, by number, and room for so many."""

    def __init__(self, room: int) -> None:
        self._room = threading.Semaphore(room)
        self._changed = threading.Condition()
        self._made: dict[int, Output | None] = {}

    def wait_for_room(self) -> None:
        self._room.acquire()

    def put(self, number: int, output: Output | None) -> None:
        with self._changed:
            self._made[number] = output
            self._changed.notify_all()

    def wait_for(self, number: int) -> Output | None:
        with self._changed:
            self._changed.wait_for(lambda: number in self._made)
            output = self._made.pop(number)
        self._room.release()
        return output


class _Worker:
    """A process."""

    def __init__(self, number: int, workers: int, options: TranslateOptions) -> None:
        self._number = number
        path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            # -P: a file of the folder that we happen to be in is not to be taken for one of Python's modules.
            [sys.executable, "-P", "-m", "regard.batch.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**worker_environment(number - 1, workers, options.device), "PYTHONPATH": os.pathsep.join(path)},
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others
        )
        self._send(asdict(options))

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which its answer will tell
            send(self.process.stdin, message)

    def ask(self, lines: Lines) -> Output:
        """Let it translate lines."""
        self._send(lines)
        last = lines.first + len(lines.texts) - 1
        answer = self.answer(f"it translated lines {lines.first:,} to {last:,} of the input")
        return Output(answer["rows"], answer["left_out"], _error_of(answer.get("error")))

    def answer(self, doing: str) -> Any:
        """Wait for its answer; raise what it answers in the place of one."""
        assert self.process.stdout is not None
        try:
            answer = receive(self.process.stdout)
        except EOFError:
            code = self.process.wait()
            how = f"was killed by signal {-code} (out of memory?)" if code < 0 else f"ended with exit code {code}"
            raise RegardError(f"Worker {self._number} {how} while {doing}: try fewer --workers.") from None
        if "rows" not in answer and "error" in answer:
            problem = _error_of(answer["error"])
            assert problem is not None
            raise problem
        return answer


class Problem(NamedTuple):
    """An exception as it is told from one process to another."""

    kind: str
    message: str
    traceback: str


def _error_of(told: list[str] | None) -> Exception | None:
    if told is None:
        return None
    problem = Problem(*told)
    kinds: dict[str, type[Exception]] = {"MemoryError": MemoryError, "RuntimeError": RuntimeError}
    error = (kinds.get(problem.kind) or getattr(errors, problem.kind))(problem.message)
    assert isinstance(error, Exception)
    if problem.traceback:
        error.add_note(f"In a worker:\n{problem.traceback}")
    return error


def send(pipe: IO[bytes], message: Any) -> None:
    """Write a message: its length, and JSON."""
    content = json.dumps(message).encode()
    pipe.write(_SIZE.pack(len(content)))
    pipe.write(content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read a message; raise an EOFError where there is none to come."""
    return json.loads(_read(pipe, *_SIZE.unpack(_read(pipe, _SIZE.size))))


def _read(pipe: IO[bytes], size: int) -> bytes:
    read = pipe.read(size)
    if len(read) < size:
        raise EOFError
    return read
