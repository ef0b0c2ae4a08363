"""Word alignments read off attention, and their alignment error rate."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from regard.config import DecodingConfig
from regard.data.pair import Links, Pair
from regard.data.tokenizers.tagged_tokenizer import without_tag
from regard.decoding.translator import Translator
from regard.errors import DataError
from regard.evaluation.alignment_error_rate import Reading, alignment_error_rate, links, merged
from regard.evaluation.report import Score

CHUNK = 1024
"""Pairs whose attention is held in memory at a time."""


def alignment(
    translator: Translator,
    pairs: Sequence[Pair],
    batch_size: int | None = None,
    reading: Reading | None = None,
    reverse: Translator | None = None,
    options: DecodingConfig | None = None,
) -> list[Score]:
    """Return the alignment error rate; empty if no pair has a gold alignment or the model has no attention.

    With a `reverse` model (target to source), the links of both are symmetrised as `reading` says. `options` apply to
    the first model; the reverse model uses its own.
    """
    asked = reading is not None or reverse is not None
    gold, reading = with_gold(pairs, asked), reading or Reading()
    if not asked and gold and _links(translator, gold[:1], batch_size, reading, options) is None:
        return []
    found = align(translator, gold, batch_size, reading, reverse, options)
    judged = [(own, pair.alignment) for own, pair in zip(found, gold, strict=True) if pair.alignment is not None]
    if not any(found or right.sure for found, right in judged):
        return []
    return [alignment_error_rate(judged, reading.words(both=reverse is not None))]


def with_gold(pairs: Sequence[Pair], asked: bool) -> list[Pair]:
    """Return the pairs that have a gold alignment; raise a DataError if `asked` and there are none."""
    gold = [pair for pair in pairs if pair.alignment is not None]
    if asked and not gold:
        raise DataError("There is no gold alignment to score the attention against: give one with --alignments.")
    return gold


def align(
    translator: Translator,
    pairs: Iterable[Pair],
    batch_size: int | None = None,
    reading: Reading | None = None,
    reverse: Translator | None = None,
    options: DecodingConfig | None = None,
) -> Iterator[Links]:
    """Yield the word alignment of each pair, read off the attention with teacher forcing on the target.

    With a `reverse` model (target to source), the links of both are symmetrised as `reading` says. `options` apply to
    the first model; the reverse model uses its own.
    """
    reading, waiting = reading or Reading(), iter(pairs)
    while chunk := list(islice(waiting, CHUNK)):
        found = _links(translator, chunk, batch_size, reading, options)
        turned = None
        if reverse is not None:
            turned = _links(reverse, [_turned(pair, translator) for pair in chunk], batch_size, reading)
        if found is None or (reverse is not None and turned is None):
            which = "this model" if reverse is None else "one of the models"
            raise DataError(f"There are no links: {which} has no attention.")
        if turned is None:
            yield from found
        else:
            yield from (merged(*both, reading.symmetrise) for both in zip(found, turned, strict=True))


def _links(
    translator: Translator,
    pairs: Sequence[Pair],
    batch_size: int | None,
    reading: Reading,
    options: DecodingConfig | None = None,
) -> list[Links] | None:
    """Return the links of each pair; None for a model without attention."""
    traces = translator.align(pairs, batch_size, reading.posterior, options)
    if not traces[0].weights.shape[0]:
        return None
    return [links(trace, reading) for trace in traces]


def _turned(pair: Pair, translator: Translator) -> Pair:
    """Swap a pair for the reverse model, without the tag, which only the forward model knows."""
    return (replace(pair, source=without_tag(pair.source)) if translator.tokenizers.tags else pair).reversed()
