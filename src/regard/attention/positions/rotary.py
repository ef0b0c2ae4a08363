"""Rotary positions."""

import torch

from regard.attention.positions.base import Position, PositionSizes, positions
from regard.errors import ConfigError
from regard.shapes import Float, Place, Tensor, places


@positions.register("rotary")
class Rotary(Position):
    r"""Rotate each pair of units of queries and keys by an angle proportional to the position (Su et al. 2021, eq. 34).

    .. math::
        \begin{pmatrix} x'_{2i} \\ x'_{2i+1} \end{pmatrix} =
        \begin{pmatrix} \cos m\theta_i & -\sin m\theta_i \\ \sin m\theta_i & \cos m\theta_i \end{pmatrix}
        \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix} \qquad \theta_i = 10000^{-2i/d}

    The inner product of a query at `m` and a key at `n` then depends on `m - n` alone. Nothing is learned, and there is
    no maximum length. Differs from the paper: nothing (pairs count from 0).
    """

    dotted = True

    def __init__(self, sizes: PositionSizes) -> None:
        super().__init__(sizes)
        if sizes.width % 2:
            raise ConfigError(
                f"Rotary positions rotate pairs of units, so the width of a head must be even, got {sizes.width}: set "
                "model.self_attention.head_width to an even number."
            )

    def turn(self, heads: Float[Tensor, "B H T K"], first: Place) -> Float[Tensor, "B H T K"]:
        """Rotate queries or keys; the first is at position `first`."""
        steps, width = heads.shape[2:]
        # At least float32: half precision cannot tell neighbouring positions apart.
        exact = torch.promote_types(heads.dtype, torch.float32)
        m = places(first, steps, heads.device, exact)
        theta = 10000.0 ** (-torch.arange(0, width, 2, device=heads.device, dtype=exact) / width)
        angle = m[:, None] * theta
        even, odd = heads[..., 0::2].to(exact), heads[..., 1::2].to(exact)
        turned = (even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos())
        return torch.stack(turned, dim=-1).flatten(-2).to(heads.dtype)
