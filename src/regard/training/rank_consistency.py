"""Whether all processes of a run do the same: code, settings and kind of device are compared at the start."""

import hashlib
import platform
import shlex
import socket
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

import regard
from regard import __version__
from regard.config import Config
from regard.config_io import differences
from regard.distributed import World
from regard.errors import TrainingError
from regard.training.setting_checks import device_of


class Identity(NamedTuple):
    """What must not differ between processes."""

    host: str
    code: str
    versions: str
    config: Config
    start_from: str
    device: str


def check_command(world: World, arguments: Sequence[str]) -> None:
    """Raise the same TrainingError in all processes where one was started with another command."""
    (first_host, first), *others = world.gather((socket.gethostname(), list(arguments)))
    for rank, (host, other) in enumerate(others, start=1):
        if other != first:
            raise TrainingError(
                f"Process {rank} of {world.size}, on {host}, was started with another command than process 0, on "
                f"{first_host}:\n  regard {shlex.join(other)}\n  regard {shlex.join(first)}\nGive the same command on "
                "all machines."
            )


def check_same(world: World, config: Config, start_from: Path | None) -> None:
    """Raise the same TrainingError in all processes where one of them has other code, settings or devices."""
    if world.size == 1:
        return
    own = Identity(
        socket.gethostname(),
        code_digest(),
        f"regard {__version__}, torch {torch.__version__}, Python {platform.python_version()}",
        config,
        "" if start_from is None else str(start_from),
        world.together(lambda: device_of(config)).type,
    )
    first, *others = world.gather(own)
    for rank, other in enumerate(others, start=1):
        if (difference := _difference(first, other)) is not None:
            raise TrainingError(f"Process {rank} of {world.size}, on {other.host}, {difference}")


def _difference(first: Identity, other: Identity) -> str | None:
    if other.versions != first.versions:
        return f"runs {other.versions}, and process 0, on {first.host}, {first.versions}: install the same everywhere."
    if other.code != first.code:
        return f"runs other code of regard than process 0, on {first.host}: install the same everywhere."
    if other.device != first.device:
        return (
            f"would train on {_named(other.device)}, and process 0, on {first.host}, on {_named(first.device)}: take "
            "machines with GPUs only, or --device cpu."
        )
    changed = differences(first.config, other.config)
    if other.start_from != first.start_from:
        changed.append(f"--from: {first.start_from} → {other.start_from}")
    if changed:
        listed = "\n".join(f"  {line}" for line in changed)
        return f"was started with other settings than process 0:\n{listed}\nGive the same command on all machines."
    return None


def _named(device: str) -> str:
    return "the CPU" if device == "cpu" else "a GPU"


@cache
def code_digest() -> str:
    """Return what tells the code of this package from any other."""
    root, digest = Path(regard.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
