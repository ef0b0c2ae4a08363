"""The four special tokens that every vocabulary starts with, and the tags that some vocabularies end with."""

from typing import Final

PAD: Final = 0
"""Padding, masked out everywhere."""
UNK: Final = 1
"""Unknown words or characters (subword vocabularies fall back to bytes instead)."""
BOS: Final = 2
"""The start token, the decoder's first input."""
EOS: Final = 3
"""The end token of every source and every target."""

MARKS: Final = ("<pad>", "<unk>", "<s>", "</s>")
"""The special tokens as text, by id."""


def tag_mark(tag: str) -> str:
    """Return the tag token put before a source to select the target language: `<2de>` (Johnson et al. 2017, sec. 3)."""
    return f"<2{tag}>"
