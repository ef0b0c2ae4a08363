"""`regard train`, `evaluate`, `caption` and `classify` with pictures."""

import json

import numpy as np
import pytest

from regard.data.scenes import scene
from regard.viz.png import png


def tiny(*changes: str) -> list[str]:
    every = (*(f"model.{change}" for change in changes), "training.steps=1", "training.device=cpu")
    return [part for change in every for part in ("--set", change)]


IMAGE = ("image.width=16", "image.units=1", "image.reduction=2")
WORDS = ("embedding=8", "decoder.width=8", "decoder.readout_width=8", "attention.width=8")


@pytest.fixture(scope="session")
def captions(commanded, tmp_path_factory):
    """A captioner that knows nothing; not to be changed."""
    folder = tmp_path_factory.mktemp("models") / "captions"
    data = ("--data", "scenes:6", "--valid", "scenes:2", "--set", "training.batch_tokens=160")
    ran = commanded("train", "--preset", "xu2015-soft-small", *data, "--out", folder, *tiny(*IMAGE, *WORDS))
    assert ran.code == 0, ran.err
    assert ran.err.endswith(f"The model is in {folder}. Try it with: regard caption {folder} IMAGE\n")
    return folder


@pytest.fixture(scope="session")
def clothes(tmp_path_factory):
    """A folder of IDX files."""
    folder, random = tmp_path_factory.mktemp("clothes"), np.random.default_rng(5)
    for part, count in (("train", 24), ("t10k", 6)):
        head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (count, 28, 28))
        pixels = random.integers(0, 256, (count, 28, 28), np.uint8)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        labels = (np.arange(count) % 10).astype(np.uint8).tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + count.to_bytes(4, "big") + labels)
    return folder


@pytest.fixture(scope="session")
def classes(commanded, clothes, tmp_path_factory):
    """A classifier that knows nothing; not to be changed."""
    folder = tmp_path_factory.mktemp("models") / "classes"
    ran = commanded("train", "--preset", "hu2017-se-small", "--data", clothes, "--out", folder, *tiny(*IMAGE))
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture
def drawn(tmp_path):
    """Two scenes as files, of another size than the model's."""
    for number in range(2):
        (tmp_path / f"{number}.png").write_bytes(png(scene("test", number, pixels=48).painting.image))
    return tmp_path


def test_pictures_are_described_from_files_folders_and_by_number(regard, captions, drawn):
    pytest.importorskip("PIL")
    alone = regard("caption", captions, drawn / "0.png", "--beam", "2")
    assert (alone.code, alone.err, len(alone.lines)) == (0, "", 1)
    several = regard("caption", captions, drawn, "--scene", "5", "--beam", "2", "--set", "decoding.max_length=4")
    assert [line.split("\t")[0] for line in several.lines] == [
        str(drawn / "0.png"),
        str(drawn / "1.png"),
        "scenes:test 5",
    ]
    best = regard("caption", captions, "--scene", "5", "--beam", "3", "--n-best", "3").lines
    assert [line.count("\t") for line in best] == [2, 2, 2]
    scores = [float(line.split("\t")[1]) for line in best]
    assert scores == sorted(scores, reverse=True)


def test_what_cannot_be_described(refused, captions, classes, trained, drawn):
    pytest.importorskip("PIL")
    (drawn / "no.png").write_bytes(b"no image")
    assert refused("caption", captions).startswith("There is nothing to describe: give image files")
    assert "no.png" in refused("caption", captions, drawn / "no.png")
    assert refused("caption", captions, drawn / "none.png").startswith(f"No image {str(drawn / 'none.png')!r}.")
    assert refused("caption", captions, "--scene", "-1") == "--scene is -1; it must be at least 0."
    assert refused("caption", trained, drawn / "0.png") == (
        f"{trained} holds a translator, which reads texts: use regard translate."
    )
    assert refused("translate", captions) == (
        f"{captions} holds a captioner, which describes pictures: use regard caption."
    )
    assert refused("caption", classes, drawn / "0.png") == (
        f"{classes} holds an image classifier: use regard classify."
    )
    assert refused("classify", captions, drawn / "0.png") == (
        f"{captions} holds a captioner, which describes pictures: use regard caption."
    )


def test_a_picture_that_cannot_be_read_costs_no_other(regard, captions, classes, drawn):
    pytest.importorskip("PIL")
    alone = [regard("caption", captions, drawn / name).lines[0] for name in ("0.png", "1.png")]
    (drawn / "00.png").write_bytes(b"no image")
    whole = (drawn / "0.png").read_bytes()
    (drawn / "2.png").write_bytes(whole[: len(whole) // 2])
    for given in ([drawn], [drawn / name for name in ("0.png", "00.png", "1.png", "2.png")]):
        ran = regard("caption", captions, *given)
        assert (ran.code, ran.out) == (2, f"{drawn / '0.png'}\t{alone[0]}\n{drawn / '1.png'}\t{alone[1]}\n")
        errors = ran.err.splitlines()
        assert [line.split(" is ")[0] for line in errors] == [
            f"regard: {drawn / '00.png'}",
            f"regard: {drawn / '2.png'}",
        ]
    few = regard("caption", captions, drawn / "00.png", drawn / "1.png", drawn / "none")
    assert (few.code, few.out, len(few.err.splitlines())) == (2, f"{drawn / '1.png'}\t{alone[1]}\n", 2)
    ran = regard("classify", classes, drawn, "--top", "1")
    assert (ran.code, [line.split("\t")[0] for line in ran.lines]) == (2, [str(drawn / "0.png"), str(drawn / "1.png")])
    assert len(ran.err.splitlines()) == 2


def test_a_captioner_is_scored_on_scenes_familiar_and_held_out(regard, refused, captions):
    ran = regard("evaluate", captions, "--data", "scenes:4", "--beam", "1", "--json")
    assert ran.code == 0, ran.err
    scores = json.loads(ran.out)["scores"]
    assert {"BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "BLEU-4 familiar", "BLEU-4 held-out", "exact match"} <= {*scores}
    assert scores["BLEU-4"]["count"] == 2 * scores["BLEU-4 held-out"]["count"] == 4
    assert scores["pointing"]["count"] == scores["pointing familiar"]["count"] + scores["pointing held-out"]["count"]
    assert refused("evaluate", captions, "--data", "scenes:4", "--to", "de") == (
        f"Leave out --to: {captions} holds a captioner, which describes pictures."
    )


def test_pictures_are_classified(regard, refused, classes, clothes, drawn):
    pytest.importorskip("PIL")
    lines = regard("classify", classes, drawn / "0.png", "--top", "10").lines
    shares = [float(line.split("\t")[0]) for line in lines]
    assert shares == sorted(shares, reverse=True)
    assert abs(sum(shares) - 1) < 1e-3
    assert {line.split("\t")[1] for line in lines} >= {"ankle boot", "T-shirt/top"}
    assert [line.count("\t") for line in regard("classify", classes, drawn).lines] == [2] * 6
    assert refused("classify", classes) == "There is nothing to classify: give image files, or a folder of them."
    assert refused("evaluate", classes, "--data", "scenes:test:10").startswith("scenes:test:10 has no classes for its ")
    ran = regard("evaluate", classes, "--data", clothes)
    assert ran.lines[0] == f"{clothes}:test: 6 pictures, nothing searched"
    assert ran.lines[1].split()[0] == "accuracy"


def test_texts_and_pictures_are_not_mixed_up(refused, here):
    assert refused("train", "--data", "scenes", "--out", "m") == (
        "data.train=scenes has pictures, and this model (preset bahdanau2014-small) reads texts: take one that reads "
        "pictures (regard list visions), such as --preset captioner-small."
    )
    assert refused("train", "--preset", "captioner-small", "--data", "phrasebook", "--out", "m") == (
        "data.train=phrasebook has texts, and this model (preset captioner-small) reads pictures: give scenes, "
        "fashion-mnist, a folder of images or an .npz file of region features, or use a text model (regard list "
        "presets)."
    )
    assert refused("train", "--preset", "xu2015-sof", "--data", "scenes", "--out", "m") == (
        "No preset named 'xu2015-sof'. Did you mean 'xu2015-soft'? (regard list presets and regard list visions show "
        "all)"
    )
    assert not (here / "m").exists()


def test_looks_are_scored_only_where_it_is_known_what_is_right(refused, captions, classes, clothes, drawn):
    pytest.importorskip("PIL")
    (drawn / "captions.tsv").write_text("0.png\ta ring\n1.png\ta star\n")
    assert refused("evaluate", captions, "--data", drawn, "--layer", "77") == (
        f"Leave out --layer, --head and --shift: {drawn} has no gold regions."
    )
    assert refused("evaluate", classes, "--data", clothes, "--beam", "3") == (
        f"Leave out --beam: {classes} holds an image classifier."
    )
