"""Readouts against the papers' equations, one unit at a time. Axes are distinct primes."""

import pytest
import torch

from regard.layers.readout import Bare, Maxout, Sum, Tanh, readouts

B, T = 2, 3
STATE, WORD, CONTEXT, WIDTH = 5, 7, 11, 13


@pytest.fixture
def parts():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(B, T, width, dtype=torch.float64, generator=generator) for width in (STATE, WORD, CONTEXT)]


def made(kind):
    torch.manual_seed(2)
    return kind([STATE, WORD, CONTEXT], WIDTH).double()


def test_maxout_takes_the_larger_of_each_pair(parts):
    """Bahdanau et al. 2014, appendix A.2.2: t~ = U_o s + V_o Ey + C_o c; which two units are a pair is a naming."""
    readout = made(Maxout)
    U_o, V_o, C_o = readout.hidden.weight.split([STATE, WORD, CONTEXT], dim=1)
    state, word, context = parts
    found = readout(parts)
    assert found.shape == (B, T, WIDTH)
    for b in range(B):
        for t in range(T):
            both = U_o @ state[b, t] + V_o @ word[b, t] + C_o @ context[b, t] + readout.hidden.bias
            for j in range(WIDTH):
                torch.testing.assert_close(found[b, t, j], max(both[j], both[j + WIDTH]))


def test_tanh_is_the_attentional_vector(parts):
    """Luong et al. 2015, equation 5: tanh(W_c [c; h]), here with the state first."""
    readout = made(Tanh)
    found = readout(parts)
    for b in range(B):
        for t in range(T):
            joined = torch.cat([part[b, t] for part in parts])
            torch.testing.assert_close(found[b, t], torch.tanh(readout.W_c.weight @ joined))
    assert [name for name, _ in readout.named_parameters()] == ["W_c.weight"]


def test_sum_is_the_deep_output(parts):
    """Xu et al. 2015, equation 7: E y + L_h h + L_z z, here with a map of E y too."""
    readout = made(Sum)
    L_h, L_y, L_z = readout.L.weight.split([STATE, WORD, CONTEXT], dim=1)
    state, word, context = parts
    found = readout(parts)
    for b in range(B):
        for t in range(T):
            torch.testing.assert_close(found[b, t], L_y @ word[b, t] + L_h @ state[b, t] + L_z @ context[b, t])
    assert [name for name, _ in readout.named_parameters()] == ["L.weight"]


def test_none_is_the_state_itself(parts):
    readout = made(Bare)
    assert readout(parts) is parts[0]
    assert readout.output_width == STATE
    assert [*readout.parameters()] == []


@pytest.mark.parametrize("name", [*readouts])
def test_every_readout_is_as_wide_as_it_says(name, parts):
    readout = made(readouts[name])
    assert readout(parts).shape == (B, T, readout.output_width)


@pytest.mark.parametrize("name", [*readouts])
def test_a_step_alone_is_that_step_of_all(name, parts):
    readout = made(readouts[name])
    torch.testing.assert_close(readout([part[:, 1] for part in parts]), readout(parts)[:, 1])


@pytest.mark.parametrize("name", [*readouts])
def test_the_state_alone_will_do(name):
    readout = readouts[name]([STATE], WIDTH)
    assert readout([torch.randn(B, T, STATE)]).shape == (B, T, readout.output_width)
