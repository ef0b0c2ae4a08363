"""`regard attend` for a language model: its self-attention over the preceding tokens."""

from collections.abc import Sequence
from pathlib import Path

import torch

from regard.cli.attention_output import AttendRequest, check_files, show_trace
from regard.data.pair import Pair
from regard.data.special_tokens import BOS, EOS
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.translation import Read, trace_of
from regard.decoding.translator import Translator
from regard.errors import ModelError
from regard.models.attention_hooks import watched
from regard.shapes import Float, Tensor
from regard.viz.trace import FORMS, AttentionTrace


def attend(folder: Path, asked: AttendRequest) -> None:
    """Print and save the self-attention of a language model over a text, with teacher forcing."""
    check_files(asked.out, FORMS)
    translator = Translator.load(folder, asked.device)
    show_trace(asked.what, look_back(translator, asked.what), asked.out, asked.look)


def look_back(translator: Translator, text: str) -> AttentionTrace:
    """Return the self-attention of a language model over a text, with teacher forcing: each token over those before it.

    A layer of the trace is one self-attention layer; a model without any gives a trace without layers. If layers
    differ in their number of heads, as in an ensemble, the heads of each layer are averaged.
    """
    if translator.model.reads:
        raise ModelError("This model attends to a source text: it is not a language model.")
    target = translator.tokenizers.target
    written = [*target.encode(text), EOS]
    with watched(translator.model) as looks:
        (log_probs,) = translator.score([Pair("", text)])
    layers = [_rows(own, len(written)) for own in looks.values()]
    if len({layer.shape[1] for layer in layers}) > 1:
        layers = [layer.mean(dim=1, keepdim=True) for layer in layers]
    weights = torch.stack(layers, dim=1) if layers else torch.zeros(len(written), 0, 0, len(written))
    before = [BOS, *written[:-1]]
    read = Read(target.pieces(before), target.words(before))
    return trace_of(Hypothesis(written, sum(log_probs), log_probs, weights), read, target)


def _rows(looks: Sequence[Float[Tensor, "1 _ _ _"]], steps: int) -> Float[Tensor, "_ _ _"]:
    """Stack the weights of one layer as rows, aligned at the last step: the first may have nothing to attend to."""
    rows = [row for look in looks for row in look[0].float().cpu()]
    found = torch.zeros(steps, rows[0].shape[0] if rows else 1, steps)
    for step, row in enumerate(rows, start=steps - len(rows)):
        found[step, :, : row.shape[-1]] = row
    return found
