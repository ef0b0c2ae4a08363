"""Each line is in one shard, and all shards joined are what one run prints, whatever was killed in between."""

import contextlib
import io
import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.batch import file_translation, shards
from regard.batch.file_translation import join, translate_shard, write_all
from regard.batch.shards import Manifest, Shard, ShardFolder
from regard.batch.translate_options import Output, TranslateOptions
from regard.decoding.line_reader import ALL, as_they_come, count_lines
from regard.errors import ConfigError, DataError, DisplayError

law = settings(deadline=None, max_examples=100)
SMALL = 3
"""Lines of a block, in place of 1,024."""


class Upper:
    """Stands for a model: what becomes of a line depends on its number and the lines that it is batched with."""

    reads = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def translated(self, blocks):
        for lines in blocks:
            rows = [f"{lines.first + i}\t{text.upper()}\t{lines.texts!r}" for i, text in enumerate(lines.texts) if text]
            yield Output(rows, len(lines.texts) - len(rows))


def prepare(patch, folder):
    """Small blocks, no model, and a folder to work in."""
    for module in (shards, file_translation):
        patch.setattr(module, "BLOCK", SMALL)
    patch.setattr(file_translation, "translator", lambda options, workers: Upper())
    patch.setattr(shards, "_checksums", lambda folder: {"model.safetensors": "x"})
    patch.chdir(folder)


@pytest.fixture
def plain(monkeypatch, tmp_path):
    prepare(monkeypatch, tmp_path)


OPTIONS = TranslateOptions(("m",))


def make(number, count, folder="out", options=OPTIONS, given="in.txt"):
    said = []
    translate_shard(options, given, Path(folder), Shard(number, count), 1, said.append)
    return said[0]


def one_run(content):
    written = []
    write_all(Upper(), as_they_come(io.BytesIO(content), SMALL), written.append)
    return "".join(written).encode()


def joined(folder="out"):
    left_out = join(Path(folder), Path("all"))
    return Path("all").read_bytes(), left_out


@law
@given(total=st.integers(0, 50_000), count=st.integers(1, 40))
def test_each_line_is_in_one_shard_and_borders_fall_between_blocks(total, count):
    every = [Shard(number, count).lines(total) for number in range(1, count + 1)]
    assert [line for part in every for line in part] == [*range(1, total + 1)]
    assert all(part.start % 1024 == 1 or not part for part in every)
    sizes = [-(-len(part) // 1024) for part in every]
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None, max_examples=60)
@given(
    texts=st.lists(st.sampled_from(["", "a", "b c", "\ufeffd", "e\r", "ü"]), max_size=17),
    ended=st.booleans(),
    count=st.integers(1, 9),
    data=st.data(),
)
def test_joined_shards_are_one_run(tmp_path_factory, texts, ended, count, data):
    content = "\n".join(texts).encode() + (b"\n" if ended and texts else b"")
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch, tmp_path_factory.mktemp("law"))
        Path("in.txt").write_bytes(content)
        for number in data.draw(st.permutations(range(1, count + 1))):
            make(number, count)
        assert joined() == (one_run(content), sum(not text.removesuffix("\r") for text in plain_lines(content)))


def plain_lines(content):
    return [text for lines in as_they_come(io.BytesIO(content)) for text in lines.texts]


@law
@given(st.binary(max_size=40).map(lambda one: one.replace(b"\0", b"\n")), st.integers(1, 9), st.integers(0, 9))
def test_a_part_of_the_lines_is_what_it_is_in_all(content, first, size):
    def read(wanted):
        return [line for lines in as_they_come(io.BytesIO(content), 2, wanted) for line in lines.texts]

    with contextlib.suppress(DataError):  # some are not UTF-8
        every = read(ALL)
        assert count_lines(io.BytesIO(content))[0] == len(every)
        assert read(range(first, first + size)) == every[first - 1 : first - 1 + size]


def test_what_is_done_is_not_done_again(plain, monkeypatch):
    Path("in.txt").write_text("a\nb\nc\nd\ne\n")
    assert make(1, 3) == "out/part-00001-of-00003.txt has no lines."
    assert make(2, 3) == "out/part-00002-of-00003.txt has lines 1 to 3 of 5."
    assert make(3, 3) == "out/part-00003-of-00003.txt has lines 4 to 5 of 5."
    monkeypatch.setattr(file_translation, "translator", None)  # would fail
    assert make(2, 3) == "out/part-00002-of-00003.txt is finished already."
    assert sorted(path.name for path in Path("out").iterdir()) == [
        *(f"_part-0000{number}-of-00003.json" for number in (1, 2, 3)),
        *(f"part-0000{number}-of-00003.txt" for number in (1, 2, 3)),
    ]


def test_endings_and_other_forms_of_input(plain):
    Path("in.txt").write_text("a\n")
    for name, options in {"tsv": {"pairs": True}, "jsonl": {"field": "x"}}.items():
        make(1, 1, name, TranslateOptions(("m",), **options))
        assert [path.suffix for path in Path(name).glob("part*")] == [f".{name}"]


def refusal(kind, *given, **named):
    with pytest.raises(kind) as caught:
        make(*given, **named)
    return str(caught.value)


def test_a_folder_holds_one_output(plain, monkeypatch):
    Path("in.txt").write_text("a\nb\n")
    make(2, 2)
    assert refusal(ConfigError, 1, 3) == (
        "out/part-00002-of-00002.txt was made of something else (number of shards: 2 → 3). "
        "Choose another folder for --output, or remove this one."
    )
    other = TranslateOptions(("m",), beam=4, settings=("decoding.seed=3",), pairs=True)
    assert refusal(ConfigError, 1, 2, options=other) == (
        "out/part-00002-of-00002.txt was made of something else "
        "(--beam: none → 4, --pairs: False → True, --set: none → decoding.seed=3). "
        "Choose another folder for --output, or remove this one."
    )
    Path("in.txt").write_text("a\nc\n")
    assert "something else (another input)" in refusal(ConfigError, 1, 2)
    Path("in.txt").write_text("a\nb\n")
    monkeypatch.setattr(shards, "_checksums", lambda folder: {"model.safetensors": "y"})
    assert "something else (another model)" in refusal(ConfigError, 2, 2)


def test_a_shard_is_written_by_one_process(plain):
    Path("in.txt").write_text("a\n")
    Path("out").mkdir()
    with ShardFolder(Path("out")).writing(Shard(1, 1), ".txt"):
        assert refusal(DisplayError, 1, 1) == (
            "Cannot write out/part-00001-of-00001.txt: another process is writing it."
        )


def test_an_output_that_is_a_file(plain):
    Path("in.txt").write_text("a\n")
    assert refusal(DataError, 1, 1, folder="in.txt") == (
        "in.txt is a file: --shard needs a folder for --output, in which each shard is a file."
    )


@pytest.mark.parametrize("text", ["2", "0/2", "3/2", "1/", "/2", "1/2/3", "a/b", "-1/2", "1.0/2", "²/3", ""])
def test_what_is_no_shard(text):
    with pytest.raises(ConfigError) as caught:
        Shard.parse(text)
    assert str(caught.value) == f"--shard is {text!r}: write which of how many, such as 1/8 to 8/8."
    assert str(Shard.parse("02/8")) == "2/8"


class TestJoin:
    def refused(self, folder="out"):
        with pytest.raises(DataError) as caught:
            join(Path(folder), None)
        return str(caught.value)

    def test_missing_shards_are_named(self, plain):
        assert self.refused() == "out is not a folder: make the shards first (regard translate --shard)."
        Path("in.txt").write_text("a\n" * 99)
        Path("out").mkdir()
        assert self.refused() == "out has no finished shard: make the shards first (regard translate --shard)."
        for number in (2, 4, 5):
            make(number, 5)
        assert self.refused() == (
            "out lacks 2 of 5 shards: 1/5, 3/5. Make each by the command that made the others, with its own --shard."
        )
        make(1, 30, "many")
        assert ", 21/30, …. Make" in self.refused("many")

    def test_a_part_that_is_cut_short_is_missing_and_one_that_was_changed_is_told(self, plain):
        Path("in.txt").write_text("a\n" * 7)
        for number in (1, 2):
            make(number, 2)
        part = Path("out/part-00002-of-00002.txt")
        whole = part.read_bytes()
        part.write_bytes(whole[:-1])
        assert "lacks 1 of 2 shards: 2/2." in self.refused()
        part.write_bytes(whole[:-1] + b"x")
        assert self.refused() == (
            "out/part-00002-of-00002.txt is not what was written: remove it, and make shard 2/2 again."
        )
        part.unlink()
        make(2, 2)
        assert part.read_bytes() == whole

    def test_shards_gathered_from_several_machines_agree(self, plain):
        Path("in.txt").write_text("a\n" * 7)
        make(1, 2)
        make(2, 2, "other", TranslateOptions(("m",), n_best=2))
        for path in Path("other").iterdir():
            path.rename(Path("out") / path.name)
        assert self.refused() == (
            "out/part-00001-of-00002.txt and out/part-00002-of-00002.tsv were made of different things "
            "(--n-best: 1 → 2). Remove the wrong one, and make it again."
        )
        Path("out/_part-00002-of-00002.json").write_text("{}")
        assert self.refused() == (
            "out/_part-00002-of-00002.json is not the manifest of a shard: remove it, and make the shard again."
        )


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_kill_at_any_moment_is_mended_by_the_same_command(plain):
    """Before each operation on files, and half-way through each write."""
    content = b"a\n\nb\nc\nd\ne\nf\ng\n"
    Path("in.txt").write_bytes(content)
    make(1, 2, "whole")
    make(2, 2, "whole")
    for fatal in range(1, 99):
        folder = f"out{fatal}"
        make(1, 2, folder)
        before = os.stat(f"{folder}/part-00001-of-00002.txt")
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                kill_at(fatal)
                make(2, 2, folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert make(2, 2, folder) in (
            f"{folder}/part-00002-of-00002.txt has lines 4 to 8 of 8.",
            f"{folder}/part-00002-of-00002.txt is finished already.",
        )
        assert joined(folder)[0] == one_run(content)
        after = os.stat(f"{folder}/part-00001-of-00002.txt")
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        assert sorted(os.listdir(folder)) == sorted(os.listdir("whole"))
    assert fatal > 10, "there were few operations"


def kill_at(fatal):
    """Kill this process at one of its operations on files."""
    seen = 0

    def count():
        nonlocal seen
        seen += 1
        if seen == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(operation):
        def run(*given, **named):
            count()
            return operation(*given, **named)

        return run

    for name in ("replace", "fsync", "open", "mkdir", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    real = shards.Writing.write

    def write(self, text):
        count()
        self._file.write(text[: len(text) // 2].encode())
        self._file.flush()
        count()
        self._file.seek(-len(text[: len(text) // 2].encode()), io.SEEK_CUR)
        real(self, text)

    shards.Writing.write = write


def test_a_manifest_tells_what_a_shard_was_made_of(plain):
    Path("in.txt").write_text("a\nb\n")
    make(1, 1)
    path = Path("out/_part-00001-of-00001.json")
    manifest = Manifest.read(path)
    assert manifest.part == "part-00001-of-00001.txt"
    assert manifest.made_of["input"]["lines"] == 2
    told = set(json.loads(path.read_text())["made_of"])
    own = {name.replace("_", "-") for name in vars(OPTIONS)} - {"models", "device", "settings"} | {"set"}
    assert told == {"regard", "number of shards", "input", "model", *(f"--{name}" for name in own)}
