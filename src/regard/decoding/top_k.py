"""The largest few logits of each row, with the log-sum-exp of all.

Of equal logits greedy search takes the first, on every device. With a wider beam their order is unspecified: the kernel
and the C++ library take the first ones, but `torch.topk` promises no order, and sorting to have one would cost time.
"""

from typing import NamedTuple

from regard.decoding.search_loop import best
from regard.decoding.token_limits import NEVER
from regard.devices import runs_kernels
from regard.shapes import Bool, Float, Int, Tensor

MOST = 16
"""Maximum k of the kernel, which finds the words one by one."""
WIDEST = 32768
"""Maximum row width that fits into a GPU's registers."""


class TopLogits(NamedTuple):
    """The best next words of each hypothesis."""

    logits: Float[Tensor, "B N"]
    """The largest that are not forbidden, best first; -inf if there are fewer."""
    words: Int[Tensor, "B N"]
    log_sum_exp: Float[Tensor, " B"]
    """Log-sum-exp of all logits, those of forbidden words included."""


def top_k_logits(logits: Float[Tensor, "B W"], forbidden: Bool[Tensor, " W"], count: int) -> TopLogits:
    """Return the `count` best of each row, or all if there are fewer."""
    count = min(count, logits.shape[1])
    if count <= MOST and logits.shape[1] <= WIDEST and runs_kernels(logits.device):
        from regard.decoding.search_kernels import top

        return TopLogits(*top(logits, forbidden, count))
    logits = logits.float()
    return TopLogits(*best(logits.masked_fill(forbidden, NEVER), count), logits.logsumexp(dim=-1))
