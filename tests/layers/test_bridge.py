"""How a decoder's first state comes from the encoder's last ones. Axes are distinct primes."""

import itertools

import pytest
import torch

from regard.config import DecoderConfig, EncoderConfig
from regard.errors import ConfigError
from regard.models.bridge import Bridge
from regard.models.protocol import Encoded, Summary

B, E, D = 2, 3, 5


def summary(encoder):
    """Number every final state: hidden ones first, then an LSTM's memories, the backward direction last."""
    kinds = 2 if encoder.cell == "lstm" else 1
    width = encoder.width * (2 if encoder.bidirectional else 1)
    return torch.randn(B, kinds * encoder.layers, width, generator=torch.Generator().manual_seed(1))


def bridge_of(encoder, decoder, has_attention, goes_on=False):
    directions = 2 if encoder.bidirectional else 1
    shape = Summary(encoder.cell, encoder.layers, encoder.width, directions)
    return Bridge(shape, encoder.width * directions, decoder, has_attention, goes_on)


def encoded(final):
    states = torch.randn(B, 7, final.shape[-1], generator=torch.Generator().manual_seed(2))
    return Encoded(states, torch.arange(7) < torch.tensor([7, 4])[:, None], final)


@pytest.mark.parametrize(
    ("reads", "writes", "layers", "decoder_layers", "bidirectional", "has_attention"),
    [*itertools.product(("gru", "lstm"), ("gru", "lstm"), (1, 2), (1, 3), (False, True), (False, True))],
)
def test_every_combination_starts_every_layer(reads, writes, layers, decoder_layers, bidirectional, has_attention):
    encoder = EncoderConfig(cell=reads, layers=layers, width=E, bidirectional=bidirectional)
    decoder = DecoderConfig(cell=writes, layers=decoder_layers, width=D)
    bridge = bridge_of(encoder, decoder, has_attention)
    final = summary(encoder).requires_grad_()
    states = bridge(encoded(final))
    assert len(states) == decoder_layers
    for state in states:
        assert state.hidden.shape == (B, D)
        assert (state.memory is None) == (writes == "gru")
        assert state.memory is None or state.memory.shape == (B, D)
    sum((part.sum() for state in states for part in state if part is not None), torch.zeros(())).backward()
    assert all(parameter.grad is not None for parameter in bridge.parameters())
    forward, backward = final.grad[..., :E], final.grad[..., -E:]
    assert (backward != 0).any()
    # With attention the forward direction's last state is left to be looked at.
    assert (forward != 0).any() == (not bidirectional or not has_attention)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_states_of_the_same_kind_are_handed_over_as_they_are(cell):
    encoder = EncoderConfig(cell=cell, layers=2, width=E, bidirectional=False)
    bridge = bridge_of(encoder, DecoderConfig(cell=cell, layers=3, width=E), has_attention=False, goes_on=True)
    final = summary(encoder)
    states = bridge(encoded(final))
    assert [*bridge.parameters()] == []
    for layer, beside in enumerate((0, 1, 1)):  # where the decoder is deeper, from the topmost
        assert torch.equal(states[layer].hidden, final[:, beside])
        if cell == "lstm":
            assert torch.equal(states[layer].memory, final[:, 2 + beside])


def test_otherwise_it_is_the_paper_s_layer():
    """Bahdanau et al. 2014, appendix A.2.2: s_0 = tanh(W_s h), of the backward direction (here with a bias)."""
    encoder = EncoderConfig(cell="gru", width=E, bidirectional=True)
    bridge = bridge_of(encoder, DecoderConfig(cell="gru", width=D), has_attention=True)
    final = summary(encoder)
    W_s = bridge.W_s[0]
    torch.testing.assert_close(bridge(encoded(final))[0].hidden, torch.tanh(final[:, 0, E:] @ W_s.weight.T + W_s.bias))


def test_a_memory_starts_from_zero_where_the_encoder_has_none():
    encoder = EncoderConfig(cell="gru", width=E, bidirectional=False)
    (state,) = bridge_of(encoder, DecoderConfig(cell="lstm", width=D), has_attention=True)(encoded(summary(encoder)))
    assert (state.memory == 0).all()


def test_a_decoder_may_start_from_the_mean_of_all_real_states():
    encoder = EncoderConfig(cell="lstm", layers=2, width=E, bidirectional=True)
    bridge = bridge_of(encoder, DecoderConfig(cell="lstm", layers=2, width=D, start="mean"), has_attention=True)
    given = encoded(summary(encoder))
    mean = torch.stack([given.states[0].mean(dim=0), given.states[1, :4].mean(dim=0)])
    for layer, state in enumerate(bridge(given)):
        W_s = bridge.W_s[layer]
        torch.testing.assert_close(state.hidden, torch.tanh(mean @ W_s.weight.T + W_s.bias))
        assert (state.memory == 0).all()


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_without_an_encoder_everything_starts_from_zero(cell):
    bridge = Bridge(Summary("", 0, 0), 0, DecoderConfig(cell=cell, layers=2, width=D), has_attention=False)
    states = bridge(Encoded(torch.zeros(B, 7, 0), torch.ones(B, 7, dtype=torch.bool), torch.zeros(B, 0, 0)))
    assert len(states) == 2
    assert all((part == 0).all() and part.shape == (B, D) for state in states for part in state if part is not None)


def test_an_unknown_start_is_refused():
    with pytest.raises(ConfigError) as caught:
        Bridge(Summary("gru", 1, E), E, DecoderConfig(start="first"), has_attention=True)
    assert str(caught.value) == "model.decoder.start must be one of last, mean, got 'first'."
