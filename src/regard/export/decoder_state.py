"""A decoder's state as named tensors, and which of their axes grow with what.

A state is nested tuples of tensors, numbers and None, and each decoder has its own. What a graph passes from step to
step are tensors, always the same ones: numbers become tensors without axes, and what is not there before the first step
(an own past, what was looked at so far) is there with nothing in it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from regard.models.protocol import Decoder, Encoded
from regard.shapes import Tensor

BATCH, SOURCE, PAST, QUESTION = "batch", "source", "past", "question"
"""What an axis may grow with: rows, positions of the source, steps that were taken, tokens of a question."""
SIZES: dict[str, int] = {BATCH: 2, SOURCE: 5, PAST: 3, QUESTION: 4}
"""What graphs are recorded with; none is 1, which torch would take for an axis that never grows."""
Axes = tuple[int | str, ...]
Tree = Any


class Leaf(NamedTuple):
    """One tensor of a state."""

    name: str
    """The way to it: `layers.0.past.keys`."""
    axes: Axes
    """Of each axis its size, or what it grows with."""
    dtype: torch.dtype
    fixed: bool
    """Whether every step leaves it as it is."""

    def empty(self, rows: int, positions: int) -> Tensor:
        """Return what stands for it before the first step."""
        sizes = {BATCH: rows, SOURCE: positions, PAST: 0}
        nothing = torch.zeros([sizes[axis] if isinstance(axis, str) else axis for axis in self.axes], dtype=self.dtype)
        if not self.name.endswith("carry.last"):
            return nothing
        # A look that goes on from the last one begins at the first position.
        first = torch.ones_like(nothing[..., :1])
        return torch.cat([first, nothing[..., 1:]], dim=-1)


def flatten(tree: Tree, name: str = "") -> dict[str, Tensor]:
    """Return the tensors of a state by name; numbers are tensors without axes, and what is None is left out."""
    if tree is None:
        return {}
    if not isinstance(tree, tuple):
        return {name: tree if isinstance(tree, Tensor) else torch.tensor(tree)}
    found: dict[str, Tensor] = {}
    for way, branch in _branches(tree, name):
        found |= flatten(branch, way)
    return found


def rebuild(like: Tree, leaves: Mapping[str, Tensor], name: str = "") -> Tree:
    """Make a state like the given one, of these tensors."""
    if like is None:
        return None
    if not isinstance(like, tuple):
        return leaves[name]
    parts = [rebuild(branch, leaves, way) for way, branch in _branches(like, name)]
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


def _branches(tree: tuple[Any, ...], name: str) -> list[tuple[str, Any]]:
    names = getattr(tree, "_fields", range(len(tree)))
    return [(f"{name}.{part}" if name else str(part), branch) for part, branch in zip(names, tree, strict=True)]


class Layout(NamedTuple):
    """How a decoder's states look from its first step on."""

    like: Tree
    """A state after some steps."""
    leaves: tuple[Leaf, ...]

    def start(self, decoder: Decoder[Any], encoded: Encoded) -> dict[str, Tensor]:
        """Return the tensors before the first step."""
        given = flatten(decoder.start(encoded))
        return {
            leaf.name: given[leaf.name] if leaf.name in given else leaf.empty(*encoded.mask.shape)
            for leaf in self.leaves
        }


def lay_out(decoder: Decoder[Any], encode: Callable[[Mapping[str, int]], Encoded], grows: tuple[str, ...]) -> Layout:
    """Find out how a decoder's states look; `encode` reads something of given sizes, which may grow."""

    @torch.no_grad()
    def after(sizes: Mapping[str, int]) -> tuple[Tree, Tree]:
        encoded = encode(sizes)
        before = state = decoder.start(encoded)
        for _ in range(sizes[PAST]):
            before, state = state, decoder.step(torch.zeros(len(encoded.mask), dtype=torch.long), state).state
        return before, state

    axes = axes_of(lambda sizes: flatten(after(sizes)[1]), (*grows, PAST))
    before, like = after(SIZES)
    last = flatten(before)
    leaves = flatten(like).items()
    return Layout(like, tuple(Leaf(name, axes[name], leaf.dtype, leaf is last.get(name)) for name, leaf in leaves))


def axes_of(make: Callable[[Mapping[str, int]], Mapping[str, Tensor]], grows: tuple[str, ...]) -> dict[str, Axes]:
    """Find out which axes of tensors grow with what, by letting each of these grow."""
    found: dict[str, list[int | str]] = {name: list(tensor.shape) for name, tensor in make(SIZES).items()}
    small = {name: tuple(axes) for name, axes in found.items()}
    for what in grows:
        for name, tensor in make({**SIZES, what: SIZES[what] + 2}).items():
            for axis, size in enumerate(tensor.shape):
                if size != small[name][axis]:
                    found[name][axis] = what
    return {name: tuple(axes) for name, axes in found.items()}
