"""Self-attention as traces: what the modules computed, in the order of the texts."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS, EOS
from regard.decoding.edits import SetWeights
from regard.decoding.ensemble import Ensemble
from regard.models.attention_hooks import watched

from .test_editing import SYSTEMS, TEXT, ids, make, unedited


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name.startswith("transformer")])
def test_it_is_what_the_modules_computed(name):
    translator = make(SYSTEMS[name])
    before = unedited(translator)
    found = translator.self_attention(before)
    assert found.encoder.source == found.encoder.target == before.attention.source
    assert found.decoder.source == ("<s>", *before.tokens[:-1])
    assert found.decoder.target == before.tokens
    with watched(translator.model) as looks, torch.no_grad():
        encoded = translator.model.encode(*pad_sources([[*ids(TEXT.split()), EOS]]))
        translator.model.decoder.teach(torch.tensor([[BOS, *ids(before.tokens[:-1])]]), encoded)
    for side, trace in (("encoder", found.encoder), ("decoder", found.decoder)):
        own = [look for module, look in looks.items() if module.startswith(side) and "self_attention" in module]
        assert len(own) == len(trace.weights)
        for layer, look in zip(trace.weights, own, strict=True):
            expected = torch.cat(look, dim=1)[0].transpose(0, 1)
            np.testing.assert_allclose(layer, expected, atol=1e-5)
    assert (np.triu(found.decoder.weights, k=1) == 0).all()
    written = before.attention.target_words
    assert found.decoder.words().shape == (1 + max(written), 1 + max(written[:-1]))
    json.dumps(found.to_json(), allow_nan=False)


def test_a_source_that_is_read_backwards_is_shown_forwards():
    system = replace(SYSTEMS["transformer2017-small"], reverse_source=True)
    backwards, forwards = make(system), make(SYSTEMS["transformer2017-small"])
    turned = " ".join(reversed(TEXT.split()))
    one = backwards.self_attention(unedited(backwards)).encoder.weights
    other = forwards.self_attention(unedited(forwards, turned)).encoder.weights
    order = [4, 3, 2, 1, 0, 5]
    np.testing.assert_allclose(one, other[:, :, order][..., order], atol=1e-6)


def test_sides_without_self_attention_have_none():
    recurrent = make(SYSTEMS["bahdanau2014-small"])
    found = recurrent.self_attention(unedited(recurrent))
    assert (found.encoder, found.decoder) == (None, None)
    hybrid = make(SYSTEMS["chen2018-hybrid-small"])
    found = hybrid.self_attention(unedited(hybrid))
    assert found.encoder is not None
    assert found.to_json()["decoder"] is None


def test_edits_and_ensembles_are_shown_too():
    translator = make(SYSTEMS["transformer2017-small"])
    edit = SetWeights(step=2, layer=1, head=0, attention="own", weights={1: 1.0})
    edited = translator.edit(TEXT, edit)
    assert translator.self_attention(edited).decoder.weights[1, 0, 2].tolist() == [0, 1] + [0] * (
        len(edited.tokens) - 2
    )
    both = make(SYSTEMS["transformer2017-small"])
    layers = both.self_attention(unedited(both)).encoder.weights.shape[0]
    both.model = Ensemble([translator.model, both.model])
    assert both.self_attention(unedited(both)).encoder.weights.shape[0] == 2 * layers
