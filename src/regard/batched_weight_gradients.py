r"""Loops over steps with cheap gradients: operands that all steps share get their gradient once, after all steps.

A recurrent network multiplies by the same matrices, and attends to the same memory, at every step. Autograd would
accumulate the gradient of such an operand step by step, reading and writing all of it each time:

.. math:: \frac{\partial L}{\partial W} = \sum_t g_t x_t^\top = [g_1 \dots g_T] [x_1 \dots x_T]^\top

Within `decoder_loop` each step keeps its `x_t` and `g_t`, and the right-hand side is one product at the end. On a CPU a
matrix is packed once for fast products. On a GPU, where the number of kernel launches decides the time of a step,
linear maps of the same input become one product. Outside `decoder_loop`, and without gradients, the functions below
are the plain formulas, against which the fast versions are tested.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from regard.deferred_gradients import DeferredGradOp, Shared
from regard.devices import runs_kernels
from regard.masks import exact
from regard.prepacked_matmul import Matrix
from regard.shapes import Float, Tensor

HALF = (torch.bfloat16, torch.float16)


@contextmanager
def decoder_loop(steps: int, *memory: Tensor) -> Iterator[None]:
    """Compute gradients of shared operands once; `memory` are the tensors, beside weights, that all steps attend to.

    Has no effect on a single step, or without gradients.
    """
    if steps < 2 or not torch.is_grad_enabled():
        yield
        return
    token = _current.set(Loop(memory))
    try:
        yield
    finally:
        _current.reset(token)


def in_decoder_loop() -> bool:
    """Whether the code runs within `decoder_loop`."""
    return _current.get() is not None


def current() -> "Loop | None":
    """Return the current loop, if any."""
    return _current.get()


# -- operations for every step of a loop ------------------------------------------------------------------------------


def linear(
    inputs: Float[Tensor, "*N I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None = None,
    add: Float[Tensor, "*N O"] | None = None,
    spent: bool = False,
) -> Float[Tensor, "*N O"]:
    """Apply a linear map, and add `add` if given, which may be overwritten if `spent`."""
    loop = _current.get()
    if loop is not None:
        return loop.map(inputs, (weight,) if bias is None else (weight, bias), add, spent)
    outputs = functional.linear(inputs, weight, bias)
    return outputs if add is None else add + outputs


class Linear(nn.Linear):
    """`nn.Linear` for use at every step of a loop."""

    def forward(self, input: Tensor, add: Tensor | None = None) -> Tensor:
        """Apply it, and add `add` if given, which may be overwritten."""
        return linear(input, self.weight, self.bias, add, spent=True)


def products(query: Float[Tensor, "B H T K"], keys: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
    """Inner products of queries with the keys of a memory."""
    loop = _current.get()
    if loop is not None and loop.knows(keys):
        return loop.shared(_Products, keys).apply(query)
    return query @ keys.transpose(-2, -1)


def weighted_sum(weights: Float[Tensor, "B H T S"], values: Float[Tensor, "B H S V"]) -> Float[Tensor, "B H T V"]:
    """Weighted sums of the values of a memory."""
    loop = _current.get()
    if loop is not None and loop.knows(values):
        return loop.shared(_WeightedSum, values).apply(weights)
    return weights @ values


def tanh_scores(
    query: Float[Tensor, "B H T A"], keys: Float[Tensor, "B H S A"], vectors: Float[Tensor, "H A"] | None
) -> Float[Tensor, "B H T S"]:
    r"""Additive scores: `v^\top \tanh(q + k)`, or without `vectors` the sum of the units."""
    loop = _current.get()
    whole = keys.dtype not in HALF and not torch.is_autocast_enabled(keys.device.type)
    if loop is not None and (whole or keys.device.type == "cpu") and loop.knows(keys):
        v = keys.new_ones(1, keys.shape[-1]) if vectors is None else vectors
        return loop.shared(_TanhScores, keys, v).apply(query)
    hidden = torch.tanh(query[:, :, :, None] + keys[:, :, None])
    if vectors is None:
        return hidden.sum(dim=-1)
    if vectors.shape[0] == 1:
        return functional.linear(hidden, vectors).squeeze(-1)
    return torch.einsum("bhtsa,ha->bhts", hidden, vectors)


# -- deferred gradients -----------------------------------------------------------------------------------------------


class Loop:
    """State of one loop: its shared operands, by their addresses."""

    def __init__(self, memory: tuple[Tensor, ...]) -> None:
        self._memory = {_key(tensor) for tensor in memory}
        self._shared: dict[Any, Shared] = {}
        self._made: dict[Hashable, Any] = {}
        self._siblings = _Siblings()
        self._names: dict[Any, tuple[_Source, list[Tensor]]] = {}
        """By address, a tensor and its unused aliases."""

    def knows(self, tensor: Tensor) -> bool:
        """Whether a tensor is part of the memory of all steps."""
        return _key(tensor) in self._memory

    def once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Compute something at the first step, and return it at all others."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def shared(self, kind: type[DeferredGradOp], *tensors: Tensor) -> Shared:
        """Return the operation of this kind on these operands, which all steps share."""
        key = (kind, *map(_key, tensors))
        if key not in self._shared:
            self._shared[key] = Shared(kind, tensors)
        return self._shared[key]

    def rename(self, tensor: Tensor, *names: Tensor) -> Tensor:
        """Return a tensor, and keep aliases of it for `take`.

        An operation that returns aliases gets the gradient of each consumer separately, and adds them in its own
        backward, where autograd would launch a kernel for each sum.
        """
        self._names[tensor.data_ptr()] = _Source(tensor), list(names)
        return tensor

    def take(self, tensor: Tensor) -> Tensor:
        """Return an unused alias of a tensor, or the tensor itself if there is none."""
        source, names = self._names.get(tensor.data_ptr(), (None, []))
        if source is None or not names or not tensor.is_contiguous() or not source.is_same(_Source(tensor)):
            return tensor
        return names.pop().view(tensor.shape)

    def map(self, inputs: Tensor, tensors: tuple[Tensor, ...], add: Tensor | None, spent: bool) -> Tensor:
        """Apply a linear map with a weight and possibly a bias."""
        if not runs_kernels(inputs.device):
            return self.shared(_Map, *tensors).apply(inputs, *(() if add is None else (add,)))
        if add is not None and spent:
            return self.shared(_Onto, *tensors).apply(self.take(inputs), add)
        found = self._siblings.map(self, inputs, tensors)
        return found if add is None else found + add


def _key(tensor: Tensor) -> tuple[Any, ...]:
    """Identify a tensor by its address and layout; the caller keeps it alive, so that the address is not reused."""
    return tensor.data_ptr(), tensor.shape, tensor.stride()


_current: ContextVar[Loop | None] = ContextVar("loop", default=None)


class _Siblings:
    """Linear maps of the same input: detected at the second one, and one product from then on."""

    def __init__(self) -> None:
        self._read: dict[Any, tuple[_Source, tuple[Tensor, ...]]] = {}
        """For each map: its last separate input, and its operands."""
        self._led: dict[Any, list[tuple[Tensor, ...]]] = {}
        """For the first map of a group: the operands of the whole group."""
        self._ready: dict[Any, tuple[Any, _Source, Tensor]] = {}
        """For each map of a group: its first map, the input, and the output already computed."""

    def map(self, loop: Loop, inputs: Tensor, tensors: tuple[Tensor, ...]) -> Tensor:
        key, source = _key(tensors[0]), _Source(inputs)
        if key in self._ready:
            leader, read, yielded = self._ready.pop(key)
            if read.is_same(source):
                return yielded.view(*inputs.shape[:-1], -1)
            self._led.pop(leader, None)  # the inputs were the same only by chance, like an initial state of zeros
        if key in self._led:
            return self._together(loop, inputs, key, source)
        self._find(key, source, tensors)
        return loop.shared(_Map, *tensors).apply(loop.take(inputs))

    def _together(self, loop: Loop, inputs: Tensor, key: Any, source: "_Source") -> Tensor:
        maps = self._led[key]
        shared = loop.shared(_Together, *(tensor for one in maps for tensor in one))
        yielded = shared.apply_all(loop.take(inputs))
        for one, part in zip(maps[1:], yielded[1:], strict=True):
            self._ready[_key(one[0])] = key, source, part
        return yielded[0]

    def _find(self, key: Any, source: "_Source", tensors: tuple[Tensor, ...]) -> None:
        others = [other for other, (read, _) in self._read.items() if other != key and read.is_same(source)]
        if others:
            self._led.setdefault(others[0], [self._read[others[0]][1]]).append(tensors)
        self._read[key] = source, tensors


class _Source:
    """Identity of an input: equal for the same memory with the same gradient."""

    def __init__(self, inputs: Tensor) -> None:
        base = inputs._base
        self._kept = inputs if base is None else base  # keeps it alive, so that its address is not reused
        self._place = inputs.data_ptr(), inputs.numel(), inputs.requires_grad

    def is_same(self, other: "_Source") -> bool:
        return self._kept is other._kept and self._place == other._place


# -- the operations ---------------------------------------------------------------------------------------------------


def as_multiplied(operand: Tensor) -> Tensor:
    """Cast an operand as torch would for a matrix product, under autocast too."""
    device = operand.device.type
    cast = torch.is_autocast_enabled(device) and operand.dtype in (torch.float32, *HALF)
    return operand.to(torch.get_autocast_dtype(device)) if cast else operand


class _Map(DeferredGradOp):
    """`W x + b`, plus an optional term."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self._weight = as_multiplied(weight)
        self._bias = None if bias is None else bias.to(self._weight.dtype)
        self._there: Matrix | None = None
        self._back: Matrix | None = None

    def run(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        entering = inputs[0].to(self._weight.dtype).reshape(-1, self._weight.shape[1])
        if self._there is None:
            self._there = Matrix(self._weight, len(entering))
        added = None if len(inputs) == 1 else inputs[1].reshape(len(entering), -1)
        found = self._there.map(entering, self._bias, added)
        return found.view(*inputs[0].shape[:-1], -1), (entering,)

    def back(self, step: int, saved: tuple[Tensor, ...], *slopes: Any) -> tuple[Tensor, ...]:
        slope: Tensor = slopes[0]
        steep = slope.to(self._weight.dtype).reshape(-1, self._weight.shape[0])
        if self._back is None:
            self._back = Matrix(self._weight.t(), len(steep))
        self._keep(step, saved[0], steep)
        entered = self._back.map(steep).view(*slope.shape[:-1], -1)
        return entered, slope

    def collect(self) -> tuple[Tensor, ...]:
        entered, slopes = self._kept(0)
        whole = slopes.t() @ entered
        return (whole,) if self._bias is None else (whole, slopes.sum(dim=0))


class _Onto(_Map):
    """The same, added in place to its second input."""

    def run(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        if self._bias is not None or inputs[1].dtype != self._weight.dtype:
            return super().run(*inputs)
        entering = inputs[0].to(self._weight.dtype).reshape(-1, self._weight.shape[1])
        found = inputs[1].data  # bypasses autograd, which would not allow in-place changes
        found.view(len(entering), -1).addmm_(entering, self._weight.t())
        return found, (entering,)


class _Together(DeferredGradOp):
    """Several maps of the same input: `W_1 x + b_1` and so on; a bias may be missing."""

    def __init__(self, *tensors: Tensor) -> None:
        super().__init__()
        self._weights = [tensor.dim() == 2 for tensor in tensors]
        weights = [tensor for tensor in tensors if tensor.dim() == 2]
        self._widths = [len(weight) for weight in weights]
        self._map = _Map(torch.cat(weights), None if len(weights) == len(tensors) else self._all_biases(tensors))

    def _all_biases(self, tensors: tuple[Tensor, ...]) -> Tensor:
        after = (*tensors[1:], tensors[0])
        pairs = [(one, two) for one, two in zip(tensors, after, strict=True) if one.dim() == 2]
        return torch.cat([two if two.dim() == 1 else one.new_zeros(len(one)) for one, two in pairs])

    def run(self, *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        found, saved = self._map.run(*inputs)
        return torch.split(found, self._widths, dim=-1), saved

    def back(self, step: int, saved: tuple[Tensor, ...], *slopes: Any) -> tuple[Tensor, ...]:
        self._map.learned = self.learned
        like = next(slope for slope in slopes if slope is not None)
        pairs = zip(slopes, self._widths, strict=True)
        whole = [like.new_zeros(*like.shape[:-1], width) if slope is None else slope for slope, width in pairs]
        return self._map.back(step, saved, torch.cat(whole, dim=-1))

    def collect(self) -> tuple[Tensor | None, ...]:
        found = [torch.split(whole, self._widths) for whole in self._map.collect()]
        self._map.kept = {}
        slopes: list[Tensor] = []
        at = -1
        for is_weight in self._weights:
            at += is_weight
            slopes.append(found[0 if is_weight else 1][at])
        return tuple(slopes)


class _Products(DeferredGradOp):
    """`q^T k` for all keys of a memory."""

    def __init__(self, keys: Tensor) -> None:
        super().__init__()
        self._keys = as_multiplied(keys)

    def run(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        query = inputs[0].to(self._keys.dtype)
        return query @ self._keys.transpose(-2, -1), (query,)

    def back(self, step: int, saved: tuple[Tensor, ...], *slopes: Any) -> tuple[Tensor, ...]:
        slope: Tensor = slopes[0]
        slope = slope.to(self._keys.dtype)
        self._keep(step, saved[0], slope)
        return (slope @ self._keys,)

    def collect(self) -> tuple[Tensor, ...]:
        queries, slopes = self._kept(2)
        return (slopes.transpose(-2, -1) @ queries,)


class _WeightedSum(DeferredGradOp):
    """Weighted sums of a memory's values."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self._values = as_multiplied(values)

    def run(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        weights = inputs[0].to(self._values.dtype)
        return weights @ self._values, (weights,)

    def back(self, step: int, saved: tuple[Tensor, ...], *slopes: Any) -> tuple[Tensor, ...]:
        slope: Tensor = slopes[0]
        slope = slope.to(self._values.dtype)
        self._keep(step, saved[0], slope)
        return (slope @ self._values.transpose(-2, -1),)

    def collect(self) -> tuple[Tensor, ...]:
        weights, slopes = self._kept(2)
        return (weights.transpose(-2, -1) @ slopes,)


class _TanhScores(DeferredGradOp):
    r"""`v^\top \tanh(q + k)` for all keys of a memory.

    With `s = σ(2q + 2k)` it is `2 v^\top s - \sum v`, since `\tanh x = 2 σ(2x) - 1`; on a CPU torch's σ takes a sixth
    of the time of its tanh. The derivative of tanh is `4 s (1 - s)`. Half precision is computed in float32.
    """

    def __init__(self, keys: Tensor, vectors: Tensor) -> None:
        super().__init__()
        self._doubled, self._vectors = 2 * exact(keys), exact(vectors)
        self._to_keys: Tensor | None = None
        self._to_vectors: Tensor | None = None

    def run(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        query = exact(inputs[0])
        units = torch.add(self._doubled[:, :, None], query[:, :, :, None], alpha=2).sigmoid_()
        with torch.autocast(query.device.type, enabled=False):
            return self._weigh(units), (units,)

    def _weigh(self, units: Float[Tensor, "B H T S A"]) -> Float[Tensor, "B H T S"]:
        twice, whole = 2 * self._vectors, self._vectors.sum(dim=-1)[:, None, None]
        if len(twice) == 1:
            return units @ twice[0] - whole
        return torch.einsum("bhtsa,ha->bhts", units, twice) - whole

    def back(self, step: int, saved: tuple[Tensor, ...], *slopes: Any) -> tuple[Tensor, ...]:
        slope: Tensor = slopes[0]
        units = saved[0]
        steep = torch.addcmul(units, units, units, value=-1).mul_(slope[..., None])
        to_query = steep.sum(dim=-2).mul_(4 * self._vectors[:, None])
        if self.learned:
            self.kept[step] = ()  # type: ignore[assignment]
            over_steps = steep[:, :, 0] if steep.shape[2] == 1 else steep.sum(dim=2)
            self._to_keys = over_steps if self._to_keys is None else self._to_keys.add_(over_steps)
            self._add_to_vectors(units, slope)
        return (to_query,)

    def _add_to_vectors(self, units: Float[Tensor, "B H T S A"], slope: Float[Tensor, "B H T S"]) -> None:
        if len(self._vectors) == 1:
            seen = (slope.reshape(1, -1) @ units.reshape(-1, units.shape[-1])).mul_(2).sub_(slope.sum())
        else:
            seen = torch.einsum("bhtsa,bhts->ha", units, slope).mul_(2).sub_(slope.sum(dim=(0, 2, 3))[:, None])
        self._to_vectors = seen if self._to_vectors is None else self._to_vectors.add_(seen)

    def collect(self) -> tuple[Tensor, ...]:
        assert self._to_keys is not None
        assert self._to_vectors is not None
        found = self._to_keys.mul_(4 * self._vectors[:, None]), self._to_vectors
        self._to_keys = self._to_vectors = None
        return found
