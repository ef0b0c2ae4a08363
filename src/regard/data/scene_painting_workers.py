"""Paint scenes in several worker processes: painting tens of thousands in one process takes minutes.

A worker is a separate program (`python -m regard.data.scene_painting_workers`) that reads requests from stdin, one JSON
line each, and answers each on stdout with a length and an .npz file of that many bytes. It exits when its input ends.
It is not forked, so it shares no threads or GPU state with the parent.
"""

import contextlib
import io
import json
import os
import signal
import struct
import subprocess
import sys
import weakref
from collections.abc import Mapping
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.worker_environment import cores

ALONE: Final = 4096
"""Up to this number, scenes are painted in this process."""
MOST: Final = 16
"""Maximum number of workers: more would wait for this process to read their answers."""
_SIZE: Final = struct.Struct("<q")

Made = Mapping[str, NDArray[Any]]


class Painters:
    """A pool of workers that make pictures and annotations of scenes of one split, seed and size."""

    def __init__(self, split: str, seed: int, pixels: int) -> None:
        self._made = split, seed, pixels
        self._team: list[subprocess.Popen[bytes]] = []

    def make(self, part: str, start: int, stop: int) -> list[Made]:
        """Return a part of scenes `start` to `stop`, as `paint` makes it, in order, in several chunks."""
        if not self._team:
            self._start()
        edges = np.linspace(start, stop, len(self._team) + 1).astype(int).tolist()
        for worker, low, high in zip(self._team, edges[:-1], edges[1:], strict=True):
            if low == high:
                continue
            assert worker.stdin is not None
            worker.stdin.write(json.dumps([*self._made, part, low, high]).encode() + b"\n")
            worker.stdin.flush()
        wanted = [worker for worker, low, high in zip(self._team, edges[:-1], edges[1:], strict=True) if low < high]
        return [_answer(worker.stdout) for worker in wanted]

    def _start(self) -> None:
        program = [sys.executable, "-m", __name__]
        own = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        for _ in range(min(MOST, cores())):
            self._team.append(
                subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own, bufsize=-1)
            )
        weakref.finalize(self, _end, self._team)


def _end(team: list[subprocess.Popen[bytes]]) -> None:
    for worker in team:
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        worker.wait()


def _answer(stream: IO[bytes] | None) -> Made:
    assert stream is not None
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise OSError("A worker process that paints scenes died.")
    (length,) = _SIZE.unpack(head)
    with np.load(io.BytesIO(stream.read(length)), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def paint(split: str, seed: int, pixels: int, part: str, start: int, stop: int) -> Made:
    """Return a part (as named by `Pictures`) of scenes `start` to `stop`, as arrays."""
    from regard.data.pictures import ScenePictures

    pictures = ScenePictures(split, stop, seed, pixels)
    every = [getattr(pictures, part)(index) for index in range(start, stop)]
    if part == "image":
        return {"image": np.stack(every) if every else np.zeros((0, pixels, pixels, 3), np.uint8)}
    if part != "objects":
        return {part: np.frombuffer(json.dumps(every).encode(), np.uint8)}
    joined = {name: np.concatenate([getattr(things, name) for things in every]) for name in ("classes", "boxes")}
    masks = np.concatenate([np.packbits(things.masks, axis=-1) for things in every])
    counts = np.array([len(things.classes) for things in every])
    return {**joined, "masks": masks, "counts": counts, "held_out": np.array([things.held_out for things in every])}


def main() -> None:
    """Answer requests on stdin until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    for line in sys.stdin.buffer:
        buffer = io.BytesIO()
        np.savez(buffer, **paint(*json.loads(line)))  # type: ignore[arg-type]
        content = buffer.getvalue()
        try:
            sys.stdout.buffer.write(_SIZE.pack(len(content)) + content)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
