"""Where a language model looks: back, at what stands before in its own text."""

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
    """Print and write where a language model looks while it is made to write a text."""
    check_files(asked.out, FORMS)
    translator = Translator.load(folder, asked.device)
    show_trace(asked.what, look_back(translator, asked.what), asked.out, asked.look)


def look_back(translator: Translator, text: str) -> AttentionTrace:
    """Return where a language model looks while it is made to write a text: at each token, at which before it.

    A layer of the trace is one of its looks at its own past. A model that has none has no layers. Where the layers of
    several models do not have the same number of heads, each layer's heads are averaged to one.
    """
    if translator.model.reads:
        raise ModelError("This model reads a source, and looks at that: it is no language model.")
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
    """Lay the looks of one layer under each other, the last at the last step: at the first there may be nothing yet."""
    rows = [row for look in looks for row in look[0].float().cpu()]
    found = torch.zeros(steps, rows[0].shape[0] if rows else 1, steps)
    for step, row in enumerate(rows, start=steps - len(rows)):
        found[step, :, : row.shape[-1]] = row
    return found
