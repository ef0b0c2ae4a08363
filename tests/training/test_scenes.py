"""Questions are learned and things are found as captions and classes are: the same trainer, folders and laws."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_run import Killed, Listener, contents, killed, train

from regard.config import Config
from regard.config_io import override, read_toml
from regard.data.pictures import open_pictures
from regard.data.question_vocabulary import QuestionVocabulary
from regard.errors import ConfigError, DataError, ModelError
from regard.presets.vision import any_preset
from regard.tasks.detection.predictor import DetectionPredictor
from regard.tasks.detection.training import objects_of
from regard.tasks.picture_sources import open_picture_sources
from regard.tasks.visual_questions.predictor import AnswerPredictor
from regard.tasks.visual_questions.training import open_data
from regard.training import train_model
from regard.training.progress import Silent

TINY = (
    *("model.image.width=16", "model.embedding=16", "model.encoder.width=16", "model.encoder.feed_forward=8"),
    *("model.decoder.width=16", "model.decoder.feed_forward=8", "model.image.feed_forward=8", "model.dropout=0.1"),
    *("model.attention.width=8", "model.questions.fusion=8", "model.detection.mask_channels=4", "training.device=cpu"),
    *("model.detection.mask_maps=4", "training.batch_tokens=96", "training.steps=4", "training.validate_every=2"),
    *("training.log_every=1", "training.warmup=0", "training.learning_rate=0.01", "training.save_every=1"),
)
ANSWERERS, DETECTORS = ("anderson2017-small", "asker-small"), ("carion2020-small",)
BOTH = pytest.mark.parametrize("name", ["asker-small", "carion2020-small"])


def tiny(name: str, *changes: str, data: str = "scenes:12", valid: str = "scenes:5") -> Config:
    config = override(any_preset(name), [*TINY, *changes])
    return replace(config, data=replace(config.data, train=(data,), valid=(valid,)))


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    monkeypatch.setattr(train_model, "_draw_curve", lambda folder: None)


def told(folder) -> tuple[list[dict], list[dict]]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [r for r in records if "loss" in r], [r for r in records if "valid_loss" in r]


@pytest.mark.parametrize("name", ANSWERERS)
@pytest.mark.parametrize("without", [False, True])
def test_an_answerer_is_trained_into_a_folder_and_answers(name, without, tmp_path):
    blind = ("model.attention=none", "model.image.layers=0") if without else ()
    result = train(tiny(name, *blind), tmp_path / "m")
    assert (result.end, result.steps) == ("steps", 4)
    losses, validations = told(tmp_path / "m")
    assert losses[-1]["loss"] < losses[0]["loss"]
    assert "questions_per_second" in losses[0]
    assert 0 <= losses[0]["right"] <= 1
    assert {"accuracy", "accuracy_count", "accuracy_count_held_out", "accuracy_familiar"} < validations[0].keys()
    assert result.best_score == max(one["accuracy"] for one in validations)
    predictor = AnswerPredictor.load(tmp_path / "m")
    pictures = open_pictures(("scenes:test:3",), pixels=32)
    images, asked = (
        pictures.images(range(3)),
        [["is there a star?"], [], ["how many rings are there", "is there a star"]],
    )
    found = predictor.answer(images, asked, look=True)
    assert [[one.question for one in some] for some in found] == asked
    assert list(found[0][0].best) == sorted(found[0][0].best, key=lambda pair: -pair[1])
    alone = predictor.answer(images[2:], asked[2:])[0]
    for one, other in zip(alone, found[2], strict=True):
        assert one.text == other.text
        assert one.said.probability == pytest.approx(other.said.probability, abs=1e-5)
    trace = found[2][0].trace()
    assert trace.target[-1] == found[2][0].text
    assert trace.weights.shape[2:] == ((1 if "anderson" in name else 7), 64)
    assert without == (trace.weights.shape[0] == 0)


def test_a_detector_is_trained_into_a_folder_and_finds(tmp_path):
    train(tiny("carion2020-small"), tmp_path / "m")
    losses, validations = told(tmp_path / "m")
    assert losses[-1]["loss"] < losses[0]["loss"]
    assert {"class_loss", "l1_loss", "giou_loss", "dice_loss", "focal_loss", "objects_per_second"} < losses[0].keys()
    assert {"ap", "iou", "ap_held_out", "iou_familiar"} < validations[0].keys()
    predictor = DetectionPredictor.load(tmp_path / "m")
    images = open_pictures(("scenes:test:2",), pixels=32).images(range(2))
    found = predictor.detect(images, least=0.0)
    assert [len(things) for things in found] == [8, 8]
    (alone,) = predictor.detect(images[1:], least=0.0)
    assert [one.query for one in alone] == [one.query for one in found[1]]
    looked = predictor.look(images[1], found[1])
    assert looked.trace.weights.shape == (2, 4, 8, 64)
    np.testing.assert_allclose(looked.trace.weights.sum(axis=-1), 1, rtol=1e-4)


@BOTH
def test_an_interrupted_run_ends_as_one_that_was_not(name, tmp_path):
    config = tiny(name, "training.average=ema")
    train(config, tmp_path / "whole")
    for at in (1, 3):
        with pytest.raises(Killed):
            train(config, tmp_path / "parts", reporter=Listener(at, killed), resume=at > 1)
    train(read_toml(tmp_path / "parts" / "config.toml"), tmp_path / "parts", resume=True)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


@BOTH
def test_a_run_starts_from_another_and_keeps_what_it_knows_by_number(name, tmp_path):
    train(tiny(name, "training.steps=1"), tmp_path / "old")
    train(tiny(name, "training.steps=2", data="scenes:8"), tmp_path / "new", start_from=tmp_path / "old")
    kept = "questions.json" if name == "asker-small" else "labels.json"
    assert (tmp_path / "new" / kept).read_bytes() == (tmp_path / "old" / kept).read_bytes()


def test_an_epoch_has_every_picture_once_and_batches_of_one_shape(tmp_path):
    config = tiny("asker-small", "training.asked=3", "training.batch_tokens=64", data="scenes:9")
    words, data = open_data(config, tmp_path, open_picture_sources(config, resumed=False), Silent().message)
    kept = QuestionVocabulary.load(tmp_path)
    assert (kept.words.words, kept.answers, kept.kinds) == (words.words.words, words.answers, words.kinds)
    batches = [data.batch(rows) for rows in data.order(1)]
    longest = batches[0].tokens.shape[1]
    assert sorted(batch.shape for batch in batches) == [
        (1, 32, 32, 3, 3, longest),
        *[(4, 32, 32, 3, 12, longest)] * 2,
    ]
    assert sum(len(batch.source) for batch in batches) == 9
    pictures, names = open_pictures(("scenes:9",), pixels=32), words.words.words
    for batch in batches:
        for place, (tokens, answer) in enumerate(zip(batch.tokens.tolist(), batch.answers.tolist(), strict=True)):
            said = " ".join(names[token] for token in tokens[1:] if token)
            source = batch.source[place // 3].numpy()
            index = next(i for i in range(9) if np.array_equal(pictures.image(i), source))
            assert (said, words.answers[answer]) in {(one.question, one.answer) for one in pictures.questions(index)}
    orders = [[rows.tolist() for rows in data.order(epoch)] for epoch in (1, 2, 1)]
    assert orders[0] == orders[2] != orders[1]


def test_each_name_is_told_where_to_look(tmp_path):
    guided = ("training.guided=1", "training.guided_layer=0", "training.guided_head=1")
    train(tiny("asker-small", *guided, "training.steps=8"), tmp_path / "m")
    losses, _ = told(tmp_path / "m")
    assert losses[-1]["guided_loss"] < losses[0]["guided_loss"]
    config = tiny("asker-small", *guided)
    words, data = open_data(config, tmp_path, open_picture_sources(config, resumed=False), Silent().message)
    batch, pictures = data.batch(data.order(1)[0]), open_pictures(("scenes:12",), pixels=32)
    for number, (tokens, places) in enumerate(zip(batch.tokens.tolist(), batch.places.numpy(), strict=True)):
        source = batch.source[number // 8].numpy()
        index = next(i for i in range(12) if np.array_equal(pictures.image(i), source))
        said = " ".join(words.words.words[token] for token in tokens[1:] if token)
        asked = next(one for one in pictures.questions(index) if one.question == said)
        masks = pictures.objects(index).masks.reshape(-1, 8, 4, 8, 4).any(axis=(2, 4)).reshape(-1, 64)
        wanted = [masks[list(some)].any(axis=0) for some in ((), *asked.named)]
        assert np.array_equal(places[: len(wanted)], wanted)
        assert not places[len(wanted) :].any()
    with pytest.raises(ConfigError, match=r"training.guided_layer is 3; for this model"):
        train(tiny("asker-small", "training.guided=1", "training.guided_layer=3"), tmp_path / "no")
    with pytest.raises(ConfigError, match=r"training.guided is 1.0, but model.attention is none"):
        train(tiny("asker-small", "training.guided=1", "model.attention=none"), tmp_path / "no")


def test_objects_on_disk_are_those_of_the_scenes():
    pictures = open_pictures(("scenes:7",), pixels=33)
    objects = objects_of(pictures)
    for index in range(7):
        things = pictures.objects(index)
        count = int(objects.counts[index])
        assert count == len(things.classes)
        assert (objects.boxes[index, :count] == things.boxes).all()
        masks = np.unpackbits(objects.masks[index], axis=-1, count=33).astype(bool)
        assert (masks[:count] == things.masks).all()
        assert not masks[count:].any()


def test_what_does_not_fit_is_refused_before_anything_is_made(tmp_path):
    def refused(config, kind=ConfigError):
        with pytest.raises(kind) as caught:
            train(config, tmp_path / "no")
        assert not (tmp_path / "no").exists()
        return str(caught.value)

    assert refused(tiny("asker-small", "training.metric=ap")) == (
        "training.metric=ap is not what this model's task is scored by: take accuracy or loss."
    )
    assert refused(tiny("carion2020-small", "training.flip=true")) == (
        "training.flip is true, which the loss of model.task=detect does not read: set training.flip=false, the "
        "default."
    )
    assert refused(tiny("asker-small", "training.asked=0")) == "training.asked is 0; it must be at least 1."
    assert refused(tiny("asker-small", "model.task=ask")).startswith("model.task must be one of write, classify")
    assert refused(tiny("carion2020-small", "model.detection.queries=2"), ModelError).startswith("There are 5 objects")
    features = tmp_path / "few.npz"
    np.savez(features, regions=np.zeros((2, 4, 3), np.float32), names=["a.jpg", "b.jpg"])
    (tmp_path / "few.captions.tsv").write_text("a.jpg\ta dog\nb.jpg\ta cat\n")
    assert "has no questions for its pictures" in refused(
        tiny("asker-small", data=str(features), valid=str(features)), DataError
    )
    found = refused(tiny("carion2020-small", data=str(features), valid=str(features)), DataError)
    assert "has no objects for its pictures" in found


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*ANSWERERS, *DETECTORS])
def test_steps_are_recorded_on_a_gpu(name, tmp_path):
    said = []

    class Hearing(Silent):
        def message(self, text: str) -> None:
            said.append(text)

    train(tiny(name, "training.device=cuda", "training.steps=8", data="scenes:24"), tmp_path / "m", reporter=Hearing())
    assert not [text for text in said if "cannot be recorded" in text]
    assert torch.isfinite(torch.tensor(told(tmp_path / "m")[0][-1]["loss"]))
