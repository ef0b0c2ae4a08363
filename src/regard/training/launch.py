"""`regard train --devices N`: the same command in N processes on this machine, started by torchrun's own agent."""

import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from regard.atomic_files import write_atomically
from regard.errors import ConfigError, TrainingError

WAIT = 120
"""Seconds that processes get to end their step and to save, once they were asked to stop."""
STOPPED = 130
"""The exit status of a run that was stopped and saved."""


STARTED_BY = "started_by.txt"
"""Which torchrun started a run, in its folder until it ends: a restart goes on with no other run."""


def launcher(environment: Mapping[str, str] = os.environ) -> str:
    """Return what tells the torchrun that started this process from any other; empty without one."""
    if "TORCHELASTIC_RUN_ID" not in environment:
        return ""
    name = environment["TORCHELASTIC_RUN_ID"]
    return name if name not in ("", "none") else f"{socket.gethostname()} {os.getppid()}"


def mark(folder: Path) -> None:
    """Write down which torchrun started a run."""
    if launcher():
        write_atomically(folder / STARTED_BY, launcher().encode())


def unmark(folder: Path) -> None:
    """Forget that, once a run has ended."""
    (folder / STARTED_BY).unlink(missing_ok=True)


def is_restart(folder: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether torchrun has started its processes again, and the folder holds the run that they had begun."""
    path = folder / STARTED_BY
    again = int(environment.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    return again and path.is_file() and path.read_bytes().decode() == launcher(environment)


def check_devices(count: int, device: str) -> None:
    """Raise a ConfigError for a number of processes that this machine has no devices for."""
    if count < 1:
        raise ConfigError(f"--devices is {count}; it must be at least 1.")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.startswith("cuda") and ":" in device:
        raise ConfigError(f"--devices {count} takes one GPU after the other: give --device cuda, not {device}.")
    if device != "cpu" and gpus and count > gpus:
        raise ConfigError(
            f"--devices is {count}, and this machine has {gpus} GPU{'' if gpus == 1 else 's'}: give at most {gpus}, or "
            "train on the CPU with --device cpu."
        )


def launch(arguments: Sequence[str], count: int) -> int:
    """Run `regard` with these arguments in so many processes; return the exit status of the run.

    Signals are passed on: each process ends its step, and the first one saves.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # What goes wrong is told by the first process; torchrun would tell it again, by exit status and traceback.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // count, 1)))
    os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(WAIT)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "regard", *arguments)
    except ChildFailedError as failed:
        return _status({rank: failure.exitcode for rank, failure in failed.failures.items()}, count)
    except SignalException as stopped:
        return STOPPED if stopped.sigval in (signal.SIGINT, signal.SIGTERM) else 128 + stopped.sigval
    return 0


def _status(codes: dict[int, int], count: int) -> int:
    """Return the exit status of the first process that ended by itself; tell of one that was killed."""
    killed = {rank: code for rank, code in codes.items() if code < 0}
    own = [code for rank, code in sorted(codes.items()) if code > 0]
    if killed and not own:
        rank, code = min(killed.items())
        raise TrainingError(
            f"Process {rank} of {count} was killed by {signal.Signals(-code).name}. What was saved is kept: go on from "
            "it with --resume."
        )
    return own[0]
