"""All there is to say about a model and a corpus."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from regard.config import DecodingConfig
from regard.data.pair import Pair
from regard.decoding.translator import Translator
from regard.errors import DataError
from regard.evaluation.alignment import alignment_error_rate, links
from regard.evaluation.edits import error_rates, exact_match
from regard.evaluation.overlap import EDGES, bleu, bleu_by_length, bleu_lowercase, bleu_pretokenised, chrf
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
    batch_size: int = 64,
    edges: Sequence[int] = EDGES,
) -> Report:
    """Translate the sources and compare with the targets; `data` is the corpus's name in the report.

    BLEU, chrF and exact match are over lines. Error rates are over sources: where several pairs have the same one,
    their targets are its references. The alignment error rate is over the pairs that have a gold alignment, and is
    there only if some have and the model has attention.
    """
    pairs = list(pairs)
    if not pairs:
        raise DataError(f"{data} has no sentence pairs, so there is nothing to evaluate.")
    options = options or translator.options
    options = options if beam is None else replace(options, beam=beam)
    references = _by_source(pairs)
    written = _translate(translator, list(references), options, batch_size)
    hypotheses, targets = [written[pair.source] for pair in pairs], [pair.target for pair in pairs]
    main = bleu(hypotheses, targets)
    scores = [
        main,
        chrf(hypotheses, targets),
        bleu_lowercase(hypotheses, targets),
        bleu_pretokenised(hypotheses, targets),
        perplexity(translator, pairs, batch_size),
        exact_match(hypotheses, targets),
        *error_rates(written, references),
        *_alignment(translator, pairs, batch_size),
    ]
    sources = [pair.source for pair in pairs]
    return Report(
        data=data,
        sentences=len(pairs),
        search=_search_in_words(options),
        scores=tuple(scores),
        by_length=bleu_by_length(sources, hypotheses, targets, edges),
        by_length_signature=main.made_by,
        translations=tuple(hypotheses),
    )


def _translate(
    translator: Translator, sources: Sequence[str], options: DecodingConfig, batch_size: int
) -> dict[str, str]:
    """Return what is written for each source; the attention of a chunk at a time is held, then dropped."""
    written: dict[str, str] = {}
    for start in range(0, len(sources), CHUNK):
        chunk = sources[start : start + CHUNK]
        found = translator.translate(chunk, options=options, batch_size=batch_size)
        written |= {source: best.text for source, best in zip(chunk, found, strict=True)}
    return written


def perplexity(translator: Translator, pairs: Sequence[Pair], batch_size: int = 64) -> Score:
    """Return how many tokens the model hesitates between, on average, when it is given all those before.

    It depends on what a token is, so it compares models with the same target tokenizer only.
    """
    log_probs = [value for sentence in translator.score(pairs, batch_size) for value in sentence]
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


def _alignment(translator: Translator, pairs: Sequence[Pair], batch_size: int) -> list[Score]:
    """Return the alignment error rate where there is one."""
    gold = [(pair, pair.alignment) for pair in pairs if pair.alignment is not None]
    judged = []
    for start in range(0, len(gold), CHUNK):
        chunk = gold[start : start + CHUNK]
        traces = translator.align([pair for pair, _ in chunk], batch_size)
        judged += [
            (links(trace), alignment)
            for trace, (_, alignment) in zip(traces, chunk, strict=True)
            if trace.weights.shape[0]
        ]
    return [alignment_error_rate(judged)] if any(found or alignment.sure for found, alignment in judged) else []


def _search_in_words(options: DecodingConfig) -> str:
    parts = [
        "greedy search" if options.beam == 1 else f"beam {options.beam}",
        f"length penalty {options.length_penalty:g}",
        f"coverage penalty {options.coverage_penalty:g}",
        f"at least {options.min_length} tokens" if options.min_length else "",
        f"at most {options.max_length} tokens" if options.max_length else "",
        "unknown words replaced" if options.replace_unknown else "",
    ]
    return ", ".join(part for part in parts if part)
