"""Sources of pictures: what each has, by one contract; and what is wrong with files, in one message."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from regard.data.caption_files import CaptionedImages, RegionFeatures, read_captions
from regard.data.fashion_mnist import DEBIAN, LABELS, FashionMnist
from regard.data.line_files import open_lines
from regard.data.pictures import PARTS, ScenePictures, needed_by, open_pictures
from regard.data.region_features import Regions
from regard.data.scenes import scene
from regard.errors import DataError
from regard.presets.vision import vision, visions
from regard.viz.png import png

FLICKR = Path(os.environ.get("REGARD_DATA", "../shared/data")) / "flickr8k"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(call, *args, **options):
    with pytest.raises(DataError) as error:
        call(*args, **options)
    return str(error.value)


def idx(magic, array):
    return magic.to_bytes(4, "big") + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def write_fashion(folder, part="train", count=24, packed=True):
    random = np.random.default_rng(3)
    folder.mkdir(exist_ok=True)
    pictures = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = (np.arange(count) % 10).astype(np.uint8)
    for name, content in (("images-idx3", idx(0x803, pictures)), ("labels-idx1", idx(0x801, labels))):
        path = folder / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content) if packed else content)
    return pictures, labels


def write_images(folder, names, pixels=20):
    folder.mkdir(exist_ok=True)
    for i, name in enumerate(names):
        (folder / name).write_bytes(png(np.full((pixels, pixels + i, 3), 40 * i, np.uint8)))


def write_features(path, **changed):
    random = np.random.default_rng(4)
    arrays = {
        "regions": random.integers(-128, 128, (3, 5, 7), dtype=np.int8),
        "regions_scale": random.random(7).astype(np.float32),
        "pooled": random.integers(0, 256, (3, 11), dtype=np.uint8),
        "names": np.array(["a.jpg", "b.jpg", "c.jpg"]),
    }
    arrays |= changed
    np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
    return arrays


CAPTIONS = "a.jpg\tone .\na.jpg\ttwo\nb.jpg\tthree\nc.jpg\tfour\n"


@pytest.fixture(params=["scenes", "fashion", "folder", "features"])
def source(request, here):
    if request.param == "scenes":
        return open_pictures(["scenes:valid:7"], pixels=32)
    if request.param == "fashion":
        write_fashion(here / "fashion")
        return open_pictures(["fashion"])
    (here / "captions.tsv").write_text(CAPTIONS)
    if request.param == "folder":
        write_images(here / "images", ["a.jpg", "b.jpg", "c.jpg"])
        return open_pictures(["images", "captions.tsv"], pixels=16)
    write_features(here / "features.npz")
    return open_pictures(["features.npz", "captions.tsv"])


def test_a_source_has_what_it_says_and_nothing_else(source):
    assert len(source) > 0
    assert source.has <= set(PARTS)
    for part in PARTS:
        if part not in source.has:
            assert f"{source.name} has no " in refused(getattr(source, part), 0)
            assert refused(source.require, part) == refused(getattr(source, part), 0)
    source.require(*source.has)


def test_every_part_has_its_type_and_shape(source):
    for i in (0, len(source) - 1):
        if "image" in source.has:
            image = source.image(i)
            assert image.dtype == np.uint8
            assert image.shape[2] == source.channels
            assert np.array_equal(source.images([i, 0])[0], image)
            assert np.array_equal(source.images(np.array([0, i]))[1], image)
        if "regions" in source.has:
            assert source.regions(i).dtype == np.float32
            assert source.regions(i).ndim == 2
        if "captions" in source.has:
            assert all(isinstance(caption, str) and caption for caption in source.captions(i))
        if "questions" in source.has:
            assert all(asked.question and asked.answer and asked.kind for asked in source.questions(i))
        if "label" in source.has:
            assert 0 <= source.label(i) < len(source.labels)
    for i in (-1, len(source)):
        with pytest.raises(IndexError):
            source.captions(i) if "captions" in source.has else source.image(i)


def test_an_identity_is_of_the_content(source, here):
    before = source.identity()
    assert source.identity() == before
    if (here / "captions.tsv").exists():
        (here / "captions.tsv").write_text(CAPTIONS + "a.jpg\tfive\n")
        parts = ["images" if (here / "images").exists() else "features.npz", "captions.tsv"]
        assert open_pictures(parts, pixels=16).identity() != before


# --------------------------------------------------------------------------------------------------------- scenes


def test_scenes_are_those_of_the_generator():
    pictures = open_pictures(["scenes:test:9"], seed=5, pixels=48)
    one = scene("test", 4, seed=5, pixels=48)
    assert len(pictures) == 9
    assert np.array_equal(pictures.image(4), one.painting.image)
    assert pictures.captions(4) == tuple(caption.text for caption in one.captions)
    assert [asked.question + "?" for asked in pictures.questions(4)] == [question.text for question in one.questions]
    assert len(open_pictures(["scenes"], "valid")) == 1_000
    assert open_pictures(["scenes:9"], seed=6).identity() != open_pictures(["scenes:9"], seed=5).identity()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["scenes:some"], "'some' in 'scenes:some' is neither a number of scenes nor a split (train, valid, test). "
                          "Write for instance scenes:20000."),
        (["scnes"], "No pictures 'scnes': neither a folder nor an .npz file. Did you mean 'scenes'? "),
        (["fashion-mnits"], "No pictures 'fashion-mnits': neither a folder nor an .npz file. "
                            "Did you mean 'fashion-mnist'? "),
        (["fashion-mnist:test"], "'fashion-mnist:test': the name is just fashion-mnist; use --split, if the "
                                 "command has it, to choose a part."),
        ([], "0 parts of a source of pictures. "),
        (["no.npz"], "No file 'no.npz' with region features."),
    ],
)  # fmt: skip
def test_what_cannot_be_opened(here, parts, message):
    assert refused(open_pictures, parts).startswith(message)


@pytest.mark.parametrize("part", PARTS)
def test_what_is_advised_has_what_is_lacking(part):
    """Who lacks a part is told of all sources that have it, and of no other."""
    sources = {
        "scenes": ScenePictures.has,
        "fashion-mnist": FashionMnist.has,
        "a folder of images": CaptionedImages.has,
        "an .npz file": RegionFeatures.has,
    }
    advised = str(ScenePictures("test", 1).lacks(part)).partition("Give ")[2]
    assert {name for name in sources if name in advised} == {name for name, has in sources.items() if part in has}


def test_scenes_without_classes_are_refused_for_that_and_not_for_their_size():
    told = (
        "scenes:9 has no classes for its pictures (it has images, captions, questions, objects, objects of words). "
        "Give fashion-mnist or a folder with its IDX files; or use another model (regard list visions)."
    )
    assert refused(open_pictures, ["scenes:9"], pixels=28, needed=needed_by(vision("resnet").model)) == told
    assert "has no region features" in refused(
        open_pictures, ["scenes:9"], pixels=7, needed=needed_by(vision("xu2015-soft").model)
    )
    assert "28 pixels a side" in refused(
        open_pictures, ["scenes:9"], pixels=28, needed=needed_by(vision("captioner").model)
    )


@pytest.mark.parametrize("name", [*visions])
def test_every_vision_preset_needs_what_some_source_has(name):
    needed = {*needed_by(vision(name).model)}
    assert len(needed) == 2
    assert any(needed <= kind.has for kind in (ScenePictures, FashionMnist, CaptionedImages, RegionFeatures))


def test_scenes_of_no_split():
    assert refused(ScenePictures, "some", 3).startswith("No split named 'some' in scenes.")


# -------------------------------------------------------------------------------------------------- Fashion-MNIST


@pytest.mark.parametrize("packed", [True, False])
def test_fashion_is_read_as_it_was_written(here, packed):
    pictures, labels = write_fashion(here / "f", packed=packed)
    tested = write_fashion(here / "f", "t10k", 5, packed)
    parts = {split: FashionMnist(Path("f"), split) for split in ("train", "valid", "all", "test")}
    assert {split: len(part) for split, part in parts.items()} == {"train": 22, "valid": 2, "all": 24, "test": 5}
    assert np.array_equal(parts["all"].images(range(24))[..., 0], pictures)
    assert np.array_equal(parts["valid"].image(0)[..., 0], pictures[22])
    assert [parts["all"].label(i) for i in range(24)] == labels.tolist()
    assert np.array_equal(parts["test"].image(3)[..., 0], tested[0][3])
    assert parts["train"].labels == LABELS
    assert len(LABELS) == 10


def test_fashion_is_found_where_debian_puts_it(here, monkeypatch):
    monkeypatch.setattr("regard.data.fashion_mnist.DEBIAN", here / "debian")
    assert refused(open_pictures, ["fashion-mnist"]).startswith(f"{here / 'debian'} has no train-images-idx3-ubyte.gz.")
    write_fashion(here / "debian")
    assert len(open_pictures(["fashion-mnist"], "all")) == 24


def test_fashion_that_is_wrong_is_refused(here):
    write_fashion(here / "f", packed=False)
    images, labels = here / "f/train-images-idx3-ubyte", here / "f/train-labels-idx1-ubyte"
    whole = images.read_bytes()

    def told():
        return refused(FashionMnist, Path("f"))

    assert refused(FashionMnist, Path("f"), "trian") == (
        "No split named 'trian' in Fashion-MNIST. Did you mean 'train'? It has train, valid, test, all."
    )
    images.write_bytes(whole[:-1])
    assert told() == (
        "f/train-images-idx3-ubyte should have 24 × 28 × 28 bytes but has 18,815: it is truncated or damaged. "
        "Fetch it again."
    )
    images.write_bytes(labels.read_bytes())
    assert told() == (
        "f/train-images-idx3-ubyte is not an IDX file of 3 axes (0x00000803): it is a file of labels. Fetch it again."
    )
    images.write_bytes(b"<html>")
    assert "it begins with 0x3c68746d. Fetch it again." in told()
    images.write_bytes(b"")
    assert "is not an IDX file" in told()
    images.write_bytes(gzip.compress(whole)[:-9])
    assert told().startswith("f/train-images-idx3-ubyte is truncated or damaged (")
    images.write_bytes(idx(0x803, np.zeros((7, 28, 28), np.uint8)))
    assert told() == (
        "f/train-images-idx3-ubyte has 7 pictures but f/train-labels-idx1-ubyte has 24 labels: "
        "the files must belong together."
    )
    labels.write_bytes(idx(0x801, np.full(7, 10, np.uint8)))
    assert told() == "f/train-labels-idx1-ubyte has a label 10, but Fashion-MNIST's go from 0 to 9."
    labels.unlink()
    assert told() == (
        "f has no train-labels-idx1-ubyte.gz. Fashion-MNIST is four IDX files, train-labels-idx1-ubyte.gz one of "
        f"them; Debian's package dataset-fashion-mnist puts them into {DEBIAN}."
    )


# ------------------------------------------------------------------------------------------------ captioned images


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("Flickr8k.token.txt", "a.jpg#0\tA dog , running .\na.jpg#1\tA \"big\" dog\nb.jpg#0\tTwo men\n"),
        ("captions.tsv", "a.jpg\tA dog , running .\na.jpg\tA \"big\" dog\r\nb.jpg\tTwo men"),
        ("captions.txt", "image,caption\na.jpg,\"A dog , running .\"\na.jpg,\"A \"\"big\"\" dog\"\nb.jpg,Two men\n"),
        ("captions.csv", "image,caption\na.jpg,\"A dog ,\nrunning .\"\na.jpg,\"A \"\"big\"\" dog\"\nb.jpg,Two men\n"),
        ("captions.csv", "\ufeffimage, caption\r\na.jpg,\"A dog , running .\"\r\na.jpg,\"A \"\"big\"\" dog\"\r\n"
                         "b.jpg,Two men\r\n"),
    ],
)  # fmt: skip
def test_captions_are_read_in_each_of_their_forms(here, name, content):
    (here / name).write_text(content, encoding="utf-8", newline="")
    told = read_captions(open_lines(name))
    assert told == {"a.jpg": ("A dog , running .", 'A "big" dog'), "b.jpg": ("Two men",)}
    write_images(here / "images", ["b.jpg", "a.jpg", "not-said.jpg"])
    (here / "images" / name).write_text(content, encoding="utf-8", newline="")
    pictures = open_pictures(["images"], pixels=8)
    assert len(pictures) == 2
    assert pictures.captions(0) == told["a.jpg"]
    assert pictures.image(0).tolist() == np.full((8, 8, 3), 40).tolist()


def test_a_list_of_names_chooses(here):
    write_images(here / "images", ["a.jpg", "b.jpg"])
    (here / "all.tsv").write_text("a.jpg\tone\nb.jpg\ttwo\ngone.jpg\tthree\n")
    (here / "names.txt").write_text("b.jpg\na.jpg\n\n")
    pictures = CaptionedImages(Path("images"), Path("all.tsv"), 8, Path("names.txt"))
    assert [pictures.captions(i) for i in range(2)] == [("two",), ("one",)]
    (here / "names.txt").write_text("b.jpg\nz.jpg\n")
    assert refused(CaptionedImages, Path("images"), Path("all.tsv"), 8, Path("names.txt")) == (
        "names.txt has 1 picture without a caption in all.tsv: z.jpg. Give the captions file that belongs to it."
    )


FORM = "A line is name.jpg#0 TAB caption, or name.jpg TAB caption, or CSV under the header image,caption."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "c.txt is empty: there are no captions in it."),
        ("image,caption\n", "c.txt has a header and nothing under it: there are no captions in it."),
        ("a.jpg one\n", f"c.txt, line 1: neither a tab nor the header image,caption. {FORM}"),
        ("a.jpg\tone\nb.jpg two\n", f"c.txt, line 2: no tab. {FORM}"),
        ("a.jpg\tone\ttwo\n", f"c.txt, line 1: 2 tabs. {FORM}"),
        ("a.jpg\t \n", f"c.txt, line 1: the caption is empty. {FORM}"),
        ("\tone\n", f"c.txt, line 1: the name is empty. {FORM}"),
        ("image,caption\na.jpg,one,two\n", "c.txt, line 2: 3 columns instead of image,caption. "
                                           "A caption with commas stands in double quotes."),
        ("image,caption\na.jpg,\"one\n", "c.txt, line 2: not CSV (unexpected end of data)."),
        ("gone.jpg\tone\na.jpg\ttwo\n", "c.txt has captions of 1 image that images does not have: gone.jpg. "
                                        "Give the folder that has them, or remove their lines."),
        ("".join(f"{n}.jpg\tone\n" for n in range(9)), "c.txt has captions of 9 images that images does not have: "
                                                        "0.jpg, 1.jpg, 2.jpg, …. Give the folder that has them, or "
                                                        "remove their lines."),
    ],
)  # fmt: skip
def test_captions_that_are_wrong_are_refused(here, content, message):
    write_images(here / "images", ["a.jpg", "b.jpg"])
    (here / "c.txt").write_text(content)
    assert refused(open_pictures, ["images", "c.txt"]) == message


def test_a_folder_without_images(here):
    (here / "texts").mkdir()
    (here / "texts/train.en").write_text("a\n")
    assert refused(open_pictures, ["texts"]) == "texts is a folder without images. Give the files in it: train.en"


def test_a_folder_without_captions(here):
    write_images(here / "images", ["a.jpg"])
    assert refused(open_pictures, ["images"]).startswith("images has no captions file (captions.tsv, ")


def test_a_damaged_image_is_named_when_it_is_read(here):
    write_images(here / "images", ["a.jpg"])
    (here / "images/captions.tsv").write_text("a.jpg\tone\n")
    (here / "images/a.jpg").write_bytes(b"GIF89a")
    assert refused(open_pictures(["images"]).image, 0).startswith("images/a.jpg is ")


# ------------------------------------------------------------------------------------------------- region features


def test_regions_are_scaled(here):
    arrays = write_features(here / "f.npz")
    (here / "f.captions.tsv").write_text(CAPTIONS)
    features = RegionFeatures(Path("f.npz"))
    assert (len(features), features.width, features.names) == (3, 7, ("a.jpg", "b.jpg", "c.jpg"))
    np.testing.assert_allclose(features.regions(1), arrays["regions"][1] * arrays["regions_scale"], rtol=1e-6)
    assert features.pooled(2).tolist() == arrays["pooled"][2].tolist()
    assert features.captions(0) == ("one .", "two")
    halved = arrays["regions"].astype(np.float16)
    write_features(here / "f.npz", regions=halved, regions_scale=None, pooled=None)
    assert np.array_equal(RegionFeatures(Path("f.npz")).regions(0), halved[0].astype(np.float32))
    assert refused(RegionFeatures(Path("f.npz")).pooled, 0) == "f.npz has no pooled features."


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_not_packed_stays_on_disk(here, order):
    arrays = write_features(here / "packed.npz")
    arrays["regions"] = np.asarray(arrays["regions"], order=order)
    np.savez(here / "plain.npz", **arrays)
    (here / "c.tsv").write_text(CAPTIONS)
    plain, packed = (RegionFeatures(Path(f"{name}.npz"), Path("c.tsv")) for name in ("plain", "packed"))
    for i in range(3):
        assert np.array_equal(plain.regions(i), packed.regions(i))
        assert np.array_equal(plain.pooled(i), packed.pooled(i))
    assert isinstance(plain._stored, np.memmap)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("2090545563_a4e66ec76c.jpg", "Did you mean '2090545563_a4e66ec76b.jpg'?"),
        ("2090545563_a4e66ec76b", "Did you mean '2090545563_a4e66ec76b.jpg'?"),
        ("1000268201_693b08cb0e.jpg", "It has 2 pictures, with names such as '2090545563_a4e66ec76b.jpg'."),
        ("dog.jpg", "It has 2 pictures, with names such as '2090545563_a4e66ec76b.jpg'."),
    ],
)
def test_only_a_name_that_is_really_near_is_suggested(here, name, told):
    names = np.array(["2090545563_a4e66ec76b.jpg", "1000523639_d21d87ad2e.jpg"])
    np.savez(here / "f.npz", regions=np.ones((2, 3, 5), np.float32), names=names)
    assert refused(Regions(Path("f.npz")).find, name) == f"f.npz has no picture {name!r}. {told}"


NINE = np.zeros((9, 5, 7), np.float32)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"regions": None}, "f.npz has no regions, only regions_scale, pooled, names. Region features have regions "
                            "(pictures × regions × width) and names."),
        ({"regions": NINE}, "f.npz: regions is 9 × 5 × 7, but there are 3 names: they must agree."),
        ({"regions": NINE[0]}, "f.npz: regions is 5 × 7 of float32, not pictures × regions × width of numbers."),
        ({"regions": NINE[:3] > 0}, "f.npz: regions is 3 × 5 × 7 of bool, not pictures × regions × width of numbers."),
        ({"pooled": NINE[:2]}, "f.npz: pooled is 2 × 5 × 7, but there are 3 names: they must agree."),
        ({"regions_scale": None}, "f.npz: regions are integers, but there is no regions_scale to multiply them by."),
        ({"regions_scale": NINE[0, 0, :5]}, "f.npz: regions_scale is 5, but a region has 7 features: "
                                            "give one number, or one for each."),
        ({"names": np.array(["a.jpg", "b.jpg", "d.jpg"])}, "f.captions.tsv has captions of 1 picture that f.npz does "
                                                           "not have: c.jpg. Give the captions that belong to the "
                                                           "features, or remove their lines."),
    ],
)  # fmt: skip
def test_features_that_do_not_fit_are_refused(here, changed, message):
    write_features(here / "f.npz", **changed)
    (here / "f.captions.tsv").write_text(CAPTIONS)
    assert refused(open_pictures, ["f.npz"]) == message


def test_features_without_captions_are_refused(here):
    write_features(here / "f.npz")
    assert refused(open_pictures, ["f.npz"]).startswith("No captions file f.captions.tsv.gz next to f.npz.")
    (here / "f.captions.tsv").write_text("a.jpg\tone\n")
    assert refused(open_pictures, ["f.npz"]) == (
        "f.npz has 2 pictures without a caption in f.captions.tsv: b.jpg, c.jpg. "
        "Give the captions file that belongs to it."
    )


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 and so on"])
def test_what_is_no_npz_is_refused(here, content):
    (here / "f.npz").write_bytes(content)
    assert refused(open_pictures, ["f.npz"]).startswith("f.npz is not an .npz file of numbers that can be read (")


def test_nothing_unpickles(here):
    np.savez(here / "f.npz", regions=np.array([{"a": 1}], dtype=object), names=np.array(["a.jpg"]))
    assert refused(open_pictures, ["f.npz"]).startswith("f.npz is not an .npz file of numbers that can be read (")


@pytest.mark.skipif(not FLICKR.is_dir(), reason=f"no {FLICKR} (set REGARD_DATA)")
def test_flickr8k():
    features = open_pictures([str(FLICKR / "dev.npz")])
    assert len(features) == 1_000
    assert features.regions(0).shape == (49, 64)
    assert {len(features.captions(i)) for i in range(1_000)} == {5}
    assert np.isfinite(features.regions(999)).all()


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
def test_fashion_of_debian():
    assert {split: len(FashionMnist(DEBIAN, split)) for split in ("all", "test")} == {"all": 60_000, "test": 10_000}


def test_many_scenes_are_painted_by_several_processes_alike(monkeypatch):
    from regard.data import scene_painting_workers

    alone = open_pictures(("scenes:valid:70",), pixels=33)
    monkeypatch.setattr(scene_painting_workers, "ALONE", 69)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(2), raising=False)
    many = open_pictures(("scenes:valid:70",), pixels=33)
    assert np.array_equal(many.images(range(2, 70)), alone.images(range(2, 70)))
    assert [*many.every("captions")] == [*alone.every("captions")]
    assert [*many.every("questions")] == [*alone.every("questions")]
    for things, own in zip(many.every("objects"), alone.every("objects"), strict=True):
        assert all(np.array_equal(part, other) for part, other in zip(things, own, strict=True))
