"""Monotonic attention in evaluation: score only the positions that each step moves over."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from regard.attention.base import Memory
from regard.shapes import Bool, Float, Int, Tensor

STRETCH = 16
"""Positions scored at once: one by one would be too many small products."""


class Stopped(NamedTuple):
    """Where each head of each row stopped."""

    at: Int[Tensor, "B H"]
    """Position where it stopped; the starting position if it stopped nowhere."""
    found: Bool[Tensor, "B H"]
    """Whether it stopped."""


def go_on(
    fits: Callable[[Float[Tensor, "B H N K"]], Bool[Tensor, "B H N"]], memory: Memory, start: Int[Tensor, "B H"]
) -> Stopped:
    """Move from each start to the first real position whose key fits, scoring `STRETCH` positions at a time.

    All steps of a sentence together score about `STRETCH` positions each, plus the source once, as each step continues
    where the last one stopped.
    """
    places = torch.arange(1, memory.mask.shape[1] + 1, device=start.device)
    end = (memory.mask * places).amax(dim=1)[:, None]
    at, found, near = start, torch.zeros_like(start, dtype=torch.bool), start
    while bool((~found & (near < end)).any()):
        index = near[..., None] + torch.arange(STRETCH, device=start.device)
        real = (index < end[..., None]) & memory.mask[_rows(index), index.clamp_max(memory.mask.shape[1] - 1)]
        stops = fits(pick_heads(memory.keys, index)) & real & ~found[..., None]
        first = index.gather(-1, stops.int().argmax(dim=-1, keepdim=True)).squeeze(-1)
        hit = stops.any(dim=-1)
        at, found, near = torch.where(hit, first, at), found | hit, near + STRETCH
    return Stopped(at, found)


def pick_heads(rows: Float[Tensor, "B G S K"], index: Int[Tensor, "B H N"]) -> Float[Tensor, "B H N K"]:
    """Gather positions separately for each head, from the keys or values of its group; out of range gets any."""
    heads, (_, groups, size, _) = index.shape[1], rows.shape
    group = torch.arange(heads, device=index.device)[None, :, None] // (heads // groups)
    return rows[_rows(index), group, index.clamp(0, size - 1)]


def _rows(index: Int[Tensor, "B H N"]) -> Int[Tensor, "B 1 1"]:
    return torch.arange(index.shape[0], device=index.device)[:, None, None]
