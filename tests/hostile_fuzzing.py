"""Mutated model folders: each of a seed, and each either translates or is refused by one clear error."""

import json
import os
import random
import resource
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

import regard
from hostile import EVENTS_OF_CODE, may_open
from regard.config_io import override
from regard.data.pair import Pair
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import train_tokenizers
from regard.decoding.vocabulary_shortlist import learn
from regard.errors import RegardError
from regard.presets import preset

SECONDS = 20
"""Of processor time, for one folder."""
SIZES = (
    *("model.embedding=8", "model.encoder.width=8", "model.decoder.width=8"),
    *("model.decoder.readout_width=8", "model.attention.width=8", "tokenizer.joint=false", "tokenizer.vocabulary=320"),
)
VALUES = (
    *(0, -1, 1, 2, 3, 7, 1 << 16, 10**9, 1 << 31, (1 << 31) - 1, 1 << 62, 1 << 63, 1 << 64, 10**30),
    *(
        0.0,
        -1.0,
        0.5,
        1e-300,
        1e300,
        True,
        False,
        "",
        "none",
        "transformer",
        "../..",
        "/etc/passwd",
        "é\u0000",
        "x" * 999,
    ),
    *("dot", "general", "local", "hard", "sample", "diverse", "mbr", "lstm", "gru", "words", "characters", "unigram"),
    *("x" * 999, [], [1], ["a"], {}, {"a": 1}, [[[[[[]]]]]]),
)
"""What settings and entries become."""


def sound_folder(make_folder: Callable[..., Path], folder: Path) -> Path:
    """Write a small translator with subwords, a shortlist and the tokens of its corpus, as training leaves it."""
    letters = random.Random(1)
    pairs = [Pair(*(" ".join("".join(letters.choices("abcde", k=4)) for _ in "1234") for _ in "st")) for _ in range(99)]
    config = override(preset("bahdanau2014-small"), SIZES)
    tokenizers = train_tokenizers(config.tokenizer, pairs, 1)
    make_folder(folder, config, tokenizers)
    cache = TokenCache.build(folder / "cache" / "train", pairs, tokenizers, 50)
    learn(cache, tokenizers.source.size, tokenizers.target.size, False).save(folder)
    use(folder)  # what is imported for it is there in all children
    return folder


def use(folder: Path) -> None:
    """Translate with a folder, with its shortlist too, and read its cache."""
    translator = regard.load(folder)
    translator.translate(["abcd bcde", "e"])
    cache = TokenCache.open(folder / "cache" / "train")
    for row in range(0, min(len(cache), 99), 49):
        cache.source(row), cache.target(row)


FILES = {
    "config.toml": 5,
    "tokenizer.json": 3,
    "source.model": 4,
    "target.model": 1,
    "model.safetensors": 4,
    "shortlist.safetensors": 2,
    "cache/train/cache.json": 1,
    "cache/train/source.offsets": 1,
}
"""What is mutated, and how often."""


def mutate(folder: Path, seed: int) -> str:
    """Change some files of a folder; return their names."""
    own = random.Random(seed)
    names = {own.choices(list(FILES), list(FILES.values()))[0] for _ in range(own.choice((1, 1, 1, 2)))}
    for name in sorted(names):
        path = folder / name
        content = path.read_bytes()
        structured = {".toml": _settings, ".json": _entries, ".safetensors": _header}.get(path.suffix)
        content = structured(content, own) if structured and own.random() < 0.7 else _bytes(content, own)
        path.write_bytes(content)
    if own.random() < 0.9:
        _enter_checksums(folder)
    return " ".join(sorted(names))


def _bytes(content: bytes, own: random.Random) -> bytes:
    mutated = bytearray(content)
    for _ in range(own.choice((1, 1, 2, 5, 30))):
        near_an_end = own.random() < 0.6
        span = min(len(mutated), 300) if near_an_end else len(mutated)
        at = own.randrange(max(span, 1))
        at = max(0, len(mutated) - 1 - at) if near_an_end and own.random() < 0.5 else at
        change = own.randrange(6)
        if change == 0 and mutated:
            mutated[at] ^= 1 << own.randrange(8)
        elif change == 1:
            mutated[at : at + 1] = own.randbytes(1)
        elif change == 2:
            del mutated[at : at + own.choice((1, 2, 8, 100))]
        elif change == 3:
            mutated[at:at] = own.randbytes(own.choice((1, 2, 8, 100)))
        elif change == 4:
            mutated[at : at + 8] = own.choice((b"\xff" * 8, b"\0" * 8, b"\x80" * 8))
        else:
            mutated[at:at] = mutated[at : at + own.choice((4, 50, 1000))]
    return bytes(mutated[: own.randrange(len(mutated) + 1)] if own.random() < 0.05 else mutated)


def _settings(content: bytes, own: random.Random) -> bytes:
    lines = content.decode().split("\n")
    for _ in range(own.choice((1, 1, 2, 4))):
        number = own.choice([n for n, line in enumerate(lines) if " = " in line])
        name = lines[number].partition(" = ")[0]
        value = own.choice(VALUES)
        change = own.randrange(8)
        if change == 0:
            del lines[number]
        elif change == 1:
            lines.insert(number, own.choice(lines))
        else:
            told = json.dumps(value) if not isinstance(value, dict) else "{a = 1}"
            lines[number] = f"{name} = {told}"
    return "\n".join(lines).encode()


def _entries(content: bytes, own: random.Random) -> bytes:
    table = json.loads(content)
    _change_entry(table, own)
    return json.dumps(table).encode()


def _header(content: bytes, own: random.Random) -> bytes:
    length = int.from_bytes(content[:8], "little")
    table = json.loads(content[8 : 8 + length])
    for _ in range(own.choice((1, 1, 3))):
        _change_entry(table, own)
    told = json.dumps(table).encode()
    size = len(told) if own.random() < 0.9 else own.getrandbits(own.choice((8, 31, 64)))
    return size.to_bytes(8, "little") + told + content[8 + length :]


def _change_entry(table: dict[str, Any], own: random.Random) -> None:
    while table:
        key = own.choice(sorted(table))
        if isinstance(table[key], dict) and own.random() < 0.8:
            table = table[key]
            continue
        if isinstance(table[key], list) and table[key] and own.random() < 0.8:
            table[key][own.randrange(len(table[key]))] = own.choice(VALUES)
        elif own.random() < 0.2:
            del table[key]
        else:
            table[key] = own.choice((*VALUES, "F16", "I64", "BOOL", "<i4", "O", "S9", "bpe"))
        return


def _enter_checksums(folder: Path) -> None:
    """Enter the checksums of vocabularies, as whoever makes a folder to harm would."""
    try:
        index = json.loads((folder / "tokenizer.json").read_bytes())
        for side in ("source", "target"):
            index[side]["sha256"] = sha256((folder / index[side]["file"]).read_bytes()).hexdigest()
        (folder / "tokenizer.json").write_text(json.dumps(index))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass


def survive(sound: Path, seeds: Iterable[int], place: Path) -> tuple[Counter[str], list[str]]:
    """Use a mutated folder for each seed, all in one child process; return what came of them, and what is wrong."""
    place.mkdir(parents=True, exist_ok=True)
    journal = place / "journal"
    journal.write_text("")
    child = os.fork()
    if child == 0:
        try:
            _journal(sound, seeds, place, journal)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = journal.read_text(errors="replace").split("\n")
    found, wrong = Counter[str](), []
    for line in lines:
        what = line.partition(" ")[2]
        if what:
            found[what.partition(":")[0]] += 1
            wrong += [line] if what.startswith("wrong") else []
    if status:
        wrong.append(f"{lines[-1] or 'before the first'} ended the process with {status}")
    shutil.rmtree(place)
    return found, wrong


def _journal(sound: Path, seeds: Iterable[int], place: Path, journal: Path) -> None:
    """Write a line for each seed: its number before its folder is used, and then what came of it."""
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    watched: list[Path] = []
    strange: list[str] = []

    def watch(event: str, details: tuple[Any, ...]) -> None:
        if watched and event == "open" and isinstance(details[0], str | bytes):
            path = os.path.realpath(os.fsdecode(details[0]))
            if not may_open(path, watched[0]):
                strange.append(f"opened {path}")
        elif watched and event in EVENTS_OF_CODE:
            strange.append(event)

    sys.addaudithook(watch)
    with journal.open("w") as out:
        for seed in seeds:
            folder = place / "model"
            shutil.copytree(sound, folder)
            names = mutate(folder, seed)
            out.write(f"{seed}")
            out.flush()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            watched.append(folder)
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                use(folder)
                what = "translated"
            except RegardError as error:
                what = "refused"
                if "\n" in str(error).strip() or len(str(error)) > 1500:
                    what = f"wrong message: {len(str(error))} characters"
            except BaseException as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                what = f"wrong: {names}: {type(error).__name__}: {str(error)[:150]!r} {last.filename}:{last.lineno}"
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            watched.clear()
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            if strange:
                what = f"wrong: {names}: {strange}"
                strange.clear()
            elif grown > 64 << 10:
                what = f"wrong: {names}: {grown:,} KB"
            out.write(f" {what.replace(chr(10), ' ')}\n")
            out.flush()
            shutil.rmtree(folder)
