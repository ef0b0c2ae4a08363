"""Watching the attention of a model while it runs."""

import torch

from regard.config import DecoderConfig, ModelConfig
from regard.models.attention_hooks import watched
from regard.models.build import build_model


def test_every_look_is_seen_and_nothing_changes():
    torch.manual_seed(1)
    model = build_model(ModelConfig(embedding=11, decoder=DecoderConfig("luong", width=13)), 29, 29).eval()
    source, tokens = torch.randint(4, 29, (3, 7)), torch.randint(4, 29, (3, 5))
    mask = torch.ones(3, 7, dtype=torch.bool)
    taught = model.decoder.teach(tokens, model.encode(source, mask))
    with watched(model) as looks:
        again = model.decoder.teach(tokens, model.encode(source, mask), look=False)
    assert torch.equal(taught.features, again.features)
    assert list(looks) == ["decoder.attention"]
    assert torch.equal(torch.cat(looks["decoder.attention"], dim=1), taught.weights[:, :, 0])
    model.decoder.teach(tokens, model.encode(source, mask))
    assert len(looks["decoder.attention"]) == 1, "what comes after is not watched"
