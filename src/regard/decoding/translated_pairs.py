"""A model's input and output as training pairs for another model: back-translation and distillation.

A model from target to source generates sources for monolingual text (Sennrich et al. 2016); a tag marks them as
synthetic for the model trained on them (Caswell et al. 2019). A teacher's translations are targets that a smaller
model learns more easily than human ones (Kim & Rush 2016).
"""

from collections.abc import Iterator

from regard.decoding.translation import Translation
from regard.errors import ConfigError, DataError


class PairRows:
    """Makes TSV rows: each input text with each distinct translation of it.

    With `reverse` the translation comes first, as the source. The `tag` is a word added before each source.
    """

    def __init__(self, reverse: bool = False, tag: str = "") -> None:
        if len(tag.split()) > 1 or tag != tag.strip():
            raise ConfigError(f"The tag {tag!r} must be one word, such as <bt>: leave out its white space.")
        self._reverse, self._before = reverse, f"{tag} " if tag else ""
        self.left_out = 0
        """Lines without a pair so far: they are empty, or have no translation."""

    def check(self, number: int, text: str) -> None:
        """Raise a DataError for text that TSV cannot contain, before translating."""
        if "\t" in text:
            raise DataError(
                f"Line {number:,} of the input has a tab, which separates the texts of a pair: give single texts, such "
                "as one column of a TSV file (cut -f 1)."
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
    """Return a message about lines without a pair; empty if there are none."""
    if not left_out:
        return ""
    lines = "1 line is" if left_out == 1 else f"{left_out:,} lines are"
    return f"{lines} left out: empty, or with an empty translation."
