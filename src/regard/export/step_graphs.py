"""Export a sequence-to-sequence model as two graphs: the encoder, and one decoder step.

The encoder graph returns everything the step needs: the encoded source and the initial state. The step graph takes that
state and the previous token, and returns log-probabilities and the new state. Tensors that no step changes are inputs
only. The state of a Transformer includes its KV cache, which grows by one position per step.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from regard.errors import ModelError
from regard.export.decoder_state import BATCH, Layout, Leaf, axes_of, flatten, lay_out, rebuild
from regard.export.graph_inputs import GraphInputs
from regard.export.onnx_graph import OnnxGraph, Port
from regard.models.lstmn import LSTMNEncoder
from regard.models.protocol import Encoded
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Tensor

STATE, NEXT = "state.", "next."
"""The prefixes of the names of state tensors, before and after a step."""
LEAST = 9
"""Positions that a model must support, so that the export can be verified."""
TOKEN, LOG_PROBS, WEIGHTS = "token", "log_probs", "weights"


class EncoderGraph(nn.Module):
    """The encoder graph: maps a source to the initial state."""

    def __init__(self, model: Seq2Seq, layout: Layout, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.layout, self.names = model, layout, names

    def forward(self, *source: Tensor) -> tuple[Tensor, ...]:
        """Encode; outputs are cloned, since ONNX outputs must not be inputs."""
        start = self.layout.start(self.model.decoder, self.model.encode(*source))
        return tuple(start[name].clone() for name in self.names)


class StepGraph(nn.Module):
    """The step graph: maps a token and a state to log-probabilities, attention weights and the new state."""

    def __init__(self, model: Seq2Seq, layout: Layout) -> None:
        super().__init__()
        self.decoder, self.layout = model.decoder, layout

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Take one step; the token is the first input."""
        names = [leaf.name for leaf in self.layout.leaves]
        step = self.decoder.step(given[0], rebuild(self.layout.like, dict(zip(names, given[1:], strict=True))))
        assert step.weights is not None
        after = flatten(step.state)
        changed = (after[leaf.name].clone() for leaf in self.layout.leaves if not leaf.fixed)
        return step.logits.log_softmax(dim=-1), step.weights, *changed


def export_seq2seq(model: Seq2Seq, source: GraphInputs) -> dict[str, OnnxGraph]:
    """Return the graphs of a translator, a captioner or a language model."""
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
    encoder = OnnxGraph(EncoderGraph(model, layout, names), source.ports, outputs)
    encoder.keep(encoder.needed({port.name for port in outputs}), {port.name for port in outputs})
    return {"encoder": encoder, "step": step}


def _check(model: Seq2Seq) -> None:
    """Raise a ModelError for models that cannot be exported."""
    if isinstance(model.encoder, LSTMNEncoder):
        raise ModelError(
            "This model cannot be exported: its encoder (model.encoder.kind=lstmn) attends to all previous positions "
            "in a loop as long as the source, and torch's exporter unrolls loops to a fixed length."
        )
    places = min(limit for limit in (model.most_read, model.decoder.most, LEAST) if limit is not None)
    if places < LEAST:
        raise ModelError(
            f"This model cannot be exported: it supports {places} positions (longest), and verifying an export needs "
            f"{LEAST}."
        )


def _step(model: Seq2Seq, layout: Layout, looks: Mapping[str, tuple[int | str, ...]]) -> OnnxGraph:
    inputs = [Port(TOKEN, (BATCH,), torch.int64, "the previous token; at first the start token")]
    outputs = [
        Port(LOG_PROBS, looks[LOG_PROBS], torch.float32, "of each token of the vocabulary"),
        Port(WEIGHTS, looks[WEIGHTS], torch.float32, "attention: batch, layers, heads, source positions"),
    ]
    for leaf in layout.leaves:
        inputs.append(Port(STATE + leaf.name, leaf.axes, leaf.dtype, _about(leaf)))
        if not leaf.fixed:
            outputs.append(Port(NEXT + leaf.name, leaf.axes, leaf.dtype, f"{STATE}{leaf.name} of the next step"))
    return OnnxGraph(StepGraph(model, layout), inputs, outputs)


def _about(leaf: Leaf) -> str:
    return "the same at every step" if leaf.fixed else f"from the second step on, the previous {NEXT}{leaf.name}"


def _keep_needed(step: OnnxGraph, layout: Layout) -> set[str]:
    """Prune the step graph: drop state that no output depends on, and empty weights; return the names of the rest."""
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
