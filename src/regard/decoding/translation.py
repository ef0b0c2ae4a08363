"""What comes out of a search: a text, and where the model looked while it wrote it."""

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
    """What came out for one text."""

    text: str
    score: float
    """What the search ranked it by: log-probability after penalties."""
    tokens: tuple[str, ...]
    """The tokens written, as they are shown, the end mark included where the model wrote one."""
    attention: AttentionTrace
    """Where the model looked while it wrote each of them."""
    n_best: list["Translation"] = field(default_factory=list)
    """The hypotheses after this one, best first, where more than one was asked for."""


class Read(NamedTuple):
    """What a model has read, as it is shown."""

    pieces: Sequence[str]
    words: Sequence[int]
    """The word that each belongs to."""
    special: frozenset[str] = SPECIAL
    """Marks, which belong to none."""


def trace_of(
    hypothesis: Hypothesis, read: Read, target: Tokenizer, look: bool = True, posterior: bool = False
) -> AttentionTrace:
    """Tell where a model looked, or of a posterior where tokens came from; without `look`, only what it wrote."""
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
    """Translate nothing: nothing was read, written or looked at."""
    return Translation("", 0.0, (), AttentionTrace((), (), np.zeros((1, 1, 0, 0), np.float32), (), 0.0))


def on_one_line(translation: Translation) -> Translation:
    """Put a space where it has a line break."""
    others = [on_one_line(other) for other in translation.n_best]
    return replace(translation, text=" ".join(translation.text.splitlines()), n_best=others)


def replace_unknown(tokens: Sequence[int], written: str, trace: AttentionTrace, source: str) -> str:
    """Put the source word most looked at in the place of each unknown one (Luong et al. 2015, section 4.1, by copying).

    For a tokenizer of words: each token but the marks is one word of what was written.
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
    """Write tokens, in the place of each unknown one the unit of the source most looked at: a character, or a word.

    `source` are the tokens read and `units` their texts; where the model did not know some of them, it is one of these.
    `look` is target × source.
    """
    unknown = [place for place, token in enumerate(source) if token == UNK]
    among = unknown or list(range(len(source)))
    surfaces = target.surfaces(tokens)
    for step, token in enumerate(tokens):
        if token == UNK and among:
            found = units[among[int(look[step, among].argmax())]]
            # Around a word, there are the spaces that its surface has.
            surfaces[step] = surfaces[step].replace(MARKS[UNK], found.strip() or found)
    written = "".join(surfaces)
    return written.removeprefix(" ") if target.kind == "words" else written
