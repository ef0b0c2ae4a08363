"""Attention to two tapes at once: the hidden states of an LSTMN and their memories."""

from dataclasses import replace

import torch
from torch import nn

from regard.attention import Attended, Carry, Memory, build_attention, scores
from regard.attention.positions import Position, positions
from regard.attention.score.dot import Dot
from regard.config import AttentionConfig
from regard.shapes import Bool, Float, Int, Tensor


class TapeAttention(nn.Module):
    r"""Attention weights from the hidden tape, applied to both tapes (Cheng et al. 2016, section 3.2).

    .. math:: s = \mathrm{focus}(\mathrm{score}(q, h_i)) \qquad [\tilde h; \tilde c] = \sum_i s_i [h_i; c_i]

    It works with any score, reach and focus. A score that compares query and key directly (dot, scaled-dot, cosine)
    gets the query projected to the width of a key. With learned projections of values (`heads`, `project`, `values`),
    and with positions that add to contexts, keys and values are computed from both tapes at once; the joined heads are
    projected to the width of both.
    Differs from the paper: everything beyond the additive score with one head.
    """

    def __init__(
        self,
        config: AttentionConfig,
        query_width: int,
        width: int,
        *,
        itself: bool = False,
        position: str = "none",
        layer: int = 0,
    ) -> None:
        """`width` is that of one tape; the other settings are those of `build_attention`."""
        super().__init__()
        projected = config.project or config.heads > 1
        adds = position != "none" and positions[position].seen is not Position.seen
        self.plain = not (projected or config.values or adds)
        if projected and not config.head_width:
            config = replace(config, head_width=max(1, width // max(1, config.heads)))
        key_width = width if self.plain else 2 * width
        mapped = not projected and issubclass(scores[config.score], Dot)
        self.W_q = nn.Linear(query_width, key_width, bias=False) if mapped else None
        self.attention = build_attention(
            config,
            key_width if mapped else query_width,
            key_width,
            itself=itself,
            causal=itself,
            position=position,
            layer=layer,
        )
        self.context_width = 2 * width
        self.W_both = nn.Linear(self.attention.context_width, 2 * width, bias=False) if projected else None

    def remember(
        self,
        hidden: Float[Tensor, "B S D"],
        memories: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        first: int = 0,
    ) -> Memory:
        """Compute keys and values of two tapes; `first` is the position of their first entry."""
        both = torch.cat([hidden, memories], dim=-1)
        if not self.plain:
            return self.attention.remember(both, mask, first)
        values = both.masked_fill(~mask[..., None], 0.0)
        return self.attention.remember(hidden, mask, first)._replace(values=values[:, None])

    def extend(self, memory: Memory | None, hidden: Float[Tensor, "B D"], memories: Float[Tensor, "B D"]) -> Memory:
        """Append one entry to both tapes; None is an empty tape."""
        real = torch.ones(hidden.shape[0], 1, dtype=torch.bool, device=hidden.device)
        first = 0 if memory is None else memory.mask.shape[1]
        new = self.remember(hidden[:, None], memories[:, None], real, first)
        return new if memory is None else memory.extended(new)

    def alone(self, memory: Memory, rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> Float[Tensor, "N D"]:
        """Return the context over both tapes when all weight is on one given position of a row."""
        seen = self.attention.alone(memory, rows, places)
        return seen if self.W_both is None else self.W_both(seen)

    def forward(
        self, query: Float[Tensor, "B T Q"], memory: Memory, carry: Carry | None = None, look: bool = True
    ) -> Attended:
        """Attend; the context is that of the hidden tape followed by that of the memories."""
        asked = query if self.W_q is None else self.W_q(query)
        attended: Attended = self.attention(asked, memory, carry, look)
        return attended if self.W_both is None else attended._replace(context=self.W_both(attended.context))
