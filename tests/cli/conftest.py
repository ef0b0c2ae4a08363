"""A command line within this process, and one tiny model that all tests of the commands share."""

import io
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.cli.main import run

TINY = (
    *("--preset", "bahdanau2014-small"),
    *("--set", "tokenizer.kind=words", "--set", "tokenizer.joint=false"),
    *("--set", "model.embedding=5", "--set", "model.encoder.width=7", "--set", "model.decoder.width=11"),
    *("--set", "model.decoder.readout_width=5", "--set", "model.attention.width=3"),
    *("--set", "training.steps=3", "--device", "cpu", "--set", "data.held_out=0"),
)
"""Settings of a model that is trained in a moment and knows nothing."""


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.split("\n")[:-1]


def command(*args: str | Path, stdin: bytes = b"") -> Ran:
    """Run `regard` as its entry point does; an exception that would show as a traceback is raised here."""
    kept = sys.argv, sys.stdin, sys.stdout, sys.stderr
    streams = [io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="\n") for content in (stdin, b"", b"")]
    sys.argv = ["regard", *map(str, args)]
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        run()
        code = 0
    except SystemExit as left:
        code = left.code or 0
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = kept
    for stream in streams[1:]:
        stream.flush()
    return Ran(code, *(stream.buffer.getvalue().decode() for stream in streams[1:]))


@pytest.fixture
def regard(monkeypatch):
    """Run a command in a terminal of 80 columns that is none."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return command


@pytest.fixture
def refused(regard):
    """Run a command that a user has given wrongly: one message, nothing else, exit code 2."""

    def refuse(*args, stdin=b""):
        ran = regard(*args, stdin=stdin)
        assert ran.code == 2, ran
        assert ran.err.startswith("regard: ")
        assert ran.err.endswith("\n")
        assert "Traceback" not in ran.err
        return ran.err.removeprefix("regard: ").removesuffix("\n")

    return refuse


@pytest.fixture(scope="session")
def commanded():
    """Run a command, for what a whole session shares."""
    return command


@pytest.fixture(scope="session")
def tiny():
    """Arguments of `regard train` for a tiny model."""
    return TINY


@pytest.fixture(scope="session")
def corpus(once):
    """A TSV file of short pairs with alignments, and the same as two files and a third one; and texts for no source."""

    def write(folder):
        folder.mkdir()
        rows = command("data", "phrasebook", "--size", "60").lines
        (folder / "pairs.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        for column, name in enumerate(("pairs.en", "pairs.fr", "pairs.align")):
            texts = [row.split("\t")[column] for row in rows]
            (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        (folder / "texts.txt").write_bytes((folder / "pairs.fr").read_bytes())

    return once("corpus", write)


@pytest.fixture(scope="session")
def train(once, corpus):
    """Train a tiny model once; the folder is not to be changed (`model` is a copy)."""

    def trained(name, *options, data="pairs.tsv"):
        def run_once(folder):
            both = ("--data", corpus / data, "--valid", corpus / data)
            ran = command("train", *both, "--out", folder, *options)
            assert ran.code == 0, ran.err

        return once(name, run_once)

    return trained


def changes(*settings):
    """Options of a command that change settings."""
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="session")
def trained(train):
    """A model folder."""
    return train("tiny", *TINY)


@pytest.fixture(scope="session")
def another(train):
    """A system of another kind with the same vocabularies: two layers of decoder, two heads."""
    changed = ("model.decoder.kind=luong", "model.decoder.readout=tanh", "model.attention.heads=2", "seed=7")
    return train("another", *TINY, *changes(*changed, "model.decoder.width=12"))


@pytest.fixture(scope="session")
def transformer(train):
    """A model of three layers with two heads each."""
    small = ("embedding=8", "encoder.width=8", "decoder.width=8", "encoder.layers=1", "decoder.layers=3")
    heads = ("attention.heads=2", "self_attention.heads=2", "encoder.feed_forward=5", "decoder.feed_forward=5")
    settings = changes(*(f"model.{change}" for change in (*small, *heads)), "model.tie=none", "training.steps=1")
    return train("transformer", "--preset", "transformer2017-small", *TINY[2:], *settings)


@pytest.fixture(scope="session")
def language_model(train):
    """A model that reads nothing, trained on the targets."""
    changed = ("model.encoder.kind=none", "model.attention=none", "model.decoder.kind=luong", "training.metric=loss")
    return train("language-model", *TINY, *changes(*changed), data="texts.txt")


@pytest.fixture
def model(trained, tmp_path):
    """A copy of the model folder that a test may damage."""
    return shutil.copytree(trained, tmp_path / "model")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, so that messages have short names."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"
