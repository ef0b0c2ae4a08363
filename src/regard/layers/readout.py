"""Readouts: what lies between a decoder's state and its output layer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import nn

from regard.batched_weight_gradients import Linear
from regard.registry import Registry
from regard.shapes import Float, Tensor


class Readout(nn.Module, ABC):
    """Merges the decoder's state with other inputs of the prediction (the context, the previous word)."""

    output_width: int

    def __init__(self, part_widths: Sequence[int], width: int) -> None:
        """`part_widths` are the widths of the state and then of the other parts."""
        super().__init__()
        self.output_width = width

    @abstractmethod
    def forward(self, parts: Sequence[Float[Tensor, "B *T _"]]) -> Float[Tensor, "B *T D"]:
        """Merge the parts, the state first."""


readouts: Registry[type[Readout]] = Registry("readout", "readouts")


@readouts.register("maxout")
class Maxout(Readout):
    r"""A maxout layer: hidden units in pairs, of which the larger is kept (Bahdanau et al. 2014, appendix A.2.2).

    .. math:: \tilde t = U_o s_i + V_o E y_{i-1} + C_o c_i, \qquad t_j = \max(\tilde t_{2j-1}, \tilde t_{2j})

    Differs from the paper: it reads the new state `s_i`, as the paper's equation 4 has it, where the appendix writes
    `s_{i-1}`; and there is a bias.
    """

    def __init__(self, part_widths: Sequence[int], width: int) -> None:
        super().__init__(part_widths, width)
        self.hidden = Linear(sum(part_widths), 2 * width)

    def forward(self, parts: Sequence[Float[Tensor, "B *T _"]]) -> Float[Tensor, "B *T D"]:
        """Merge the parts."""
        first, second = self.hidden(torch.cat(tuple(parts), dim=-1)).chunk(2, dim=-1)
        return torch.maximum(first, second)


@readouts.register("tanh")
class Tanh(Readout):
    r"""The attentional vector (Luong et al. 2015, equation 5).

    .. math:: \tilde h_t = \tanh(W_c [c_t; h_t])

    Differs from the paper: nothing (the order of the parts makes no difference).
    """

    def __init__(self, part_widths: Sequence[int], width: int) -> None:
        super().__init__(part_widths, width)
        self.W_c = Linear(sum(part_widths), width, bias=False)

    def forward(self, parts: Sequence[Float[Tensor, "B *T _"]]) -> Float[Tensor, "B *T D"]:
        """Merge the parts."""
        return torch.tanh(self.W_c(torch.cat(tuple(parts), dim=-1)))


@readouts.register("sum")
class Sum(Readout):
    r"""The deep output layer (Xu et al. 2015, equation 7).

    .. math:: p(y_t) \propto \exp(L_o (E y_{t-1} + L_h h_t + L_z \hat z_t))

    where `L_o` is the output layer. Differs from the paper: the previous word is projected too, so that its width need
    not be that of the sum.
    """

    def __init__(self, part_widths: Sequence[int], width: int) -> None:
        super().__init__(part_widths, width)
        self.L = Linear(sum(part_widths), width, bias=False)

    def forward(self, parts: Sequence[Float[Tensor, "B *T _"]]) -> Float[Tensor, "B *T D"]:
        """Merge the parts."""
        merged: Tensor = self.L(torch.cat(tuple(parts), dim=-1))
        return merged


@readouts.register("none")
class Bare(Readout):
    """The decoder's state alone (Sutskever et al. 2014)."""

    def __init__(self, part_widths: Sequence[int], width: int) -> None:
        super().__init__(part_widths, part_widths[0])

    def forward(self, parts: Sequence[Float[Tensor, "B *T _"]]) -> Float[Tensor, "B *T D"]:
        """Return the state."""
        return parts[0]
