"""The Transformer against loops written from the paper, against torch's own layers, and against the paper's sizes."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.config import AttentionConfig, DataConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.masks import from_lengths
from regard.models.build import build_empty, build_model
from regard.models.transformer_layer import DecoderLayer, EncoderLayer
from regard.presets import preset
from regard.training.optimizer import optimizers
from regard.training.setting_checks import check

B, S, T, W = 3, 7, 5, 29
D, HEADS, HEAD, FF = 22, 2, 11, 17
LENGTHS = torch.tensor([7, 4, 2])
MASK = from_lengths(LENGTHS)
LOOK = AttentionConfig("scaled-dot", heads=HEADS, project=True)
FUTURE = torch.ones(T, T, dtype=torch.bool).triu(1)


def tiny(norm="post", activation="relu", **changes):
    encoder = EncoderConfig("transformer", layers=2, width=D, feed_forward=FF, norm=norm, activation=activation)
    decoder = DecoderConfig("transformer", layers=3, width=D, feed_forward=FF, norm=norm, activation=activation)
    model = ModelConfig(D, "all", 0.0, False, False, False, encoder, decoder, LOOK, LOOK, "sinusoidal")
    return replace(model, **changes)


def language_model(norm="post", activation="gelu"):
    return tiny(norm, activation, encoder=EncoderConfig("none"), attention=None, tie="output")


def build(config):
    torch.manual_seed(1)
    return build_model(config, W, W).double().eval()


def scrambled(module):
    """Give a module weights that no two of its parameters share, biases and norms too."""
    generator = torch.Generator().manual_seed(2)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4
    return module.double().eval()


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


# -- the paper's equations, one number after the other ---------------------------------------------------------------


def linear(layer, vector):
    out, wide = layer.weight.shape
    return [sum(layer.weight[o, i] * vector[i] for i in range(wide)) + layer.bias[o] for o in range(out)]


def normalised(layer, vector):
    mean = sum(vector) / len(vector)
    variance = sum((x - mean) ** 2 for x in vector) / len(vector)
    scaled = [(x - mean) / (variance + 1e-5) ** 0.5 for x in vector]
    return [layer.weight[i] * x + layer.bias[i] for i, x in enumerate(scaled)]


def looked(heads, queries, states):
    """Section 3.2: softmax(q·k / √d_k) of each head, the heads' values side by side, mapped by W_o."""
    asked = [linear(heads.W_q, query) for query in queries]
    keys, values = ([linear(map, state) for state in states] for map in (heads.W_k, heads.W_v))
    seen = []
    for query in asked:
        context = []
        for head in range(HEADS):
            part = range(head * HEAD, (head + 1) * HEAD)
            powers = [math.exp(sum(query[i] * key[i] for i in part) / math.sqrt(HEAD)) for key in keys]
            context += [sum(p * value[i] for p, value in zip(powers, values, strict=True)) / sum(powers) for i in part]
        seen.append(linear(heads.W_o, context))
    return seen


def thought(network, vector):
    return linear(network.W_2, [max(x, 0) for x in linear(network.W_1, vector)])


def plus(left, right):
    return [x + y for x, y in zip(left, right, strict=True)]


def encoded_by_hand(layer, states, norm):
    around_look, around_network, heads = layer.around_look.norm, layer.around_network.norm, layer.self_attention.heads
    if norm == "post":
        added = [plus(x, y) for x, y in zip(states, looked(heads, states, states), strict=True)]
        middle = [normalised(around_look, x) for x in added]
        return [normalised(around_network, plus(x, thought(layer.feed_forward, x))) for x in middle]
    entering = [normalised(around_look, x) for x in states]
    middle = [plus(x, y) for x, y in zip(states, looked(heads, entering, entering), strict=True)]
    return [plus(x, thought(layer.feed_forward, normalised(around_network, x))) for x in middle]


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_an_encoder_layer_is_what_the_paper_writes(norm):
    layer = scrambled(EncoderLayer(tiny(norm), Dropout(0.0), 0))
    states = random(B, S, D)
    outputs = layer(states, MASK)
    for b in (1, 2):
        length = int(LENGTHS[b])
        expected = encoded_by_hand(layer, states[b, :length].tolist(), norm)
        torch.testing.assert_close(outputs[b, :length], torch.tensor(expected, dtype=torch.float64))


# -- torch's own ------------------------------------------------------------------------------------------------------


def copy_heads(theirs, ours):
    theirs.in_proj_weight.data = torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]).data
    theirs.in_proj_bias.data = torch.cat([ours.W_q.bias, ours.W_k.bias, ours.W_v.bias]).data
    theirs.out_proj.load_state_dict(ours.W_o.state_dict())


def copied(layer, norm, activation="relu"):
    """Make torch's layer with the weights of ours."""
    crosses = isinstance(layer, DecoderLayer) and layer.attention is not None
    make = nn.TransformerDecoderLayer if crosses else nn.TransformerEncoderLayer
    theirs = make(D, HEADS, FF, 0.0, activation, batch_first=True, norm_first=norm == "pre", dtype=torch.float64)
    copy_heads(theirs.self_attn, layer.self_attention.heads)
    theirs.linear1.load_state_dict(layer.feed_forward.W_1.state_dict())
    theirs.linear2.load_state_dict(layer.feed_forward.W_2.state_dict())
    around = [layer.around_look] if isinstance(layer, EncoderLayer) else [layer.around_past]
    if crosses:
        copy_heads(theirs.multihead_attn, layer.attention.heads)
        around.append(layer.around_source)
    for number, residual in enumerate([*around, layer.around_network], start=1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())
    return theirs.eval()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_are_torch_s(norm, activation):
    config = tiny(norm, activation)
    states, targets = random(B, S, D), random(B, T, D + 1)[..., :D]
    encoder = scrambled(EncoderLayer(config, Dropout(0.0), 0))
    theirs = copied(encoder, norm, activation)(states, src_key_padding_mask=~MASK)
    torch.testing.assert_close(encoder(states, MASK)[MASK], theirs[MASK])
    decoder = scrambled(DecoderLayer(config, D, Dropout(0.0), 0))
    ours = decoder(targets, decoder.start(states, MASK), 0, True)
    theirs = copied(decoder, norm, activation)(targets, states, tgt_mask=FUTURE, memory_key_padding_mask=~MASK)
    torch.testing.assert_close(ours.outputs, theirs)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_whole_model_is_torch_s_layers_one_above_the_other(norm):
    model = scrambled(build_model(tiny(norm), W, W))
    source = torch.randint(4, W, (B, S), generator=torch.Generator().manual_seed(4)).masked_fill(~MASK, 0)
    tokens = torch.randint(4, W, (B, T), generator=torch.Generator().manual_seed(5))
    states = model.source_embedding(source)
    for layer in model.encoder.layers:
        states = copied(layer, norm)(states, src_key_padding_mask=~MASK)
    states = states if norm == "post" else model.encoder.norm(states)
    encoded = model.encode(source, MASK)
    torch.testing.assert_close(encoded.states[MASK], states[MASK])
    assert (encoded.states[~MASK] == 0).all()
    outputs = model.decoder.embedding(tokens)
    for layer in model.decoder.layers:
        outputs = copied(layer, norm)(outputs, states, tgt_mask=FUTURE, memory_key_padding_mask=~MASK)
    outputs = outputs if norm == "post" else model.decoder.norm(outputs)
    torch.testing.assert_close(model.decoder.teach(tokens, encoded).features, outputs)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_language_model_is_torch_s_encoder_with_its_future_hidden(norm):
    model = scrambled(build_model(language_model(norm), W, W))
    tokens = torch.randint(4, W, (B, T), generator=torch.Generator().manual_seed(5))
    outputs = model.decoder.embedding(tokens)
    for layer in model.decoder.layers:
        outputs = copied(layer, norm, "gelu")(outputs, src_mask=FUTURE)
    outputs = outputs if norm == "post" else model.decoder.norm(outputs)
    torch.testing.assert_close(model.decoder.teach(tokens, model.encode(tokens, MASK[:, :T])).features, outputs)


# -- as many weights as the paper's sizes give ------------------------------------------------------------------------


def count(name, size):
    with torch.device("meta"):
        model = build_empty(preset(name).model, size, size)
    return sum(parameter.numel() for parameter in model.parameters())


def dense(inputs, outputs):
    return inputs * outputs + outputs


def layer_weights(d, ff, looks):
    """The four maps of each look, the two of the network, and a norm (scale and shift) for each of these parts."""
    return looks * 4 * dense(d, d) + dense(d, ff) + dense(ff, d) + (looks + 1) * 2 * d


@pytest.mark.parametrize(
    ("name", "d", "ff", "millions"), [("transformer2017", 512, 2048, 65), ("transformer2017-big", 1024, 4096, 213)]
)
def test_transformer2017_has_the_paper_s_size(name, d, ff, millions):
    """Tables 2 and 3, with the 37,000 shared entries of section 5.1: one embedding is all three matrices.

    The heads' width is d/h, so their number does not change the count. Ours has biases in the maps of the heads and at
    the output, as torch has; the paper's count of 65 (213) million is rounded and holds a little more or less.
    """
    words = 37_000
    exact = words * d + 6 * layer_weights(d, ff, looks=1) + 6 * layer_weights(d, ff, looks=2) + words
    assert count(name, words) == exact
    assert exact / 1e6 == pytest.approx(millions, rel=0.03)


def test_pre_norm_adds_a_last_norm_to_each_side():
    d, ff, words = 256, 512, 10_000
    layers = 4 * layer_weights(d, ff, looks=1) + 4 * layer_weights(d, ff, looks=2)
    assert count("transformer2017-tiny", words) == words * d + layers + 2 * 2 * d + words


def test_gpt_has_the_paper_s_size():
    """Section 4.1: 12 layers, 768 units, 12 heads, 3072 hidden units, 512 positions, 40,478 entries: 117 million."""
    words, d = 40_478, 768
    exact = words * d + 512 * d + 12 * layer_weights(d, 3072, looks=1) + words
    assert count("gpt", words) == exact
    assert exact - words == 116_534_784  # the published weights, which have no bias at the output


def lstm(inputs, width):
    return 4 * (inputs * width + width * width + 2 * width)


def test_the_hybrid_has_the_encoder_of_one_paper_and_the_decoder_of_another():
    """Chen et al. 2018, section 5.1: the big Transformer reads, the eight LSTM layers of GNMT write, with 4 heads."""
    d, words, heads = 1024, 32_000, 4
    encoder = 6 * layer_weights(d, 8192, looks=1) + 2 * d
    start = 8 * dense(d, d)  # all layers start from the mean of the states; their memories from zero
    attention = 4 * dense(d, d) + 2 * heads * (d // heads) * d + heads * d  # maps of heads, and W_a, U_a, v_a of each
    decoder = lstm(2 * d, d) + 7 * lstm(2 * d, d)  # each reads what is below, or the word before, and the context
    readout = 2 * d * d
    assert count("chen2018-hybrid", words) == words * d + encoder + start + attention + decoder + readout + words


def test_only_the_transformer_side_of_a_hybrid_is_told_positions():
    reader = build(tiny(decoder=DecoderConfig("bahdanau", readout_width=D)))
    assert reader.source_embedding.position is not None
    assert (reader.source_embedding.scale, reader.decoder.embedding.scale) == (D**0.5, 1.0)
    assert reader.decoder.embedding.position is None
    assert reader.decoder.embedding.weight is reader.source_embedding.weight
    writer = build(tiny(encoder=EncoderConfig(width=D), decoder=DecoderConfig("transformer", width=D)))
    assert writer.source_embedding.position is None
    assert writer.decoder.embedding.position is not None
    neither = build(tiny(encoder=EncoderConfig(), decoder=DecoderConfig(readout_width=D)))
    assert neither.source_embedding.position is neither.decoder.embedding.position is not None


@pytest.mark.parametrize("name", ["transformer2017", "transformer2017-big", "transformer2017-tiny"])
def test_the_presets_train_with_the_paper_s_adam(name):
    config = preset(name).training
    assert config.beta2 == 0.98
    for kind in ("adam", "adamw"):
        (group,) = optimizers[kind]([nn.Parameter(torch.zeros(2))], replace(config, optimizer=kind)).param_groups
        assert group["betas"] == (0.9, 0.98)


def test_a_beta2_of_one_would_remember_nothing():
    config = replace(preset("transformer2017"), data=DataConfig(train=("reverse",)))
    with pytest.raises(ConfigError) as caught:
        check(replace(config, training=replace(config.training, beta2=1.0)))
    assert str(caught.value) == "training.beta2 is 1.0; it must be at least 0 and below 1."


def test_the_rate_is_the_paper_s_at_its_peak():
    """Equation 3: d^-0.5 · warmup^-0.5."""
    for name in ("transformer2017", "transformer2017-big"):
        config = preset(name)
        peak = config.model.embedding**-0.5 * config.training.warmup**-0.5
        assert config.training.learning_rate == pytest.approx(peak, rel=0.02)


# -- what else the family promises ------------------------------------------------------------------------------------


def test_first_weights():
    """Glorot for matrices, zero for biases, norms that change nothing, embeddings whose sum over the width is one."""
    torch.manual_seed(1)
    model = build_model(replace(preset("transformer2017-small").model, dropout=0.0), 997, 997)
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all(), name
            assert (module.bias == 0).all(), name
        elif isinstance(module, nn.Linear):
            assert (module.bias == 0).all(), name
            if module is not model.decoder.output:
                bound = math.sqrt(6 / sum(module.weight.shape))
                assert 0.98 * bound < module.weight.abs().max() <= bound, name
    embedding = model.decoder.embedding.weight
    assert embedding is model.source_embedding.weight is model.decoder.output.weight
    assert embedding[1:].square().sum(dim=1).mean().item() == pytest.approx(1.0, abs=0.02)
    assert (embedding[0] == 0).all()


def test_padding_is_erased_on_the_way_in_and_out():
    model = build(tiny())
    embedded = random(B, S, D)
    poisoned = embedded.masked_fill(~MASK[..., None], float("nan")).requires_grad_()
    clean, dirty = model.encoder(embedded, MASK), model.encoder(poisoned, MASK)
    assert torch.equal(clean.states, dirty.states)
    assert torch.equal(clean.summary, dirty.summary)
    dirty.states.square().sum().backward()
    assert (poisoned.grad[~MASK] == 0).all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.encoder.parameters())


def test_the_summary_is_the_mean_of_the_real_states():
    encoded = build(tiny("pre")).encoder(random(B, S, D), MASK)
    assert encoded.summary.shape == (B, 1, D)
    for b, length in enumerate(LENGTHS):
        torch.testing.assert_close(encoded.summary[b, 0], encoded.states[b, :length].mean(dim=0))


def test_the_source_is_remembered_once_and_each_step_once(monkeypatch):
    model = build(tiny())
    remembered = []
    for layer in model.decoder.layers:
        for attention in (layer.attention, layer.self_attention):
            make = attention._remember

            def counted(states, mask, first, make=make, of_source=attention is layer.attention):
                remembered.append((of_source, first, states.shape[1]))
                return make(states, mask, first)

            monkeypatch.setattr(attention, "_remember", counted)
    encoded = model.encode(torch.full((B, S), 5), MASK)
    state = model.decoder.start(encoded)
    assert remembered == [(True, 0, S)] * 3
    for t in range(3):
        remembered.clear()
        state = model.decoder.step(torch.full((B,), 6), state).state
        assert remembered == [(False, t, 1)] * 3
    assert [layer.past.keys.shape for layer in state.layers] == [(B, HEADS, 3, HEAD)] * 3


def test_dropout_is_where_it_is_said_to_be():
    """On embeddings, inside each network, and on what each part of a layer yields."""
    model = build_model(tiny(dropout=0.5), W, W).train()
    calls = []
    model.dropout.register_forward_hook(lambda module, given, out: calls.append(out.shape[1:]))
    encoded = model.encode(torch.full((B, S), 5), MASK)
    assert calls == [(S, D)] + 2 * [(S, D), (S, FF), (S, D)]
    calls.clear()
    model.decoder.teach(torch.full((B, T), 6), encoded)
    assert calls == [(T, D)] + 3 * [(T, D), (T, D), (T, FF), (T, D)]


def test_weights_are_of_the_looks_at_the_source_of_all_layers():
    model = build(tiny())
    encoded = model.encode(torch.full((B, S), 5), MASK)
    tokens = torch.full((B, T), 6)
    assert model.decoder.teach(tokens, encoded).weights.shape == (B, T, 3, HEADS, S)
    assert model.decoder.teach(tokens, encoded, look=False).weights is None


def test_a_language_model_looks_at_no_source():
    model = build(language_model())
    encoded = model.encode(torch.full((B, S), 5), MASK)
    assert model.decoder.teach(torch.full((B, T), 6), encoded).weights.shape == (B, T, 0, 1, S)
    assert not [name for name, _ in model.named_parameters() if "around_source" in name or ".attention." in name]


def test_a_pruned_head_adds_nothing():
    """What W_o has for its values is without effect; the same head of another layer is not."""
    for pruned, same in ((("1.0",), True), (("0.0",), False)):
        model = build(tiny(attention=replace(LOOK, pruned=pruned)))
        encoded, tokens = model.encode(torch.full((B, S), 5), MASK), torch.full((B, T), 6)
        before = model.decoder.teach(tokens, encoded).features
        model.decoder.layers[1].attention.heads.W_o.weight.data[:, :HEAD] = 7.0
        assert torch.equal(before, model.decoder.teach(tokens, encoded).features) == same


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (tiny(norm="both"), "model.encoder.norm must be one of pre, post, got 'both'."),
        (
            tiny(decoder=DecoderConfig("transformer", width=D, norm="none")),
            "model.decoder.norm must be one of pre, post, got 'none'.",
        ),
        (tiny(activation="tanh"), "model.encoder.activation must be one of relu, gelu, got 'tanh'."),
        (
            tiny(encoder=EncoderConfig("transformer", width=D, feed_forward=0)),
            "model.encoder.feed_forward must be at least 1, got 0.",
        ),
        (
            tiny(decoder=DecoderConfig("transformer", width=26)),
            "model.decoder.width is 26 and model.embedding is 22: a transformer adds the outputs of its layers to its "
            "embeddings, so set both to the same.",
        ),
        (
            tiny(attention=None),
            "A transformer decoder reads the source only by attention, but model.attention is none: give it "
            "attention, or set model.encoder.kind=none for a language model.",
        ),
        (
            tiny(encoder=EncoderConfig(width=13), attention=AttentionConfig("general")),
            "model.attention has no projections, so its context is as wide as the encoder's states, 26, and cannot be "
            "added to the states of a transformer of width 22: set model.attention.project=true.",
        ),
        (
            tiny(attention=replace(LOOK, pruned=("3.1",))),
            "model.attention.pruned contains '3.1', but the last layer is 2, counted from 0.",
        ),
        (
            tiny(self_attention=replace(LOOK, pruned=("3.1",))),
            "model.self_attention.pruned contains '3.1', but the last layer is 2, counted from 0.",
        ),
        (
            tiny(self_attention=replace(LOOK, focus="hard")),
            "model.self_attention.focus=hard gets its reward from the target token that follows each step, and the "
            "steps of an encoder's self-attention have none: use gumbel, which has a gradient of its own.",
        ),
        (
            tiny(self_attention=replace(LOOK, heads=3)),
            "model.self_attention.heads is 3, which does not divide the width of a query, 22: change one of them, or "
            "set model.self_attention.head_width.",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(config, message):
    with pytest.raises(ConfigError) as caught:
        build_model(config, W, W)
    assert str(caught.value) == message
