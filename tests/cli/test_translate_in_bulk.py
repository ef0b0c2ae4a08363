"""`regard translate` in shards and in workers prints, byte for byte, what it prints alone."""

import json
import lzma
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.batch import file_translation, shards

SMALL = 3
"""Lines of a block, in place of 1,024."""
TEXTS = (
    "the dog",
    "",
    "a red cat",
    "they have seen it",
    "  ",
    "my church",
    "a",
    "the dog",
    "their friends",
    "no",
    "end",
)


@pytest.fixture
def small(monkeypatch, here):
    """Small blocks, and an input whose last line does not end."""
    for module in (shards, file_translation):
        monkeypatch.setattr(module, "BLOCK", SMALL)
    (here / "in.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    records = [{"id": i, "source": text, "more": [1.10, {"x": None}]} for i, text in enumerate(TEXTS)]
    (here / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))


FORMS = {
    "plain": ("--input", "in.txt"),
    "n-best": ("--n-best", "3", "--beam", "4", "--input", "in.txt"),
    "pairs": ("--pairs", "--n-best", "2", "--beam", "2", "--tag", "<bt>", "--input", "in.txt"),
    "field": ("--field", "source", "--n-best", "2", "--beam", "2", "--input", "in.jsonl"),
}


@pytest.mark.parametrize("form", FORMS)
def test_joined_shards_are_what_one_run_prints(regard, trained, small, form):
    alone = regard("translate", trained, *FORMS[form])
    assert alone.code == 0, alone.err
    said = ""
    for number in (3, 1, 4, 2):
        ran = regard("translate", trained, *FORMS[form], "--output", "out", "--shard", f"{number}/4")
        assert (ran.code, ran.out) == (0, ""), ran.err
        said += ran.err
    assert said.count("regard: out/part-0000") == 4
    joined = regard("translate", "--join", "out")
    assert (joined.code, joined.out, joined.err) == (0, alone.out, alone.err)
    regard("translate", "--join", "out", "--output", "all")
    regard("translate", trained, *FORMS[form], "--output", "one")
    assert Path("all").read_bytes() == Path("one").read_bytes() == alone.out.encode()


def test_workers_print_what_one_process_prints(regard, trained, small):
    """Also of lines before one that cannot be translated, which has its number."""
    for name in ("in.txt", "in.jsonl"):
        with Path(name).open("ab") as file:
            file.write(b"\n{\n" if name.endswith("l") else b"\n\xff\n")
    for options in (("--n-best", "3", "--beam", "4", "--input", "in.txt"), FORMS["field"]):
        alone = regard("translate", trained, *options)
        assert alone.code == 2
        assert len(alone.lines) > len(TEXTS) - 1
        assert "Line 11 of the input" in alone.err or "Line 12 of the input" in alone.err
        assert regard("translate", trained, *options, "--workers", "2", "--device", "cpu") == alone


def test_compressed_input_and_standard_input_are_the_same(regard, trained, small):
    alone = regard("translate", trained, "--input", "in.txt").out
    Path("in.xz").write_bytes(lzma.compress(Path("in.txt").read_bytes()))
    assert regard("translate", trained, "--input", "in.xz").out == alone
    assert regard("translate", trained, stdin=Path("in.txt").read_bytes()).out == alone


def test_a_field_of_objects(regard, trained, here):
    ran = regard("translate", trained, stdin=b"the dog\n\n")
    given = '{"id": 1.10, "text": "the dog", "big": 12345678901234567890}  \n{"text": ""}\n'
    found = regard("translate", trained, "--field", "text", "--into", "fr", stdin=given.encode())
    assert found.lines == [
        f'{{"id": 1.10, "text": "the dog", "big": 12345678901234567890, "fr": "{ran.lines[0]}"}}',
        '{"text": "", "fr": ""}',
    ]
    scored = regard("translate", trained, "--n-best", "2", "--beam", "2", "--field", "text", stdin=b'{"text": "a"}\n')
    rows = regard("translate", trained, "--n-best", "2", "--beam", "2", stdin=b"a\n").lines
    best = [row.split("\t") for row in rows]
    assert json.loads(scored.out) == {
        "text": "a",
        "translation": best[0][2],
        "translation_score": float(best[0][1]),
        "translation_n_best": [row[2] for row in best],
        "translation_n_best_scores": [float(row[1]) for row in best],
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "Line 2 of the input: not JSON (Expecting property name enclosed in double quotes, column 2)."),
        (b"", "Line 2 of the input: empty. Remove the line."),
        (b"[]", 'Line 2 of the input: not an object. A line is {"text": "\u2026"}.'),
        (
            b'{"texts": "a"}',
            'Line 2 of the input: no "text" among its keys ("texts"). A line is {"text": "\u2026"}.',
        ),
        (b'{"text": 5}', 'Line 2 of the input: "text" is 5, not a string.'),
        (
            b'{"text": "a", "translation": "b"}',
            'Line 2 of the input has a "translation" already: write to another field (--into NAME).',
        ),
    ],
)
def test_objects_that_cannot_be_translated(regard, trained, line, message):
    ran = regard("translate", trained, "--field", "text", stdin=b'{"text": "the dog"}\n' + line + b'\n{"text": "a"}\n')
    assert ran.code == 2
    assert ran.err == f"regard: {message}\n"
    assert [json.loads(row)["text"] for row in ran.lines] == ["the dog"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--workers", "0"), "--workers is 0; it must be at least 1."),
        (("--shard", "1/2"), "--shard needs --output FOLDER, where each shard becomes a file."),
        (("--shard", "3/2", "--output", "x"), "--shard is '3/2': write which of how many, such as 1/8 to 8/8."),
        (("--join", "x"), "--join translates nothing: leave out MODEL."),
        (("--into", "x"), "--into is for --field: give both, or leave it out."),
        (("--field", "x", "--pairs"), "--field writes JSON objects and --pairs TSV: leave out one of them."),
        (("--input", "none.txt"), "No file 'none.txt'."),
        (("--output", "none/x"), "Cannot write none/x: there is no folder none."),
    ],
)
def test_refusals(refused, trained, here, given, message):
    assert refused("translate", trained, *given) == message


def test_refusals_without_a_model(refused, here):
    assert refused("translate") == "Give the folder of a model (regard translate MODEL), or --join FOLDER."
    assert refused("translate", "--join", "x", "--shard", "1/2") == ("--join translates nothing: leave out --shard.")


def test_a_file_of_output_is_there_once_all_is_translated(regard, trained, here):
    Path("out").write_text("old")
    ran = regard("translate", trained, "--output", "out", stdin=b"the dog\n\xff\n")
    assert ran.code == 2
    assert Path("out").read_text() == "old"
    assert os.listdir() == ["out"]


@pytest.mark.slow
class TestProcesses:
    """Of a terminal's user: lines are answered as they come, and Ctrl-C or a kill leaves nothing behind."""

    @pytest.fixture
    def started(self, trained):
        process = subprocess.Popen(
            [sys.executable, "-m", "regard", "translate", trained, "--workers", "2", "--device", "cpu"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(b"the dog\n")
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")  # before the input has ended
        yield process
        process.kill()
        process.communicate()

    def workers(self, process):
        return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]

    def gone(self, pids):
        """Wait until they are."""
        for _ in range(600):
            if not any(Path(f"/proc/{pid}/stat").exists() for pid in pids):
                return True
            time.sleep(0.05)
        return False

    def test_ctrl_c(self, started):
        pids = self.workers(started)
        assert len(pids) == 2
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=60)
        assert (started.returncode, err) == (130, b"")
        assert self.gone(pids)

    def test_a_kill_of_the_command_ends_its_workers(self, started):
        pids = self.workers(started)
        started.kill()
        started.communicate(timeout=60)
        assert self.gone(pids)

    def test_a_kill_of_a_worker_ends_the_command(self, started):
        first, second = self.workers(started)
        os.kill(first, signal.SIGKILL)
        os.kill(second, signal.SIGKILL)
        _, err = started.communicate(b"a\n", timeout=60)
        assert started.returncode == 2
        assert err.count(b"\n") == 1
        assert b"was killed by signal 9 (out of memory?) while it translated lines 2 to 2 of the input" in err
        assert self.gone([first, second])
