"""Runs a function in several processes that train together, by real torch.distributed on gloo.

The processes are forked from a server that has imported torch and this package once: a second of theirs costs little.
What a function returns comes back by rank; where it fails, so does the test, with the traceback of the process.
"""

import multiprocessing
import os
import socket
import sys
import traceback
from multiprocessing.connection import Connection, wait
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Where `tests` is found: functions are sent by the names of their modules, with this process's path."""
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
LONGEST = 900
"""Seconds after which processes hang."""
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("tiny_run", "many_tasks", "regard.training.train_model", "regard.training.sharding", "sacrebleu"),
        *("torch._dynamo", "torch.distributed.fsdp", "torch.nn.parallel.distributed"),  # a second for each process
    ]
)


class LostError(Exception):
    """A process that ended without a word."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(size, function, *given, port=None, environment=None):
    """Start processes and return them with what they will answer through; of size 0, one that knows of no other."""
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    port = port or free_port()
    started = []
    for rank in range(max(size, 1)):
        place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(environment or {})}
        ours, theirs = CONTEXT.Pipe(duplex=False)
        told = {name: str(value) for name, value in {**place, **where}.items()} if size else {}
        process = CONTEXT.Process(target=_work, args=(theirs, told, function, given), daemon=True)
        process.start()
        theirs.close()
        started.append((process, ours))
    return started


def answers(started):
    """Return what processes answer, by rank: a value, or the exception that tells why there is none."""
    found = {}
    channels = {channel: rank for rank, (_, channel) in enumerate(started)}
    try:
        while channels:
            ready = wait(list(channels), LONGEST)
            assert ready, f"processes {sorted(channels.values())} hang"
            for channel in ready:
                rank = channels.pop(channel)
                try:
                    found[rank] = channel.recv()
                except EOFError:
                    found[rank] = LostError()
    finally:
        for process, _ in started:
            if channels:
                process.kill()
            process.join()
    return [found[rank] for rank in range(len(started))]


def run(size, function, *given, **options):
    """Run a function in so many processes and return what it returned, by rank; 0 for one that knows of no other."""
    found = answers(start(size, function, *given, **options))
    for rank, value in enumerate(found):
        if isinstance(value, Exception):
            raise AssertionError(f"process {rank} of {size}: {value!r}\n{getattr(value, 'trace', '')}")
    return found


def _work(channel: Connection, environment, function, given):
    os.environ.update(environment)
    import torch

    from regard.distributed import joined

    torch.set_num_threads(1)
    try:
        with joined("cpu"):
            channel.send(function(*given))
    except BaseException as error:
        error.trace = traceback.format_exc()
        try:
            channel.send(error)
        except Exception:
            channel.send(RuntimeError(error.trace))
