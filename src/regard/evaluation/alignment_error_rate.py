r"""Alignment error rate (Och & Ney 2003, section 5.1): whether the model looks at the word that it translates.

.. math:: \mathrm{AER}(S, P; A) = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

`S` are the sure links of a gold alignment, `P` the possible ones (the sure ones among them), `A` those to be judged.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from regard.data.pair import Alignment, Links
from regard.errors import ConfigError, DataError
from regard.evaluation.report import Score
from regard.evaluation.symmetrisation import symmetrisations
from regard.viz.trace import AttentionTrace

MERGE = "grow-diag-final-and"
"""How two directions are merged where nothing else is said."""


@dataclass(frozen=True)
class Reading:
    """How links are read off where a model looked."""

    layer: int | None = None
    """Which layer's looks, from 0 (-1 is the last); the mean of all where None."""
    head: int | None = None
    """Which head's, from 0; the mean of all where None."""
    shift: bool = False
    """Take the look of the step that reads the target token rather than of the one that writes it: the next one.

    In a Transformer this aligns better, for only then does the query know the token (Chen et al. 2020, Shift-Att).
    """
    symmetrise: str = MERGE
    """How the links of a model of the other direction, where there is one, are merged with these."""
    posterior: bool = False
    """Use posterior attention (`regard.decoding.posterior_attention`) instead of the weights used while decoding."""

    def __post_init__(self) -> None:
        if self.shift and self.posterior:
            raise ConfigError(
                "--shift aligns a word by a look that has read it, --posterior weighs the look that has not: give one."
            )

    def words(self, both: bool = False) -> str:
        """Say how, for a score's signature; `both` where two directions are merged."""
        chosen = [
            f"{what} {place}" for what, place in (("layer", self.layer), ("head", self.head)) if place is not None
        ]
        parts = [
            "the source word that each target word most likely came from (posterior)"
            if self.posterior
            else "the source word most looked at by each target word",
            *chosen,
            "looks of the step after" if self.shift else "",
            f"both directions merged by {self.symmetrise}" if both else "",
            "forced decoding of the reference",
            "subwords merged",
        ]
        return ", ".join(part for part in parts if part)


def alignment_reading(
    layer: int | None,
    head: int | None,
    shift: bool,
    posterior: bool,
    reverse_model: object | None,
    symmetrise: str | None,
) -> Reading | None:
    """Return how alignments are to be read off; None where nothing was said of it."""
    if symmetrise is not None and reverse_model is None:
        raise ConfigError("--symmetrise merges the alignments of two models: give --reverse-model, too.")
    if layer is None and head is None and not shift and not posterior and reverse_model is None:
        return None
    _ = symmetrisations[symmetrise or MERGE]  # what is not there is refused before the work is done
    return Reading(layer, head, shift, symmetrise or MERGE, posterior)


def links(trace: AttentionTrace, reading: Reading | None = None) -> Links:
    """Link each target word to the source word it looked at most; a word that looked at no word has no link.

    Weights are those of the layer and head that `reading` names, or the mean. They are merged from tokens to words:
    those on the pieces of a source word are added up, those of the pieces of a target word averaged. The lowest of
    equal sources is taken.
    """
    reading = reading or Reading()
    chosen = trace.look(reading.layer, reading.head)
    if reading.shift:
        # The last token, the end mark, is never read; its own look stays.
        chosen = np.concatenate((chosen[1:], chosen[-1:]))
    look = replace(trace, weights=chosen[None, None]).words()
    if not look.size:
        return frozenset()
    return frozenset((int(row.argmax()), target) for target, row in enumerate(look) if row.max() > 0)


def merged(forward: Links, backward: Links, how: str = MERGE) -> Links:
    """Merge the links of a model with those of a model of the other direction, whose sources are our targets."""
    return symmetrisations[how](forward, frozenset((source, target) for target, source in backward))


def alignment_error_rate(judged: Iterable[tuple[Links, Alignment]], how: str = "") -> Score:
    """Return AER over a corpus: the counts of all sentences are added up first. `how` says where the links are from."""
    hits = total = count = 0
    for found, gold in judged:
        hits += len(found & gold.sure) + len(found & gold.possible)
        total += len(found) + len(gold.sure)
        count += 1
    if not total:
        raise DataError("There are no links, neither found nor sure, so there is no alignment error rate.")
    return Score("AER", 1 - hits / total, how or Reading().words(), count, best="low", rate=True)
