"""The command line as a process: help, exit codes, streams that fail, no network."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys

import pytest

from regard import __version__
from regard.cli.main import COMMANDS

PROGRAM = [sys.executable, "-m", "regard"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", "PYTHONUNBUFFERED": ""}
HEAVY = ("torch", "numpy", "matplotlib", "sacrebleu", "sentencepiece", "rich")


def process(*args, stdin=b"", program=PROGRAM, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **options}
    return subprocess.run([*program, *map(str, args)], input=stdin, check=False, timeout=60, **options)


def test_help_names_every_command_in_whole_sentences(regard):
    ran = regard("--help")
    assert (ran.code, ran.err) == (0, "")
    for name in COMMANDS:
        assert any(line.startswith(f"  {name} ") and line.endswith(".") for line in ran.lines), name
    assert "..." not in ran.out.partition("Commands:")[2]


@pytest.mark.parametrize("name", [*COMMANDS])
def test_every_command_and_every_option_has_help(regard, name):
    ran = regard(name, "-h")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == regard(name, "--help").out
    assert max(map(len, ran.lines)) <= 80
    options = ran.out.partition("Options:\n")[2]
    starts = [line for line in options.split("\n") if line.startswith("  -")]
    assert starts
    assert all(len(line.split("  ")) >= 3 for line in starts), "an option without help"


def test_version(regard):
    assert regard("--version").out == f"regard {__version__}\n"


@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], ["train", "--help"], ["list", "presets"], ["list", "settings"]]
)
def test_what_needs_no_model_imports_nothing_heavy(args):
    code = (
        "import sys\nfrom regard.cli.main import run\ntry:\n    run()\nfinally:\n"
        f"    print(*(m for m in {HEAVY} if m in sys.modules), file=sys.stderr)"
    )
    ran = process(*args, program=[sys.executable, "-c", code])
    assert ran.returncode == 0
    assert ran.stderr.split() == []


def test_mistakes_in_a_command_line(regard):
    for args in (
        ["tran"],
        ["train", "--nope"],
        ["attend"],
        ["attend", "m", "a", "b"],
        ["data"],
        ["data", "a", "--size", "x"],
    ):
        ran = regard(*args)
        assert ran.code == 2, args
        assert "Error: " in ran.err
        assert ran.out == ""
        assert "Traceback" not in ran.err


DATA = (
    *("train", "valid", "held_out", "mixed", "tagged", "valid_tagged"),
    *("from_language", "to_language", "max_length", "plain_captions"),
)
PLACES = [f"data.{name}=" for name in DATA]
SCORES = ["additive", "concat", "cosine", "dot", "general", "location", "scaled-dot", "tanh"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["--set", "data."], PLACES),
        (["--data", "phrasebook", ":", "100", "--set", "data."], PLACES),
        (["--set", "model.attention.score", "=", "co"], ["concat", "cosine"]),
        (["--set", "model.attention.score", "="], SCORES),
        (["--set", "model.attention.sco"], [f"model.attention.score={score}" for score in ("", *SCORES)]),
        (["--set", "model.tie", "=", "all", "--set", "model.tie", "=", "o"], ["output"]),
        (["--set", "=", "model.tie", "=", "o"], ["output"]),
        (["--preset", "=", "sutskever2014-"], ["sutskever2014-small"]),
        (["--set", "model.tie", "=", "all", "--preset", "sutskever2014-"], ["sutskever2014-small"]),
    ],
)
def test_completion_is_offered_in_bash(words, offered):
    """As bash asks: it cuts words at = and :, and wants to know how the last part goes on."""
    words = ["regard", "train", *words]
    asked = {"_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    program = [sys.executable, "-c", "import sys; sys.argv[0] = 'regard'; from regard.cli.main import run; run()"]
    ran = process(env={**ENVIRONMENT, **asked}, program=program)
    assert ran.stdout.decode().split() == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_itself_completes_names_and_values(tmp_path):
    """The script that is installed, in a shell that reads keys from a terminal."""
    program = tmp_path / "regard"
    call = "import sys; sys.argv[0] = 'regard'; from regard.cli.main import run; run()"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{call}" "$@"\n')
    program.chmod(0o755)
    shown = process("--show-completion", "bash", program=[program]).stdout.decode()
    assert "complete -o default" in shown
    (tmp_path / "rc").write_text(f"PATH={tmp_path}:$PATH\nbind 'set enable-bracketed-paste off'\n{shown}\n")
    typed = b"regard train --set model.attention.sco\tcos\t"
    leader, follower = pty.openpty()
    with subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", tmp_path / "rc", "-i"],
        stdin=follower, stdout=follower, stderr=follower, env={**ENVIRONMENT, "TERM": "dumb"}, start_new_session=True,
    ) as shell:  # fmt: skip
        os.close(follower)
        os.write(leader, typed)
        seen = b""
        while b"cosine" not in seen and select.select([leader], [], [], 60)[0]:
            seen += os.read(leader, 1000).replace(b"\a", b"")  # it rings where there are several to choose from
        shell.kill()
    os.close(leader)
    assert b"--set model.attention.score=cosine" in seen, seen


def test_a_reader_that_leaves_is_not_an_error_to_talk_about(tmp_path):
    """`regard data phrasebook | head -1`, whether the reader leaves at once or after a line."""
    for lines in (0, 1):
        with subprocess.Popen(
            [*PROGRAM, "data", "copy"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
        ) as writer:
            for _ in range(lines):
                assert writer.stdout.readline()
            writer.stdout.close()
            assert writer.stderr.read() == b""
            assert writer.wait() == 1


def test_little_output_to_a_reader_that_has_left():
    """What is only buffered until the end must not complain then."""
    reading, writing = os.pipe()
    os.close(reading)
    ran = process("list", "presets", stdout=writing)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["data", "copy"], ["list", "presets"], ["--help"]])
def test_a_full_disk_is_told(args):
    with open("/dev/full", "wb") as full:
        ran = process(*args, stdout=full)
    assert (ran.returncode, ran.stderr) == (2, b"regard: Cannot write the output: No space left on device.\n")


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_closed_streams(trained, stream):
    """`regard translate m <&-`, `>&-` and `2>&-`."""
    code = f"import os; os.close({stream}); os.execv({sys.executable!r}, {PROGRAM!r} + ['list', 'presets'])"
    ran = process(program=[sys.executable, "-c", code])
    assert ran.returncode == 0
    assert b"Traceback" not in ran.stderr


def test_output_is_utf8_whatever_the_locale(corpus):
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    ran = process("data", corpus / "pairs.tsv", env=environment)
    assert ran.returncode == 0
    assert ran.stdout == (corpus / "pairs.tsv").read_bytes()


def test_an_interruption_leaves_quietly():
    # A shell that starts these tests in the background lets them ignore Ctrl-C, and what they start inherits that.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = [sys.executable, "-c", listening + "from regard.cli.main import run; run()", "data", "phrasebook:1000000"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as running:
        assert running.stdout.readline()  # it is at work
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"Traceback" not in told


def test_translating_and_looking_touch_no_network(trained, tmp_path):
    code = (
        "import socket\n"
        "def refuse(*_, **__): raise AssertionError('the network was touched')\n"
        "socket.socket.connect = socket.socket.bind = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from regard.cli.main import run\nrun()"
    )
    program = [sys.executable, "-c", code]
    looked = process("attend", trained, "the dog", "--out", tmp_path / "a.json", program=program)
    assert (looked.returncode, looked.stderr) == (0, f"Wrote {tmp_path / 'a.json'}\n".encode())
    translated = process("translate", trained, stdin=b"the dog\n", program=program)
    assert (translated.returncode, translated.stderr) == (0, b"")
