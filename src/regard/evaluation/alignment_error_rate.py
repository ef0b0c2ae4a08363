r"""Alignment error rate (Och & Ney 2003, section 5.1): whether attention is on the word being translated.

.. math:: \mathrm{AER}(S, P; A) = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

`S` are the sure links of a gold alignment, `P` the possible ones (including the sure ones), `A` the predicted links.
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
"""The default symmetrisation."""


@dataclass(frozen=True)
class Reading:
    """How alignment links are read off attention weights."""

    layer: int | None = None
    """The layer, from 0 (-1 is the last); None for the mean of all."""
    head: int | None = None
    """The head, from 0; None for the mean of all."""
    shift: bool = False
    """Use the attention of the next step, whose input is the target token, instead of the step that outputs it.

    In a Transformer this aligns better, since only then does the query know the token (Chen et al. 2020, Shift-Att).
    """
    symmetrise: str = MERGE
    """How to merge these links with those of a model of the other direction, if there is one."""
    posterior: bool = False
    """Use posterior attention (`regard.decoding.posterior_attention`) instead of the weights used while decoding."""

    def __post_init__(self) -> None:
        if self.shift and self.posterior:
            raise ConfigError(
                "--shift uses the attention of the step after a word, --posterior that of the step before: give one."
            )

    def words(self, both: bool = False) -> str:
        """Return a description for a score's signature; `both` if two directions are merged."""
        chosen = [
            f"{what} {place}" for what, place in (("layer", self.layer), ("head", self.head)) if place is not None
        ]
        parts = [
            "most probable source word of each target word (posterior)"
            if self.posterior
            else "source word with the most attention from each target word",
            *chosen,
            "attention of the next step" if self.shift else "",
            f"both directions merged by {self.symmetrise}" if both else "",
            "teacher forcing on the reference",
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
    """Return how to read alignments off the attention; None if no option says."""
    if symmetrise is not None and reverse_model is None:
        raise ConfigError("--symmetrise merges the alignments of two models: give --reverse-model as well.")
    if layer is None and head is None and not shift and not posterior and reverse_model is None:
        return None
    _ = symmetrisations[symmetrise or MERGE]  # fail early on an unknown name
    return Reading(layer, head, shift, symmetrise or MERGE, posterior)


def links(trace: AttentionTrace, reading: Reading | None = None) -> Links:
    """Link each target word to the source word with the most attention; a word with no attention on any has no link.

    `reading` selects layer and head, or their mean. Weights are merged from subwords to words: summed over the subwords
    of a source word, averaged over those of a target word. Ties go to the first source word.
    """
    reading = reading or Reading()
    chosen = trace.look(reading.layer, reading.head)
    if reading.shift:
        # The last token, the end token, is never an input: keep its own weights.
        chosen = np.concatenate((chosen[1:], chosen[-1:]))
    look = replace(trace, weights=chosen[None, None]).words()
    if not look.size:
        return frozenset()
    return frozenset((int(row.argmax()), target) for target, row in enumerate(look) if row.max() > 0)


def merged(forward: Links, backward: Links, how: str = MERGE) -> Links:
    """Symmetrise the links of a model with those of a target-to-source model."""
    return symmetrisations[how](forward, frozenset((source, target) for target, source in backward))


def alignment_error_rate(judged: Iterable[tuple[Links, Alignment]], how: str = "") -> Score:
    """Return the AER over a corpus, with counts summed over sentences. `how` describes the links for the signature."""
    hits = total = count = 0
    for found, gold in judged:
        hits += len(found & gold.sure) + len(found & gold.possible)
        total += len(found) + len(gold.sure)
        count += 1
    if not total:
        raise DataError("There are no links, neither found nor sure, so there is no alignment error rate.")
    return Score("AER", 1 - hits / total, how or Reading().words(), count, best="low", rate=True)
