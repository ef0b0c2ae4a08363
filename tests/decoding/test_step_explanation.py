"""The numbers of a step are those that the step was made of."""

import json

import numpy as np
import pytest
import torch

from regard.attention.focus.softmax import Softmax
from regard.data.batching import pad_sources
from regard.data.special_tokens import EOS
from regard.decoding.edits import DropSource
from regard.errors import ConfigError

from .test_editing import SYSTEMS, TEXT, every_system, ids, make, unedited


@every_system
def test_scores_become_the_weights_of_the_trace(name):
    translator = make(SYSTEMS[name])
    before = unedited(translator)
    modules = translator.model.decoder.source_attentions
    for step in (0, 2):
        told = translator.explain_step(before, step)
        assert (told.token, told.source) == (before.tokens[step], before.attention.source)
        assert told.log_prob == pytest.approx(before.attention.log_probs[step], rel=1e-4, abs=1e-5)
        for layer, (found, module) in enumerate(zip(told.layers, modules, strict=True)):
            np.testing.assert_allclose(found.weights, before.attention.weights[layer, :, step], atol=1e-5)
            assert (found.weights[~found.allowed] == 0).all()
            if isinstance(module.focus, Softmax) and "local-p" not in name:
                masked = torch.from_numpy(np.where(found.allowed, found.scores, -np.inf))
                np.testing.assert_allclose(masked.softmax(dim=-1), found.weights, atol=1e-5)
        json.dumps(told.to_json(), allow_nan=False)


@every_system
@torch.no_grad()
def test_contributions_are_the_parts_of_the_context(name):
    """By the module's own way from one position to a context, with all other heads silenced."""
    translator = make(SYSTEMS[name])
    before = unedited(translator)
    told = translator.explain_step(before, 1)
    encoded = translator.model.encode(*pad_sources([[*ids(TEXT.split()), EOS]]))
    state = translator.model.decoder.start(encoded)
    while hasattr(state, "own"):  # of a pointer
        state = state.own
    memories = [layer.source for layer in state.layers] if hasattr(state, "layers") else [state.memory]
    rows, places = torch.zeros(6, dtype=torch.long), torch.arange(6)
    for found, module, memory in zip(told.layers, translator.model.decoder.source_attentions, memories, strict=True):
        for head in range(module.head_count):
            module.pruned = tuple(other for other in range(module.head_count) if other != head)
            context = module.alone(memory, rows, places)
            if module.heads is not None:
                context = context - module.heads.W_o.bias
            expected = context.norm(dim=-1).numpy() * found.weights[head]
            np.testing.assert_allclose(found.contributions[head], expected, rtol=1e-4, atol=1e-6)


def test_candidates_are_those_of_the_search():
    translator = make(SYSTEMS["transformer2017-small"])
    (before,) = translator.translate([TEXT], beam=1, candidates=4)
    for step, expected in enumerate(before.attention.candidates):
        found = translator.explain_step(before, step, candidates=4).candidates
        assert [token for token, _ in found] == [token for token, _ in expected]
        assert [p for _, p in found] == pytest.approx([p for _, p in expected], rel=1e-4)
    assert translator.explain_step(before, 0, candidates=0).candidates == ()


def test_an_edited_step_is_explained_as_edited():
    translator = make(SYSTEMS["transformer2017-small"])
    edited = translator.edit(unedited(translator), [DropSource(2)])
    edited = translator.edit(edited, step=1, layer=1, weights={4: 0.75})
    told = translator.explain_step(edited, 1)
    assert told.layers[1].weights[:, 4] == pytest.approx(0.75)
    assert not told.layers[0].allowed[:, 2].any()
    assert told.to_json()["layers"][0]["masked"][0][2] is None
    assert told.to_json()["layers"][0]["scores"][0][2] is not None
    assert told.log_prob == pytest.approx(edited.attention.log_probs[1], rel=1e-4)


def test_a_step_that_is_not_there_is_refused():
    translator = make(SYSTEMS["bahdanau2014-small"])
    before = unedited(translator)
    with pytest.raises(ConfigError) as caught:
        translator.explain_step(before, len(before.tokens))
    assert str(caught.value) == f"There is no step 7: the translation has {len(before.tokens)} tokens, counted from 0."
