"""Texts as documents: padded rows of tokens, cut into sentences where the model reads sentence by sentence."""

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.special_tokens import EOS
from regard.data.tokenizers.base import Tokenizer, is_mark
from regard.models.text_classifier import Documents

ALWAYS: Final = "。！？｡؟۔।॥\n"
"""Characters that end a sentence wherever they stand."""
BEFORE_SPACE: Final = ".!?…"
"""Characters that end one before white space: a full stop stands within 3.14, too."""
CLOSING: Final = "\"'”’»」』）)]}"
"""Characters that may follow them within the sentence."""


class SentenceEnds(NamedTuple):
    """Which tokens of a vocabulary may end a sentence."""

    always: NDArray[np.bool_]
    """Whether a sentence ends after the token, unless what follows is a further mark of this kind."""
    before_space: NDArray[np.bool_]
    """Whether one ends there if a new word follows: a full stop stands within 3.14, too."""
    opens: NDArray[np.bool_]
    """Whether a token begins a new word."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "SentenceEnds":
        """Read off a vocabulary which of its tokens these are."""
        surfaces = ["" if is_mark(token) else tokenizer.surfaces([token])[0] for token in range(tokenizer.size)]
        shown = ["" if is_mark(token) else tokenizer.pieces([token])[0] for token in range(tokenizer.size)]
        bare = [surface.rstrip(CLOSING) for surface in surfaces]
        return cls(
            np.array([text.endswith(tuple(ALWAYS)) for text in bare]),
            np.array([text.endswith(tuple(BEFORE_SPACE)) for text in bare]),
            np.array([text[:1].isspace() or piece[:1] == "▁" for text, piece in zip(surfaces, shown, strict=True)]),
        )

    def after(self, tokens: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell after which tokens of padded texts B×S a sentence ends; it always does at the end of a text."""
        following = np.pad(tokens[:, 1:], ((0, 0), (0, 1)))
        more = np.pad(mask[:, 1:], ((0, 0), (0, 1)))
        may = self.always[following] | self.before_space[following]
        ends = (self.always[tokens] & ~may) | (self.before_space[tokens] & self.opens[following])
        return np.asarray((ends | ~more) & mask, np.bool_)


def as_documents(tokens: NDArray[Any], mask: NDArray[np.bool_], ends: SentenceEnds | None) -> Documents:
    """Cut padded texts B×S into sentences; without `ends` each text is one.

    The end mark never stands alone: it belongs to the last sentence.
    """
    batch = len(mask)
    if ends is None:
        one = np.arange(batch)[:, None]
        lengths = mask.sum(axis=1)
        return _tensors(tokens, mask, one, np.ones((batch, 1), np.bool_), lengths, np.ones(batch, np.int64))
    final = ends.after(tokens, mask)
    final[:, :-1] &= ~((tokens[:, 1:] == EOS) & mask[:, 1:])
    flat, real = tokens[mask], final[mask]
    number = np.concatenate(([0], np.cumsum(real)[:-1])) if len(real) else np.zeros(0, np.int64)
    lengths = np.bincount(number) if len(number) else np.zeros(0, np.int64)
    starts = np.cumsum(lengths) - lengths
    width = int(lengths.max(initial=1))
    rows = np.zeros((len(lengths), width), tokens.dtype)
    rows[number, np.arange(len(flat)) - starts[number]] = flat
    counts = final.sum(axis=1)
    places = np.arange(int(counts.max(initial=1)))
    there = places < counts[:, None]
    first = np.cumsum(counts) - counts
    sentences = np.where(there, first[:, None] + places, 0)
    return _tensors(rows, np.arange(width) < lengths[:, None], sentences, there, lengths, counts)


def _tensors(*parts: NDArray[Any]) -> Documents:
    return Documents(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))
