"""A decoder's state as a flat set of named tensors with known dynamic axes.

A state is a nested tuple of tensors, numbers and None, different for each decoder. A graph passes a fixed set of
tensors from step to step: numbers become 0-d tensors, and parts that do not exist before the first step (the KV cache,
past attention) start as empty tensors.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from regard.models.protocol import Decoder, Encoded
from regard.shapes import Tensor

BATCH, SOURCE, PAST, QUESTION = "batch", "source", "past", "question"
"""The dynamic axes: batch, source positions, steps taken so far, tokens of a question."""
SIZES: dict[str, int] = {BATCH: 2, SOURCE: 5, PAST: 3, QUESTION: 4}
"""The sizes used for tracing; none is 1, which torch would take for a static axis."""
Axes = tuple[int | str, ...]
Tree = Any


class Leaf(NamedTuple):
    """One tensor of a state."""

    name: str
    """Its path in the state: `layers.0.past.keys`."""
    axes: Axes
    """The size of each axis, or the name of a dynamic axis."""
    dtype: torch.dtype
    fixed: bool
    """Whether no step changes it."""

    def empty(self, rows: int, positions: int) -> Tensor:
        """Return its value before the first step, if the decoder's initial state lacks it."""
        sizes = {BATCH: rows, SOURCE: positions, PAST: 0}
        nothing = torch.zeros([sizes[axis] if isinstance(axis, str) else axis for axis in self.axes], dtype=self.dtype)
        if not self.name.endswith("carry.last"):
            return nothing
        # Attention that continues from the previous step's weights starts at the first position.
        first = torch.ones_like(nothing[..., :1])
        return torch.cat([first, nothing[..., 1:]], dim=-1)


def flatten(tree: Tree, name: str = "") -> dict[str, Tensor]:
    """Return the tensors of a state by name; numbers become 0-d tensors, and None is left out."""
    if tree is None:
        return {}
    if not isinstance(tree, tuple):
        return {name: tree if isinstance(tree, Tensor) else torch.tensor(tree)}
    found: dict[str, Tensor] = {}
    for way, branch in _branches(tree, name):
        found |= flatten(branch, way)
    return found


def rebuild(like: Tree, leaves: Mapping[str, Tensor], name: str = "") -> Tree:
    """Return a state with the structure of `like` and these tensors."""
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
    """The structure of a decoder's states from the first step on."""

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
    """Determine the layout of a decoder's states by running it; `encode` encodes random input of given sizes."""

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
    """Determine the dynamic axes of tensors by running `make` with each size increased in turn."""
    found: dict[str, list[int | str]] = {name: list(tensor.shape) for name, tensor in make(SIZES).items()}
    small = {name: tuple(axes) for name, axes in found.items()}
    for what in grows:
        for name, tensor in make({**SIZES, what: SIZES[what] + 2}).items():
            for axis, size in enumerate(tensor.shape):
                if size != small[name][axis]:
                    found[name][axis] = what
    return {name: tuple(axes) for name, axes in found.items()}
