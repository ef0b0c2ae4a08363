"""`regard caption` and `regard attend` of a model that reads features of regions."""

import numpy as np
import pytest

from regard.viz.png import png

NAMES = ["a.jpg", "b.jpg", "c.jpg"]
SET = ("embedding=8", "decoder.width=8", "decoder.readout_width=8", "attention.width=8", "image.width=16")


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """Features of three pictures, what is said of them, and a thumbnail of the first."""
    folder, random = tmp_path_factory.mktemp("features"), np.random.default_rng(4)
    np.savez(folder / "f.npz", regions=random.standard_normal((3, 4, 5)).astype(np.float32), names=np.array(NAMES))
    (folder / "f.captions.tsv").write_text("a.jpg\tone dog\nb.jpg\ttwo dogs\nc.jpg\tno dog\n")
    (folder / "thumbnails").mkdir()
    (folder / "thumbnails" / "a.jpg").write_bytes(png(np.full((20, 30, 3), 40, np.uint8)))
    return folder / "f.npz"


@pytest.fixture(scope="session")
def reader(commanded, stored, tmp_path_factory):
    """A captioner that knows nothing; not to be changed."""
    folder = tmp_path_factory.mktemp("models") / "reader"
    changes = [part for one in SET for part in ("--set", f"model.{one}")]
    ran = commanded(
        *("train", "--preset", "xu2015-soft-small", "--data", stored, "--valid", stored, "--out", folder, *changes),
        *("--set", "training.steps=1", "--set", "training.device=cpu"),
    )
    assert ran.code == 0, ran.err
    return folder


def test_pictures_are_described_by_name_or_path(regard, reader, stored):
    named = regard("caption", reader, "--features", stored, "a.jpg", "c.jpg")
    assert (named.code, named.err) == (0, "")
    assert [line.split("\t")[0] for line in named.lines] == ["a.jpg", "c.jpg"]
    path = stored.parent / "elsewhere" / "c.jpg"
    assert regard("caption", reader, "--features", stored, path).lines == [named.lines[1].split("\t")[1]]
    assert "<unk>" not in named.out
    some = regard("caption", reader, "--features", stored, "a.jpg", "d.jpg", "c.jpg")
    assert (some.code, some.out, len(some.err.splitlines())) == (2, named.out, 1)


def test_attention_is_laid_over_the_thumbnail_or_the_file(regard, refused, reader, stored, tmp_path):
    pytest.importorskip("PIL")
    assert regard("attend", reader, "a.jpg", "--features", stored).code == 0
    assert refused("attend", reader, "b.jpg", "--features", stored).startswith(
        f"No file 'b.jpg' and no thumbnail of that name with {stored}, so there is no picture to draw"
    )
    given = tmp_path / "b.jpg"
    given.write_bytes(png(np.full((20, 30, 3), 40, np.uint8)))
    ran = regard("attend", reader, given, "--features", stored, "--out", tmp_path / "look.json")
    assert ran.code == 0, ran.err
    assert (tmp_path / "look.json").is_file()


def test_features_that_do_not_fit_are_refused(refused, reader, trained, stored, tmp_path):
    assert refused("caption", reader, "--features", stored, "d.jpg").startswith(f"{stored} has no picture 'd.jpg'.")
    assert refused("caption", reader, "a.jpg").endswith(
        "give the .npz file with those of the picture as --features FILE."
    )
    assert refused("caption", reader, "--features", stored, "--scene", "3").startswith(
        "--scene gives pixels, and this model reads region features"
    )
    assert refused("attend", trained, "a dog", "--features", stored).startswith("Leave out --features")
    np.savez(tmp_path / "twice.npz", regions=np.zeros((2, 4, 5), np.float32), names=np.array(["a.jpg", "a.jpg"]))
    assert refused("caption", reader, "--features", tmp_path / "twice.npz", "a.jpg").endswith(
        "has several pictures named 'a.jpg': their names must differ."
    )
    np.savez(tmp_path / "wide.npz", regions=np.zeros((1, 4, 9), np.float32), names=np.array(["a.jpg"]))
    assert refused("caption", reader, "--features", tmp_path / "wide.npz", "a.jpg") == (
        f"{tmp_path / 'wide.npz'} has 9 features per region, and the model reads 5: give features computed in the same "
        "way as those of its training data."
    )
