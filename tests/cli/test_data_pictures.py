"""`regard data` of pictures from files: what they amount to, what is wrong with them, and captions that can be read."""

import numpy as np
import pytest

from regard.data.caption_files import read_captions
from regard.data.line_files import open_lines
from regard.viz.png import png

CAPTIONS = 'image,caption\na.png,"A dog , running ."\na.png,a cat\nb/c.png,Two  cats\n'


@pytest.fixture
def photos(here):
    """Two images with captions, one of them in a folder of its own, and one without."""
    pytest.importorskip("PIL")
    for name, shape in (("a.png", (4, 4, 3)), ("b/c.png", (7, 11, 3)), ("d.png", (1, 1, 3))):
        (here / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "photos" / name).write_bytes(png(np.zeros(shape, np.uint8)))
    (here / "captions.csv").write_text(CAPTIONS)
    return here / "photos"


@pytest.fixture
def features(here):
    """Features of three pictures, and one thumbnail."""
    (here / "thumbnails").mkdir()
    (here / "thumbnails/b.jpg").write_bytes(b"it is not looked at")
    (here / "f.captions.tsv").write_text("a.jpg\tone dog\nb.jpg\ttwo\nc.jpg\tno dog\n")
    store(here)
    return here


def store(here, regions=None, names=("a.jpg", "b.jpg", "c.jpg")):
    regions = np.ones((3, 5, 7), np.float32) if regions is None else regions
    np.savez(here / "f.npz", regions=regions, names=np.array(names))


def test_a_folder_is_summed_up(regard, photos):
    ran = regard("data", "photos", "captions.csv", "--check")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "photos: 2 pictures",
        "  images: 4 × 4 to 11 × 7 pixels, coloured; the largest square in the middle is read",
        "  without a caption, and left out: 1 image",
        "  captions: 3, 1 to 2 of each picture, 2.3 words each, at most 3; 6 different words",
    ]
    assert regard("data", "photos", "captions.csv", "--check", "--size", "1").lines[:2] == [
        "photos: 1 picture",
        "  images: 4 × 4 pixels, coloured",
    ]


def test_features_are_summed_up(regard, features):
    assert regard("data", "f.npz", "--check").lines == [
        "f.npz: 3 pictures",
        "  regions: 5 of each picture, 7 features each; 1 thumbnail",
        "  captions: 3, 1 of each picture, 1.7 words each, at most 2; 4 different words",
    ]


def test_clothes_are_summed_up(regard, refused, here):
    (here / "f").mkdir()
    head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (3, 28, 28))
    (here / "f/t10k-images-idx3-ubyte").write_bytes(head + bytes(3 * 28 * 28))
    (here / "f/t10k-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x03" + bytes((2, 2, 9)))
    lines = regard("data", "f", "--split", "test", "--check").lines
    assert lines[:2] == ["f:test: 3 pictures", "  images: 28 × 28 pixels, grey"]
    assert lines[2].startswith("  classes: T-shirt/top 0, trouser 0, pullover 2, ")
    assert lines[2].endswith(", ankle boot 1")
    assert refused("data", "f", "--split", "test") == "f:test has no captions to print: --check shows what it has."


def test_captions_that_are_printed_can_be_read_back(regard, photos, here):
    ran = regard("data", "photos", "captions.csv")
    assert ran.lines == ["a.png#0\tA dog , running .", "a.png#1\ta cat", "b/c.png#0\tTwo cats"]
    (here / "back.tsv").write_text(ran.out)
    assert read_captions(open_lines("back.tsv")) == {"a.png": ("A dog , running .", "a cat"), "b/c.png": ("Two cats",)}
    assert regard("data", "photos", "captions.csv", "--size", "1").lines == ran.lines[:2]


def test_one_image_that_is_wrong_is_told_as_it_is_in_training(refused, photos):
    (photos / "a.png").write_bytes(b"")
    told = "photos/a.png is empty. Fetch it again, or leave it out."
    assert refused("data", "photos", "captions.csv", "--check") == told
    given = ("--source", "photos", "--target", "captions.csv", "--out", "m")
    assert refused("train", "--preset", "captioner-small", *given) == told


def test_the_first_of_many_are_named(refused, photos):
    (photos / "captions.tsv").write_text("".join(f"{number}.png\ta dog\n" for number in range(8)))
    for number in range(8):
        (photos / f"{number}.png").write_bytes(b"<html>" if number else b"")
    told = refused("data", "photos", "--check").split("\n  ")
    assert told[0] == "photos: 8 problems with 8 pictures:"
    assert told[1] == "photos/0.png is empty. Fetch it again, or leave it out."
    assert [line.split()[0] for line in told[2:6]] == [f"photos/{number}.png" for number in range(1, 5)]
    assert told[6:] == ["… and 3 more"]


@pytest.mark.parametrize(
    ("changed", "said", "told"),
    [
        ({"names": ("a.jpg", "b.jpg", "b.jpg")}, "b.jpg", "f.npz: b.jpg occurs 2 times: names must differ."),
        (
            {"regions": np.full((3, 1, 1), [[[1]], [[np.nan]], [[2]]], np.float32)},
            "c.jpg",
            "f.npz: b.jpg has features that are infinite or NaN.",
        ),
    ],
)
def test_features_that_training_would_stumble_over(refused, features, changed, said, told):
    store(features, **changed)
    (features / "f.captions.tsv").write_text(f"a.jpg\tone\nb.jpg\ttwo\n{said}\tthree\n")
    assert refused("data", "f.npz", "--check") == told


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--reverse",), "f.npz has pictures, and --reverse is for pairs: leave it out."),
        (("--json",), "f.npz has pictures, and of these --json is for scenes alone: leave it out."),
        (("--pixels", "64"), "--out and --pixels are for scenes, which are painted: leave them out."),
        (("--out", "x"), "--out and --pixels are for scenes, which are painted: leave them out."),
    ],
)
def test_refusals(refused, features, given, message):
    assert refused("data", "f.npz", *given) == message


def test_a_caption_that_captioners_cannot_learn_is_found(regard, refused, features):
    (features / "f.captions.tsv").write_text("a.jpg\tone\nb.jpg\t...\nc.jpg\tthree\n")
    assert refused("data", "f.npz", "--check") == (
        "f.captions.tsv, line 2: the caption '...' is all punctuation (data.plain_captions)."
    )
    assert len(regard("data", "f.npz").lines) == 3


def test_a_name_that_is_nearly_one_of_pictures(refused, here):
    assert refused("data", "fashion-mnits", "--check").endswith(" Did you mean 'fashion-mnist'?")


def test_files_have_no_parts(refused, photos):
    assert refused("data", "photos", "captions.csv", "--check", "--split", "test") == (
        "Leave out --split: only embedded corpora have parts, and photos is none."
    )
