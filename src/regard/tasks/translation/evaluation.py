"""All there is to say about a model and a corpus."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from regard.cli.options import search_options
from regard.config import DecodingConfig
from regard.data.corpus import for_model, open_corpus
from regard.data.pair import Pair
from regard.data.tokenizers.tagged_tokenizer import without_tag
from regard.decoding.search import in_words
from regard.decoding.translator import Translator
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment_error_rate import Reading
from regard.evaluation.bleu_chrf import EDGES, References, bleu, bleu_by_length, bleu_lowercase, bleu_pretokenised, chrf
from regard.evaluation.error_rates import error_rates, exact_match
from regard.evaluation.report import Report, Score
from regard.evaluation.word_alignment import alignment, with_gold
from regard.task import EvaluationRequest

CHUNK = 1024
"""Sources that are translated at a time."""


def evaluate_folder(folder: Path, asked: EvaluationRequest) -> Report:
    """Score the model of a folder, and those that write together with it, as `regard evaluate` was asked to."""
    corpus = open_corpus(asked.parts, asked.split)
    translator = Translator.load([folder, *asked.ensemble], asked.device)
    mixes = asked.ensemble and all(change.startswith("decoding.ensemble=") for change in asked.changes)
    if asked.changes and not translator.model.reads and not mixes:
        raise ConfigError(f"Leave out --set: {folder} holds a language model, and nothing is searched.")
    translator.options = options = search_options(translator.options, [*asked.changes])
    reverse = None if asked.reverse_model is None else Translator.load(asked.reverse_model, asked.device)
    return evaluate(
        translator,
        for_model(corpus, translator.model.reads),
        data=corpus.name,
        beam=asked.beam,
        options=options,
        batch_size=asked.batch_size,
        to=asked.to,
        group=asked.group,
        reading=asked.reading,
        reverse=reverse,
    )


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
        with_gold(pairs, asked)
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
