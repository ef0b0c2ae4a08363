"""Replace unknown tokens by what the model attended to in the source (Luong et al. 2015, section 4.1)."""

from collections.abc import Sequence

import numpy as np

from regard.runtime.token_limits import Floats
from regard.runtime.tokenizer import MARKS, UNKNOWN, Tokenizer
from regard.runtime.trace import Trace

SPELLING = ("characters", "spelled")
"""Kinds of characters, whose unknown ones can be replaced if both sides have them."""


def replaces(source: Tokenizer, target: Tokenizer, reads: bool) -> bool:
    """Return whether unknown tokens can be replaced: words, or characters if the source has characters too."""
    return target.kind == "words" or (target.kind in SPELLING and source.kind == target.kind and reads)


def replace_words(tokens: Sequence[int], written: str, trace: Trace, source: str) -> str:
    """Replace each unknown word by the source word with most attention."""
    words, written_words = source.split(), written.split(" ")
    read = np.array(trace.source_words)
    look = trace.look()
    for place, (token, word) in enumerate(zip(tokens, trace.target_words, strict=True)):
        if token == UNKNOWN and words:
            by_word = [look[place, read == number].sum() for number in range(1 + read.max(initial=-1))]
            written_words[word] = words[int(np.argmax(by_word))]
    return " ".join(written_words)


def copy_units(
    tokens: Sequence[int], target: Tokenizer, source: Sequence[int], units: Sequence[str], look: Floats
) -> str:
    """Decode tokens, each unknown one as the source unit with most attention: a character, or a word.

    `source` are the source tokens and `units` their texts; if some of them are unknown, only these are considered.
    """
    unknown = [place for place, token in enumerate(source) if token == UNKNOWN]
    among = unknown or list(range(len(source)))
    surfaces = target.surfaces(tokens)
    for step, token in enumerate(tokens):
        if token == UNKNOWN and among:
            found = units[among[int(look[step, among].argmax())]]
            # Keep the spaces that the surface has around a word.
            surfaces[step] = surfaces[step].replace(MARKS[UNKNOWN], found.strip() or found)
    written = "".join(surfaces)
    return written.removeprefix(" ") if target.kind == "words" else written
