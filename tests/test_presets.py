"""Every preset makes a model, and the papers' four have as many weights as the papers' sizes give."""

import pytest
import torch

from regard.errors import ConfigError
from regard.presets import preset, presets
from regard.presets.vision import any_preset, visions
from regard.task import build_empty

SOURCE, TARGET = 31, 37
LARGE = ("sutskever2014", "cho2014", "bahdanau2014", "luong2015")


def model(name):
    """Make a preset's model with tiny vocabularies, without memory for its weights."""
    config = preset(name).model
    with torch.device("meta"):
        return build_empty(config, SOURCE, SOURCE if config.tie == "all" else TARGET)


def weights(name):
    return sum(parameter.numel() for parameter in model(name).parameters())


def linear(inputs, outputs):
    return inputs * outputs + outputs


def gru(inputs, width):
    """Three gates; each reads the input and the state, with a bias for either."""
    return 3 * (inputs * width + width * width + 2 * width)


def lstm(inputs, width):
    return 4 * (inputs * width + width * width + 2 * width)


@pytest.mark.parametrize("name", [*presets])
def test_every_preset_makes_a_model(name):
    assert weights(name) > 0


@pytest.mark.parametrize("name", LARGE)
def test_every_preset_has_a_small_sibling_of_the_same_kind(name):
    large, small = preset(name).model, preset(f"{name}-small").model
    assert weights(f"{name}-small") < weights(name) / 3
    for part in ("cell", "bidirectional", "residual"):
        assert getattr(small.encoder, part) == getattr(large.encoder, part)
    for part in ("kind", "cell", "residual", "input_feeding", "readout"):
        assert getattr(small.decoder, part) == getattr(large.decoder, part)
    assert (small.attention is None) == (large.attention is None)
    if large.attention is not None:
        assert small.attention.score == large.attention.score
    assert small.reverse_source == large.reverse_source


def test_every_system_has_a_small_sibling_but_those_that_are_sizes_of_another():
    alone = {name for name in presets if not name.endswith("-small") and f"{name}-small" not in presets}
    assert alone == {"transformer2017-big", "transformer2017-tiny"}


@pytest.mark.parametrize("name", [*presets])
def test_a_preset_says_which_it_is(name):
    assert preset(name).preset == name
    assert presets[name].__doc__


def test_an_unknown_preset():
    with pytest.raises(ConfigError) as caught:
        preset("bahdanau2015")
    assert str(caught.value) == (
        "No preset named 'bahdanau2015'. Did you mean 'bahdanau2014'? (regard list presets shows all)"
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [("captioner-smal", "captioner-small"), ("hu2017", "hu2017-se"), ("bahdanau2015", "bahdanau2014")],
)
def test_an_unknown_preset_of_texts_or_pictures(name, meant):
    with pytest.raises(ConfigError) as caught:
        any_preset(name)
    assert str(caught.value) == (
        f"No preset named {name!r}. Did you mean {meant!r}? (regard list presets and regard list visions show all)"
    )


@pytest.mark.parametrize("name", [*presets, *visions])
def test_any_preset_is_found(name):
    assert any_preset(name).preset == name


def test_sutskever2014_has_the_paper_s_size():
    """Section 3.4: four layers of 1000 cells, 1000-dimensional embeddings; the two LSTMs share nothing."""
    E = n = 1000
    layers = lstm(E, n) + 3 * lstm(n, n)
    assert weights("sutskever2014") == SOURCE * E + layers + TARGET * E + layers + linear(n, TARGET)
    # Section 3.4 counts 64M recurrent weights, 32M for each LSTM, and neither biases nor words.
    biases = 4 * 2 * 4 * n
    assert 2 * (layers - biases) == 64_000_000


def test_cho2014_has_the_paper_s_size():
    """Appendix A and section 4.1: 1000 hidden units, words of 100 dimensions, 500 maxout units of 2 each."""
    E, n, maxout = 100, 1000, 500
    encoder = gru(E, n)
    decoder = gru(E, n) + 3 * n * n  # the context enters every gate
    start = linear(n, n)  # the first state is tanh(V c)
    readout = linear(n + E + n, 2 * maxout)  # reads the state, the word before and the context
    assert weights("cho2014") == SOURCE * E + encoder + TARGET * E + start + decoder + readout + linear(maxout, TARGET)


def test_bahdanau2014_has_the_paper_s_size():
    """Appendix B.1: n = 1000, m = 620, l = 500, n' = 1000."""
    n, m, maxout, hidden = 1000, 620, 500, 1000
    encoder = 2 * gru(m, n)
    attention = n * hidden + 2 * n * hidden + hidden  # W_a, U_a, v_a
    first_state = linear(n, n)  # W_s, from the backward state
    decoder = gru(m, n) + 3 * (2 * n) * n  # C, C_z, C_r
    readout = linear(n + m + 2 * n, 2 * maxout)  # U_o, V_o, C_o
    total = SOURCE * m + encoder + attention + first_state + TARGET * m + decoder + readout + linear(maxout, TARGET)
    assert weights("bahdanau2014") == total


def test_luong2015_has_the_paper_s_size():
    """Section 4.1: four layers of 1000 cells, 1000-dimensional embeddings; input feeding doubles the lowest input."""
    E = n = 1000
    encoder = lstm(E, n) + 3 * lstm(n, n)
    decoder = encoder + 4 * n * n  # the attentional vector enters the lowest layer
    attention = n * n  # W_a of the general score
    readout = 2 * n * n  # W_c of equation 5
    assert weights("luong2015") == (
        SOURCE * E + encoder + TARGET * E + decoder + attention + readout + linear(n, TARGET)
    )
