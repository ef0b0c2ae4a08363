"""Runs whose checkpoints and caches are made to harm are refused when they are resumed, and no code runs."""

import hashlib
import json
import os
import pickle
import random
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save

import regard
from hostile import Payload, attempt
from regard.training.checkpoint import _digest_of

SETTINGS = {
    **{f"model.{part}": 8 for part in ("embedding", "encoder.width", "decoder.width", "decoder.readout_width")},
    "model.attention.width": 8,
    "tokenizer.kind": "words",
    "tokenizer.joint": False,
    "data.held_out": 0,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of three steps."""
    place = tmp_path_factory.mktemp("run")
    letters = random.Random(1)
    lines = ["\t".join(" ".join(letters.choices("abcde", k=4)) for _ in "st") for _ in range(40)]
    (place / "pairs.tsv").write_text("\n".join(lines) + "\n")
    data = str(place / "pairs.tsv")
    regard.train(
        data, out=place / "model", preset="bahdanau2014-small", settings=SETTINGS, steps=3, device="cpu", quiet=True
    )
    return place


@pytest.fixture
def resumed(run, tmp_path):
    """A copy of the run, and a function that goes on with it in a child process."""
    folder = tmp_path / "model"
    shutil.copytree(run / "model", folder)

    def resume():
        return attempt(folder, "train", "--out", str(folder), "--resume")

    return folder, resume


def state_of(folder):
    return sorted((folder / "state").iterdir())


def record(folder, change):
    """Change the records of all checkpoints, and make their checksums right again."""
    for state in state_of(folder):
        found = json.loads((state / "place.json").read_bytes())
        del found["digest"]
        change(found)
        for file in [file for file in found["files"] if (state / file).is_file()]:
            found["files"][file] = hashlib.sha256((state / file).read_bytes()).hexdigest()
        found["digest"] = _digest_of(found)
        (state / "place.json").write_text(json.dumps(found))


def rewrite(folder, name, content):
    """Give a file of all checkpoints another content, and enter its checksum."""
    for state in state_of(folder):
        made = content(state, name)
        (state / name).unlink()  # it is linked with others
        (state / name).write_bytes(made)
    record(folder, lambda found: None)


def reshaped(state, name):
    return save({key: np.zeros((3, 5), np.float32) for key in load_file(state / name)})


def lead_out(folder, target):
    for state in state_of(folder):
        outside = folder.parent / "outside"
        outside.mkdir(exist_ok=True)
        secret = outside / state.name
        if target == "folder":
            state.rename(secret)
            state.symlink_to(secret)
        else:
            (state / target).rename(secret)
            (state / target).symlink_to(secret)


def pipe(folder, name):
    for state in state_of(folder):
        (state / name).unlink()
        os.mkfifo(state / name)


CASES = {
    "weights are a pickle": lambda at: rewrite(
        at, "weights.safetensors", lambda *_: pickle.dumps(Payload(at.parent / "ran"))
    ),
    "the optimizer is a pickle": lambda at: rewrite(
        at, "optimizer.safetensors", lambda *_: pickle.dumps(Payload(at.parent / "ran"))
    ),
    "weights of another shape": lambda at: rewrite(at, "weights.safetensors", reshaped),
    "an optimizer of another shape": lambda at: rewrite(at, "optimizer.safetensors", reshaped),
    "a file outside is named": lambda at: record(at, lambda found: found["files"].update({"../../../secret": "00"})),
    "a file of the machine is named": lambda at: record(at, lambda found: found["files"].update({"/etc/passwd": "0"})),
    "the history is of texts": lambda at: record(at, lambda found: found["place"].update(history=[{"step": "x"}])),
    "the pace is a number": lambda at: record(at, lambda found: found["place"].update(pace=3)),
    "the record is nested": lambda at: [(state / "place.json").write_bytes(b"[" * 99999) for state in state_of(at)],
    "the record is a link that leads out": lambda at: lead_out(at, "place.json"),
    "the weights are a link that leads out": lambda at: lead_out(at, "weights.safetensors"),
    "the record is a pipe": lambda at: pipe(at, "place.json"),
    "the configuration is a pipe": lambda at: pipe(at, "config.toml"),
    "the checkpoint is a link that leads out": lambda at: lead_out(at, "folder"),
}


def test_a_sound_run_goes_on(resumed):
    _, resume = resumed
    found = resume()
    assert found.status == 0, found.err


@pytest.mark.parametrize("name", CASES)
def test_a_run_made_to_harm_is_refused(name, resumed):
    folder, resume = resumed
    (folder.parent / "secret").write_text("secret")
    before = sorted(path.name for path in folder.iterdir())
    CASES[name](folder)
    found = resume()
    assert found.status == 2, found
    assert found.err.rpartition("\nregard: ")[2] or found.err.startswith("regard: ")
    assert "Traceback" not in found.err
    assert not found.ran
    assert not [path for path in found.opened if "secret" in path or "outside" in path or "/etc/" in path]
    assert not (folder.parent / "ran").exists()
    assert sorted(path.name for path in folder.iterdir()) == before  # nothing is lost


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "O"},
        {"dtype": "V1000000000"},
        {"source_tokens": -1},
        {"pairs": 10**12},
        {"pairs": "40"},
        {"each": {"a": 1}, "format": [2]},
    ],
)
def test_a_cache_made_to_harm_is_made_anew(change, resumed):
    folder, resume = resumed
    path = folder / "cache" / "train" / "cache.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    found = resume()
    assert found.status in (0, 2), found.err
    assert "Traceback" not in found.err
    assert not found.ran


def test_a_cache_whose_offsets_go_backwards_is_damaged(resumed):
    folder, resume = resumed
    path = folder / "cache" / "train" / "source.offsets"
    offsets = np.fromfile(path, "<i8")
    offsets[1], offsets[2] = offsets[2] + 1, offsets[1]
    offsets.tofile(path)
    found = resume()
    assert "Traceback" not in found.err
    assert found.status in (0, 2)
