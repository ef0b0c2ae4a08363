"""Pictures train as texts do: the same trainer, folders and laws, whether captions or classes are learned."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_run import Killed, Listener, contents, killed, train

from regard.config import Config
from regard.config_io import override, read_toml
from regard.data.picture_cache import PictureCache
from regard.data.pictures import open_pictures
from regard.errors import ConfigError, DataError, ModelError
from regard.presets.vision import any_preset
from regard.task import build, open_model, task_of
from regard.task_table import entry_of
from regard.tasks.captioning.predictor import CaptionPredictor
from regard.tasks.image_classification.training import moved
from regard.training import train_model
from regard.training.finetune import configuration_of, read_start
from regard.training.weight_averaging import set_weights

SMALL = (
    *("model.image.width=16", "model.image.units=1", "model.image.stages=3", "model.embedding=8", "model.dropout=0.1"),
    *("model.decoder.width=8", "model.decoder.readout_width=8", "model.decoder.feed_forward=8", "training.device=cpu"),
    *("training.batch_tokens=160", "training.steps=4", "training.validate_every=2", "training.log_every=1"),
    *("training.warmup=0", "training.learning_rate=0.01", "training.save_every=1"),
)


def captioner(name: str, data=("scenes:12",), valid=("scenes:5",), *changes: str) -> Config:
    config = override(any_preset(name), [*SMALL, *changes])
    return replace(config, data=replace(config.data, train=tuple(map(str, data)), valid=tuple(map(str, valid))))


@pytest.fixture
def features(tmp_path):
    """Features of 3 by 3 regions of five pictures, two captions each."""
    random = np.random.default_rng(3)
    path = tmp_path / "few.npz"
    np.savez(path, regions=random.normal(size=(5, 9, 6)).astype(np.float32), names=[f"{i}.jpg" for i in range(5)])
    lines = [
        f"{i}.jpg#{j}\t{'a dog runs on' if i % 2 else 'two men sit'} number {i}\n" for i in range(5) for j in (0, 1)
    ]
    (tmp_path / "few.captions.tsv").write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def clothes(tmp_path):
    """A folder of IDX files: 24 pictures to train on and to validate by, 6 to test on."""
    random = np.random.default_rng(5)
    folder = tmp_path / "clothes"
    folder.mkdir()
    for part, count in (("train", 24), ("t10k", 6)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        pixels = random.integers(0, 256, (count, 28, 28), np.uint8)
        head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (count, 28, 28))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        content = b"\0\0\x08\x01" + count.to_bytes(4, "big") + labels.tobytes()
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(content))
    return folder


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    monkeypatch.setattr(train_model, "_draw_curve", lambda folder: None)


@pytest.mark.parametrize("name", ["xu2015-soft-small", "xu2015-hard-small", "captioner-small"])
def test_a_captioner_is_trained_into_a_folder_and_describes(name, tmp_path):
    result = train(captioner(name, ("scenes:12",), ("scenes:5",), "model.image.size=32"), tmp_path / "m")
    assert (result.end, result.steps) == ("steps", 4)
    records = [json.loads(line) for line in (tmp_path / "m" / "metrics.jsonl").read_text().splitlines()]
    losses, validations = [r for r in records if "loss" in r], [r for r in records if "valid_loss" in r]
    assert [r["step"] for r in validations] == [2, 4]
    assert losses[-1]["loss"] < losses[0]["loss"]
    assert ("doubly_stochastic" in losses[0]) == (name == "xu2015-soft-small")
    assert ("attention_entropy" in losses[0]) == (name == "xu2015-hard-small")
    predictor = CaptionPredictor.load(tmp_path / "m")
    pixels = PictureCache.open(tmp_path / "m" / "cache" / "pictures-train").pictures[:3]
    found = predictor.caption(pixels, beam=2, n_best=2)
    assert [len(one.best.n_best) for one in found] == [1, 1, 1]
    assert found[0].grid == (8, 8)
    assert found[0].look(0).shape == (8, 8)
    np.testing.assert_allclose(found[0].look(0).sum(), 1, rtol=1e-5)
    alone = predictor.caption(pixels[1:2], beam=2)
    assert alone[0].text == found[1].text
    drawn = replace(predictor.options, method="sample", temperature=2.0)
    first, second = predictor.caption(pixels[[1, 1]], options=drawn)
    assert first.text == second.text == predictor.caption(pixels[:2], options=drawn)[1].text


def test_regions_are_learned_from_with_the_settings_that_fit_them(features, tmp_path):
    train(captioner("xu2015-soft", (features,), (features,)), tmp_path / "m")
    image = read_toml(tmp_path / "m" / "config.toml").model.image
    assert (image.kind, image.channels, image.size) == ("regions", 6, 3)
    regions = PictureCache.open(tmp_path / "m" / "cache" / "pictures-train").pictures
    assert CaptionPredictor.load(tmp_path / "m").caption(regions)[0].grid == (3, 3)


def test_pixels_are_read_by_a_network_where_features_were_meant(tmp_path):
    train(captioner("xu2015-soft", ("scenes:4",), ("scenes:2",), "training.steps=1"), tmp_path / "m")
    image = read_toml(tmp_path / "m" / "config.toml").model.image
    assert (image.kind, image.channels, image.size, image.width) == ("resnet", 3, 64, 16)


@pytest.mark.parametrize("task", ["captions", "classes"])
@pytest.mark.parametrize("average", ["none", "ema"])
def test_an_interrupted_run_ends_as_one_that_was_not(task, average, clothes, tmp_path):
    chosen = f"training.average={average}"
    guided = ("training.guided=0.5", "training.told=2", "model.image.size=32")
    config = captioner("xu2015-hard-small", ("scenes:12",), ("scenes:5",), chosen, *guided)
    if task == "classes":
        running = ("model.image.normalise=batch", "training.optimizer=sgd", "training.momentum=0.9")
        config = captioner("resnet-small", (clothes,), (), chosen, *running)
    train(config, tmp_path / "whole")
    for at in (1, 3):
        with pytest.raises(Killed):
            train(config, tmp_path / "parts", reporter=Listener(at, killed), resume=at > 1)
    train(read_toml(tmp_path / "parts" / "config.toml"), tmp_path / "parts", resume=True)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    "name", ["resnet", "hu2017-se", "wang2017-residual", "wang2018-nonlocal", "dosovitskiy2020-vit"]
)
def test_a_classifier_is_trained_into_a_folder(name, clothes, tmp_path):
    config = captioner(f"{name}-small", (clothes,), (), "training.steps=2", "model.image.layers=0")
    config = override(config, ["model.image.reduction=2"])
    if "vit" in name:
        config = override(config, ["model.image.layers=1", "model.image.feed_forward=8"])
    train(config, tmp_path / "m")
    records = [json.loads(line) for line in (tmp_path / "m" / "metrics.jsonl").read_text().splitlines()]
    assert records[-1]["accuracy"] in (0.0, 50.0, 100.0)  # two pictures
    assert "pictures_per_second" in records[0]
    image = read_toml(tmp_path / "m" / "config.toml").model.image
    assert (image.channels, image.size) == (1, 28)
    with pytest.raises(ModelError, match="holds a classifier, which tells classes: use regard classify"):
        CaptionPredictor.load(tmp_path / "m")


def test_pictures_are_flipped_and_shifted_and_nothing_else():
    pixels = torch.arange(1, 1 + 40 * 3 * 5 * 2, dtype=torch.int64).remainder(250).add(1).to(torch.uint8)
    pixels = pixels.view(40, 3, 5, 2)
    torch.manual_seed(1)
    assert moved(pixels, False, 0) is pixels
    flipped = moved(pixels, True, 0)
    turned = (flipped == pixels.flip(2)).flatten(1).all(1)
    assert torch.equal(flipped[~turned], pixels[~turned])
    assert 0 < turned.sum() < 40
    padded = torch.nn.functional.pad(pixels, (0, 0, 1, 1, 1, 1))
    places = [(down, across) for down in range(3) for across in range(3)]
    found = []
    for one, whole in zip(moved(pixels, False, 1), padded, strict=True):
        found += [
            place for place in places if torch.equal(one, whole[place[0] : place[0] + 3, place[1] : place[1] + 5])
        ]
    assert len(found) == 40
    assert {*found} == {*places}


def test_what_does_not_fit_is_refused_before_anything_is_made(clothes, features, tmp_path):
    def refused(config, kind=ConfigError):
        with pytest.raises(kind) as caught:
            train(config, tmp_path / "no")
        assert not (tmp_path / "no").exists()
        return str(caught.value)

    texts = any_preset("bahdanau2014-small")
    assert refused(replace(texts, data=replace(texts.data, train=("scenes",)))) == (
        "data.train=scenes has pictures, and this model (preset bahdanau2014-small) reads texts: take one that reads "
        "pictures (regard list visions), such as --preset captioner-small."
    )
    assert refused(captioner("resnet-small", ("phrasebook",), ())) == (
        "data.train=phrasebook has texts, and this model (preset resnet-small) reads pictures: give scenes, "
        "fashion-mnist, a folder of images or an .npz file of region features, or take a model of texts (regard list "
        "presets)."
    )
    assert "No pictures 'scnes'" in refused(captioner("captioner-small", ("scnes",), ()), DataError)
    assert "has no classes for its pictures" in refused(captioner("resnet-small"), DataError)
    assert "has no captions for its pictures" in refused(captioner("captioner-small", (clothes,), ()), DataError)
    assert refused(captioner("resnet-small", (clothes,), (), "training.metric=bleu")) == (
        "training.metric=bleu is not what this model's task is scored by: take accuracy or loss."
    )
    assert refused(captioner("captioner-small", ("scenes",), (), "training.flip=true")) == (
        "training.flip is true, which the loss of model.task=write does not read: set training.flip=false, the default."
    )
    assert refused(captioner("resnet-small", (clothes,), (), "training.doubly_stochastic=1")) == (
        "training.doubly_stochastic is 1.0, which the loss of model.task=classify does not read: set "
        "training.doubly_stochastic=0.0, the default."
    )
    assert refused(captioner("xu2015-soft-small", (features,), (features,), "training.guided=1")) == (
        "training.guided needs to know where lies what the words of captions speak of, on a square grid of cells, and "
        f"{features} does not tell: set training.guided=0, or learn from scenes."
    )
    assert refused(
        captioner("xu2015-soft-small", ("scenes:4",), (), "training.guided=1", "training.guided_layer=1")
    ) == ("training.guided_layer is 1; for this model it must be at least -1 and at most 0.")
    assert refused(captioner("resnet-small", (clothes,), (), "training.shift=28")) == (
        "training.shift is 28, but pictures have 28 × 28 pixels."
    )


def test_a_run_starts_from_another_and_keeps_its_vocabulary(clothes, tmp_path):
    for name, data, valid in (("captioner-small", ("scenes:12",), ("scenes:5",)), ("resnet-small", (clothes,), ())):
        train(captioner(name, data, valid, "training.steps=1"), tmp_path / name)
        tuned = tmp_path / f"{name}-tuned"
        train(captioner(name, data, valid, "training.steps=2"), tuned, start_from=tmp_path / name)
        assert (tuned / "model.safetensors").is_file()


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize("name", ["captioner-small", "dosovitskiy2020-vit-small"])
def test_a_run_starts_from_a_model_of_another_image_size(name, positions, clothes, tmp_path):
    """Before it learns anything, it sees in larger images what the old model would."""
    data, valid = (("scenes:6",), ("scenes:2",)) if name == "captioner-small" else ((clothes,), ())
    made = (f"model.image.positions={positions}", "training.steps=1", "model.image.layers=1", "model.dropout=0.0")
    train(captioner(name, data, valid, *made), tmp_path / "old")
    larger = override(configuration_of(tmp_path / "old"), ["model.image.size=48"])
    larger = replace(larger, data=captioner(name, data, valid).data)
    start = read_start(larger)
    old, vocabulary, _ = open_model(tmp_path / "old", "cpu", entry_of(larger.model))
    model = build(larger.model, *task_of(larger.model).sizes(vocabulary)).eval()
    set_weights(model, start.weights)
    image = torch.randn(2, larger.model.image.channels, 48, 48, generator=torch.Generator().manual_seed(1))
    assert model.encoder.stem.grid == (12, 12) != old.encoder.stem.grid
    torch.testing.assert_close(model.encoder(image).states, old.encoder(image).states)
    train(larger, tmp_path / "new")
    assert read_toml(tmp_path / "new" / "config.toml").model.image.size == 48
    assert PictureCache.open(tmp_path / "new" / "cache" / "pictures-train").pictures.shape[1:3] == (48, 48)


def test_a_size_of_images_is_honoured_or_refused(clothes, features, tmp_path):
    def trained(name, *changes):
        train(captioner("dosovitskiy2020-vit-small", (clothes,), (), "training.steps=1", *changes), tmp_path / name)
        image = read_toml(tmp_path / name / "config.toml").model.image
        return image.size, PictureCache.open(tmp_path / name / "cache" / "pictures-valid").pictures.shape[1:]

    assert trained("as they are", "model.image.patch=7") == (28, (28, 28, 1))
    assert trained("larger", "model.image.size=40") == (40, (40, 40, 1))
    sizes = (open_pictures([str(clothes)], "valid", pixels=pixels) for pixels in (0, 28, 40))
    assert len({pictures.identity() for pictures in sizes}) == 2  # what is kept of another size is not taken again
    with pytest.raises(ConfigError, match=r"model\.image\.patch is 4, which does not divide model\.image\.size, 30"):
        trained("no", "model.image.size=30")
    with pytest.raises(ConfigError) as error:
        train(captioner("xu2015-soft", (features,), (features,), "model.image.size=4"), tmp_path / "no")
    assert str(error.value) == (
        f"model.image.size is 4, but the pictures of {features} have 9 regions each: set it to 3, or leave it out."
    )
    seen = captioner("xu2015-soft", ("scenes:4",), ("scenes:2",), "training.steps=1", "model.image.size=40")
    train(seen, tmp_path / "pixels")
    assert read_toml(tmp_path / "pixels" / "config.toml").model.image.size == 40


@pytest.mark.parametrize("name", ["xu2015-soft-small", "captioner-small"])
def test_a_batch_that_is_filled_up_has_the_same_loss_and_gradient(name, tmp_path):
    from regard.tasks.captioning.training import open_data
    from regard.tasks.picture_sources import open_picture_sources
    from regard.training.objective import SequenceObjective
    from regard.training.progress import Silent

    config = captioner(name, ("scenes:8",), ("scenes:2",), "model.dropout=0.0", "training.doubly_stochastic=0.5")
    sources = open_picture_sources(config, resumed=False)
    tokenizers, data = open_data(config, tmp_path, sources, Silent().message, few_shapes=True)
    torch.manual_seed(1)
    model = build(config.model, 0, tokenizers.target.size)
    objective = SequenceObjective(model, config.training)
    batch = data.batch(np.arange(7))
    for row, pixels in enumerate(batch.source.numpy()):  # what is said stands beside what it is said of
        said = tokenizers.target.decode(batch.tokens_out[row][batch.target_mask[row]].tolist())
        owner = next(i for i in range(8) if np.array_equal(sources.train.image(i), pixels))
        assert said in sources.train.captions(owner)
    filled = batch.regular(batch_tokens=400, longest=99)
    assert filled.source.shape[0] > 7
    assert filled.source.shape[1:] == (32, 32, 3)
    assert filled.count == batch.count
    found = []
    for one in (batch, filled):
        model.zero_grad()
        made = objective(one)
        made.total.backward()
        found.append([made.total.detach(), made.loss, *made.beside.values(), *(p.grad for p in model.parameters())])
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(other, plain, rtol=1e-3, atol=1e-3)
