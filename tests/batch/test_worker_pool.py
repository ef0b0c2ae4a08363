"""What several workers make of blocks comes in order, as the lines come, and one failure is one error."""

import random
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.batch.line_translator import LineTranslator
from regard.batch.translate_options import Output, TranslateOptions
from regard.batch.worker import serve
from regard.batch.worker_pool import AHEAD, WorkerPool, in_order, receive, send
from regard.decoding.line_reader import Lines
from regard.errors import DataError, ModelError, RegardError


def blocks(count):
    return (Lines(number + 1, [f"text {number + 1}"]) for number in range(count))


def work(lines):
    return Output([text.upper() for text in lines.texts], left_out=lines.first)


@settings(deadline=None, max_examples=25)
@given(count=st.integers(0, 17), workers=st.integers(1, 5), seed=st.integers(0, 1 << 16))
def test_blocks_come_in_order_whoever_is_slow(count, workers, seed):
    delays = random.Random(seed)

    def slow(lines):
        time.sleep(delays.random() / 500)
        return work(lines)

    assert [*in_order([slow] * workers, blocks(count))] == [work(lines) for lines in blocks(count)]


def test_the_first_is_there_before_the_last_is_read():
    """The reader waits for what was written, as one who types does."""
    written = threading.Semaphore(0)

    def typed():
        for lines in blocks(7):
            yield lines
            assert written.acquire(timeout=60)

    for _ in in_order([work] * 3, typed()):
        written.release()


def test_a_fast_reader_waits_for_a_slow_writer():
    read = []

    def noted():
        for lines in blocks(99):
            read.append(lines.first)
            yield lines

    outputs = in_order([work] * 2, noted())
    for done in range(1, 9):
        next(outputs)
        assert len(read) <= done + 2 * AHEAD


@pytest.mark.parametrize("bad", [1, 4, 9])
def test_what_comes_before_a_failure_is_there(bad):
    problem = DataError("bad")

    def failing(lines):
        if lines.first == bad:
            raise problem
        return work(lines)

    outputs = [*in_order_until_failure([failing] * 3, blocks(9))]
    assert outputs == [*map(work, blocks(bad - 1)), Output([], error=problem)]

    def broken():
        yield from blocks(bad - 1)
        raise problem

    assert [*in_order_until_failure([work] * 3, broken())] == outputs


def in_order_until_failure(workers, given):
    for output in in_order(workers, given):
        yield output
        if output.error is not None:
            return


class TestProcesses:
    """Real ones, few: each imports torch."""

    def test_what_is_wrong_with_the_options_is_told_once(self, tmp_path):
        with pytest.raises(ModelError) as caught:
            WorkerPool(TranslateOptions((str(tmp_path / "none"),)), 1)
        with pytest.raises(ModelError) as alone:
            LineTranslator(TranslateOptions((str(tmp_path / "none"),)))
        assert str(caught.value) == str(alone.value)

    def test_a_worker_that_is_killed_is_one_error_and_leaves_nothing(self, monkeypatch):
        """The worker is another program, which answers once and then dies as for want of memory."""
        program = (
            "import os, sys\n"
            "from regard.batch.worker_pool import receive, send\n"
            "receive(sys.stdin.buffer)\n"
            "send(sys.stdout.buffer, {'reads': True})\n"
            "receive(sys.stdin.buffer)\n"
            "send(sys.stdout.buffer, {'rows': ['one'], 'left_out': 0})\n"
            "receive(sys.stdin.buffer)\n"
            "os.kill(os.getpid(), 9)"
        )
        real = subprocess.Popen
        started = []

        def popen(command, **more):
            started.append(real([sys.executable, "-c", program], **more))
            return started[-1]

        monkeypatch.setattr(subprocess, "Popen", popen)
        with WorkerPool(TranslateOptions(("m",), device="cpu"), 1) as pool:
            assert pool.reads
            outputs = pool.translated(iter([Lines(1, ["a"]), Lines(2, ["b"] * 1500)]))
            assert next(outputs) == Output(["one"])
            error = next(outputs).error
        assert type(error) is RegardError
        assert str(error) == (
            "Worker 1 was killed by signal 9 (out of memory?) while it translated lines 2 to 1,501 of the input: "
            "try fewer --workers."
        )
        assert [process.returncode for process in started] == [-9]


class TestServe:
    """The other end, within this process."""

    def answers(self, tmp_path, *messages):
        with (tmp_path / "coming").open("wb") as coming:
            for message in messages:
                send(coming, message)
        with (tmp_path / "coming").open("rb") as coming, (tmp_path / "going").open("wb") as going:
            serve(coming, going)
        with (tmp_path / "going").open("rb") as going:
            found = []
            while True:
                try:
                    found.append(receive(going))
                except EOFError:
                    return found

    @pytest.fixture
    def upper(self, monkeypatch):
        class Upper:
            reads = False

            def __init__(self, options):
                assert options == TranslateOptions(("m",), glossary=("a", "b"))

            def translate(self, lines):
                if lines.texts == ["full"]:
                    raise MemoryError("no room")
                if lines.texts == ["bug"]:
                    raise KeyError("x")
                return Output([text.upper() for text in lines.texts], 3, DataError("bad"))

        monkeypatch.setattr("regard.batch.worker.LineTranslator", Upper)

    def test_answers(self, tmp_path, upper):
        options = {"models": ["m"], "glossary": ["a", "b"]}
        assert self.answers(tmp_path) == []
        ready, translated, full, bug = self.answers(
            tmp_path, options, Lines(1, ["a"]), Lines(2, ["full"]), Lines(3, ["bug"])
        )
        assert ready == {"reads": False}
        assert translated == {"rows": ["A"], "left_out": 3, "error": ["DataError", "bad", ""]}
        assert full["error"][:2] == ["MemoryError", "no room"]
        assert bug["error"][:2] == ["RuntimeError", "KeyError: 'x'"]
        assert "Traceback" in bug["error"][2]
