"""All there is to say about a model and a corpus."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from regard.config import DecodingConfig
from regard.data.pair import Links, Pair
from regard.data.tokenizers.tagged_tokenizer import without_tag
from regard.decoding.search import in_words
from regard.decoding.translator import Translator
from regard.errors import DataError
from regard.evaluation.alignment_error_rate import Reading, alignment_error_rate, links, merged
from regard.evaluation.bleu_chrf import EDGES, References, bleu, bleu_by_length, bleu_lowercase, bleu_pretokenised, chrf
from regard.evaluation.error_rates import error_rates, exact_match
from regard.evaluation.report import Report, Score

CHUNK = 1024
"""Pairs whose attention is held at a time."""


def evaluate(
    translator: Translator,
    pairs: Iterable[Pair],
    *,
    data: str = "corpus",
    beam: int | None = None,
    options: DecodingConfig | None = None,
    batch_size: int | None = None,
    edges: Sequence[int] = EDGES,
    to: str | None = None,
    group: bool = False,
    reading: Reading | None = None,
    reverse: Translator | None = None,
) -> Report:
    """Translate the sources and compare with the targets; `data` is the corpus's name in the report.

    BLEU, chrF and exact match are over lines, or with `group` over sources. Error rates are over sources always. Where
    several pairs have the same source, their targets are its references, and the nearest counts. The alignment error
    rate is over the pairs that have a gold alignment, and is there only if some have and the model has attention;
    `reading` says how links are read off, and a `reverse` model, of the other direction, makes them better. Models that
    write several languages are told by `to` which, where the sources do not tell. A language model, which reads no
    source, has a perplexity alone.
    """
    pairs = list(pairs)
    if not pairs:
        raise DataError(f"{data} has no sentence pairs, so there is nothing to evaluate.")
    sources = translator.tokenizers.tag([pair.source for pair in pairs], to)
    pairs = [replace(pair, source=source) for pair, source in zip(pairs, sources, strict=True)]
    asked = reading is not None or reverse is not None
    if asked:
        translator.check_source()
        _gold(pairs, asked)
    options = options or translator.options
    options = options if beam is None else replace(options, beam=beam)
    if not translator.model.reads:
        scores = [perplexity(translator, pairs, batch_size, options)]
        return Report(data, len(pairs), "nothing searched", tuple(scores), (), "")
    references = _by_source(pairs)
    written = _translate(translator, list(references), options, batch_size)
    lines = list(references) if group else sources
    hypotheses = [written[source] for source in lines]
    targets: References = [*map(tuple, references.values())] if group else [pair.target for pair in pairs]
    main = bleu(hypotheses, targets)
    scores = [
        main,
        chrf(hypotheses, targets),
        bleu_lowercase(hypotheses, targets),
        bleu_pretokenised(hypotheses, targets),
        perplexity(translator, pairs, batch_size, options),
        exact_match(hypotheses, targets),
        *error_rates(written, references),
        *alignment(translator, pairs, batch_size, reading, reverse, options),
    ]
    return Report(
        data=data,
        sentences=len(lines),
        search=in_words(options, translator.members),
        scores=tuple(scores),
        by_length=bleu_by_length(_untagged(translator, lines), hypotheses, targets, edges),
        by_length_signature=main.made_by,
        translations=tuple(hypotheses),
    )


def _untagged(translator: Translator, lines: Sequence[str]) -> Sequence[str]:
    """Leave out the tags that sources begin with where a model has some: they are no words."""
    return [without_tag(line) for line in lines] if translator.tokenizers.tags else lines


def _translate(
    translator: Translator, sources: Sequence[str], options: DecodingConfig, batch_size: int | None
) -> dict[str, str]:
    """Return what is written for each source; nobody looks at attention, so it is made only where a search needs it."""
    written: dict[str, str] = {}
    for start in range(0, len(sources), CHUNK):
        chunk = sources[start : start + CHUNK]
        found = translator.translate(chunk, options=options, batch_size=batch_size, look=False)
        written |= {source: best.text for source, best in zip(chunk, found, strict=True)}
    return written


def perplexity(
    translator: Translator,
    pairs: Sequence[Pair],
    batch_size: int | None = None,
    options: DecodingConfig | None = None,
) -> Score:
    """Return how many tokens the model hesitates between, on average, when it is given all those before.

    It depends on what a token is, so it compares models with the same target tokenizer only. `options`, the model's own
    unless given, say how several models are averaged.
    """
    log_probs = [value for sentence in translator.score(pairs, batch_size, options) for value in sentence]
    if not log_probs:
        raise DataError("There are no sentence pairs, so there is no perplexity.")
    mean = -math.fsum(log_probs) / len(log_probs)
    tokenizer = translator.tokenizers.target
    how = f"per token, {tokenizer.kind} vocabulary of {tokenizer.size:,}, end mark counted, forced decoding"
    # exp overflows just below 710; the perplexity of a model that bad is as good as infinite.
    return Score("perplexity", math.exp(mean) if mean < 700 else math.inf, how, len(log_probs), "tokens", best="low")


def _by_source(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    references: dict[str, list[str]] = {}
    for pair in pairs:
        references.setdefault(pair.source, []).append(pair.target)
    return references


def alignment(
    translator: Translator,
    pairs: Sequence[Pair],
    batch_size: int | None = None,
    reading: Reading | None = None,
    reverse: Translator | None = None,
    options: DecodingConfig | None = None,
) -> list[Score]:
    """Return the alignment error rate, or nothing where no pair has a gold alignment or the model has no attention.

    With a `reverse` model, which reads targets and writes sources, the links of both are merged as `reading` says;
    `options` are for the first, and the second has its own.
    """
    asked = reading is not None or reverse is not None
    gold, reading = _gold(pairs, asked), reading or Reading()
    if not asked and gold and _links(translator, gold[:1], batch_size, reading, options) is None:
        return []
    found = align(translator, gold, batch_size, reading, reverse, options)
    judged = [(own, pair.alignment) for own, pair in zip(found, gold, strict=True) if pair.alignment is not None]
    if not any(found or right.sure for found, right in judged):
        return []
    return [alignment_error_rate(judged, reading.words(both=reverse is not None))]


def _gold(pairs: Sequence[Pair], asked: bool) -> list[Pair]:
    """Return the pairs that have a gold alignment; where they are asked for, there must be some."""
    gold = [pair for pair in pairs if pair.alignment is not None]
    if asked and not gold:
        raise DataError("There is no gold alignment to judge attention by: give one with --alignments.")
    return gold


def align(
    translator: Translator,
    pairs: Iterable[Pair],
    batch_size: int | None = None,
    reading: Reading | None = None,
    reverse: Translator | None = None,
    options: DecodingConfig | None = None,
) -> Iterator[Links]:
    """Yield the links between the words of each pair, read off where the model looks while it writes the target.

    With a `reverse` model, which reads targets and writes sources, the links of both are merged as `reading` says;
    `options` are for the first, and the second has its own.
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
    """Turn a pair round, without the tag, which is for the model of its own direction alone."""
    return (replace(pair, source=without_tag(pair.source)) if translator.tokenizers.tags else pair).reversed()
