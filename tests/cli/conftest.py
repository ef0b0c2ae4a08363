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
def corpus(tmp_path_factory):
    """A TSV file of short pairs with alignments, and the same as two files and a third one."""
    folder = tmp_path_factory.mktemp("corpus")
    rows = command("data", "phrasebook", "--size", "60").lines
    (folder / "pairs.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    for column, name in enumerate(("pairs.en", "pairs.fr", "pairs.align")):
        texts = [row.split("\t")[column] for row in rows]
        (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory):
    """A model folder; not to be changed (`model` is a copy)."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    ran = command("train", "--data", corpus / "pairs.tsv", "--valid", corpus / "pairs.tsv", "--out", folder, *TINY)
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture(scope="session")
def another(corpus, tmp_path_factory):
    """A system of another kind with the same vocabularies: two layers of decoder, two heads."""
    folder = tmp_path_factory.mktemp("models") / "another"
    changed = ("model.decoder.kind=luong", "model.decoder.readout=tanh", "model.attention.heads=2", "seed=7")
    settings = [part for change in (*changed, "model.decoder.width=12") for part in ("--set", change)]
    data = ("--data", corpus / "pairs.tsv", "--valid", corpus / "pairs.tsv")
    ran = command("train", *data, "--out", folder, *TINY, *settings)
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture(scope="session")
def transformer(corpus, tmp_path_factory):
    """A model of three layers with two heads each."""
    folder = tmp_path_factory.mktemp("models") / "transformer"
    small = ("embedding=8", "encoder.width=8", "decoder.width=8", "encoder.layers=1", "decoder.layers=3")
    heads = ("attention.heads=2", "self_attention.heads=2", "encoder.feed_forward=5", "decoder.feed_forward=5")
    settings = [part for change in (*small, *heads) for part in ("--set", f"model.{change}")]
    data = ("--data", corpus / "pairs.tsv", "--valid", corpus / "pairs.tsv")
    settings += ["--set", "model.tie=none", "--set", "training.steps=1"]
    ran = command("train", "--preset", "transformer2017-small", *data, "--out", folder, *TINY[2:], *settings)
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture(scope="session")
def language_model(corpus, tmp_path_factory):
    """A model that reads nothing, trained on the targets."""
    folder = tmp_path_factory.mktemp("models") / "lm"
    changed = ("model.encoder.kind=none", "model.attention=none", "model.decoder.kind=luong", "training.metric=loss")
    settings = [part for change in changed for part in ("--set", change)]
    texts = corpus / "texts.txt"
    texts.write_text((corpus / "pairs.fr").read_text(encoding="utf-8"), encoding="utf-8")
    ran = command("train", "--data", texts, "--valid", texts, "--out", folder, *TINY, *settings)
    assert ran.code == 0, ran.err
    return folder


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
