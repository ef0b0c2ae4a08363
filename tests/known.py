"""Small models of odd widths that the compiled library knows, for the tests of its search and of its reading."""

import torch

from regard.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.models.build import build_model

WORDS = 29
LENGTHS = (7, 3, 5, 1, 11, 2)


def attention(score, **settings):
    return AttentionConfig(score=score, width=13, **settings)


def recurrent(kind, cell, layers, looks, readout, *, bidirectional=True, **settings):
    """A recurrent decoder of odd widths, most of which no register holds a multiple of."""
    return ModelConfig(
        embedding=10,
        dropout=0.0,
        encoder=EncoderConfig(cell=cell, width=11, bidirectional=bidirectional, layers=layers),
        decoder=DecoderConfig(
            kind=kind, cell=cell, layers=layers, width=22, readout=readout, readout_width=12, **settings
        ),
        attention=looks,
    )


def transformer(norm="pre", activation="relu", positions="sinusoidal", looks=None, **settings):
    itself = attention("scaled-dot", heads=2, project=True, longest=64, **settings)
    sides = {"layers": 2, "width": 12, "feed_forward": 17, "norm": norm, "activation": activation}
    return ModelConfig(
        embedding=12,
        dropout=0.0,
        encoder=EncoderConfig("transformer", **sides),
        decoder=DecoderConfig("transformer", **sides),
        attention=looks or itself,
        self_attention=itself,
        positions=positions,
    )


KNOWN = {
    "luong, lstm, additive, fed": recurrent("luong", "lstm", 1, attention("additive"), "tanh", input_feeding=True),
    "luong, gru, general": recurrent("luong", "gru", 1, attention("general"), "maxout"),
    "luong, deep, concat, fed": recurrent(
        "luong", "lstm", 2, attention("concat", temperature=0.7), "tanh", input_feeding=True, residual=True
    ),
    "luong, carried over": recurrent("luong", "gru", 1, attention("general"), "tanh", bidirectional=False),
    "luong, no attention": recurrent("luong", "lstm", 2, None, "none"),
    "bahdanau, gru, additive": recurrent("bahdanau", "gru", 1, attention("additive"), "maxout"),
    "bahdanau, lstm, dot": recurrent("bahdanau", "lstm", 1, attention("dot"), "none"),
    "bahdanau, deep, heads": recurrent("bahdanau", "gru", 2, attention("scaled-dot", heads=2), "tanh", residual=True),
    "bahdanau, no attention": recurrent("bahdanau", "gru", 1, None, "maxout"),
    "conditional, gru, additive": recurrent("conditional", "gru", 1, attention("additive"), "tanh", start="mean"),
    "conditional, deep, lstm": recurrent("conditional", "lstm", 2, attention("general"), "maxout"),
    "conditional, values": recurrent("conditional", "gru", 1, attention("scaled-dot", values=True), "tanh"),
    "transformer": transformer(),
    "transformer, post, gelu": transformer("post", "gelu", "learned"),
    "transformer, one group, no positions": transformer(positions="none", groups=1),
    "transformer, additive look": transformer(looks=attention("additive")),
}


def make(config, seed=5, sharpness=1.7):
    torch.manual_seed(seed)
    model = build_model(config, WORDS, WORDS).eval()
    with torch.no_grad():
        for weight in filter(lambda one: one.requires_grad, model.parameters()):
            weight.mul_(sharpness)
    return model


def sources(lengths=LENGTHS):
    torch.manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randint(4, WORDS, mask.shape).masked_fill(~mask, 0), mask
