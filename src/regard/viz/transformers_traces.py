"""Read the attention of an encoder-decoder of Hugging Face's `transformers`, from a forward pass or from `generate`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.viz.array_trace import as_weights, trace_of_arrays
from regard.viz.trace import SPECIAL, AttentionTrace

START = "<s>"
"""Shown for the start token where the tokens given do not include it."""
LOST = 1e-3
"""Weight beyond the tokens given from which they are too few; padding has none."""

Layers = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TransformersTraces:
    """The attention of one sentence; None where the outputs have none."""

    cross: AttentionTrace | None
    """From target to source. Row t belongs to the step that generates target token t."""
    encoder: AttentionTrace | None
    """From source to source."""
    decoder: AttentionTrace | None
    """From target to the tokens before, the start token first."""


def from_transformers(
    outputs: Any,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    row: int = 0,
    special: Collection[str] = SPECIAL,
) -> TransformersTraces:
    """Return the traces of one sentence from the outputs of a `transformers` encoder-decoder.

    `outputs` come from a forward pass, `model(..., output_attentions=True)`, or from `model.generate(...,
    output_attentions=True, return_dict_in_generate=True)`, with any number of beams. Load the model with
    `attn_implementation="eager"`: others return no weights.

    `source_tokens` are those of the sentence, without padding. `target_tokens` are, for a forward pass, the tokens
    predicted at each position (the labels); for `generate`, those of `outputs.sequences[row]`, or the generated ones
    alone. `row` chooses the sentence of the batch, or the returned sequence. Tokens in `special` are not text.
    """
    parts = [_given(getattr(outputs, f"{name}_attentions", None)) for name in ("cross", "encoder", "decoder")]
    if not any(parts):
        raise DisplayError(
            "The outputs have no attention weights: pass output_attentions=True (to generate, with "
            "return_dict_in_generate=True), and load the model with attn_implementation='eager'."
        )
    cross, encoder, decoder = parts
    generated = any(part and isinstance(part[0], tuple | list) for part in (cross, decoder))
    target, before = list(target_tokens), [START, *target_tokens[:-1]]
    if generated:
        reading = _Generated(outputs, row)
        target, before = reading.tokens(target)
        looks, own = (
            None if not part else reading.weights(part, len(target), width)
            for part, width in ((cross, None), (decoder, len(before)))
        )
        number = reading.number
    else:
        looks, own = (None if not part else _forward(part, row) for part in (cross, decoder))
        number = (cross or decoder or encoder)[0].shape[0]
    own_source = None
    if encoder:
        # `generate` encodes each sentence once, however many sequences it returns of it.
        own_source = _forward(encoder, row * encoder[0].shape[0] // max(1, number))
    return TransformersTraces(
        _trace(looks, source_tokens, target, special),
        _trace(own_source, source_tokens, source_tokens, special),
        _trace(own, before, target, special),
    )


def _given(part: Any) -> Any:
    """Return attentions, or None if there are none: implementations without weights fill in None."""
    first = part[0] if part else None
    first = first[0] if isinstance(first, tuple | list) and first else first
    return None if first is None else part


class _Generated:
    """Reads what `generate` returns: attentions by step, then by layer, with a row for each beam."""

    def __init__(self, outputs: Any, row: int) -> None:
        self.sequences = outputs.sequences
        self.number = len(self.sequences)
        if not 0 <= row < self.number:
            raise DisplayError(f"There is no row {row}: {self.number} sequences were returned, counted from 0.")
        steps = outputs.cross_attentions or outputs.decoder_attentions
        self.prompt = int(steps[0][0].shape[2])
        """Number of tokens that the decoder was given, the start token among them."""
        indices = getattr(outputs, "beam_indices", None)
        # After the end of a sequence there is no beam any more: -1.
        self.rows = [row] * len(steps) if indices is None else [i for i in indices[row].tolist() if i >= 0]

    def tokens(self, given: list[str]) -> tuple[list[str], list[str]]:
        """Return the generated tokens, and the token before each of the keys that the decoder attends to."""
        prompt = [START] * self.prompt
        if len(given) == self.sequences.shape[1]:
            prompt, given = given[: self.prompt], given[self.prompt :]
            given = given[: len(self.rows)]  # the rest is padding
        if len(given) > len(self.rows):
            raise DisplayError(
                f"There are {len(given)} target tokens, but the sequence was generated in {len(self.rows)} steps: give "
                "the tokens of outputs.sequences[row], or the generated ones without padding."
            )
        return given, [*prompt, *given[:-1]]

    def weights(self, steps: Sequence[Sequence[Any]], count: int, width: int | None) -> Layers:
        """Return layers × heads × steps × keys: at each step those of the beam that the sequence came from."""
        rows = [
            [as_weights(layer[place][:, -1:])[0, :, 0] for layer in step]
            for place, step in zip(self.rows[:count], steps, strict=False)
        ]
        layers, heads = len(steps[0]), int(steps[0][0].shape[1])
        keys = int(steps[0][0].shape[3]) if width is None else width
        found = np.zeros((layers, heads, count, keys), np.float32)
        for t, step in enumerate(rows):
            for number, weights in enumerate(step):
                size = min(keys, weights.shape[1])
                found[number, :, t, :size] = weights[:, :size]
        return found


def _forward(layers: Sequence[Any], row: int) -> Layers:
    """Return layers × heads × queries × keys of one sentence of a batch."""
    count = layers[0].shape[0]
    if not 0 <= row < count:
        raise DisplayError(f"There is no row {row}: the batch has {count}, counted from 0.")
    return np.concatenate([as_weights(layer[row]) for layer in layers])


def _trace(
    weights: Layers | None, source: Sequence[str], target: Sequence[str], special: Collection[str]
) -> AttentionTrace | None:
    """Return the trace of the first tokens on both sides; what is beyond must be padding."""
    if weights is None:
        return None
    rows, columns = len(target), len(source)
    if weights.shape[2] < rows or weights.shape[3] < columns:
        raise DisplayError(
            f"The outputs have weights for {weights.shape[2]} target and {weights.shape[3]} source tokens, but {rows} "
            f"and {columns} tokens were given."
        )
    lost = float(weights[:, :, :rows, columns:].sum(axis=-1).max(initial=0.0))
    if lost > LOST:
        raise DisplayError(
            f"{columns} source tokens were given, but there is a weight of {lost:.2g} on those after them: give all "
            "tokens, special tokens included."
        )
    return trace_of_arrays(weights[:, :, :rows, :columns], source, target, special=special)
