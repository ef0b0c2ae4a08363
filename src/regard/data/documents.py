"""Texts as documents: padded rows of tokens, split into sentences where the model reads sentence by sentence."""

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.special_tokens import EOS
from regard.data.tokenizers.base import Tokenizer, is_mark
from regard.models.text_classifier import Documents

ALWAYS: Final = "。！？｡؟۔।॥\n"
"""Characters that end a sentence, whatever follows."""
BEFORE_SPACE: Final = ".!?…"
"""Characters that end one before a new word: a full stop stands within 3.14, too."""
CLOSING: Final = "\"'”’»」』）)]}"
"""Characters that may follow them within the sentence."""


class SentenceEnds(NamedTuple):
    """Which tokens of a vocabulary may end a sentence."""

    always: NDArray[np.bool_]
    """The token ends with a character of `ALWAYS`, perhaps with closing ones after it."""
    before_space: NDArray[np.bool_]
    """The same with one of `BEFORE_SPACE`."""
    closing: NDArray[np.bool_]
    """The token is made of closing characters alone."""
    opens: NDArray[np.bool_]
    """The token begins a new word."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "SentenceEnds":
        """Find these tokens in a vocabulary."""
        surfaces = ["" if is_mark(token) else tokenizer.surfaces([token])[0] for token in range(tokenizer.size)]
        shown = ["" if is_mark(token) else tokenizer.pieces([token])[0] for token in range(tokenizer.size)]
        bare = [surface.rstrip(CLOSING) for surface in surfaces]
        opens = [text[:1].isspace() or piece[:1] == "▁" for text, piece in zip(surfaces, shown, strict=True)]
        return cls(
            np.array([text.endswith(tuple(ALWAYS)) for text in bare]),
            np.array([text.endswith(tuple(BEFORE_SPACE)) for text in bare]),
            np.array([bool(text) and not rest for text, rest in zip(surfaces, bare, strict=True)]) & ~np.array(opens),
            np.array(opens),
        )

    def after(self, tokens: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mark the tokens of padded texts B×S after which a sentence ends; the last token of a text always does.

        The end mark never stands alone: it belongs to the last sentence.
        """
        closing = self.closing[tokens]
        always, ended = self.always[tokens], self.always[tokens] | self.before_space[tokens]
        following, more = (np.pad(part[:, 1:], ((0, 0), (0, 1))) for part in (tokens, mask))
        goes_on = (self.always | self.before_space | self.closing)[following]
        always, ended = _carried(always, closing), _carried(ended, closing)
        final = (always & ~goes_on) | (ended & self.opens[following])
        return np.asarray(((final & (following != EOS)) | ~more) & mask, np.bool_)


def _carried(ended: NDArray[np.bool_], closing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Let closing tokens end a sentence where the token before them does."""
    while True:
        carried = ended.copy()
        carried[:, 1:] |= closing[:, 1:] & ended[:, :-1]
        if (carried == ended).all():
            return ended
        ended = carried


def as_documents(tokens: NDArray[Any], mask: NDArray[np.bool_], ends: SentenceEnds | None) -> Documents:
    """Split padded texts B×S into sentences; without `ends` each text is one."""
    return split_after(tokens, mask, None if ends is None else ends.after(tokens, mask))


def split_after(tokens: NDArray[Any], mask: NDArray[np.bool_], final: NDArray[np.bool_] | None) -> Documents:
    """Split padded texts B×S after the tokens that are `final`, as the last of each text must be."""
    batch = len(mask)
    if final is None:
        one, each = np.arange(batch)[:, None], np.ones((batch, 1), np.bool_)
        return _tensors(tokens, mask, one, each, mask.sum(axis=1), np.ones(batch, np.int64))
    flat, last = tokens[mask], final[mask]
    number: NDArray[Any] = np.cumsum(last) - last  # of the sentence, among those of all texts
    lengths = np.bincount(number)
    rows = np.zeros((len(lengths), int(lengths.max())), tokens.dtype)
    rows[number, np.arange(len(flat)) - (np.cumsum(lengths) - lengths)[number]] = flat
    counts = final.sum(axis=1)
    places = np.arange(int(counts.max()))
    there = places < counts[:, None]
    sentences = np.where(there, (np.cumsum(counts) - counts)[:, None] + places, 0)
    return _tensors(rows, np.arange(rows.shape[1]) < lengths[:, None], sentences, there, lengths, counts)


def _tensors(*parts: NDArray[Any]) -> Documents:
    return Documents(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))
