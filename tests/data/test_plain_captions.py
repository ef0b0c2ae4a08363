"""Captions as papers score them, pictures that people may see of features, and the split of Flickr8k."""

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.caption_files import plainly
from regard.data.pictures import open_pictures
from regard.errors import DataError
from regard.viz.png import png

SCRIPT = Path(__file__).parents[2] / "recipes" / "flickr8k_split.py"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, part, count, captions=None):
    random = np.random.default_rng(len(part))
    names = np.array([f"{part}{number}.png" for number in range(count)])
    regions = random.integers(-90, 90, (count, 4, 3), np.int8)
    pooled = random.integers(0, 255, (count, 6), np.uint8)
    np.savez(folder / f"{part}.npz", regions=regions, regions_scale=np.float32(9), names=names, pooled=pooled)
    said = captions or [f"{name}\tA dog; {name} ." for name in names]
    (folder / f"{part}.captions.tsv").write_text("\n".join(said) + "\n")
    return names


def test_a_plain_caption_has_neither_capitals_nor_punctuation():
    assert plainly("A man 's T-shirt , “red” … and 3 dogs !") == "a man s tshirt red and 3 dogs"


@given(st.text())
def test_to_be_plain_twice_is_to_be_plain_once(text):
    assert plainly(plainly(text)) == plainly(text)


def test_captions_of_files_are_plain_where_that_is_wanted_and_caches_can_tell(here):
    write(here, "f", 1, ["f0.png\tA Dog .", "f0.png\ttwo dogs"])
    raw, plain = (open_pictures(["f.npz"], plain=plain) for plain in (False, True))
    assert raw.captions(0) == ("A Dog .", "two dogs")
    assert plain.captions(0) == ("a dog", "two dogs")
    assert raw.identity() != plain.identity()


def test_a_caption_of_nothing_but_punctuation_is_refused(here):
    write(here, "f", 1, ["f0.png\tA dog", "f0.png\t..."])
    assert len(open_pictures(["f.npz"]).captions(0)) == 2
    with pytest.raises(DataError, match=r"line 2: the caption '\.\.\.' is all punctuation \(data\.plain_captions\)\.$"):
        open_pictures(["f.npz"], plain=True)


def test_of_features_only_thumbnails_can_be_seen(here):
    pytest.importorskip("PIL")
    write(here, "f", 2)
    (here / "thumbnails").mkdir()
    (here / "thumbnails" / "f1.png").write_bytes(png(np.full((5, 5, 3), 7, np.uint8)))
    features = open_pictures(["f.npz"])
    assert features.shown(0) is None
    assert features.shown(1).shape == (5, 5, 3)
    assert [features.called(index) for index in range(2)] == ["f0.png", "f1.png"]
    scenes = open_pictures(["scenes:2"], pixels=32)
    assert np.array_equal(scenes.shown(1), scenes.image(1))


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("flickr8k_split", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_split_loses_no_picture_and_what_is_reported_on_decides_nothing(script, here):
    names = write(here, "train", 60)
    write(here, "dev", 5)
    for part in ("train", "dev"):
        packed = gzip.compress((here / f"{part}.captions.tsv").read_bytes())
        (here / f"{part}.captions.tsv.gz").write_bytes(packed)
    counts = script.split(here, here / "out", pooled=2)
    parts = {part: open_pictures([f"out/{part}.npz"]) for part in ("train", "valid", "dev")}
    assert counts == {part: len(pictures) for part, pictures in parts.items()}
    assert sorted((*parts["train"].names, *parts["valid"].names)) == sorted(names)
    assert all(script.is_valid(name) for name in parts["valid"].names)
    assert parts["valid"].captions(0) == (f"A dog; {parts['valid'].names[0]} .",)
    train = np.stack([parts["train"].regions(index) for index in range(counts["train"])])
    assert train.shape[1:] == (4, 3 + 2)
    assert np.abs(train.mean((0, 1))).max() < 0.03
    assert np.abs(train.std((0, 1)) - 1).max() < 0.03
    np.savez(here / "dev.npz", **{**np.load(here / "dev.npz"), "regions": np.full((5, 4, 3), 100, np.int8)})
    script.split(here, here / "again", pooled=2)
    for part in ("train", "valid"):
        assert (here / "out" / f"{part}.npz").read_bytes() == (here / "again" / f"{part}.npz").read_bytes()
