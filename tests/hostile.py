"""Model folders made to harm, and what regard does with them: in a process of its own that is watched and limited."""

import json
import os
import pickle
import random
import resource
import shutil
import signal
import struct
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard.cli.main import run
from regard.errors import RegardError
from regard.native.library import cache_folder

EVENTS_OF_CODE = ("pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")
"""Audit events of code that a folder would bring along."""
OWN = tuple(
    os.path.realpath(place)
    for place in (
        Path(regard.__file__).parents[1],
        Path(__file__).parent,
        *sysconfig.get_paths().values(),
        sys.prefix,
        sys.base_prefix,
    )
)
MACHINE = ("/proc/", "/dev/null", "/sys/", "/etc/localtime")
SECONDS = 30
"""Of processor time: what needs more hangs."""
SPARE = 64 << 20
"""Bytes of memory beside twice the folder's: what a command takes with any model."""


@dataclass(frozen=True)
class Outcome:
    """What a command did with a folder."""

    status: int
    """Its exit code, or the negative number of the signal that ended it."""
    err: str
    opened: tuple[str, ...]
    """Files that it opened outside the folder, regard's own and Python's left out."""
    ran: tuple[str, ...]
    """What it did that only code does."""
    memory: int
    """Bytes of memory beyond those of the process that it was started from."""


def attempt(folder: Path, *arguments: str, stdin: str = "s1 s2\n") -> Outcome:
    """Translate with a folder, or run a command, in a child of this process."""
    with tempfile.TemporaryDirectory() as place:
        told, streams = Path(place) / "told.json", [Path(place) / name for name in ("in", "out", "err")]
        streams[0].write_text(stdin)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _in_child(folder, arguments, told, streams)
        _, status = os.waitpid(child, 0)
        found = json.loads(told.read_text()) if told.exists() else {"opened": [], "ran": [], "memory": 0}
        code = os.waitstatus_to_exitcode(status)
        err = streams[2].read_text(errors="replace") if streams[2].exists() else ""
        return Outcome(code, err, tuple(found["opened"]), tuple(found["ran"]), found["memory"])


def _in_child(folder: Path, arguments: tuple[str, ...], told: Path, streams: list[Path]) -> None:
    code = 70
    watched: list[bool] = []
    opened, ran = set[str](), set[str]()
    try:
        for number, path in enumerate(streams):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, "w" if number else "r") for number in range(3))
        sys.argv = ["regard", *arguments]
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(4 * SECONDS)  # for what waits: a pipe
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        def watch(event: str, details: tuple[Any, ...]) -> None:
            if watched and event == "open" and isinstance(details[0], str | bytes):
                path = os.path.realpath(os.fsdecode(details[0]))
                if not may_open(path, folder):
                    opened.add(path)
            elif watched and event in EVENTS_OF_CODE:
                ran.add(event)

        sys.addaudithook(watch)
        watched.append(True)
        try:
            run() if arguments else translate(folder)
            code = 0
        except RegardError as error:
            print(f"regard: {error}", file=sys.stderr)
            code = 2
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException:
            traceback.print_exc()
            code = 71
        watched.clear()
        sys.stderr.flush()
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        told.write_text(json.dumps({"opened": sorted(opened), "ran": sorted(ran), "memory": memory}))
    finally:
        os._exit(code)


def translate(folder: Path) -> None:
    """Do what `regard translate` does, without a command line, which takes most of its time."""
    regard.load(folder).translate(["s1 s2"])


def may_open(path: str, folder: Path) -> bool:
    """Return whether a command that uses a model folder has reason to open a file."""
    return path.startswith((*OWN, *MACHINE, os.path.realpath(folder), os.path.realpath(cache_folder())))


def size_of(folder: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


class Payload:
    """What unpickles by running code: it leaves a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


Damage = Callable[[Path, Path], None]
"""Changes a model folder for the worse; the second folder is one that it must not reach."""

CASES: dict[str, Damage] = {}


def case(name: str) -> Callable[[Damage], Damage]:
    """Enter a case."""

    def enter(damage: Damage) -> Damage:
        assert name not in CASES
        CASES[name] = damage
        return damage

    return enter


def rewrite(path: Path, content: bytes) -> None:
    """Give a file another content."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def settings(folder: Path, old: str, new: str) -> None:
    """Change the configuration."""
    path = folder / "config.toml"
    content = path.read_text()
    assert old in content, old
    path.write_text(content.replace(old, new, 1))


def setting(folder: Path, name: str, value: str) -> None:
    """Change one setting, given by its dotted name."""
    group, _, key = name.rpartition(".")
    lines, inside = (folder / "config.toml").read_text().split("\n"), group == ""
    for number, line in enumerate(lines):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and line.startswith(f"{key} = "):
            lines[number] = f"{key} = {value}"
            (folder / "config.toml").write_text("\n".join(lines))
            return
    raise AssertionError(name)


def weights(folder: Path) -> dict[str, np.ndarray]:
    """Read the weights."""
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")


def save_weights(folder: Path, tensors: dict[str, Any]) -> None:
    """Write weights."""
    from safetensors.torch import save_file

    save_file({name: torch.as_tensor(each) for name, each in tensors.items()}, folder / "model.safetensors")


def header(folder: Path, change: Callable[[dict[str, Any]], None], data: bytes | None = None) -> None:
    """Change the header of the file of weights."""
    content = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    table = json.loads(content[8 : 8 + length])
    change(table)
    told = json.dumps(table).encode()
    rewrite(
        folder / "model.safetensors",
        struct.pack("<Q", len(told)) + told + (content[8 + length :] if data is None else data),
    )


def vocabulary(folder: Path, content: bytes) -> None:
    """Replace the source vocabulary, and enter its checksum, as whoever makes a folder to harm would."""
    index = json.loads((folder / "tokenizer.json").read_bytes())
    side = "source" if "source" in index else "joint"
    index[side]["sha256"] = sha256(content).hexdigest()
    rewrite(folder / index[side]["file"], content)
    (folder / "tokenizer.json").write_text(json.dumps(index))


def index(folder: Path, **changes: Any) -> None:
    """Change tokenizer.json."""
    found = json.loads((folder / "tokenizer.json").read_bytes())
    (folder / "tokenizer.json").write_text(json.dumps(found | changes))


def first(table: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a header's first tensor."""
    return table[sorted(name for name in table if name != "__metadata__")[0]]


for _file in ("model.safetensors", "config.toml", "tokenizer.json", "source.model", "shortlist.safetensors"):

    @case(f"a pickle as {_file}")
    def _(folder, outside, name=_file):
        rewrite(folder / name, pickle.dumps(Payload(outside / "ran")))

    @case(f"{_file} is a link to a file outside")
    def _(folder, outside, name=_file):
        shutil.copy(folder / name if (folder / name).exists() else folder / "config.toml", outside / name)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside / name)

    @case(f"{_file} is a named pipe")
    def _(folder, outside, name=_file):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    @case(f"{_file} is a folder")
    def _(folder, outside, name=_file):
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    @case(f"{_file} is a link to a device without end")
    def _(folder, outside, name=_file):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/dev/zero")

    @case(f"{_file} is a link to itself")
    def _(folder, outside, name=_file):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(name)

    @case(f"{_file} is noise")
    def _(folder, outside, name=_file):
        rewrite(folder / name, random.Random(1).randbytes(4096))


@case("weights as torch.save writes them, with code")
def _(folder, outside):
    torch.save({"payload": Payload(outside / "ran")}, folder / "model.safetensors")


@case("a vocabulary with its checksum that is a pickle")
def _(folder, outside):
    vocabulary(folder, pickle.dumps(Payload(outside / "ran")))


@case("a vocabulary's name leads out of the folder")
def _(folder, outside):
    (outside / "stolen.model").write_bytes((folder / "source.model").read_bytes())
    found = json.loads((folder / "tokenizer.json").read_bytes())
    index(folder, source=found["source"] | {"file": f"../{outside.name}/stolen.model"})


@case("a vocabulary's name is that of a file of the machine")
def _(folder, outside):
    found = json.loads((folder / "tokenizer.json").read_bytes())
    index(folder, source=found["source"] | {"file": "/etc/passwd"})


for _number, _name in enumerate(("..", ".", "", "a\0b", "x" * 5000, 7, None, ["source.model"], "\ud800")):

    @case(f"a vocabulary's name is no name ({_number})")
    def _(folder, outside, name=_name):
        found = json.loads((folder / "tokenizer.json").read_bytes())
        index(folder, source=found["source"] | {"file": name})


@case("tokenizer.json is nested without end")
def _(folder, outside):
    rewrite(folder / "tokenizer.json", b"[" * 500_000)


@case("tokenizer.json has a number of a million digits")
def _(folder, outside):
    rewrite(folder / "tokenizer.json", b'{"kind": ' + b"9" * 1_000_000 + b"}")


@case("tokenizer.json is of another kind")
def _(folder, outside):
    index(folder, kind="words", target_kind="words")


@case("tokenizer.json is gigantic")
def _(folder, outside):
    with open(folder / "tokenizer.json", "wb") as file:
        file.truncate(1 << 40)


@case("a vocabulary is gigantic")
def _(folder, outside):
    with open(folder / "source.model", "wb") as file:
        file.truncate(1 << 40)


@case("a SentencePiece model is cut short")
def _(folder, outside):
    vocabulary(folder, (folder / "source.model").read_bytes()[:-40])


@case("a SentencePiece model with a piece that is not UTF-8")
def _(folder, outside):
    content = (folder / "source.model").read_bytes()
    vocabulary(folder, content.replace("▁".encode(), b"\xff\xfe\xfd"))


@case("a SentencePiece model with a table that rewrites characters")
def _(folder, outside):
    table = struct.pack("<I", 1 << 20) + b"\xff" * 4096
    spec = b"\x12" + _varint(len(table)) + table
    vocabulary(folder, (folder / "source.model").read_bytes() + b"\x1a" + _varint(len(spec)) + spec)


@case("a SentencePiece model of ten million pieces")
def _(folder, outside):
    vocabulary(folder, b"\x0a\x00" * 10_000_000)


@case("a SentencePiece model of more pieces than the model has rows")
def _(folder, outside):
    content, piece = (folder / "source.model").read_bytes(), b"\x0a\x03zz%d\x15\x00\x00\x80\xbf"
    more = b"".join(b"\x0a\x0c\x0a\x05" + b"%05d" % number + b"\x15\x00\x00\x80\xbf" for number in range(500))
    assert piece
    vocabulary(folder, more + content)


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


@case("a header of the whole file")
def _(folder, outside):
    rewrite(folder / "model.safetensors", struct.pack("<Q", (1 << 63) - 1) + b"{}")


@case("a header of 90 MB")
def _(folder, outside):
    told = b'{"' + b"a" * 90_000_000 + b'":1}'
    rewrite(folder / "model.safetensors", struct.pack("<Q", len(told)) + told)


@case("a header of a hundred thousand empty tensors")
def _(folder, outside):
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header(folder, lambda table: (table.clear(), table.update({f"t{n}": entry for n in range(100_000)})), b"")


@case("a header that is nested without end")
def _(folder, outside):
    told = b'{"a":' * 200_000
    rewrite(folder / "model.safetensors", struct.pack("<Q", len(told)) + told)


for _name, _change in {
    "beyond the end": {"data_offsets": [0, 1 << 40]},
    "overlapping": {"data_offsets": [0, 16]},
    "backwards": {"data_offsets": [16, 0]},
    "negative": {"data_offsets": [-16, 0]},
    "of a gigantic shape": {"shape": [1 << 31, 1 << 31, 4]},
    "of a negative shape": {"shape": [-1, -1]},
    "of a shape that overflows": {"shape": [1 << 63, 2]},
    "of another type": {"dtype": "I32"},
    "of an unknown type": {"dtype": "OBJECT"},
}.items():

    @case(f"a tensor {_name}")
    def _(folder, outside, change=_change):
        header(folder, lambda table: first(table).update(change))


@case("weights cut short")
def _(folder, outside):
    content = (folder / "model.safetensors").read_bytes()
    rewrite(folder / "model.safetensors", content[: len(content) // 2])


@case("weights of seven bytes")
def _(folder, outside):
    rewrite(folder / "model.safetensors", b"\x01" * 7)


for _kind in ("float64", "int64", "complex64", "bool", "float16"):

    @case(f"weights as {_kind}")
    def _(folder, outside, kind=_kind):
        tensors = {name: torch.as_tensor(each).to(getattr(torch, kind)) for name, each in weights(folder).items()}
        save_weights(folder, tensors)


for _value in ("nan", "inf", "-inf"):

    @case(f"a weight that is {_value}")
    def _(folder, outside, value=_value):
        tensors = weights(folder)
        name = sorted(tensors)[len(tensors) // 2]
        tensors[name].reshape(-1)[-1] = float(value)
        save_weights(folder, tensors)


@case("a weight more, with a long name")
def _(folder, outside):
    save_weights(folder, weights(folder) | {"x" * 100_000: np.zeros(3, np.float32)})


for _name, _content in {
    "nested arrays": b"a = " + b"[" * 100_000,
    "nested tables": b"a = " + b"{a = " * 100_000,
    "a name of 100,000 parts": b"[" + b"a." * 100_000 + b"a]",
    "a key of 100,000 parts": b"a." * 100_000 + b"a = 1",
    "a key of quoted parts": b'"".' * 100_000 + b'"" = 1',
    "a key of parts within a table": b"a = {" + b"a." * 100_000 + b"a = 1}",
    "a number of a million digits": b"[model]\nembedding = " + b"9" * 1_000_000,
    "a hexadecimal number of 100,000 digits": b"[model]\nembedding = 0x" + b"f" * 100_000,
    "a line of 100 MB": b"preset = '" + b"a" * 100_000_000 + b"'",
    "an unknown setting with a long name": b"a" * 1_000_000 + b" = 1",
    "a setting with a long text": b"[model]\nembedding = '" + b"a" * 900_000 + b"'",
    "zero bytes": b"\0" * 4096,
    "text that is not UTF-8": b"preset = '\xff\xfe'",
    "no end": b"preset = '",
}.items():

    @case(f"a configuration with {_name}")
    def _(folder, outside, content=_content):
        rewrite(folder / "config.toml", content)


for _name, _value in {
    "model.encoder.layers": "1_000_000_000",
    "model.decoder.layers": "1_000_000_000",
    "model.encoder.width": "1_000_000_000",
    "model.decoder.width": "0x7fffffffffffffff",
    "model.decoder.readout_width": "1_000_000_000_000",
    "model.embedding": "1_000_000_000",
    "model.attention.width": "1_000_000_000",
    "model.attention.heads": "1_000_000_000",
    "model.dropout": "nan",
    "model.encoder.kind": "'../../etc'",
    "model.decoder.kind": "'__class__'",
    "model.attention.score": "'os.system'",
    "model.task": "'import os'",
    "decoding.beam": "1_000_000_000_000",
    "decoding.max_length": "1_000_000_000",
    "decoding.min_length": "1_000_000_000",
    "decoding.max_ratio": "1e300",
    "decoding.length_penalty": "inf",
    "decoding.groups": "1_000_000_000",
    "decoding.method": "'exec'",
    "decoding.keep": "'(a+)+$('",
}.items():

    @case(f"{_name} = {_value}")
    def _(folder, outside, name=_name, value=_value):
        setting(folder, name, value)


@case("a shortlist of words that there are not")
def _(folder, outside):
    shortlist(folder, likely=np.full((vocabulary_size(folder), 64), 1 << 30, np.int32))


@case("a shortlist of other shapes")
def _(folder, outside):
    shortlist(folder, likely=np.zeros(3, np.int32), joint=np.zeros(0, np.int32))


@case("a shortlist of negative words")
def _(folder, outside):
    shortlist(folder, frequent=np.full(8, -(1 << 30), np.int32))


@case("a shortlist of floats")
def _(folder, outside):
    shortlist(folder, frequent=np.full(8, np.nan, np.float32))


@case("a shortlist for another vocabulary")
def _(folder, outside):
    shortlist(folder, likely=np.zeros((3, 64), np.int32))


def shortlist(folder: Path, **changes: Any) -> None:
    """Write a shortlist, and ask for it."""
    from safetensors.numpy import save_file

    size = vocabulary_size(folder)
    whole = {"likely": np.full((size, 64), 5, np.int32), "frequent": np.arange(8, dtype=np.int32)}
    save_file(whole | {"joint": np.zeros(1, np.int32)} | changes, folder / "shortlist.safetensors")
    setting(folder, "decoding.shortlist", "8")


def vocabulary_size(folder: Path) -> int:
    """Return the size of the source vocabulary."""
    return int(json.loads((folder / "tokenizer.json").read_bytes())["source"]["size"])
