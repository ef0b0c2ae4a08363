"""Comparing models that read pictures: captioners, which write, and classifiers, which do not."""

import json
from dataclasses import replace

import numpy as np
import pytest

from regard.compare import Terms, Variant
from regard.compare.comparison import default_baseline
from regard.compare.report_tables import main_table
from regard.compare.variants import ComparisonTest, choose_pictures, find_test
from regard.config_io import override
from regard.data.pictures import open_pictures
from regard.errors import ConfigError, DataError
from regard.presets.vision import vision
from regard.tasks.captioning.evaluation import evaluate_captions
from regard.tasks.captioning.predictor import CaptionPredictor
from regard.tasks.image_classification.evaluation import evaluate_classes
from regard.tasks.image_classification.predictor import ImageClassPredictor
from regard.viz.png import png

TINY = (
    "model.image.width=16",
    "model.image.units=1",
    "training.steps=2",
    "training.validate_every=2",
    "training.batch_tokens=160",
    "training.log_every=1",
    "training.device=cpu",
)
WORDS = (
    "data.valid=seen.npz",
    "model.embedding=8",
    "model.decoder.width=8",
    "model.decoder.readout_width=8",
    "model.attention.width=8",
    "decoding.beam=2",
    "decoding.max_length=4",
)


def captioner(name, data="seen.npz"):
    return Variant(name, override(vision(f"xu2015-{name}-small"), (*TINY, *WORDS, f"data.train={data}")))


def seen():
    return open_pictures(["seen.npz"], plain=True)


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory):
    """Features of pictures, of which the second and the last can be seen."""
    folder = tmp_path_factory.mktemp("seen")
    names, random = [f"{name}.png" for name in "abcd"], np.random.default_rng(3)
    np.savez(folder / "seen.npz", regions=random.random((4, 9, 5), np.float32), names=np.array(names))
    lines = [f"{name}\tA {noun}.\n{name}\tOne {noun}, red\n" for name, noun in zip(names, "wxyz", strict=True)]
    (folder / "seen.captions.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "thumbnails").mkdir()
    for name in names[1::2]:
        (folder / "thumbnails" / name).write_bytes(png(np.full((12, 12, 3), 90, np.uint8)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def described(make, here):
    """Two captioners, compared, pictures and all. Not to be changed."""
    variants = captioner("soft"), captioner("hard")
    return make.run(here / "out", *variants, terms=Terms(test=("seen.npz",)), pictures=True)[0]


@pytest.fixture(scope="module")
def clothes(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("clothes"), np.random.default_rng(5)
    for part, count in (("train", 24), ("t10k", 20)):
        head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (count, 28, 28))
        pixels = random.integers(0, 256, (count, 28, 28), np.uint8)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        labels = (np.arange(count) % 10).astype(np.uint8).tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + count.to_bytes(4, "big") + labels)
    return folder


def classifier(name, preset, clothes):
    return Variant(name, override(vision(preset), (*TINY, f"data.train={clothes}", "model.image.reduction=2")))


def test_every_number_of_captioners_is_that_of_evaluate(described):
    pictures = seen()
    for row in described.rows:
        predictor = CaptionPredictor.load(described.folder / "models" / row.variant)
        report = evaluate_captions(predictor, pictures)
        evaluation = row.runs[0].evaluation
        assert evaluation.main == "BLEU-4"
        assert evaluation.translations == report.translations
        assert {name: score["value"] for name, score in evaluation.scores.items()} == {
            score.name: score.value for score in report.scores
        }
        assert row.stat("main").mean == row.score("BLEU-4").mean == row.runs[0].tested.bleu
    first, second = described.rows
    assert second.stat("difference").mean == pytest.approx(second.stat("main").mean - first.stat("main").mean)
    assert second.stat("p") is not None


def test_columns_are_the_scores_over_all_and_not_those_of_parts(described):
    titles = [column.title for column in main_table(described.rows).columns]
    assert {"BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "exact match"} < set(titles)
    assert titles[titles.index("BLEU-4") + 1] == "Δ"
    assert not {"BLEU", "chrF", "AER", "sent/s"} & set(titles)


def test_the_report_shows_each_picture_once_for_each_variant(described):
    names = {path.name for path in (described.folder / "images").iterdir()}
    assert {f"attention-{i}-{name}.png" for i in (1, 2) for name in ("soft", "hard")} <= names
    markdown = described.markdown.read_text(encoding="utf-8")
    assert "![Attention of hard](images/attention-1-hard.png)" in markdown
    assert "4 test pictures" in markdown
    assert "> b.png" in markdown
    assert "- reference: a x / one x red\n" in markdown
    assert "a.png" not in markdown
    assert described.page.read_text(encoding="utf-8").count("data:image/png;base64,") == 4
    results = json.loads(described.results.read_text(encoding="utf-8"))
    assert "BLEU-1" in results["variants"][0]["runs"][0]["scores"]


def test_classifiers_are_measured_by_accuracy_and_without_a_test_of_words(make, clothes, tmp_path):
    plain, gated = classifier("plain", "resnet-small", clothes), classifier("gated", "hu2017-se-small", clothes)
    found, said = make.run(tmp_path / "out", plain, gated, terms=Terms())
    report = evaluate_classes(
        ImageClassPredictor.load(found.folder / "models" / "gated"), open_pictures([str(clothes)], "test")
    )
    assert found["gated"].stat("main").mean == found["gated"].score("accuracy").mean == report["accuracy"].value
    assert found["gated"].score("loss").mean == pytest.approx(report["loss"].value)
    assert found["gated"].stat("p") is None
    assert found["gated"].stat("difference").mean == pytest.approx(
        found["gated"].stat("main").mean - found["plain"].stat("main").mean
    )
    titles = [column.title for column in main_table(found.rows).columns]
    assert {"accuracy", "loss", "pictures/s trained", "pictures/s"} <= set(titles)
    assert "trouser" not in str(titles).lower()
    assert any(line.startswith("plain: 2 steps") and "accuracy" in line for line in said)
    assert default_baseline([gated, plain]) == "gated"


def test_what_is_scored_on_is_found_and_pictures_to_show_come_from_all_of_it(clothes):
    assert find_test([captioner("soft", "scenes:9")], Terms()) == ComparisonTest(("scenes",), "test")
    assert find_test([captioner("soft")], Terms()) == ComparisonTest(("seen.npz",), "valid")
    assert choose_pictures(seen()) == ("1", "3")
    assert find_test([classifier("a", "resnet-small", clothes)], Terms()) == ComparisonTest((str(clothes),), "test")
    numbers = [int(text) for text in choose_pictures(open_pictures(["scenes:test:40"], pixels=32))]
    assert len(numbers) == 4
    assert {number % 2 for number in numbers} == {0, 1}  # scenes like those of training, and new ones
    assert choose_pictures(open_pictures(["scenes:test:1"], pixels=32)) == ("0",)


def test_what_cannot_be_compared_or_shown_is_said(make, tmp_path):
    soft = captioner("soft")
    with pytest.raises(ConfigError, match=r"^Some variants read pictures and others texts"):
        make.run(tmp_path, soft, make.variant("look"))
    with pytest.raises(DataError, match=r"^'9' is not a picture of seen\.npz: .* 0 to 3\.$"):
        make.run(tmp_path, soft, terms=Terms(test=("seen.npz",), sentences=("9",)))
    other = Variant("other", replace(soft.config, data=replace(soft.config.data, train=("scenes:9",))))
    with pytest.raises(DataError, match="not trained on the same data"):
        find_test([soft, other], Terms())
