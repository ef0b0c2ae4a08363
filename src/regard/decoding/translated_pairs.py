"""What a model wrote beside what it read, as pairs to train another on: back-translation and distillation.

A model from target to source makes sources for texts that have none (Sennrich et al. 2016); a tag before these tells
the model that learns from them that no person wrote them (Caswell et al. 2019). A teacher's translations are targets
that a smaller model learns more easily than those of people (Kim & Rush 2016).
"""

from collections.abc import Iterator

from regard.decoding.translation import Translation
from regard.errors import ConfigError, DataError


class PairRows:
    """Makes rows of TSV: the text that was read and each different translation of it.

    With `reverse` the translation comes first, as a source for the text. The `tag` is a word before each source.
    """

    def __init__(self, reverse: bool = False, tag: str = "") -> None:
        if len(tag.split()) > 1 or tag != tag.strip():
            raise ConfigError(f"The tag {tag!r} must be one word, such as <bt>: leave out its white space.")
        self._reverse, self._before = reverse, f"{tag} " if tag else ""
        self.left_out = 0
        """Lines so far that gave no pair: they are empty, or nothing was written for them."""

    def check(self, number: int, text: str) -> None:
        """Raise a DataError for a text that TSV cannot hold, before the work is done."""
        if "\t" in text:
            raise DataError(
                f"Line {number:,} of the input has a tab, which parts the texts of a pair: give texts alone, such as "
                "one column of a TSV file (cut -f 1)."
            )

    def rows(self, text: str, best: Translation) -> Iterator[str]:
        """Yield the rows of one text; none with an empty side, which no corpus may have."""
        written = dict.fromkeys(one.text.replace("\t", " ") for one in (best, *best.n_best))
        found = [one for one in written if text.strip() and one.strip()]
        self.left_out += not found
        for one in found:
            source, target = (one, text) if self._reverse else (text, one)
            yield f"{self._before}{source}\t{target}"


def told(left_out: int) -> str:
    """Say how many lines gave no pair; nothing where all did."""
    if not left_out:
        return ""
    lines = "1 line is" if left_out == 1 else f"{left_out:,} lines are"
    return f"{lines} left out: empty, or with an empty translation."
