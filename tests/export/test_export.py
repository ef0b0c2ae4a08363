"""What is exported says what the model says, without this package and without torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import regard
from regard.decoding.translator import Translator
from regard.tasks.captioning.predictor import CaptionPredictor
from regard.tasks.detection.predictor import DetectionPredictor
from regard.tasks.image_classification.predictor import ImageClassPredictor
from regard.tasks.text_classification.predictor import TextLabeller
from regard.tasks.visual_questions.predictor import AnswerPredictor

ALONE = "import runpy, sys; sys.modules['regard'] = sys.modules['torch'] = None; sys.path.insert(0, {0!r}); "
RUN = "runpy.run_path({0!r} + '/run.py', run_name='__main__')"


def start(exported, *args, stdin=""):
    """Run the program in an export's folder, where neither this package nor torch can be imported."""
    command = [sys.executable, "-c", (ALONE + RUN).format(str(exported.folder)), *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def run(exported, *args, stdin=""):
    found = start(exported, *args, stdin=stdin)
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Two image files that are not square, one of them grey."""
    place, noise = tmp_path_factory.mktemp("pictures"), np.random.default_rng(1)
    Image.fromarray(noise.integers(0, 256, (24, 31, 3), dtype=np.uint8)).save(place / "coloured.png")
    Image.fromarray(noise.integers(0, 256, (40, 17), dtype=np.uint8)).save(place / "grey.png")
    return [place / "coloured.png", place / "grey.png"]


def read(pictures, size=16):
    from regard.data.pictures import read_files

    return read_files(pictures, size)[1]


def test_a_translator_writes_the_same_text(folders, exports):
    texts = ["the red dress is old", "", "a cat", "cat unheard of", "old old old old old old old", "a cat is " * 5]
    translated, given = Translator.load(folders["translate"]).translate(texts, n_best=2), "\n".join(texts) + "\n"
    exported = exports("translate")
    assert run(exported, stdin=given) == [best.text for best in translated]
    assert len({best.text for best in translated}) > 3
    listed = [
        f"{place}\t{one.score:.4f}\t{one.text}"
        for place, best in enumerate(translated, start=1)
        for one in (best, *best.n_best)
    ]
    assert run(exported, "--n-best", "2", "--batch", "2", stdin=given) == listed
    (record,) = map(json.loads, run(exported, "--json", "--beam", "1", "--set", "min_length=4", stdin="a cat"))
    trace = regard.AttentionTrace.from_json(record["attention"])
    assert list(trace.target) == record["tokens"]
    assert len(trace.target) > 4
    assert start(exported, "--set", "baem=2", stdin="a cat").stderr == (
        "'baem=2' is no setting of the search, written NAME=VALUE. Did you mean 'beam'?\n"
    )


@pytest.mark.parametrize("name", ["classify-text", "classify-documents"])
def test_a_text_classifier_finds_the_same_classes(name, folders, exports):
    texts = [
        "the red dress is old. a cat! the cat is red",
        "",
        "a cat",
        "cat unheard of.",
        "old. " * 40,
        "a! cat. " * 5,
    ]
    found = TextLabeller.load(folders[name]).classify([text for text in texts if text])
    lines = iter(f"{each.probability:.4f}\t{each.label}" for each in found)
    assert run(exports(name), stdin="\n".join(texts) + "\n") == [next(lines) if text else "" for text in texts]
    assert len({each.label for each in found}) > 1


def test_a_captioner_writes_the_same_text_and_looks_at_the_same_places(folders, exports, pictures):
    exported = exports("caption")
    captions = CaptionPredictor.load(folders["caption"]).caption(read(pictures))
    right = [f"{picture}\t{described.text}" for picture, described in zip(pictures, captions, strict=True)]
    assert run(exported, *pictures) == right
    assert run(exported, pictures[0]) == [captions[0].text]
    looks = captions[0].best.attention.weights.transpose(2, 0, 1, 3)  # steps, layers, heads, cells
    np.testing.assert_allclose(weights_of(exported, pictures[0]), looks, atol=1e-5)


def weights_of(exported, picture):
    """Where the shipped program's own writer looked, for each token."""
    from regard.runtime.graphs import read_export
    from regard.runtime.pixels import read_picture
    from regard.runtime.writer import Writer

    told = read_export(exported.folder)
    given = read_picture(picture, told["image"])
    given["mask"] = np.ones((1, told["image"]["cells"]), np.bool_)
    writer = Writer(told, exported.folder)
    return writer.write(given, writer.options, [()])[0][0].weights


def test_a_classifier_tells_the_same_classes(folders, exports, pictures):
    guesses = ImageClassPredictor.load(folders["classify"]).classify(read(pictures), top=3)
    right = [
        f"{picture}\t{guess.probability:.4f}\t{guess.label}"
        for picture, row in zip(pictures, guesses, strict=True)
        for guess in row
    ]
    assert run(exports("classify"), *pictures) == right


def test_the_same_answers_are_given(folders, exports, pictures):
    asked = ["how many red cats are there?", "Is there a cat"]
    answered = AnswerPredictor.load(folders["ask"]).answer(read(pictures[:1]), [asked], top=3)[0]
    right = [f"{probability:.4f}\t{answer}" for one in answered for answer, probability in one.best]
    assert run(exports("ask"), pictures[0], *asked) == right
    refused = start(exports("ask"), pictures[0], "is there a zebra?")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "The question has words that the model does not know: zebra.\n"


def test_the_same_things_are_found(folders, exports, pictures):
    exported = exports("detect")
    things = DetectionPredictor.load(folders["detect"]).detect(read(pictures), least=0.0)
    assert things[0]
    graph = onnxruntime.InferenceSession(exported.folder / "model.onnx")
    names = [found.name for found in graph.get_outputs()]
    found = dict(zip(names, graph.run(None, {"pixels": read(pictures)}), strict=True))
    for row, some in enumerate(things):
        for thing in some:
            logits = found["logits"][row, thing.query]
            assert logits[:-1].argmax() == thing.label
            np.testing.assert_array_equal(found["masks"][row, thing.query] > 0, thing.mask)
    likely = [thing for thing in things[0] if thing.score >= 0.5]
    assert [line.split("\t")[1] for line in run(exported, pictures[0])] == [thing.name for thing in likely]


def test_what_cannot_be_read_is_told_in_one_line_and_costs_no_other(exports, pictures, tmp_path):
    bad = {name: tmp_path / f"{name}.png" for name in ("text", "cut", "bomb")}
    bad["text"].write_text("no image")
    bad["cut"].write_bytes(pictures[0].read_bytes()[:900])
    Image.new("1", (15000, 15000)).save(bad["bomb"])
    ran = start(
        exports("classify"), bad["text"], pictures[0], bad["cut"], bad["bomb"], tmp_path / "none.png", pictures[1]
    )
    assert (ran.returncode, ran.stdout.splitlines()) == (2, run(exports("classify"), *pictures))
    assert [line.partition(": it ")[0] for line in ran.stderr.splitlines()] == [
        *map(str, (bad["text"], bad["cut"], bad["bomb"], tmp_path / "none.png"))
    ]
    assert ran.stderr.splitlines()[2].endswith("more than the limit of 50 million pixels. Make it smaller.")
    for name in ("caption", "detect", "ask"):
        ran = start(exports(name), bad["cut"], *(["is there a cat"] if name == "ask" else []))
        assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1)


def test_a_captioner_of_features_reads_them_by_name_or_alone(folders, exports, tmp_path):
    exported, random = exports("features"), np.random.default_rng(3)
    regions, scale = random.integers(-99, 99, (2, 4, 5)).astype(np.int8), np.full(5, 0.02, np.float32)
    features = tmp_path / "f.npz"
    np.savez(features, names=["a.jpg", "b.jpg"], regions=regions, regions_scale=scale)
    np.save(tmp_path / "b.npy", regions[1] * scale)
    captions = [told.text for told in CaptionPredictor.load(folders["features"]).caption(regions * scale)]
    assert run(exported, tmp_path / "b.npy", features, "b.jpg", "elsewhere/a.jpg") == [
        f"{tmp_path / 'b.npy'}\t{captions[1]}",
        f"b.jpg\t{captions[1]}",
        f"elsewhere/a.jpg\t{captions[0]}",
    ]
    assert run(exported, features, "a.jpg") == [captions[0]]
    unnamed = start(exported, features)
    assert (unnamed.returncode, unnamed.stderr) == (2, f"{features}: give names of pictures in it, after it.\n")
    told = (exported.folder / "README.md").read_text(encoding="utf-8")
    assert "python run.py features.npz picture.jpg" in told
    assert "picture.png" not in told


def test_features_that_cannot_be_read_are_told_of(pictures, tmp_path, capsys):
    from regard.runtime.pixels import read_pictures

    np.savez(tmp_path / "f.npz", names=["a.jpg"], regions=np.zeros((1, 4, 5), np.float32))
    np.save(tmp_path / "wide.npy", np.zeros((4, 6)))
    (tmp_path / "text.npz").write_text("no numbers")

    def said(*given):
        with pytest.raises(SystemExit) as left:
            list(read_pictures([*map(str, given)], {"kind": "regions", "size": 2, "channels": 5}))
        assert left.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line.replace(f"{tmp_path}/", "")

    assert said(tmp_path / "wide.npy") == "wide.npy: the model reads 4 regions of 5 features, got 4 × 6."
    assert said(tmp_path / "f.npz", "b.jpg", "a.jpg") == "b.jpg: the .npz file has no picture of this name."
    assert said(tmp_path / "text.npz", "a.jpg") == (
        "text.npz: it cannot be read as an .npz file (it is another kind of file)."
    )
    assert said(pictures[0]).endswith(
        "this model reads region features: give an .npz file of them and names of pictures in it, or .npy files."
    )


def test_the_files_say_what_export_json_says(exports):
    exported = exports("translate")
    told = json.loads((exported.folder / "export.json").read_bytes())
    for file, graph in told["graphs"].items():
        model = onnx.load(exported.folder / file)
        onnx.checker.check_model(model, full_check=True)
        for kind, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
            shapes = [[d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim] for value in values]
            assert [port["name"] for port in graph[kind]] == [value.name for value in values]
            assert [port["shape"] for port in graph[kind]] == shapes
    assert told["checked"]["largest_difference"] == exported.difference <= 1e-4
    # What a step needs is what the encoder yields, and what it changes goes in again.
    yielded = {port["name"] for port in told["graphs"]["encoder.onnx"]["outputs"]}
    step = {kind: {port["name"] for port in told["graphs"]["step.onnx"][kind]} for kind in ("inputs", "outputs")}
    assert step["inputs"] == yielded | {"token"}
    assert {name.replace("next.", "state.") for name in step["outputs"] if name.startswith("next.")} <= yielded


def test_an_export_knows_nothing_of_this_package(exports):
    folder = Path(exports("translate").folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    # Nor of the machine that it was made on. Running it, as other tests do, may leave what Python compiled.
    for path in files:
        assert str(Path(regard.__file__).parent).encode() not in path.read_bytes()
    programs = [path for path in files if path.suffix == ".py"]
    assert len(programs) > 10
    for path in programs:
        assert "import regard" not in path.read_text(encoding="utf-8")
        assert "from regard" not in path.read_text(encoding="utf-8")


def test_an_export_is_opened_by_the_package_in_it(exports):
    folder = str(exports("translate").folder)
    code = f"import runtime; print(runtime.load({folder!r}).translate(['a cat'])[0].text)"
    command = [sys.executable, "-c", ALONE.format(folder) + code]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == run(exports("translate"), stdin="a cat")


def test_weights_in_int8_are_a_third_of_the_size_and_nearly_the_same(folders, export, exports, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.export.int8_weights.LEAST", 64)
    exported, whole = export(folders["local-m"], tmp_path / "small", int8=True), exports("local-m")
    assert exported.difference == whole.difference
    assert 1e-4 < exported.rounding < 1
    told = json.loads((exported.folder / "export.json").read_bytes())
    assert told["weights"] == "int8"
    assert told["checked"]["largest_difference_in_int8"] == exported.rounding
    stored = {}
    for folder in (exported.folder, whole.folder):
        for file in exported.files:
            model = onnx.load(folder / file)
            onnx.checker.check_model(model)
            stored |= {(folder, file, one.name): onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    for (folder, file, name), integers in stored.items():
        if folder == exported.folder and integers.dtype == np.int8:
            weight = stored[whole.folder, file, name.removesuffix(".int8")]
            scales = stored[folder, file, name.replace(".int8", ".scales")]
            restored = (integers * scales).reshape(weight.shape)
            np.testing.assert_allclose(restored, weight, atol=np.abs(weight).max() / 254 * 1.001)
            assert np.abs(integers).max() == 127
    count = sum(integers.dtype == np.int8 for integers in stored.values())
    assert count > 3


def test_weights_of_zero_stay_zero_in_int8():
    from regard.export.int8_weights import rounded

    integers, scales = rounded(np.zeros((2, 32), np.float32))
    assert not (integers * scales).any()
