"""`regard train`, `ask`, `detect`, `evaluate` and `attend` with models that answer questions and that find things."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.data.scenes import scene
from regard.viz.image_trace import ImageTrace
from regard.viz.png import png

TINY = ("image.width=16", "image.feed_forward=8", "embedding=16", "encoder.width=16", "encoder.feed_forward=8")
FEW = ("decoder.width=16", "decoder.feed_forward=8", "detection.mask_channels=4", "detection.mask_maps=4")


def trained(commanded, folder, preset: str, *more: str):
    changes = [*(f"model.{change}" for change in (*TINY, *FEW)), "training.steps=1", "training.device=cpu"]
    sets = [part for change in (*changes, "training.batch_tokens=96") for part in ("--set", change)]
    ran = commanded(
        "train", "--preset", preset, "--data", "scenes:12", "--valid", "scenes:2", "--out", folder, *sets, *more
    )
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture(scope="session")
def answers(commanded, tmp_path_factory):
    """A model that answers and knows nothing; not to be changed."""
    folder = tmp_path_factory.mktemp("models") / "answers"
    ran = trained(commanded, folder, "asker-small")
    assert ran.err.endswith(f'Try it with: regard ask {folder} IMAGE "a question of yours"\n')
    return folder


@pytest.fixture(scope="session")
def things(commanded, tmp_path_factory):
    """A detector that knows nothing; not to be changed."""
    folder = tmp_path_factory.mktemp("models") / "things"
    assert "Try it with: regard detect" in trained(commanded, folder, "carion2020-small").err
    return folder


@pytest.fixture
def picture(tmp_path):
    """A scene as a file, of another size than the models'."""
    pytest.importorskip("PIL")
    path = tmp_path / "scene.png"
    path.write_bytes(png(scene("test", 3, pixels=48).painting.image))
    return path


def test_questions_are_asked_on_the_line_from_stdin_and_of_scenes(regard, answers, picture):
    one = regard("ask", answers, picture, "is there a star?", "--top", "30")
    assert one.code == 0, one.err
    shares = [float(line.split("\t")[0]) for line in one.lines]
    assert shares == sorted(shares, reverse=True)
    assert abs(sum(shares) - 1) < 0.01
    two = regard("ask", answers, "--scene", "3", "is there a star", "how many rings are there?", "--top", "2")
    assert [line.split("\t")[0] for line in two.lines] == ["is there a star"] * 2 + ["how many rings are there?"] * 2
    piped = regard("ask", answers, picture, "--json", "--top", "2", stdin=b"is there a star?\n\nis there a ring\n")
    records = [json.loads(line) for line in piped.lines]
    assert [record["question"] for record in records] == ["is there a star?", "is there a ring"]
    assert records[0]["answer"] == records[0]["answers"][0]["answer"] == one.lines[0].split("\t")[1]


def test_what_cannot_be_asked(refused, answers, things, picture):
    assert refused("ask", answers, picture, "is there a strar?") == (
        "The question has a word that the model does not know: 'strar'. Did you mean 'star'?"
    )
    assert refused("ask", answers, picture, "?") == "The question '?' has no words."
    assert refused("ask", answers) == "There is nothing to ask about: give an image file, or --scene N."
    assert refused("ask", answers, picture.parent / "none.png", "is there a star").startswith("No image ")
    assert refused("ask", answers, "is there a star") == (
        "No image 'is there a star': an image file comes first, then what to ask about it."
    )
    assert refused("ask", answers, "--scene", "3", picture, "is there a star") == (
        f"Give either an image file ({picture}) or --scene N, not both."
    )
    assert refused("ask", things, picture, "is there a star") == (
        f"{things} holds a detector, which finds objects: use regard detect."
    )
    assert refused("caption", answers, picture) == f"{answers} holds a model that answers questions: use regard ask."
    assert refused("translate", answers) == (f"{answers} holds a model that answers questions: use regard ask.")
    assert refused("attend", answers, picture) == f"{answers} answers questions: give one with --question."
    assert refused("attend", things, picture, "--question", "is there a star") == (
        f"Leave out --question: {things} holds a detector, which finds objects."
    )


def test_things_are_found_and_drawn(regard, refused, things, answers, picture, tmp_path):
    out = tmp_path / "boxes.svg"
    ran = regard("detect", things, picture, "--least", "0", "--out", out)
    assert (ran.code, ran.err) == (0, f"Wrote {out}\n")
    assert [line.count("\t") for line in ran.lines] == [5] * 8
    best = ran.lines[0].split("\t")
    assert f"{best[1]} {float(best[0]):.2f}" in out.read_text()
    several = regard("detect", things, picture, "--scene", "1", "--least", "0", "--json")
    records = [json.loads(line) for line in several.lines]
    assert [record["picture"] for record in records] == [str(picture), "scenes:test 1"]
    assert records[0]["things"][0]["class"] == best[1]
    assert (records[0]["width"], records[0]["height"], records[1]["width"]) == (48, 48, 128)
    assert max(edge for thing in records[0]["things"] for edge in thing["box"]) <= 48
    nothing = regard("detect", things, picture, "--least", "1")
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err == f"{picture}: no object has a probability of at least 1. Lower it with --least.\n"
    assert refused("detect", things).startswith("There is nothing to search")
    assert refused("detect", things, picture, "--least", "2") == "--least is 2.0; it must be from 0 to 1."
    assert "--out draws one picture, and 2 were given" in refused(
        "detect", things, picture, "--scene", "1", "--out", out
    )
    assert refused("detect", answers, picture) == f"{answers} holds a model that answers questions: use regard ask."


def test_boxes_are_in_pixels_of_the_picture_as_it_is_seen(regard, things, tmp_path):
    image = pytest.importorskip("PIL.Image")
    wide = image.fromarray(np.random.default_rng(7).integers(0, 256, (48, 81, 3), np.uint8))
    square = wide.crop((16, 0, 64, 48))
    turned = image.Exif()
    turned[0x0112] = 6  # lies on its left side: to be turned to the right before it is shown
    files = {name: tmp_path / f"{name}.png" for name in ("wide", "tall", "square")}
    wide.save(files["wide"])
    square.save(files["square"])
    # What is stored is wide; as people see it, it is tall, and its middle is the same square.
    tall = image.new("RGB", (48, 81))
    tall.paste(square, (0, 16))
    tall.transpose(image.Transpose.ROTATE_90).save(files["tall"], exif=turned)
    ran = regard("detect", things, *files.values(), "--least", "0", "--json")
    found = {Path(record["picture"]).stem: record for record in map(json.loads, ran.lines)}
    boxes = {name: np.array([thing["box"] for thing in record["things"]]) for name, record in found.items()}
    assert [found[name]["width"] for name in files] == [81, 48, 48]
    np.testing.assert_allclose(boxes["wide"], boxes["square"] + [16, 0, 16, 0], atol=0.011)
    np.testing.assert_allclose(boxes["tall"], boxes["square"] + [0, 16, 0, 16], atol=0.011)
    assert [thing["pixels"] for thing in found["tall"]["things"]] == [
        thing["pixels"] for thing in found["square"]["things"]
    ]
    alone = regard("detect", things, files["tall"], "--least", "0", "--out", tmp_path / "drawn.png")
    told = [[float(edge) for edge in line.split("\t")[2:]] for line in alone.lines]
    np.testing.assert_allclose(told, boxes["tall"], atol=0.051)
    with image.open(tmp_path / "drawn.png") as drawn:
        assert drawn.width < drawn.height


def test_masks_are_written_as_pictures_of_the_pictures_own_size(regard, refused, things, tmp_path):
    image = pytest.importorskip("PIL.Image")
    noise = np.random.default_rng(7).integers(0, 256, (64, 101, 3), np.uint8)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    image.fromarray(noise).save(tmp_path / "a" / "it.png")
    image.fromarray(noise[:, 18:82]).save(
        tmp_path / "b" / "it.png"
    )  # the square in the middle, which is all that is read
    (tmp_path / "bad.png").write_bytes(b"no image")
    files = tmp_path / "a" / "it.png", tmp_path / "bad.png", tmp_path / "b" / "it.png"
    out = tmp_path / "new" / "masks"
    ran = regard("detect", things, *files, "--least", "0", "--json", "--masks", out)
    assert (ran.code, len(ran.lines)) == (2, 2)
    assert ran.err.splitlines()[-1] == f"Wrote 16 masks to {out}"
    wide, square = ([*map(told_mask, json.loads(line)["things"])] for line in ran.lines)
    names = [Path(file).name for file, _, _ in (*wide, *square)]
    assert names == sorted(names) == sorted(path.name for path in out.iterdir())
    assert (names[0][:6], names[8][:8]) == ("it-01-", "it-2-01-")
    for (_, whole, _), (_, middle, pixels) in zip(wide, square, strict=True):
        assert (whole.shape, middle.shape) == ((64, 101), (64, 64))
        np.testing.assert_array_equal(whole, np.pad(middle, ((0, 0), (18, 19))))
        assert {*np.unique(middle)} <= {0, 255}
        assert (middle > 0).sum() == pixels
    file = tmp_path / "bad.png"
    assert refused("detect", things, files[0], "--masks", file) == f"Cannot write masks to {file}: file exists."


def told_mask(thing):
    """A mask's file, what is in it, and how many pixels are the thing's."""
    from PIL import Image

    return thing["mask"], np.array(Image.open(thing["mask"])), thing["pixels"]


def test_masks_are_not_had_from_a_detector_of_boxes(commanded, refused, tmp_path):
    trained(commanded, tmp_path / "m", "carion2020-small", "--set", "model.detection.mask_channels=0")
    assert refused("detect", tmp_path / "m", "--scene", "1", "--masks", tmp_path / "masks") == (
        "This detector finds boxes but no masks: train one with model.detection.mask_channels above 0."
    )
    assert not (tmp_path / "masks").exists()


def test_both_are_scored_on_scenes_familiar_and_held_out(regard, answers, things):
    ran = regard("evaluate", answers, "--data", "scenes:6", "--json")
    assert ran.code == 0, ran.err
    scores = json.loads(ran.out)["scores"]
    assert {"accuracy", "count", "spatial held-out", "accuracy familiar", "pointing", "loss"} <= {*scores}
    of_all = scores["accuracy"]["count"]
    assert of_all == scores["accuracy familiar"]["count"] + scores["accuracy held-out"]["count"]
    found = json.loads(regard("evaluate", things, "--data", "scenes:6", "--json").out)["scores"]
    assert {"AP@0.5", "AP@0.75", "mask IoU", "AP@0.5 held-out", "mask IoU familiar"} <= {*found}


def test_the_looks_of_a_question_are_laid_over_the_image(regard, answers, picture, tmp_path):
    out = tmp_path / "look.json"
    ran = regard("attend", answers, picture, "--question", "is there a star?", "--out", out, "--width", "60")
    assert ran.code == 0, ran.err
    trace = ImageTrace.load(out)
    assert trace.words[:-1] == ("?", "is", "there", "a", "star")
    assert ran.lines[0].split()[0] == trace.words[-1]
    assert trace.grid == (8, 8)
    assert trace.image.shape == (48, 48, 3)


def test_pixels_are_those_of_the_mask_that_is_written(regard, things, tmp_path):
    image = pytest.importorskip("PIL.Image")
    noise = np.random.default_rng(7).integers(0, 256, (91, 97, 3), np.uint8)  # no whole multiple of what is read
    image.fromarray(noise).save(tmp_path / "it.png")
    ran = regard("detect", things, tmp_path / "it.png", "--least", "0", "--json", "--masks", tmp_path / "masks")
    found = [*map(told_mask, json.loads(ran.out)["things"])]
    assert [pixels for _, _, pixels in found] == [(mask > 0).sum() for _, mask, _ in found]


def test_options_that_say_nothing_of_a_task_are_refused(refused, answers, things, picture, tmp_path):
    looks, search = ("--layer", "0", "--head", "7", "--shift"), ("--beam", "9", "--set", "decoding.method=sample")
    data, out = ("--data", "scenes:2"), tmp_path / "out.txt"
    assert refused("evaluate", things, *data, *looks, *search, "--translations", out) == (
        f"Leave out --layer, --head, --shift, --beam, --set and --translations: {things} holds a detector, which "
        "finds objects."
    )
    assert not out.exists()
    assert refused("evaluate", answers, *data, "--shift", *search) == (
        f"Leave out --shift, --beam and --set: {answers} holds a model that answers questions."
    )
    assert refused("evaluate", things, *data, "--group") == (
        f"Leave out --group: {things} holds a detector, which finds objects."
    )
    assert refused("evaluate", answers, *data, "--layer", "99") == (
        "There is no layer 99: this model has 3, counted from 0."
    )
    assert refused("attend", things, picture, "--set", "total.nonsense=1") == (
        f"Leave out --set: {things} holds a detector, which finds objects."
    )
    assert refused("attend", answers, picture, "--question", "is there a star", *search) == (
        f"Leave out --beam and --set: {answers} holds a model that answers questions."
    )
