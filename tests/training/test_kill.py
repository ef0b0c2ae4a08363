"""A kill at any moment of a save loses at most the last interval, and what is resumed ends as if nothing had happened.

The kill points are found, not listed: every file operation of a save is counted as it happens, and the run is killed
before each, and half-way through each write. Then the disk is left as it is (the process was killed), or, in the
other half of the cases, all that was not synced is lost as well (the power went).
"""

import builtins
import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import PLAIN, Killed, Listener, contents, install, killed, settings, train

from regard.training.checkpoint import REMOVING, WRITING

OPERATIONS = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir", "link")


class Disk:
    """Counts the operations on files while armed, and kills at a chosen one."""

    def __init__(self, patch, fatal):
        self.count, self.fatal, self.armed = 0, fatal, False
        self.unsynced, self.unsynced_names = {}, {}
        self._open, self._fsync, self._naming = builtins.open, os.fsync, (os.mkdir, os.rename, os.replace)
        for name in OPERATIONS:
            patch.setattr(os, name, self._counted(getattr(os, name)))
        patch.setattr(builtins, "open", self._opened)

    def arm(self):
        self.armed = True

    def disarm(self):
        self.armed = False

    def steps_saved(self, folder):
        return max((int(path.name[5:]) for path in folder.glob("state/step-????????")), default=0)

    def point(self):
        if self.armed:
            self.count += 1
            if self.count == self.fatal:
                self.armed = False
                raise Killed

    def _counted(self, operation):
        def counted(*given, **named):
            self.point()
            if operation is self._fsync:
                self.unsynced.pop(os.fstat(given[0]).st_ino, None)
                self.unsynced_names.pop(os.fstat(given[0]).st_ino, None)
            done = operation(*given, **named)
            if self.armed and operation in self._naming:
                self._named(Path(given[0] if operation is self._naming[0] else given[1]))
            return done

        return counted

    def _named(self, path):
        """Remember a name that a power cut takes back until its folder is synced; what comes and goes needs none."""
        if path.suffix not in (WRITING, REMOVING):
            self.unsynced_names.setdefault(path.parent.stat().st_ino, []).append(path.name)

    def _opened(self, path, mode="r", *given, **named):
        if not self.armed or "r" in mode or not isinstance(path, str | Path):
            return self._open(path, mode, *given, **named)
        self.point()
        new = not Path(path).exists()
        file = self._open(path, mode, *given, **named)
        if new:
            self._named(Path(path))
        found = os.fstat(file.fileno())
        self.unsynced[found.st_ino] = found.st_size
        return File(file, self)

    def lose_power(self, folder):
        """Cut every file that was written but not synced, wherever it was moved since, back to what it was."""
        for path in folder.rglob("*"):
            if path.is_file() and path.stat().st_ino in self.unsynced:
                os.truncate(path, self.unsynced[path.stat().st_ino])


class File:
    """A file that can be killed half-way through a write."""

    def __init__(self, file, disk):
        self._file, self._disk = file, disk

    def write(self, content):
        self._disk.point()
        half = len(content) // 2
        self._file.write(content[:half])
        self._file.flush()
        self._disk.point()
        return self._file.write(content[half:])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    install(monkeypatch)


def kill_everywhere(folder, monkeypatch, config, power):
    """Kill a run at every file operation from its first step to its end; return how many there were."""
    train(config, folder / "whole")
    expected = contents(folder / "whole")
    for point in itertools.count(1):
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        with monkeypatch.context() as patch:
            disk = Disk(patch, fatal=point)
            try:
                train(config, part, reporter=Listener(1, disk.arm))
            except Killed:
                reached = disk.steps_saved(part)
            else:
                return point - 1
        if power:
            disk.lose_power(part)
        resumed = Listener()
        train(config, part, resume=True, reporter=resumed)
        # Nothing that was once saved is lost: only what came after the last save is done again.
        assert resumed.steps <= config.training.steps - reached, f"operation {point}"
        assert contents(part) == expected, f"operation {point}"
    raise AssertionError


# Three saves: the first makes the folder, the second links what it can, the third lets go of the first.
THREE = {"steps": 3, "validate_every": 1, "accumulate": 1, "log_every": 1}


@pytest.mark.parametrize(("power", "average"), [(False, "last"), (True, "ema")], ids=["killed", "power-cut"])
def test_killed_at_every_file_operation(tmp_path, monkeypatch, power, average):
    config = settings(PLAIN, **{**THREE, "average": average, "average_last": 2, "steps": 2 if power else 3})
    points = kill_everywhere(tmp_path, monkeypatch, config, power)
    print(f"{points} kill points")
    assert points >= 50


def test_names_are_synced_by_the_end(tmp_path, monkeypatch):
    """A power cut takes back what was renamed in a folder that was not synced, however well the file was."""
    with monkeypatch.context() as patch:
        disk = Disk(patch, fatal=0)
        train(settings(PLAIN, **THREE), tmp_path / "whole", reporter=Listener(1, disk.arm))
    assert disk.count > 50
    assert disk.unsynced_names == {}


def test_killed_while_resuming(tmp_path, monkeypatch):
    """A resume puts things right first: a kill during that loses nothing either."""
    config = settings(PLAIN, **THREE)
    train(config, tmp_path / "whole")
    begun = tmp_path / "begun"
    with pytest.raises(Killed):
        train(config, begun, reporter=Listener(3, killed))
    shutil.copytree(begun / "state" / "step-00000002", begun / "state" / "step-00000003.writing")
    (begun / "model.safetensors").unlink()
    for point in itertools.count(1):
        part = tmp_path / "part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(begun, part)
        with monkeypatch.context() as patch:
            disk = Disk(patch, fatal=point)
            disk.arm()
            try:
                train(config, part, resume=True, reporter=Listener(3, disk.disarm))
            except Killed:
                pass
            else:
                assert point > 10
                return
        train(config, part, resume=True)
        assert contents(part) == contents(tmp_path / "whole"), f"operation {point}"


CHILD = """
import sys
import pytest, tiny_run
tiny_run.install(pytest.MonkeyPatch())

class Slow(tiny_run.Listener):
    def step(self, progress):
        print(progress.step, flush=True)
        if progress.step == int(sys.argv[2]):
            sys.stdin.readline()  # until it is killed

tiny_run.train(tiny_run.settings(save_every=3), sys.argv[1], reporter=Slow())
"""


def test_kill_9(tmp_path):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "part"), "8"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line == "8\n":
                child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    resumed = Listener()
    train(settings(save_every=3), tmp_path / "part", resume=True, reporter=resumed)
    assert resumed.messages[0] == "Going on after step 6 (epoch 2)."
    train(settings(save_every=3), tmp_path / "whole")
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")
