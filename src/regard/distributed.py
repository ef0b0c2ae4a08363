"""The processes that train one model together: which of them this is, and what they tell each other.

`torchrun` starts them and gives each its place in environment variables; everything that they exchange goes through
`torch.distributed`. A process that was started by itself is `ALONE`: for it each function here is a plain call, and
nothing of `torch.distributed` is imported.
"""

import gc
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch

from regard.errors import ConfigError, RegardError, TrainingError
from regard.shapes import Tensor

T = TypeVar("T")
Item = TypeVar("Item")

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that tell a process that it is one of several."""
TIMEOUT = timedelta(minutes=10)
"""How long a process waits for the others in a step: after that it takes one of them for lost."""
PREPARING = timedelta(days=7)
"""How long it waits while the first process learns a vocabulary and writes tokens to disk."""


class World:
    """One of several processes. `rank` counts them from 0; the first one writes and prints."""

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0, joined: bool = False) -> None:
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self.joined = joined
        """Whether there is a process group: torchrun makes one for a single process too."""
        self._group: Any = None
        self._patient: Any = None

    @property
    def first(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def part(self, rows: Any, each: int = 1) -> Any:
        """Return this process's share of an array of rows; every `each` that follow one another stay together."""
        if self.size == 1:
            return rows
        return rows.reshape(-1, each)[self.rank :: self.size].ravel()

    # -- numbers ------------------------------------------------------------------------------------------------------

    def sum_(self, values: Tensor) -> Tensor:
        """Add up a tensor over all processes, in place; a GPU does so when it gets there, and nobody waits."""
        if self.size > 1:
            torch.distributed.all_reduce(values)
        return values

    def any(self, flag: bool) -> bool:
        """Say whether a flag is up in any process."""
        if self.size == 1:
            return flag
        up = torch.tensor([int(flag)])
        torch.distributed.all_reduce(up, group=self._group)
        return bool(up)

    # -- objects ------------------------------------------------------------------------------------------------------

    def gather(self, value: T) -> list[T]:
        """Return what each process has, by rank, on all of them."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, value, group=self._group)
        return found

    def from_first(self, value: T) -> T:
        """Return what the first process has, however long the others have to wait for it."""
        if self.size == 1:
            return value
        found = [value]
        torch.distributed.broadcast_object_list(found, src=0, group=self._patient)
        return found[0]

    def lead(self, function: Callable[[], T]) -> T:
        """Let the first process alone do something, and return on all what it returned; raise on all what it raised."""
        if self.size == 1:
            return function()
        result: T | None = None
        error: Exception | None = None
        if self.first:
            try:
                result = function()
            except Exception as raised:
                error = raised
        result, message = self.from_first((result, None if error is None else str(error)))
        if error is not None:
            raise error
        if message is not None:
            raise TrainingError(message)
        return result  # type: ignore[return-value]

    def together(self, function: Callable[[], T]) -> T:
        """Do something in all processes. Where it fails in some, all raise the error of the lowest rank."""
        if self.size == 1:
            return function()
        error: RegardError | None = None
        try:
            result = function()
        except RegardError as raised:
            error = raised
        messages = self.gather(None if error is None else (socket.gethostname(), str(error)))
        failed = [rank for rank, message in enumerate(messages) if message is not None]
        if not failed:
            return result
        if error is not None and failed[0] == self.rank == 0:
            raise error
        host, said = messages[failed[0]] or ("", "")
        raise TrainingError(said if failed[0] == 0 else f"Process {failed[0]} of {self.size}, on {host}: {said}")


ALONE = World()
_current = ALONE


def current() -> World:
    """Return the world of this process: `ALONE` outside of `joined`."""
    return _current


def is_launched(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether something like torchrun started this process as one of several."""
    return all(name in environment for name in NEEDED)


@contextmanager
def joined(device: str = "auto", environment: Mapping[str, str] = os.environ) -> Iterator[World]:
    """Meet the other processes that torchrun has started, and part from them at the end; without torchrun, be alone."""
    global _current
    if not is_launched(environment) or _current.joined:
        yield _current
        return
    _current = _join(device, environment)
    try:
        yield _current
    except RuntimeError as error:
        if _is_lost(error):
            raise TrainingError(
                "Another process of this run was lost, so training stopped. What was saved is kept: go on from it with "
                "--resume, as torchrun --max-restarts does by itself."
            ) from error
        raise
    finally:
        _current._group = _current._patient = None
        _current = ALONE
        gc.collect()  # a group that something still holds is destroyed at exit, where gloo's threads abort the process
        # A process that fails does not wait for the others: they see that it is gone.
        torch.distributed.destroy_process_group()


def _join(device: str, environment: Mapping[str, str]) -> World:
    rank, size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    local, here = (
        int(environment.get(name, usual)) for name, usual in (("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", size))
    )
    if not 0 <= rank < size:
        raise ConfigError(f"RANK is {rank} and WORLD_SIZE is {size}: a rank is at least 0 and below the world size.")
    gpus = torch.cuda.device_count() if device != "cpu" and torch.cuda.is_available() else 0
    if gpus and here > gpus:
        raise ConfigError(
            f"{here} processes on {socket.gethostname()}, which has {gpus} GPU{'' if gpus == 1 else 's'}: start one "
            "for each GPU, or train on the CPU with --device cpu."
        )
    if not torch.distributed.is_available():
        raise ConfigError("This build of torch has no torch.distributed: train in one process.")
    if gpus and ":" in device and here > 1:
        raise ConfigError(f"training.device={device} is one GPU, for {here} processes: set it to cuda, one for each.")
    if gpus:
        torch.cuda.set_device(local)
    at = f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]
    from torch.distributed.rendezvous import rendezvous

    try:
        store, _, _ = next(rendezvous("env://", rank, size, timeout=TIMEOUT))
        # torchrun keeps its store when it starts processes again: what those before have left there is not for these.
        attempt = f"regard/{environment.get('TORCHELASTIC_RESTART_COUNT', 0)}"
        torch.distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if gpus else "gloo",
            store=PrefixStore(attempt, store),
            rank=rank,
            world_size=size,
            timeout=TIMEOUT,
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise TrainingError(_not_met(at, rank, size, error)) from error
    world = World(rank, size, local, joined=True)
    world._group = torch.distributed.new_group(backend="gloo", timeout=TIMEOUT)
    world._patient = torch.distributed.new_group(backend="gloo", timeout=PREPARING)
    return world


def _is_lost(error: RuntimeError) -> bool:
    """Say whether an error of torch is that a process no longer answers: gloo's has no kind of its own."""
    if isinstance(error, torch.distributed.DistError):
        return True
    signs = (
        "gloo",
        "Connection closed by peer",
        "Connection reset by peer",
        "Broken pipe",
        "Timed out waiting",
        "NCCL",
    )
    return any(sign in str(error) for sign in signs)


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except ValueError:
        raise ConfigError(f"The environment variable {name} is {environment[name]!r}; it must be a number.") from None


def _not_met(at: str, rank: int, size: int, error: Exception) -> str:
    if "EADDRINUSE" in str(error) or "address already in use" in str(error).lower():
        return f"The address {at} is in use by another program: choose another port with torchrun --master-port."
    first = str(error).strip().splitlines()[0]
    return f"Process {rank} of {size} could not meet the others at {at}: {first}"


def share(items: Sequence[Item], function: Callable[[Item], T], check: Callable[[], None] = lambda: None) -> list[T]:
    """Apply a function to all items, each in one of the processes, and return what it gave for all of them, in order.

    `check` is called before each round, in every process equally often, so that it may ask all of them something.
    """
    world = current()
    found: list[Any] = []
    for start in range(0, len(items), world.size):
        check()
        if start + world.rank < len(items):
            made = function(items[start + world.rank])
            found.append(made.cpu() if world.size > 1 and isinstance(made, Tensor) else made)
    if world.size == 1:
        return found
    every = world.gather(found)
    return [every[index % world.size][index // world.size] for index in range(len(items))]
