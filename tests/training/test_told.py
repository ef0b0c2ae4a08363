"""Several captions of a picture in a batch: it is read once, and nothing else changes."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from regard.config import TokenizerConfig
from regard.data.cache import TokenCache
from regard.data.picture_cache import Captions, PictureCache
from regard.data.pictures import ScenePictures
from regard.data.tokenizers import train_tokenizers
from regard.presets.vision import any_preset
from regard.settings import override
from regard.training.captions import Described
from regard.training.objective import Objective
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
    tokens = TokenCache.build(folder / "tokens", captions, tokenizers, 99)
    owners = captions.owners(tokenizers, 99, 0)
    return Described(tokens, PictureCache.build(folder / "pictures", scenes, owners))


@cache
def objective(name, size):
    torch.manual_seed(1)
    config = override(any_preset(name), SMALL)
    training = replace(config.training, doubly_stochastic=0.5)
    return Objective(build_captioner(config.model, size).eval(), training)


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
    filled = shared.regular(2 * MOST)
    assert len(filled.source) * each == len(filled.tokens_in) > len(shared.tokens_in)
    for batch in (alone, shared, filled):
        task._model.zero_grad()
        found = task(batch)
        found.total.backward()
        gradients = [weight.grad.clone() for weight in task._model.parameters() if weight.grad is not None]
        made.append([found.total.detach(), found.loss, *found.beside.values(), *gradients])
    for other in made[1:]:
        torch.testing.assert_close(other, made[0], rtol=2e-4, atol=2e-4)
