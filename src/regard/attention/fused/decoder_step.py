"""Attention with one query at every step of a loop; gradients of keys and values are computed once for all steps."""

from typing import Any

import torch
from torch.nn import functional

from regard.attention.fused import UNITS, launch
from regard.attention.fused.launch import PADDING, Gradients, Pairs, StepOperands, on_the_device_of, up
from regard.batched_weight_gradients import as_multiplied
from regard.deferred_gradients import DeferredGradOp
from regard.shapes import Float, Tensor


class DecoderStepAttention(DeferredGradOp):
    r"""`c = \sum_s \mathrm{softmax}_s(e) x_s`; keeps weights and score gradients, B×H×S, of each step."""

    def __init__(self, keys: Tensor, values: Tensor, mask: Tensor, vectors: Tensor | None = None) -> None:
        super().__init__()
        self._groups = keys.shape[:2]
        keys, values = (as_multiplied(part).flatten(0, 1).contiguous() for part in (keys, values))
        vectors = None if vectors is None else vectors.float().contiguous()
        self._source = StepOperands(keys, values, mask.contiguous(), vectors, heads=0)
        self._steps: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]] = {}
        """For each step: its query, its weights, and the gradients of its context and scores."""
        self._others: dict[int, Tensor] = {}
        """For each step whose context was used twice: the second gradient of its context."""

    def run(self, *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Attend with a query; return the context twice, since two consumers may read it."""
        query = _in_rows(inputs[0])
        self._source = self._source._replace(heads=query.shape[1])
        with on_the_device_of(query):
            context, weights = launch.step_forward(self._source, launch.fits(self._source, query))
        context = context.view(*query.shape[:3], -1)
        return (context, context.data), (query, weights)

    def back(self, step: int, saved: tuple[Tensor, ...], *slopes: Any) -> tuple[Tensor, ...]:
        """Return the gradient of the query."""
        query, weights = saved
        slope, *other = [_in_rows(slope) for slope in slopes if slope is not None]
        with on_the_device_of(query):
            weights_back = launch.step_backward_weights(self._source, slope, *other)
            to_query, scores_back = launch.step_backward_query(self._source, query, weights, weights_back)
        if self.learned:
            self._steps[step] = query, weights, slope, scores_back
            if other:
                self._others[step] = other[0]
        return (to_query,)

    def collect(self) -> tuple[Tensor | None, ...]:
        """Return the gradients of keys, values and vectors; the mask has none."""
        queries, weights, slopes, scores_back = zip(*self._steps.values(), strict=True)
        others = [self._others.get(step) for step in self._steps]
        self._steps, self._others = {}, {}
        source = self._source
        keys, values = source.keys, source.values
        over_steps = torch.cat(queries, dim=2).flatten(0, 1).to(keys.dtype)
        back = torch.stack(scores_back, dim=1)
        with on_the_device_of(keys):
            seen = torch.cat(slopes, dim=2)
            if any(other is not None for other in others):
                seen = seen + torch.cat([torch.zeros_like(slopes[0]) if one is None else one for one in others], dim=2)
            seen = seen.flatten(0, 1).to(values.dtype)
            to_values = torch.stack(weights, dim=2).to(values.dtype) @ seen
            if source.vectors is None:
                return self._grouped(back.transpose(1, 2).to(keys.dtype) @ over_steps), self._grouped(to_values), None
            found = self._differentiate(over_steps, back, source.vectors)
        to_keys, to_vectors = found.keys[..., : keys.shape[-1]], found.vectors()[..., : keys.shape[-1]]
        by_head = to_vectors.view(-1, *source.vectors.shape).sum(dim=0)
        return self._grouped(to_keys), self._grouped(to_values), None, by_head

    def _differentiate(
        self, queries: Float[Tensor, "M T A"], back: Float[Tensor, "M T S"], vectors: Float[Tensor, "H A"]
    ) -> Gradients:
        keys, (steps, size) = self._source.keys, back.shape[1:]
        if self._source.repeat > 1:
            keys = keys.repeat_interleave(self._source.repeat, dim=0)
        more = -keys.shape[-1] % UNITS
        if more:
            queries, keys, vectors = (functional.pad(part, (0, more)) for part in (queries, keys, vectors))
        few = steps < launch.FEW
        tall = steps if few else up(steps, PADDING)
        back = functional.pad(back, (0, up(size, PADDING) - size, 0, tall - steps)).contiguous()
        pairs = Pairs(queries.contiguous(), keys, vectors)
        found = Gradients.zeros(pairs)
        launch.differentiate(
            pairs if few else launch.prepare(pairs, gradients=True, scores=False), back, found, queries=False
        )
        return found

    def _grouped(self, slope: Float[Tensor, "M S _"]) -> Float[Tensor, "B G S _"]:
        """Sum over the heads of each group."""
        repeat = self._source.repeat
        summed = slope if repeat == 1 else slope.view(-1, repeat, *slope.shape[1:]).sum(dim=1)
        return summed.view(*self._groups, *summed.shape[1:])


def _in_rows(query: Float[Tensor, "B H 1 A"]) -> Float[Tensor, "B H 1 A"]:
    """Return it with a contiguous last dimension; the rows may be strided."""
    return query if query.stride(3) == 1 else query.contiguous()
