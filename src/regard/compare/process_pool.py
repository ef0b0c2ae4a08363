"""Run the jobs of a comparison: in this process, or in parallel worker processes spread over the GPUs."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import IO

from regard.compare.training_run import FAILED, INTERRUPTED, RunFiles, RunRecord
from regard.compare.worker import Say, work
from regard.training.interrupts import Interruption
from regard.training.progress import Reporter
from regard.worker_environment import worker_environment

POLL = 0.1
"""Seconds between polls of the worker processes."""

Ended = Callable[[RunRecord], None]


class StoppedError(Exception):
    """The comparison was interrupted; running jobs have been saved."""


def run_here(places: Sequence[RunFiles], say: Say, ended: Ended, reporter: Reporter | None = None) -> None:
    """Run jobs one after the other in this process."""
    for number, place in enumerate(places, start=1):
        say(f"[{number}/{len(places)}] {place.name}")
        record = work(place, say, reporter)
        ended(record)
        if record.state == INTERRUPTED:
            raise StoppedError


def run_apart(places: Sequence[RunFiles], jobs: int, say: Say, ended: Ended) -> None:
    """Run jobs in worker processes, at most `jobs` in parallel. A crashed worker does not affect the others."""
    waiting, running, begun = list(places), list[_Process](), 0
    with Interruption() as interruption:
        try:
            while waiting or running:
                free = [slot for slot in range(jobs) if slot not in [process.slot for process in running]]
                while waiting and free and not interruption.asked:
                    place, begun = waiting.pop(0), begun + 1
                    say(f"[{begun}/{len(places)}] {place.name}")
                    running.append(_start(place, free.pop(0), jobs, say))
                for process in [one for one in running if one.process.poll() is not None]:
                    running.remove(process)
                    ended(process.outcome())
                if interruption.asked:
                    for process in running:
                        process.stop()
                    if not running:
                        raise StoppedError
                time.sleep(POLL)
        finally:
            for process in running:
                process.process.kill()


@dataclass
class _Process:
    place: RunFiles
    slot: int
    process: "subprocess.Popen[bytes]"
    reader: threading.Thread | None
    stopped: bool = False

    def stop(self) -> None:
        """Ask the worker to save and exit. Ctrl-C on a terminal has reached it already; a second signal is harmless."""
        if not self.stopped:
            self.stopped = True
            self.process.send_signal(signal.SIGTERM)

    def outcome(self) -> RunRecord:
        """Return the record of a worker that has ended; write it for one that was killed."""
        if self.reader is not None:
            self.reader.join()
        code = self.process.returncode
        record = self.place.read()
        assert record is not None
        if code in (0, 1, 130) and (code == 0) != (record.state in (FAILED, INTERRUPTED)):
            return record
        if self.stopped or code in (-signal.SIGINT, 130):
            return self.place.write(replace(record, state=INTERRUPTED))
        how = f"it was killed by signal {-code}" if code < 0 else f"its process ended with {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        see = f"; see {self.place.log}" if self.place.log.is_file() else ""
        return self.place.write(replace(record, state=FAILED, reason=f"{how}{hint}{see}"))


def _start(place: RunFiles, slot: int, jobs: int, say: Say) -> _Process:
    record = place.read()
    assert record is not None
    command = [sys.executable, "-m", "regard.compare.worker", str(place.folder), place.name]
    # A single worker writes to the terminal; lines of parallel workers are logged and prefixed with the run's name.
    alone = jobs == 1
    place.log.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stderr=None if alone else subprocess.PIPE,
        stdout=None if alone else subprocess.DEVNULL,
        env=worker_environment(slot, jobs, record.job.config.training.device),
    )
    if alone:
        return _Process(place, slot, process, None)
    assert process.stderr is not None
    reader = threading.Thread(target=_relay, args=(process.stderr, place, say), daemon=True)
    reader.start()
    return _Process(place, slot, process, reader)


def _relay(stream: IO[bytes], place: RunFiles, say: Say) -> None:
    with stream, open(place.log, "ab") as log:
        for line in stream:
            log.write(line)
            log.flush()
            say(f"{place.name}: {line.decode(errors='replace').rstrip()}")
