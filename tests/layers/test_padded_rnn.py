"""A recurrent network as one operation equals torch's own over packed rows."""

import pytest
import torch
from torch import nn

from regard.layers.padded_rnn import read_padded
from regard.models.recurrent_encoder import pack, unpack


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_rows_are_read_as_far_as_they_are_real(kind, bidirectional):
    torch.manual_seed(1)
    network = kind(5, 7, batch_first=True, bidirectional=bidirectional)
    sequence, lengths = torch.randn(3, 11, 5), torch.tensor([4, 11, 1])
    with torch.no_grad():
        packed, final = network(pack(sequence, lengths))
        outputs, own = read_padded(network, sequence, lengths)
        torch.testing.assert_close(outputs, unpack(packed, 11))
        torch.testing.assert_close(own, final)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_first_state_is_gone_on_from(kind):
    torch.manual_seed(1)
    network, sequence, first = kind(5, 7, batch_first=True), torch.randn(3, 11, 5), torch.randn(1, 3, 7)
    state = (first, first + 1) if kind is nn.LSTM else first
    with torch.no_grad():
        torch.testing.assert_close(read_padded(network, sequence, state=state), network(sequence, state))
