"""The result of translating a text: the translation and its attention."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.special_tokens import MARKS, UNK
from regard.data.tokenizers.base import Tokenizer
from regard.decoding.hypothesis import Hypothesis
from regard.viz.trace import SPECIAL, AttentionTrace


@dataclass(frozen=True, eq=False)
class Translation:
    """The translation of one text."""

    text: str
    score: float
    """The ranking score: log-probability after penalties."""
    tokens: tuple[str, ...]
    """The generated tokens as displayed, with the end token if the model generated it."""
    attention: AttentionTrace
    """The attention of each token."""
    n_best: list["Translation"] = field(default_factory=list)
    """Further hypotheses, best first, if more than one was requested."""
    source: str = ""
    """The text that was translated; empty if there was none."""


class Read(NamedTuple):
    """The source as displayed."""

    pieces: Sequence[str]
    words: Sequence[int]
    """Index of the word that each piece belongs to."""
    special: frozenset[str] = SPECIAL
    """Special tokens, which belong to no word."""


def trace_of(
    hypothesis: Hypothesis, read: Read, target: Tokenizer, look: bool = True, posterior: bool = False
) -> AttentionTrace:
    """Build the trace of a hypothesis; without `look`, with its output alone. `posterior` marks posterior attention."""
    weights = hypothesis.weights[..., : len(read.pieces)].permute(1, 2, 0, 3)
    return AttentionTrace(
        source=tuple(read.pieces),
        target=tuple(target.pieces(hypothesis.tokens)),
        weights=np.ascontiguousarray(weights.numpy(), dtype=np.float32),
        log_probs=tuple(hypothesis.log_probs),
        score=hypothesis.score,
        candidates=tuple(
            tuple((target.pieces([token])[0], probability) for token, probability in step)
            for step in hypothesis.candidates
        ),
        source_words=tuple(read.words) if look else (),
        target_words=tuple(target.words(hypothesis.tokens)) if look else (),
        special=read.special,
        posterior=posterior,
    )


def nothing() -> Translation:
    """Return the translation of an empty text."""
    return Translation("", 0.0, (), AttentionTrace((), (), np.zeros((1, 1, 0, 0), np.float32), (), 0.0))


def on_one_line(translation: Translation) -> Translation:
    """Replace line breaks by spaces."""
    others = [on_one_line(other) for other in translation.n_best]
    return replace(translation, text=" ".join(translation.text.splitlines()), n_best=others)


def replace_unknown(tokens: Sequence[int], written: str, trace: AttentionTrace, source: str) -> str:
    """Replace each unknown word by the source word with most attention (Luong et al. 2015, section 4.1, by copying).

    For a word tokenizer: each token but special ones is one word of the output.
    """
    words, look = source.split(), trace.words()
    given = written.split(" ")
    for token, word in zip(tokens, trace.target_words, strict=True):
        if token == UNK and words:
            given[word] = words[int(look[word].argmax())]
    return " ".join(given)


def copy_unknown(
    tokens: Sequence[int], target: Tokenizer, source: Sequence[int], units: Sequence[str], look: NDArray[np.float32]
) -> str:
    """Decode tokens, replacing each unknown one by the source unit with most attention: a character, or a word.

    `source` are the source tokens and `units` their texts; if some of them are unknown, only these are considered.
    `look` is target × source.
    """
    unknown = [place for place, token in enumerate(source) if token == UNK]
    among = unknown or list(range(len(source)))
    surfaces = target.surfaces(tokens)
    for step, token in enumerate(tokens):
        if token == UNK and among:
            found = units[among[int(look[step, among].argmax())]]
            # Keep the spaces that the surface has around a word.
            surfaces[step] = surfaces[step].replace(MARKS[UNK], found.strip() or found)
    written = "".join(surfaces)
    return written.removeprefix(" ") if target.kind == "words" else written
