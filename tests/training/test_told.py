"""Several captions of a picture in a batch, which is read once; and looks held to what their words speak of."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from regard.config import Config, TokenizerConfig
from regard.config_io import override
from regard.data.batching import twice
from regard.data.picture_cache import Captions
from regard.data.pictures import ScenePictures
from regard.data.tokenizers import train_tokenizers
from regard.presets.vision import any_preset
from regard.tasks.captioning.training import _cached
from regard.training.objective import SequenceObjective
from regard.training.plain_loss import encode_batch
from regard.vision.build import build_captioner

PICTURES, MOST = 23, 300
SMALL = (
    *("model.image.width=16", "model.image.units=1", "model.image.size=32", "model.embedding=8", "model.dropout=0"),
    *("model.decoder.width=8", "model.decoder.readout_width=8", "model.decoder.feed_forward=8"),
)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder, scenes = tmp_path_factory.mktemp("said"), ScenePictures("train", PICTURES, pixels=32)
    captions = Captions(scenes)
    tokenizers = train_tokenizers(TokenizerConfig("words", vocabulary=99), captions, seed=1)
    return _cached(Config(), folder, "train", captions, scenes, tokenizers, (8, 8))


@cache
def objective(name, size):
    torch.manual_seed(1)
    config = override(any_preset(name), SMALL)
    training = replace(config.training, doubly_stochastic=0.5, guided=0.7)
    return SequenceObjective(build_captioner(config.model, size).eval(), training)


@pytest.mark.parametrize("each", [2, 5])
def test_an_epoch_has_every_picture_once_and_so_many_captions_of_each(said, each):
    owners, lengths = np.asarray(said.pictures.numbers), np.asarray(said.tokens.target_lengths)
    epochs = [said.drawn(each, MOST, 1, False, epoch) for epoch in (1, 1, 2)]
    assert [rows.tolist() for rows in epochs[0]] == [rows.tolist() for rows in epochs[1]]
    assert sorted(np.concatenate(epochs[0])) != sorted(np.concatenate(epochs[2]))
    seen = []
    for rows in epochs[0]:
        assert len(rows) * max(16, lengths[rows].max()) <= MOST or len(rows) == each
        for some in rows.reshape(-1, each):
            (picture,) = set(owners[some])
            there = int((owners == picture).sum())
            assert len(set(some)) == min(each, there)  # twice only where there are fewer
            seen.append(int(picture))
    assert sorted(seen) == list(range(PICTURES))


@pytest.mark.parametrize("name", ["xu2015-soft-small", "captioner-small"])
def test_to_read_a_picture_once_changes_no_gradient(said, name):
    each, made = 3, []
    task = objective(name, 99)
    rows = said.drawn(each, MOST, 1, True, 1)[0]
    shared, alone = said.batch(rows, each), said.batch(rows)
    assert len(shared.source) * each == len(alone.source) == len(shared.tokens_in)
    filled = shared.regular(2 * MOST, 99)
    assert len(filled.source) * each == len(filled.tokens_in) > len(shared.tokens_in)
    for batch in (alone, shared, filled):
        task._model.zero_grad()
        found = task(batch)
        found.total.backward()
        gradients = [weight.grad.clone() for weight in task._model.parameters() if weight.grad is not None]
        made.append([found.total.detach(), found.loss, *found.beside.values(), *gradients])
    for other in made[1:]:
        torch.testing.assert_close(other, made[0], rtol=2e-4, atol=2e-4)


# -- guided ------------------------------------------------------------------------------------------------------------


def cells_spoken_of(pixels, words):
    """Find the scene and the caption, and lay what each word speaks of on 8 by 8 cells, a pixel at a time."""
    scenes = ScenePictures("train", PICTURES, pixels=32)
    scene = next(scenes.scene(i) for i in range(PICTURES) if np.array_equal(scenes.image(i), pixels))
    caption = next(one for one in scene.captions if one.text == words)
    places = np.zeros((len(caption.words), 8, 8), bool)
    for place, things in zip(places, caption.things, strict=True):
        for thing in things:
            for row, column in np.argwhere(scene.painting.masks[thing]):
                place[row // 4, column // 4] = True
    return places.reshape(-1, 64)


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("each", [1, 3])
def test_each_token_is_held_to_the_cells_that_its_word_speaks_of(kind, each, tmp_path):
    captions, scenes = (
        Captions(ScenePictures("train", PICTURES, pixels=32)),
        ScenePictures("train", PICTURES, pixels=32),
    )
    tokenizers = train_tokenizers(TokenizerConfig(kind, vocabulary=99), captions, seed=1)
    config = override(Config(), ["data.max_length=30" if kind == "words" else "data.max_length=90"])
    described = _cached(config, tmp_path, "train", captions, scenes, tokenizers, (8, 8))
    assert described.tokens.left_out > (0 if kind == "characters" else -1)
    rows = described.drawn(each, MOST, 1, False, 1)[0] if each > 1 else np.arange(3, 10)
    batch = described.batch(rows, each)
    for one in (batch, batch.regular(2 * MOST, 99), twice(batch)):
        places = one.places.numpy()
        for row, (tokens, real) in enumerate(zip(one.tokens_out, one.target_mask, strict=True)):
            ids = tokens[real].tolist()[:-1]
            if ids:
                wanted = cells_spoken_of(one.source[row // each].numpy(), tokenizers.target.decode(ids))
                wanted = wanted[tokenizers.target.words(ids)]
                assert wanted.any()
                assert np.array_equal(places[row, : len(ids)], wanted)
            assert not places[row, len(ids) :].any()


@pytest.mark.parametrize("name", ["xu2015-soft-small", "xu2015-hard-small", "captioner-small"])
@pytest.mark.parametrize("later", [False, True])
def test_guided_pulls_looks_to_the_gold_cells(said, name, later):
    """What is told is the mean share of the gold in the looks, and a few steps make it more."""
    torch.manual_seed(1)
    config = override(any_preset(name), [*SMALL, "model.attention.soft_chance=0"])
    model = build_captioner(config.model, 99).train()
    task = SequenceObjective(model, replace(config.training, guided=1.0, guided_shift=later, doubly_stochastic=0.0))
    batch = said.batch(said.drawn(3, MOST, 1, True, 1)[0], 3)
    optimizer, told = torch.optim.Adam(model.parameters(), 0.01), []
    for _ in range(8):
        optimizer.zero_grad()
        made = task(batch)
        made.total.backward()
        optimizer.step()
        told.append(float(made.beside["guided_loss"]) / float(batch.named.any(dim=2).sum()))
    assert told[-1] < 0.9 * told[0]
    if "hard" not in name:
        model.eval()
        weights = (
            model.decoder.teach(batch.tokens_in, encode_batch(model, batch)).weights[:, :, -1].mean(dim=2).detach()
        )
        expected = 0.0
        for b, t in np.argwhere(batch.named.any(dim=2).numpy()):
            look = t + later
            if look < weights.shape[1]:
                expected -= float(weights[b, look][batch.places[b, t]].sum().log())
        assert float(task(batch).beside["guided_loss"]) == pytest.approx(expected, rel=1e-4)
