import signal
import sys

import pytest

from regard.compare import process_pool
from regard.compare.training_run import FAILED, INTERRUPTED, RunFiles, RunRecord, make_jobs
from regard.compare.variants import ComparisonTest, Terms
from regard.errors import TrainingError


@pytest.fixture
def job(make):
    (made,) = make_jobs([make.variant("look")], Terms(), ComparisonTest(("reverse:5",), "test"), ("a",))
    return made


def run(place, code, monkeypatch, jobs=2):
    """Let processes run other code than the worker's."""
    real, said, ended = process_pool.subprocess.Popen, [], []
    monkeypatch.setattr(
        process_pool.subprocess, "Popen", lambda command, **more: real([sys.executable, "-c", code], **more)
    )
    process_pool.run_apart([place], jobs, said.append, ended.append)
    return said, ended


def test_a_process_that_is_killed_is_a_failure(job, tmp_path, monkeypatch):
    place = RunFiles(tmp_path, "look")
    place.write(RunRecord(job))
    code = "import os, sys; print('last words', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)"
    said, (record,) = run(place, code, monkeypatch)
    assert said == ["[1/1] look", "look: last words"]
    assert record.state == FAILED == place.read().state
    assert record.reason == f"it was killed by signal 9 (out of memory?); see {place.log}"
    assert place.log.read_text() == "last words\n"


def test_a_process_that_ends_without_a_word_is_a_failure(job, tmp_path, monkeypatch):
    place = RunFiles(tmp_path, "look")
    place.write(RunRecord(job))
    _, (record,) = run(place, "import sys; sys.exit(3)", monkeypatch, jobs=1)
    assert record.reason == "its process ended with 3"


def test_who_is_asked_to_stop_asks_the_processes(job, tmp_path, monkeypatch):
    """The process waits for the signal, which reaches this one first: asked to stop, we ask it in turn."""
    place = RunFiles(tmp_path, "look")
    place.write(RunRecord(job))
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "signal.pause()"
    )
    with pytest.raises(process_pool.StoppedError):
        run(place, code, monkeypatch)
    assert place.read().state == INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_record_comes_back_as_it_was(job, tmp_path):
    place = RunFiles(tmp_path, "look")
    assert place.read() is None
    record = RunRecord(job, FAILED, "why", 7, {"steps": 3, "best_score": None}, {"CPU": "one"}, 2)
    assert place.write(record) == place.read() == record
    place.file.write_text("{}")
    with pytest.raises(TrainingError) as caught:
        place.read()
    assert str(caught.value) == (
        f"{place.file} cannot be read: it is not a record of a comparison, or was written by another "
        f"release. Delete it and {place.model} to train again."
    )
