"""The best few words of each row of logits, and what all of them sum up to."""

from typing import NamedTuple

from regard.decoding.token_limits import NEVER
from regard.shapes import Bool, Float, Int, Tensor
from regard.step_loop import runs_kernels

MOST = 16
"""Words that the kernel takes one by one."""
WIDEST = 32768
"""The widest row that fits into a GPU's registers."""


class Top(NamedTuple):
    """What may follow each hypothesis."""

    logits: Float[Tensor, "B N"]
    """The largest that are not forbidden, best first; -inf where there are fewer."""
    words: Int[Tensor, "B N"]
    whole: Float[Tensor, " B"]
    """The log of what all exponentials sum up to, those of forbidden words too."""


def top_of(logits: Float[Tensor, "B W"], forbidden: Bool[Tensor, " W"], count: int) -> Top:
    """Find the `count` best of each row, or all where there are fewer."""
    count = min(count, logits.shape[1])
    if count <= MOST and logits.shape[1] <= WIDEST and runs_kernels(logits.device):
        from regard.decoding.search_kernels import top

        return Top(*top(logits, forbidden, count))
    logits = logits.float()
    best = logits.masked_fill(forbidden, NEVER).topk(count, dim=1)
    return Top(best.values, best.indices, logits.logsumexp(dim=-1))
