"""The recurrent systems against loops written from their equations, and the sizes that follow from their papers.

One sentence at a time, one step at a time, one weight matrix at a time, in float64. Axes are distinct primes.
"""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from regard.attention import focuses, reaches, scores
from regard.attention.positions import positions
from regard.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.models.build import build_empty, build_model
from regard.models.recurrent_encoder import pack
from regard.models.registries import decoders
from regard.presets import preset

E, N, D, A, W = 5, 7, 11, 13, 29
S, T = 17, 3
ADDITIVE = AttentionConfig("additive", width=A)


# -- what the loops are made of ---------------------------------------------------------------------------------------


def made(**settings):
    """Make a model, its weights by name, one source and one target."""
    torch.manual_seed(1)
    config = ModelConfig(**{"embedding": E, "attention": ADDITIVE, "self_attention": ADDITIVE, **settings})
    model = build_model(config, W, W).double().eval()
    for parameter in model.parameters():  # biases start from zero, and a bias of zero cannot be missed
        nn.init.normal_(parameter, std=0.4)
    return model, dict(model.named_parameters()), torch.randint(4, W, (S,)), torch.randint(4, W, (T,))


def found(model, source, target):
    """Return what the model itself makes of one sentence: its logits, and where it looked."""
    encoded = model.encode(source[None], torch.ones(1, S, dtype=torch.bool))
    taught = model.decoder.teach(target[None], encoded)
    return model.decoder.project(taught.features)[0], taught.weights[0, :, :, 0]


def gates(p, name, x, h, suffix="_l0"):
    """Return both sides of all gates of a layer."""
    return (
        p[f"{name}.weight_ih{suffix}"] @ x + p[f"{name}.bias_ih{suffix}"],
        p[f"{name}.weight_hh{suffix}"] @ h + p[f"{name}.bias_hh{suffix}"],
    )


def gru(p, name, x, h, more=0.0, suffix="_l0"):
    inputs, recurrent = gates(p, name, x, h, suffix)
    r_x, z_x, n_x = (inputs + more).chunk(3)
    r_h, z_h, n_h = recurrent.chunk(3)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    return z * h + (1 - z) * torch.tanh(n_x + r * n_h)


def lstm(p, name, x, h, c, more=0.0, transferred=0.0, suffix="_l0"):
    inputs, recurrent = gates(p, name, x, h, suffix)
    i, f, g, o = (inputs + recurrent + more).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g) + transferred
    return torch.sigmoid(o) * torch.tanh(c), c


def additive(p, name, query, keys):
    """Weights by v tanh(W q + U k), key by key."""
    W_a, U_a, v_a = (p[f"{name}.score.{part}.weight"] for part in ("W_a", "U_a", "v_a"))
    e = [(v_a @ torch.tanh(W_a @ query + U_a @ key)).sum() for key in keys]
    total = sum(torch.exp(one) for one in e)
    return [torch.exp(one) / total for one in e]


def mixed(weights, values):
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def read(p, name, words, direction=1, cell="gru"):
    """Run one direction of a layer of the encoder: states (and memories) in the order of the words."""
    suffix = "_l0" if direction == 1 else "_l0_reverse"
    h = c = torch.zeros(N, dtype=torch.float64)
    states = []
    for x in [*words][::direction]:
        if cell == "gru":
            h = gru(p, name, x, h, suffix=suffix)
        else:
            h, c = lstm(p, name, x, h, c, suffix=suffix)
        states.append((h, c))
    return states[::direction]


def bigru(p, words):
    both = zip(read(p, "encoder.layers.0", words, 1), read(p, "encoder.layers.0", words, -1), strict=True)
    return [torch.cat([forward[0], backward[0]]) for forward, backward in both]


def output(p, features):
    return p["decoder.output.weight"] @ features + p["decoder.output.bias"]


def embedded(p, source, target):
    return p["source_embedding.weight"][source], p["decoder.embedding.weight"][target]


def check(model, source, target, logits, weights):
    actual, looked = found(model, source, target)
    torch.testing.assert_close(actual, torch.stack(logits))
    torch.testing.assert_close(looked, torch.stack([torch.stack(one) for one in weights])[:, None])


# -- the systems ------------------------------------------------------------------------------------------------------


def test_bahdanau2014_looks_then_steps():
    decoder = DecoderConfig("bahdanau", width=D, readout="tanh", readout_width=E)
    model, p, source, target = made(encoder=EncoderConfig(width=N), decoder=decoder)
    X, Y = embedded(p, source, target)
    h = bigru(p, X)
    s = torch.tanh(p["decoder.bridge.W_s.0.weight"] @ h[0][N:] + p["decoder.bridge.W_s.0.bias"])
    logits, weights = [], []
    for y in Y:
        weights.append(additive(p, "decoder.attention", s, h))
        c = mixed(weights[-1], h)
        s = gru(p, "decoder.stack.0.network", y, s, more=p["decoder.context_inputs.weight"] @ c)
        logits.append(output(p, torch.tanh(p["decoder.readout.W_c.weight"] @ torch.cat([s, y, c]))))
    check(model, source, target, logits, weights)


def test_luong2015_steps_then_looks_and_feeds_what_it_saw():
    decoder = DecoderConfig("luong", "lstm", width=D, input_feeding=True, readout="tanh", readout_width=E)
    encoder = EncoderConfig(cell="lstm", width=N, bidirectional=False)
    model, p, source, target = made(encoder=encoder, decoder=decoder, attention=AttentionConfig("general"))
    X, Y = embedded(p, source, target)
    states = read(p, "encoder.layers.0", X, cell="lstm")
    memory = [h for h, _ in states]
    s, m = (
        torch.tanh(p[f"decoder.bridge.W_s.{kind}.weight"] @ states[-1][kind] + p[f"decoder.bridge.W_s.{kind}.bias"])
        for kind in (0, 1)
    )
    fed = torch.zeros(E, dtype=torch.float64)
    logits, weights = [], []
    for y in Y:
        s, m = lstm(p, "decoder.stack.0.network", y, s, m, more=p["decoder.fed_inputs.weight"] @ fed)
        e = torch.stack([s @ p["decoder.attention.score.W_a.weight"] @ h for h in memory])
        weights.append([*torch.softmax(e, 0)])
        fed = torch.tanh(p["decoder.readout.W_c.weight"] @ torch.cat([s, mixed(weights[-1], memory)]))
        logits.append(output(p, fed))
    check(model, source, target, logits, weights)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_conditional_decoder_steps_looks_and_steps_again(cell):
    decoder = DecoderConfig("conditional", cell, width=D, readout="tanh", readout_width=E, start="mean")
    model, p, source, target = made(encoder=EncoderConfig(width=N), decoder=decoder, tie="output")
    X, Y = embedded(p, source, target)
    p["decoder.output.weight"] = p["decoder.embedding.weight"]
    h = bigru(p, X)
    s = torch.tanh(p["decoder.bridge.W_s.0.weight"] @ (sum(h) / S) + p["decoder.bridge.W_s.0.bias"])
    m = torch.zeros(D, dtype=torch.float64)
    logits, weights = [], []
    for y in Y:
        if cell == "gru":
            between = gru(p, "decoder.stack.0.network", y, s)
        else:
            between, m = lstm(p, "decoder.stack.0.network", y, s, m)
        weights.append(additive(p, "decoder.attention", between, h))
        c = mixed(weights[-1], h)
        if cell == "gru":
            s = gru(p, "decoder.second.network", c, between)
        else:
            s, m = lstm(p, "decoder.second.network", c, between, m)
        logits.append(output(p, torch.tanh(p["decoder.readout.W_c.weight"] @ torch.cat([s, y, c]))))
    check(model, source, target, logits, weights)


def test_gnmt2016_reads_both_ways_below_and_adds_residuals_from_the_third_layer():
    layers = 4
    encoder = EncoderConfig("gnmt", "lstm", layers, N, residual=True)
    decoder = DecoderConfig("gnmt", "lstm", layers, D, residual=True, readout="none")
    model, p, source, target = made(encoder=encoder, decoder=decoder)
    X, Y = embedded(p, source, target)
    # The encoder: what leaves a layer enters the next; from the third on, with what entered it.
    forward, backward = (read(p, "encoder.layers.0", X, way, "lstm") for way in (1, -1))
    x = [torch.cat([f[0], b[0]]) for f, b in zip(forward, backward, strict=True)]
    finals = [backward[0]]
    for i in range(1, layers):
        m = read(p, f"encoder.layers.{i}", x, cell="lstm")
        finals.append(m[-1])
        x = [own[0] + below if i >= 2 else own[0] for own, below in zip(m, x, strict=True)]
    # The decoder: layer by layer within each step. Its widths are not the encoder's, so states are mapped over.
    W_s = [(p[f"decoder.bridge.W_s.{n}.weight"], p[f"decoder.bridge.W_s.{n}.bias"]) for n in range(2 * layers)]
    s = [[torch.tanh(W_s[i + layers * kind][0] @ final[kind] + W_s[i + layers * kind][1]) for kind in (0, 1)]
         for i, final in enumerate(finals)]  # fmt: skip
    logits, weights = [], []
    for y in Y:
        weights.append(additive(p, "decoder.attention", s[0][0], x))  # the lowest layer's output of the step before
        a = mixed(weights[-1], x)
        s[0] = [*lstm(p, "decoder.stack.0.network", y, *s[0], more=p["decoder.context_inputs.weight"] @ a)]
        below = s[0][0]
        for i in range(1, layers):
            s[i] = [*lstm(p, f"decoder.stack.{i}.network", torch.cat([below, a]), *s[i])]
            below = s[i][0] + below if i >= 2 else s[i][0]
        logits.append(output(p, below))
    check(model, source, target, logits, weights)


def test_gnmt2016_goes_on_from_the_layer_beside():
    encoder = EncoderConfig("gnmt", "lstm", 4, D, residual=True)
    model, _, source, _ = made(encoder=encoder, decoder=DecoderConfig("gnmt", "lstm", 4, D, readout="none"))
    encoded = model.encode(source[None], torch.ones(1, S, dtype=torch.bool))
    assert [*model.decoder.bridge.parameters()] == []
    for layer, state in enumerate(model.decoder.start(encoded).cells):
        assert torch.equal(state.hidden, encoded.summary[:, layer])
        assert torch.equal(state.memory, encoded.summary[:, 4 + layer])


class Tape:
    """An LSTMN, written down: every state stays on the tapes, and each step looks at all of them."""

    def __init__(self, p, name, width, first=None):
        self.p, self.name = p, name
        self.h, self.c = ([], []) if first is None else ([first[0]], [first[1]])
        self.seen = torch.zeros(width, dtype=torch.float64)

    def step(self, x, more=0.0, transferred=0.0):
        h, c = torch.zeros_like(self.seen), torch.zeros_like(self.seen)
        if self.h:
            s = additive(self.p, f"{self.name}.look.attention", torch.cat([x, self.seen]), self.h)
            h, c = mixed(s, self.h), mixed(s, self.c)
        self.seen = h
        h, c = lstm(self.p, f"{self.name}.cell.network", x, h, c, more, transferred)
        self.h.append(h)
        self.c.append(c)
        return h


@pytest.mark.parametrize("width", [N, D])
def test_cheng2016_fuses_the_source_s_memories_into_its_own(width):
    encoder = EncoderConfig("lstmn", width=width, bidirectional=False)
    decoder = DecoderConfig("lstmn", width=D, readout="tanh", readout_width=E, fusion="deep")
    model, p, source, target = made(encoder=encoder, decoder=decoder)
    X, Y = embedded(p, source, target)
    reader = Tape(p, "encoder.layers.0.0", width)
    for x in X:
        reader.step(x)
    first = [reader.h[-1], reader.c[-1]]
    if width != D:  # where the widths differ, what is taken over is mapped
        W_s = [(p[f"decoder.bridge.W_s.{n}.weight"], p[f"decoder.bridge.W_s.{n}.bias"]) for n in (0, 1)]
        first = [torch.tanh(weight @ part + bias) for part, (weight, bias) in zip(first, W_s, strict=True)]
    writer = Tape(p, "decoder.stack.0", D, first)
    seen = torch.zeros(width, dtype=torch.float64)
    logits, weights = [], []
    for x in Y:
        weights.append(additive(p, "decoder.attention.attention", torch.cat([x, seen]), reader.h))
        seen, memory = mixed(weights[-1], reader.h), mixed(weights[-1], reader.c)
        r = torch.sigmoid(p["decoder.W_r.weight"] @ torch.cat([seen, x]) + p["decoder.W_r.bias"])
        kept = memory if width == D else p["decoder.transfer.weight"] @ memory
        h = writer.step(x, transferred=r * kept)
        logits.append(output(p, torch.tanh(p["decoder.readout.W_c.weight"] @ torch.cat([h, x, seen]))))
    check(model, source, target, logits, weights)


def test_cheng2016_shallow_lets_what_it_saw_enter_the_gates():
    encoder = EncoderConfig("lstmn", layers=2, width=D, bidirectional=False)
    decoder = DecoderConfig("lstmn", layers=2, width=D, readout="tanh", readout_width=E, fusion="shallow")
    model, p, source, target = made(encoder=encoder, decoder=decoder)
    X, Y = embedded(p, source, target)
    readers = [Tape(p, f"encoder.layers.{i}.0", D) for i in (0, 1)]
    for x in X:
        readers[1].step(readers[0].step(x))
    writers = [Tape(p, f"decoder.stack.{i}", D, (readers[i].h[-1], readers[i].c[-1])) for i in (0, 1)]
    logits, weights = [], []
    for x in Y:
        weights.append(additive(p, "decoder.attention", writers[1].h[-1], readers[1].h))
        seen = mixed(weights[-1], readers[1].h)
        h = writers[1].step(writers[0].step(x, more=p["decoder.context_inputs.weight"] @ seen))
        logits.append(output(p, torch.tanh(p["decoder.readout.W_c.weight"] @ torch.cat([h, x, seen]))))
    check(model, source, target, logits, weights)


def test_cheng2016_as_a_language_model_begins_with_empty_tapes():
    decoder = DecoderConfig("lstmn", width=D, readout="none")
    model, p, source, target = made(encoder=EncoderConfig("none"), decoder=decoder, attention=None)
    tape = Tape(p, "decoder.stack.0", D)
    logits = [output(p, tape.step(x)) for x in p["decoder.embedding.weight"][target]]
    torch.testing.assert_close(found(model, source, target)[0], torch.stack(logits))


def test_cheng2016_reads_both_ways_with_tapes_side_by_side():
    encoder = EncoderConfig("lstmn", width=N, bidirectional=True)
    model, p, source, _ = made(encoder=encoder, decoder=DecoderConfig("bahdanau", width=D))
    X = p["source_embedding.weight"][source]
    tapes = [Tape(p, f"encoder.layers.0.{way}", N) for way in (0, 1)]
    for x, y in zip(X, X.flip(0), strict=True):
        tapes[0].step(x)
        tapes[1].step(y)
    # Padded, to see that the way back begins at the last word.
    padded, mask = nn.functional.pad(source, (0, 2), value=9)[None], torch.arange(S + 2)[None] < S
    encoded = model.encode(padded, mask)
    for actual, kind in ((encoded.states, "h"), (encoded.memories, "c")):
        forward, backward = (getattr(tape, kind) for tape in tapes)
        expected = torch.cat([torch.stack(forward), torch.stack(backward).flip(0)], dim=-1)
        torch.testing.assert_close(actual[0, :S], expected)
        assert (actual[0, S:] == 0).all()
    ends = torch.stack([torch.cat([tapes[0].h[-1], tapes[1].h[-1]]), torch.cat([tapes[0].c[-1], tapes[1].c[-1]])])
    torch.testing.assert_close(encoded.summary[0], ends)


@pytest.mark.parametrize("has_source", [False, True])
def test_the_looking_back_decoder_looks_at_the_states_before(has_source):
    encoder = EncoderConfig("recurrent" if has_source else "none", width=N)
    decoder = DecoderConfig("looking-back", "lstm", width=D, readout="tanh", readout_width=E)
    model, p, source, target = made(encoder=encoder, decoder=decoder, attention=ADDITIVE if has_source else None)
    h = bigru(p, p["source_embedding.weight"][source]) if has_source else []
    s = m = torch.zeros(D, dtype=torch.float64)
    if has_source:
        s = torch.tanh(p["decoder.bridge.W_s.0.weight"] @ h[0][N:] + p["decoder.bridge.W_s.0.bias"])
    past, logits = [], []
    for y in p["decoder.embedding.weight"][target]:
        s, m = lstm(p, "decoder.stack.0.network", y, s, m)
        c = mixed(additive(p, "decoder.own", s, past), past) if past else torch.zeros_like(s)
        past.append(s)
        seen = [mixed(additive(p, "decoder.attention", s, h), h)] if has_source else []
        logits.append(output(p, torch.tanh(p["decoder.readout.W_c.weight"] @ torch.cat([s, c, *seen]))))
    torch.testing.assert_close(found(model, source, target)[0], torch.stack(logits))


# -- any way of looking -----------------------------------------------------------------------------------------------

OWN = {
    **{f"{name} score": AttentionConfig(name, width=A) for name in scores if scores[name].of_itself},
    **{f"{name} score, heads": AttentionConfig(name, width=A, heads=2) for name in scores if scores[name].of_itself},
    **{f"{name} reach": replace(ADDITIVE, reach=name, window=2) for name in reaches if reaches[name].of_itself},
    **{f"{name} focus": replace(ADDITIVE, focus=name) for name in focuses if not focuses[name].goes_on},
    "values": replace(ADDITIVE, values=True),
    "dot, values": AttentionConfig("dot", values=True),
}
PLACES = [name for name in positions if not positions[name].absolute]


@pytest.mark.parametrize("kind", ["lstmn", "looking-back"])
@pytest.mark.parametrize(
    ("own", "place"),
    [*((own, "none") for own in OWN), *itertools.product(("dot score", "scaled-dot score, heads"), PLACES)],
)
def test_a_decoder_looks_at_itself_in_any_way(kind, own, place):
    width = 2 * D + 2  # two heads, whose places need an even width
    model, _, source, _ = made(
        encoder=EncoderConfig("none"),
        decoder=DecoderConfig(kind, "lstm", layers=2, width=width, readout="tanh", readout_width=E),
        attention=None,
        self_attention=OWN[own],
        positions=place,
    )
    tokens = torch.randint(4, W, (2, 5))
    encoded = model.encode(source.expand(2, -1), torch.ones(2, S, dtype=torch.bool))
    taught = model.decoder.teach(tokens, encoded, look=False)
    logits = model.decoder.project(taught.features)
    state = model.decoder.start(encoded)
    for t in range(5):
        step = model.decoder.step(tokens[:, t], state)
        torch.testing.assert_close(step.logits, logits[:, t])
        state = step.state
    assert all(part is None or part.shape == (2, 5) for part in taught.extras)


@pytest.mark.parametrize("kind", ["lstmn", "looking-back"])
def test_what_sampled_looks_at_itself_tell_is_zero_at_the_first_step(kind):
    model, _, source, target = made(
        encoder=EncoderConfig("none"),
        decoder=DecoderConfig(kind, "lstm", width=D, readout="tanh", readout_width=E),
        attention=None,
        self_attention=replace(ADDITIVE, focus="hard", soft_chance=0.0),
    )
    encoded = model.encode(source[None], torch.ones(1, S, dtype=torch.bool))
    log_prob = model.train().decoder.teach(target[None], encoded).extras.log_prob
    assert log_prob.shape == (1, T)
    assert log_prob[0, 0] == 0  # nothing to look at
    assert log_prob[0, 1].abs() < 1e-9  # one state to look at
    assert log_prob[0, 2] < 0


@pytest.mark.parametrize("name", [*scores])
def test_deep_fusion_looks_at_the_source_with_any_score(name):
    model, _, source, target = made(
        encoder=EncoderConfig("lstmn", width=N),
        decoder=DecoderConfig("lstmn", width=D, readout="tanh", readout_width=E),
        attention=AttentionConfig(name, width=A),
    )
    _, weights = found(model, source, target)
    torch.testing.assert_close(weights.sum(-1), torch.ones(T, 1, dtype=torch.float64))


# -- dropout ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in decoders if kind != "transformer"])
def test_contexts_and_outputs_have_dropout_of_their_own(kind):
    """With no other dropout: that of contexts alone changes the weights, that of outputs zeroes features."""
    decoder = DecoderConfig(kind, "lstm", width=D, readout="tanh", readout_width=E)
    encoder = EncoderConfig(cell="lstm", width=N)

    def taught(**rates):
        torch.manual_seed(3)
        changed = replace(decoder, **rates)
        model, _, source, target = made(dropout=0.0, encoder=encoder, decoder=changed)
        encoded = model.encode(source[None], torch.ones(1, S, dtype=torch.bool))
        return model.train().decoder.teach(target[None], encoded)

    plain, contexts, outputs = taught(), taught(context_dropout=0.5), taught(output_dropout=0.5)
    assert not torch.allclose(plain.weights, contexts.weights)
    assert (contexts.features != 0).all()
    torch.testing.assert_close(plain.weights[:, 0], outputs.weights[:, 0])
    kept = outputs.features != 0
    assert kept.any()
    assert not kept.all()
    torch.testing.assert_close(outputs.features[kept], 2 * plain.features[kept])


def test_without_a_rate_of_their_own_outputs_have_the_model_s():
    model, *_ = made(dropout=0.4)
    assert (model.decoder.output_dropout.rate, model.decoder.context_dropout.rate) == (0.4, 0.0)


# -- they train -------------------------------------------------------------------------------------------------------

DEEP = {"layers": 4, "width": 32, "residual": True}
TRAINED = {
    "conditional": (EncoderConfig(width=16), DecoderConfig("conditional", width=32, readout="tanh", readout_width=16)),
    "gnmt": (EncoderConfig("gnmt", "lstm", **DEEP), DecoderConfig("gnmt", "lstm", **DEEP, readout="none")),
    "lstmn": (EncoderConfig("lstmn", width=32, bidirectional=False), DecoderConfig("lstmn", width=32, readout="none")),
    "shallow": (
        EncoderConfig("lstmn", width=32, bidirectional=False),
        DecoderConfig("lstmn", width=32, readout="none", fusion="shallow"),
    ),
    "looking-back": (EncoderConfig("none"), DecoderConfig("looking-back", "lstm", width=32, readout="tanh")),
}


@pytest.mark.parametrize("name", TRAINED)
def test_it_learns_a_few_sentences_by_heart(name):
    encoder, decoder = TRAINED[name]
    torch.manual_seed(1)
    attention = None if encoder.kind == "none" else ADDITIVE
    config = ModelConfig(16, "none", 0.0, False, False, False, encoder, decoder, attention, ADDITIVE)
    model = build_model(config, W, W)
    source = torch.randint(4, W, (7, 5))
    mask = torch.ones_like(source, dtype=torch.bool)
    given = torch.cat([source[:, :1], source.flip(1)], dim=1)  # the first word tells the sentence apart
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(50):
        taught = model.decoder.teach(given[:, :-1], model.encode(source, mask), look=False)
        loss = nn.functional.cross_entropy(model.decoder.project(taught.features).flatten(0, 1), given[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert loss.item() < 0.3  # from log 29 = 3.4


# -- sizes ------------------------------------------------------------------------------------------------------------

SOURCE, TARGET = 31, 37


def size(name):
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_empty(preset(name).model, SOURCE, TARGET).parameters())


def linear(inputs, outputs):
    return inputs * outputs + outputs


def gru_size(inputs, width):
    """Three gates; each reads the input and the state, with a bias for either."""
    return 3 * (inputs * width + width * width + 2 * width)


def lstm_size(inputs, width):
    return 4 * (inputs * width + width * width + 2 * width)


def additive_size(query, key, hidden):
    return query * hidden + key * hidden + hidden


def lstmn_size(inputs, width, hidden):
    """An LSTM, and W_h, W_x, W_h~ and v of its looks at itself."""
    return lstm_size(inputs, width) + additive_size(inputs + width, width, hidden)


def test_bahdanau2014_conditional_has_its_size():
    m, n = 512, 1024
    encoder = 2 * gru_size(m, n)
    attention = additive_size(n, 2 * n, 2 * n)
    decoder = linear(2 * n, n) + gru_size(m, n) + gru_size(2 * n, n)  # the first state is made of the mean
    readout = (n + m + 2 * n) * m
    words = SOURCE * m + TARGET * m + TARGET  # the output layer has the target's embeddings, and biases
    assert size("bahdanau2014-conditional") == words + encoder + attention + decoder + readout


@pytest.mark.parametrize(
    ("variant", "looks"),
    [
        ("global-location", 512 * 1000),  # W_a: a score for each of 512 places
        ("global-dot", 0),
        ("global-general", 1000 * 1000),
        ("global-concat", 2000 * 1000 + 1000),
        ("local-m-dot", 0),
        ("local-m-general", 1000 * 1000),
        ("local-p-dot", 1000 * 1000 + 1000),  # W_p and v
        ("local-p-general", 2 * 1000 * 1000 + 1000),
    ],
)
def test_the_rows_of_luong2015_s_table_4_differ_in_how_they_look(variant, looks):
    n = 1000
    stack = lstm_size(n, n) + 3 * lstm_size(n, n)
    fed, readout = 4 * n * n, 2 * n * n
    rest = SOURCE * n + TARGET * n + 2 * stack + fed + readout + linear(n, TARGET)
    assert size(f"luong2015-{variant}") == rest + looks


def test_gnmt2016_has_the_paper_s_size():
    n = 1024
    encoder = 2 * lstm_size(n, n) + lstm_size(2 * n, n) + 6 * lstm_size(n, n)
    decoder = lstm_size(n, n) + 4 * n * n + 7 * lstm_size(2 * n, n)  # the context enters all eight
    assert size("gnmt2016") == (
        SOURCE * n + TARGET * n + encoder + additive_size(n, n, n) + decoder + linear(n, TARGET)
    )


def test_cheng2016_has_the_size_of_its_equations():
    m, n = 300, 450
    words, readout = SOURCE * m + TARGET * m, (n + m + n) * m + linear(m, TARGET)
    shared = words + 2 * lstmn_size(m, n, n) + readout
    assert size("cheng2016") == shared + additive_size(m + n, n, n) + linear(n + m, n)  # W_r
    assert size("cheng2016-shallow") == shared + additive_size(n, n, n) + 4 * n * n


def test_the_language_models_have_their_sizes():
    m, n = 150, 300
    assert size("cheng2016-lm") == TARGET * m + lstmn_size(m, n, n) + linear(n, TARGET)
    n = 650
    stack = TARGET * n + 2 * lstm_size(n, n) + linear(n, TARGET)
    assert size("lm-lstm") == stack
    assert size("lm-attention") == stack + additive_size(n, n, n) + 2 * n * n


def test_small_siblings_keep_what_their_papers_are_about():
    gnmt = preset("gnmt2016-small").model
    assert (gnmt.encoder.layers, gnmt.decoder.layers, gnmt.encoder.residual, gnmt.decoder.residual) == (
        4,
        4,
        True,
        True,
    )
    for name in ("gnmt2016", "gnmt2016-small"):
        assert (preset(name).decoding.length_penalty, preset(name).decoding.coverage_penalty) == (0.2, 0.2)
    for name in ("lm-lstm", "lm-attention", "cheng2016-lm"):
        for config in (preset(name), preset(f"{name}-small")):
            assert (config.model.encoder.kind, config.model.attention, config.training.metric) == ("none", None, "loss")
    assert preset("cheng2016-small").model.decoder.fusion == "deep"
    assert preset("cheng2016-shallow-small").model.decoder.fusion == "shallow"


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"decoder": DecoderConfig("lstmn", fusion="deeper")},
            "model.decoder.fusion must be one of deep, shallow, got 'deeper'.",
        ),
        (
            {"decoder": DecoderConfig(context_dropout=1.0)},
            "model.decoder.context_dropout must be at least 0 and below 1, got 1.0.",
        ),
        (
            {"decoder": DecoderConfig(output_dropout=-0.5)},
            "model.decoder.output_dropout must be at least 0 and below 1, or -1 to use model.dropout, got -0.5.",
        ),
        (
            {"encoder": EncoderConfig("none"), "attention": None, "decoder": DecoderConfig("gnmt")},
            "The gnmt decoder reads from a source at every step, but model.encoder.kind=none has no source: set "
            "model.decoder.kind=luong, looking-back, lstmn or transformer.",
        ),
        (
            {"decoder": DecoderConfig("looking-back", readout="none")},
            "The looking-back decoder attends after its recurrent step, so with model.decoder.readout=none nothing "
            "would use the context: set model.decoder.readout=tanh.",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(change, message):
    with pytest.raises(ConfigError) as caught:
        build_model(replace(ModelConfig(), **change), W, W)
    assert str(caught.value) == message


def test_packing_is_torch_s_own():
    states, lengths = torch.randn(5, 7, 3), torch.tensor([2, 7, 1, 7, 3])
    ours = pack(states, lengths)
    theirs = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))


def test_the_attentional_vector_of_luong_starts_larger_than_glorot():
    """It is read off states that start small; what else reads them keeps Glorot's bound."""
    torch.manual_seed(1)
    decoder = build_model(preset("luong2015-small").model, 50, 50).decoder
    for weight, times in ((decoder.readout.W_c.weight, 4), (decoder.fed_inputs.weight, 1)):
        bound = times * math.sqrt(6 / sum(weight.shape))
        assert 0.98 * bound < weight.abs().max() <= bound
