"""The four marks that every vocabulary starts with, whatever tokenizer made it; and tags, that some end with."""

from typing import Final

PAD: Final = 0
"""Fills a batch's shorter rows; nothing may look at it."""
UNK: Final = 1
"""Stands for what the vocabulary lacks (characters and words; subwords fall back to bytes)."""
BOS: Final = 2
"""Begins what the decoder reads."""
EOS: Final = 3
"""Ends every source, and every target that the decoder writes."""

MARKS: Final = ("<pad>", "<unk>", "<s>", "</s>")
"""How the marks are shown, by id."""


def tag_mark(tag: str) -> str:
    """Write the mark that stands before a source and names what to write: `<2de>` (Johnson et al. 2017, section 3)."""
    return f"<2{tag}>"
