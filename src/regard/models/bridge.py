"""The decoder's initial state, computed from the encoder's output."""

import torch
from torch import nn

from regard.config import DecoderConfig
from regard.errors import ConfigError
from regard.layers.rnn_cells import CellState
from regard.masks import erase
from regard.models.protocol import Encoded, Summary
from regard.shapes import Float, Tensor

STARTS = ("last", "mean")


class Bridge(nn.Module):
    r"""Start each decoder layer from the corresponding encoder layer, the topmost from the topmost.

    A decoder that continues where the encoder ended takes over the state unchanged, if cell, width and direction are
    the same (Sutskever et al. 2014; Luong et al. 2015). Otherwise `s_0 = \tanh(W_s h)` (Cho et al. 2014, section 2.2).
    For a bidirectional encoder `h` is the state of the backward direction, which has just read the first word (Bahdanau
    et al. 2014, appendix A.2.2); without attention it is both, since nothing else of the source gets through. An LSTM's
    memory starts likewise, or from zero if the encoder has none. The upper layers of a deeper decoder all start from
    the encoder's topmost layer. With `start="mean"`, `h` is the mean of all states (Sennrich et al. 2017). Without an
    encoder (a language model) everything starts from zero.
    """

    def __init__(
        self, summary: Summary, state_width: int, decoder: DecoderConfig, has_attention: bool, goes_on: bool = False
    ) -> None:
        """`goes_on` says that the decoder may take over states unchanged."""
        super().__init__()
        if decoder.start not in STARTS:
            raise ConfigError(f"model.decoder.start must be one of {', '.join(STARTS)}, got {decoder.start!r}.")
        self.of_mean = decoder.start == "mean" and summary.layers > 0
        self.width = decoder.width
        self.encoder_layers = 1 if self.of_mean else summary.layers
        self.decoder_layers = decoder.layers
        both = summary.directions == 2 and not has_attention
        self.read_width = state_width if self.of_mean else summary.width * (2 if both else 1)
        self.has_memory = decoder.cell == "lstm"
        self.reads_memory = summary.has_memory and not self.of_mean
        alike = (summary.cell, summary.width, summary.directions) == (decoder.cell, decoder.width, 1)
        kinds = 1 + (self.has_memory and self.reads_memory)
        self.W_s = (
            None
            if (alike and goes_on and not self.of_mean) or not self.encoder_layers
            else nn.ModuleList(nn.Linear(self.read_width, decoder.width) for _ in range(kinds * decoder.layers))
        )

    def forward(self, encoded: Encoded) -> tuple[CellState, ...]:
        """Return the initial state of every decoder layer."""
        if not self.encoder_layers:
            zero = encoded.states.new_zeros(encoded.states.shape[0], self.width)
            return (CellState(zero, zero if self.has_memory else None),) * self.decoder_layers
        summary = mean_state(encoded)[:, None] if self.of_mean else encoded.summary
        states = []
        for layer in range(self.decoder_layers):
            beside = min(layer + max(self.encoder_layers - self.decoder_layers, 0), self.encoder_layers - 1)
            hidden = self._carry(summary[:, beside], layer)
            if not self.has_memory:
                states.append(CellState(hidden))
            elif self.reads_memory:
                memory = summary[:, self.encoder_layers + beside]
                states.append(CellState(hidden, self._carry(memory, self.decoder_layers + layer)))
            else:
                states.append(CellState(hidden, torch.zeros_like(hidden)))
        return tuple(states)

    def _carry(self, final: Float[Tensor, "B E"], number: int) -> Float[Tensor, "B D"]:
        if self.W_s is None:
            return final
        return torch.tanh(self.W_s[number](final[:, -self.read_width :]))


def mean_state(encoded: Encoded) -> Float[Tensor, "B D"]:
    """Return the mean of the real states of each row."""
    real = erase(encoded.states, encoded.mask)
    return real.sum(dim=1) / encoded.mask.sum(dim=1, keepdim=True).clamp(min=1)
