"""Which folder a run may have, and whether it may go on from what is there."""

import contextlib
import fcntl
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch

from regard.config import Config
from regard.config_io import differences
from regard.decoding.vocabulary_shortlist import SHORTLIST
from regard.errors import TrainingError
from regard.models.model_folder import CACHE, CONFIG, WEIGHTS, read_config
from regard.training.checkpoint import WRITING, Checkpoints, Saved
from regard.training.learning_rate_schedule import depends_on_total_steps
from regard.training.trainer import METRICS, STATE, records_steps

TENSORBOARD, CURVE, REPORT = "tensorboard", "curve.svg", "report.txt"
ASIDE, GONE = ".replaced", ".removed"
"""Where a run is while another takes its place, and while it is deleted."""

LENGTH = ("training.epochs", "training.steps", "training.minutes")
"""Settings that say how long a run is."""
HARMLESS = frozenset(
    {
        *("preset", *LENGTH),
        *("data.from_language", "data.to_language"),
        *(f"training.{name}" for name in ("learning_rate", "clip", "patience")),
        *(f"training.{name}" for name in ("save_every", "log_every", "device", "shard")),
    }
)
"""Settings that may change between the parts of a run; those of `decoding` may too."""


def prepare(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """See that a run may be made in a folder and that it can be written, before anything else is done."""
    if resume and overwrite:
        raise TrainingError("--resume goes on from what is there and --overwrite removes it: give one of them.")
    try:
        check_target(folder, resume, overwrite)
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise TrainingError(f"{folder} cannot be written: {error.strerror}. Choose another folder.") from None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second process out of the folder while this one trains; the lock dies with the process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(f"Another process is training in {folder}: wait for it, or stop it first.") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def undone_on_error(folder: Path, existed: bool) -> Iterator[None]:
    """Remove what was made in an empty folder if training cannot begin: nothing is left half done."""
    try:
        yield
    except Exception:
        for entry in list(folder.iterdir()):
            _remove(entry)
        if not existed:
            folder.rmdir()
        raise


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[None]:
    """Keep a run that is put aside until the other can begin; if it cannot, bring it back: nothing is lost."""
    shutil.rmtree(folder / GONE, ignore_errors=True)
    _bring_back(folder)  # from a process that was killed here
    before = {entry.name for entry in folder.iterdir()}
    try:
        yield
    except BaseException:
        if (folder / ASIDE).is_dir():
            for entry in [entry for entry in folder.iterdir() if entry.name not in before | {ASIDE}]:
                _remove(entry)
            _bring_back(folder)
        raise
    if (folder / ASIDE).is_dir():
        (folder / ASIDE).rename(folder / GONE)  # at once: half of a run is never brought back
        shutil.rmtree(folder / GONE)


def _bring_back(folder: Path) -> None:
    if (folder / ASIDE).is_dir():
        for entry in list((folder / ASIDE).iterdir()):
            _remove(folder / entry.name)
            entry.rename(folder / entry.name)
        (folder / ASIDE).rmdir()


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink(missing_ok=True)


def check_settings(saved: Saved, config: Config, folder: Path) -> list[str]:
    """Return the changes that are harmless; raise a TrainingError that lists all others."""
    changed = differences(read_config(saved.path), config)
    refused = [line for line in changed if not _harmless(line.partition(":")[0], config)]
    if refused:
        raise TrainingError(
            f"{folder} cannot be resumed with other settings than it was started with:\n"
            + "\n".join(f"  {line}" for line in refused)
            + "\nLeave them as they were, or train into another folder."
            + (_longer(folder) if any(line.startswith(LENGTH) for line in refused) else "")
        )
    return changed


def _longer(folder: Path) -> str:
    return (
        " To train this model for longer, start another from it, whose optimizer and schedule begin anew: regard train "
        f"--from {shlex.quote(str(folder))} --out ANOTHER, and the data."
    )


def drawn_in_few_shapes(saved: Saved, device: torch.device) -> bool:
    """Tell how a run draws its batches: as it began, or some pairs would be missed and others seen twice.

    Older checkpoints do not tell: then the device that was asked for does, or else that of now.
    """
    if "few_shapes" in saved.place:
        return bool(saved.place["few_shapes"])
    then = read_config(saved.path)
    asked = then.training.device
    return records_steps(then, device if asked == "auto" else torch.device(asked))


def find(folder: Path) -> tuple[Saved | None, list[str]]:
    """Clear away what a killed process left, and find the newest whole checkpoint; also say what is damaged."""
    for leftover in folder.glob(f".*{WRITING}"):
        leftover.unlink()
    checkpoints = Checkpoints(folder / STATE)
    checkpoints.sweep()
    return checkpoints.latest()


def _harmless(name: str, config: Config) -> bool:
    if name in LENGTH and depends_on_total_steps(config.training):
        return False
    if name == "training.save_every" and config.training.average == "last":
        return False  # the average is made of these checkpoints
    return name in HARMLESS or name.startswith("decoding.")


def check_target(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise a TrainingError where a run may not be made in a folder."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise TrainingError(f"{folder} is a file, not a folder: choose another name for the run.")
    if resume and not folder.is_dir():
        raise TrainingError(f"There is nothing to resume: {folder} does not exist.")
    holds_run = (folder / CONFIG).is_file()
    if resume and not holds_run:
        empty = not any(folder.iterdir())
        instead = "Leave out --resume to start one" if empty else "Give the folder of a run, or train into a new one"
        raise TrainingError(f"There is nothing to resume: {folder} holds no run. {instead}.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not holds_run:
        raise TrainingError(f"{folder} is not empty and holds no run: choose a folder that does not exist yet.")
    if not (resume or overwrite):
        raise TrainingError(
            f"{folder} already holds a run. Go on with it by --resume, replace it by --overwrite, "
            "or choose another folder."
        )


def put_aside(folder: Path) -> None:
    """Put what a run wrote aside, and nothing else; what is small is copied, so that it still is a run's folder."""
    aside = folder / ASIDE
    aside.mkdir()
    for entry in list(folder.iterdir()):
        if entry.is_file() and entry.suffix in (".toml", ".json", ".model"):
            shutil.copy2(entry, aside)
    for name in (STATE, CACHE, TENSORBOARD, WEIGHTS, METRICS, CURVE, "curve.png", REPORT, SHORTLIST):
        if (folder / name).exists():
            (folder / name).rename(aside / name)
