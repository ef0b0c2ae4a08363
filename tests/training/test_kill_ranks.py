"""One of two processes is killed at any moment: what is resumed ends as if nothing had happened, bit for bit."""

import os
import random
import shutil
import signal
import time

import pytest
import ranks
import tiny_run
from test_kill import THREE, Disk
from tiny_run import PLAIN, Listener, contents, settings

SHORT = settings(PLAIN, **THREE)
LONG = settings(PLAIN, epochs=8, save_every=2, validate_every=5)


class Fatal(Disk):
    """Kills the process itself at a chosen operation on files."""

    def point(self):
        if self.armed:
            self.count += 1
            if self.count == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)


def run(folder, config, fatal=0, resume=False):
    """Train; the first process dies at an operation of the saves that begin with the first step. Count them."""
    with pytest.MonkeyPatch.context() as patch:
        tiny_run.install(patch)
        disk = Fatal(patch, fatal)
        tiny_run.train(config, folder, resume=resume, reporter=Listener(1, disk.arm))
        return disk.count


def kill_at(folder, points):
    """Kill the first process at each of these operations, and resume."""
    for point in points:
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        first, other = ranks.answers(ranks.start(2, run, part, SHORT, point))
        assert isinstance(first, ranks.LostError), point
        assert "Another process of this run was lost" in str(other), point
        ranks.run(2, run, part, SHORT, 0, (part / "config.toml").is_file())
        assert contents(part) == contents(folder / "whole"), point


def kill_sometime(folder, times):
    """Kill one process or the other when so many bytes of metrics are there, of the whole run's."""
    chance = random.Random(7)
    size = (folder / "long" / "metrics.jsonl").stat().st_size
    for turn in range(times):
        part, victim, when = folder / "part", chance.randrange(2), chance.randrange(size * 3 // 4)
        shutil.rmtree(part, ignore_errors=True)
        started = ranks.start(2, run, part, LONG)
        while not (part / "metrics.jsonl").is_file() or (part / "metrics.jsonl").stat().st_size < when:
            assert started[victim][0].is_alive(), "it has ended before it was killed"
            time.sleep(0.001)
        started[victim][0].kill()
        ranks.answers(started)
        ranks.run(2, run, part, LONG, 0, True)
        assert contents(part) == contents(folder / "long"), (turn, victim, when)


def test_one_of_the_operations_of_a_save_and_one_moment(tmp_path):
    points, _ = ranks.run(2, run, tmp_path / "whole", SHORT)
    assert points > 50
    kill_at(tmp_path, [points // 3])
    ranks.run(2, run, tmp_path / "long", LONG)
    kill_sometime(tmp_path, 1)


@pytest.mark.slow
def test_every_operation_of_a_save(tmp_path):
    points, _ = ranks.run(2, run, tmp_path / "whole", SHORT)
    kill_at(tmp_path, range(1, points + 1))


@pytest.mark.slow
def test_twenty_moments(tmp_path):
    ranks.run(2, run, tmp_path / "long", LONG)
    kill_sometime(tmp_path, 20)
