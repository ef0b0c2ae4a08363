"""Models that write step by step, as two graphs: one that reads, and one that takes a step.

The first yields all that the second needs to know: what was read, and the state before the first token. The second is
given that state and the token written last, and yields log-probabilities and the state after it. What no step changes
is only given. A Transformer's own past is among the state, and grows by one position with each step.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from regard.errors import ModelError
from regard.export.decoder_state import BATCH, Layout, Leaf, axes_of, flatten, lay_out, rebuild
from regard.export.graph_inputs import Source
from regard.export.onnx_graph import Graph, Port
from regard.models.lstmn import LSTMNEncoder
from regard.models.protocol import Encoded
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Tensor

STATE, NEXT = "state.", "next."
"""What stands before the names of a state's tensors, before and after a step."""
LEAST = 9
"""Positions that a model has to know of, to be tried out."""
TOKEN, LOG_PROBS, WEIGHTS = "token", "log_probs", "weights"


class Reading(nn.Module):
    """From a source to the state before the first token."""

    def __init__(self, model: Seq2Seq, layout: Layout, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.layout, self.names = model, layout, names

    def forward(self, *source: Tensor) -> tuple[Tensor, ...]:
        """Read; what is passed on as it came is copied, since an output may not be an input."""
        start = self.layout.start(self.model.decoder, self.model.encode(*source))
        return tuple(start[name].clone() for name in self.names)


class Stepping(nn.Module):
    """From a state and a token to log-probabilities, weights and the state after."""

    def __init__(self, model: Seq2Seq, layout: Layout) -> None:
        super().__init__()
        self.decoder, self.layout = model.decoder, layout

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Take one step: the token comes first."""
        names = [leaf.name for leaf in self.layout.leaves]
        step = self.decoder.step(given[0], rebuild(self.layout.like, dict(zip(names, given[1:], strict=True))))
        assert step.weights is not None
        after = flatten(step.state)
        changed = (after[leaf.name].clone() for leaf in self.layout.leaves if not leaf.fixed)
        return step.logits.log_softmax(dim=-1), step.weights, *changed


def export_writer(model: Seq2Seq, source: Source) -> dict[str, Graph]:
    """Make the graphs of a translator, a captioner or a language model."""
    _check(model)

    def encode(sizes: Mapping[str, int]) -> Encoded:
        with torch.no_grad():
            return model.encode(*source.examples(sizes))

    def looks(sizes: Mapping[str, int]) -> dict[str, Tensor]:
        token = torch.zeros(sizes[BATCH], dtype=torch.long)
        with torch.no_grad():
            step = model.decoder.step(token, model.decoder.start(encode(sizes)))
        assert step.weights is not None
        return {LOG_PROBS: step.logits, WEIGHTS: step.weights}

    layout = lay_out(model.decoder, encode, source.grows)
    step = _step(model, layout, axes_of(looks, source.grows))
    kept = _keep_needed(step, layout)
    outputs = [
        Port(STATE + leaf.name, leaf.axes, leaf.dtype, _about(leaf)) for leaf in layout.leaves if leaf.name in kept
    ]
    names = [port.name.removeprefix(STATE) for port in outputs]
    encoder = Graph(Reading(model, layout, names), source.ports, outputs)
    encoder.keep(encoder.needed({port.name for port in outputs}), {port.name for port in outputs})
    return {"encoder": encoder, "step": step}


def _check(model: Seq2Seq) -> None:
    """Refuse what no graph can be made of."""
    if isinstance(model.encoder, LSTMNEncoder):
        raise ModelError(
            "This model cannot be exported: its encoder (model.encoder.kind=lstmn) looks back at all it has read at "
            "every position, in a loop that is as long as the source, and a graph's loops are of a fixed length."
        )
    places = min(limit for limit in (model.most_read, model.decoder.most, LEAST) if limit is not None)
    if places < LEAST:
        raise ModelError(
            f"This model cannot be exported: it knows {places} positions (longest), and what is exported is tried out "
            f"with {LEAST}."
        )


def _step(model: Seq2Seq, layout: Layout, looks: Mapping[str, tuple[int | str, ...]]) -> Graph:
    inputs = [Port(TOKEN, (BATCH,), torch.int64, "the token written last; at first the start mark")]
    outputs = [
        Port(LOG_PROBS, looks[LOG_PROBS], torch.float32, "of each token of the vocabulary"),
        Port(WEIGHTS, looks[WEIGHTS], torch.float32, "where it looked: rows, layers, heads, positions of the source"),
    ]
    for leaf in layout.leaves:
        inputs.append(Port(STATE + leaf.name, leaf.axes, leaf.dtype, _about(leaf)))
        if not leaf.fixed:
            outputs.append(Port(NEXT + leaf.name, leaf.axes, leaf.dtype, f"{STATE}{leaf.name} of the next step"))
    return Graph(Stepping(model, layout), inputs, outputs)


def _about(leaf: Leaf) -> str:
    return "the same at every step" if leaf.fixed else f"from the second step on what {NEXT}{leaf.name} was"


def _keep_needed(step: Graph, layout: Layout) -> set[str]:
    """Leave out of a step what no token ever depends on, and weights that are always empty; tell what is left."""
    changing = {leaf.name for leaf in layout.leaves if not leaf.fixed}
    wanted = {port.name for port in step.outputs if port.name in (LOG_PROBS, WEIGHTS) and 0 not in port.axes}
    while True:
        needed = step.needed(wanted)
        names = {name.removeprefix(STATE) for name in needed if name.startswith(STATE)}
        more = wanted | {NEXT + name for name in names & changing}
        if more == wanted:
            step.keep(needed | {TOKEN}, wanted)
            return names
        wanted = more
