"""Text corpora, from lines to batches of tokens: shared by all text tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from regard.config import Config
from regard.data.batching import Batch, BatchOrder, make_batch
from regard.data.configured_corpora import open_data as open_corpus
from regard.data.configured_corpora import open_split, weights_of
from regard.data.corpus import Corpus, for_model
from regard.data.epoch_segmentation import Resampled
from regard.data.mixed_corpora import Draws
from regard.data.pair import Pair
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers, train_tokenizers
from regard.data.validation_split import Stored, store
from regard.errors import DataError
from regard.models.model_folder import CACHE
from regard.task import Rows, Say

HELD_OUT = "held_out.jsonl"
"""File of the held-out pairs in a run's cache."""
NOTHING = "none"
"""The encoder of a language model."""


@dataclass(frozen=True)
class Sources:
    """The training and validation corpora, as text."""

    train: Corpus | None
    """None for a resumed run, which has the tokens in its cache."""
    valid: Corpus | None
    valid_pairs: Sequence[Pair]
    vocabulary: Tokenizers | None = None
    """The tokenizers to use; None to learn them from the training corpus."""


class TextData:
    """Tokenizers, cached tokens and batches of a run: built in its folder, or read from there on resume."""

    def __init__(self, config: Config, folder: Path, sources: Sources, say: Say, few_shapes: bool) -> None:
        self._config, self._folder, self._say = config, folder, say
        if config.data.held_out:
            sources = _held_out(config, folder, sources, say)
        self.sources = sources
        self.tokenizers = _open_tokenizers(config, folder, sources, say)
        self.train = _open_cache(config, folder, sources.train, self.tokenizers, say)
        weights = weights_of(config.data)
        self._draw = Draws(self.train.index.each or [len(self.train)], weights, config.seed) if weights else None
        if self._draw is not None and sources.train is not None:
            _report_epoch(self._draw, sources.train, say)
        self.order, self.batch, self.count = _batches(config, self.train, self.tokenizers, few_shapes, self._draw)

    def open_validation(self) -> TokenCache | None:
        """Return the tokens of the validation corpus; None if there is none."""
        if self.sources.valid is None:
            self._say("No validation corpus (data.valid): keeping the last model instead of the best.")
            return None
        path, longest = self._folder / CACHE / "valid", self._config.data.max_length
        cache = TokenCache.reuse_or_build(path, self.sources.valid, self.tokenizers, longest)
        _report_left_out(cache, "validation", self._config, self._say)
        return cache

    def fingerprint(self, valid: TokenCache | None) -> str:
        """Return a checksum of the tokens and of the weights by which corpora are mixed."""
        parts = (self.train.fingerprint, valid and valid.fingerprint, self._draw and self._draw.identity)
        return " ".join(part for part in parts if part)


def open_sources(config: Config, resumed: bool) -> Sources:
    """Open the corpora and read the validation corpus, so that problems with it show at once."""
    if config.data.held_out:
        return Sources(None, None, ()) if resumed else _open_split(config)
    train = None if resumed else _open(config, "train")
    # Embedded corpora have a validation part by default.
    valid = _open(config, "valid")
    return Sources(train, valid, list(valid or ()))


def _open(config: Config, split: str) -> Corpus | None:
    reads = config.model.encoder.kind != NOTHING
    corpus = open_corpus(config.data, split, config.seed, reads)
    return None if corpus is None else for_model(corpus, reads)


def _open_split(config: Config) -> Sources:
    reads = config.model.encoder.kind != NOTHING
    train, valid = open_split(config.data, config.seed, reads)
    train, valid = for_model(train, reads), None if valid is None else for_model(valid, reads)
    return Sources(train, valid, list(valid or ()))


def _held_out(config: Config, folder: Path, sources: Sources, say: Say) -> Sources:
    """Store the held-out pairs when a run starts, and read them back when it is resumed."""
    path = folder / CACHE / HELD_OUT
    if sources.train is not None:
        stored = store(path, sources.valid_pairs)
        say(_told_held_out(sources.train, sources.valid_pairs))
        return replace(sources, valid=stored if sources.valid_pairs else None)
    try:
        stored = Stored(path)
        pairs = list(stored)
    except DataError:
        pairs = list(_open_split(config).valid_pairs)
        stored = store(path, pairs)
    return replace(sources, valid=stored if pairs else None, valid_pairs=pairs)


def _told_held_out(train: Corpus, pairs: Sequence[Pair]) -> str:
    if not pairs:
        return f"{train.name} has too few distinct sources to hold some out for validation: training on all of them."
    texts = len({pair.source or pair.target for pair in pairs})
    counted = "1 pair" if len(pairs) == 1 else f"{len(pairs):,} pairs"
    of = "" if texts == len(pairs) else f" of {texts:,} sources"
    return (
        f"Held out {counted}{of} of {train.name} for validation; to train on all, give a validation corpus or set "
        "data.held_out=0."
    )


def _report_epoch(draw: Draws, train: Corpus, say: Say) -> None:
    """Report how many pairs of each corpus an epoch has."""
    sizes = draw.sizes()
    each = [f"{size:,} of {part.name}" for size, part in zip(sizes, train.parts, strict=True)]
    say(f"An epoch has {sum(sizes):,} pairs: {', '.join(each)}")


def _open_tokenizers(config: Config, folder: Path, sources: Sources, say: Say) -> Tokenizers:
    corpus = sources.train
    if corpus is None:
        return Tokenizers.load(folder)
    if sources.vocabulary is not None:
        say(f"Taking weights and vocabulary from {config.started_from}")
        sources.vocabulary.save(folder)
        return sources.vocabulary
    say(f"Learning a vocabulary ({config.tokenizer.kind}) from {corpus.name}")
    tokenizers = train_tokenizers(config.tokenizer, corpus, config.seed)
    tokenizers.save(folder)
    return tokenizers


def _open_cache(config: Config, folder: Path, corpus: Corpus | None, tokenizers: Tokenizers, say: Say) -> TokenCache:
    """Open or build the training tokens. A resumed run uses its cached tokens even if the text has changed since."""
    path = folder / CACHE / "train"
    if corpus is None:
        try:
            return TokenCache.open(path)
        except DataError as error:
            say(f"Rebuilding the cache of training tokens: {error}")
            corpus = _open(config, "train")
            assert corpus is not None
    cache = TokenCache.build(path, corpus, tokenizers, config.data.max_length, links=config.training.guided > 0)
    source, target = tokenizers.source.size, tokenizers.target.size
    sizes = f"{source:,}" if tokenizers.joint else f"{source:,} and {target:,}"
    say(f"{len(cache):,} training pairs, a vocabulary of {sizes} entries")
    _report_left_out(cache, "training", config, say)
    return cache


def _batches(
    config: Config, cache: TokenCache, tokenizers: Tokenizers, few_shapes: bool, draw: Draws | None
) -> tuple[Callable[[int], Sequence[Rows]], Callable[[Rows], Batch], Callable[[Rows], int]]:
    """Return functions for the batches of an epoch, for collating one, and for counting its target tokens.

    Subword sampling re-segments each epoch.
    """
    settings, sampling = config.training, config.tokenizer.sampling
    order = partial(BatchOrder, batch_tokens=settings.batch_tokens, seed=config.seed, few_shapes=few_shapes, draw=draw)
    if not sampling:
        batches = order(cache.source_lengths, cache.target_lengths).batches
        return batches, partial(make_batch, cache), lambda rows: int(cache.target_lengths[rows].sum())
    drawn = Resampled(cache, tokenizers, sampling, config.seed, settings.epochs)
    return partial(drawn.batches, order=order), drawn.batch, drawn.count


def _report_left_out(cache: TokenCache, what: str, config: Config, say: Say) -> None:
    if cache.left_out:
        pairs = "pair" if cache.left_out == 1 else "pairs"
        say(
            f"{cache.left_out:,} {what} {pairs} left out: more than data.max_length = {config.data.max_length} tokens "
            f"(the longest text has {cache.index.longest:,})."
        )
