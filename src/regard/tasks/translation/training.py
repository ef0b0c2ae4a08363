"""Training and validation data of a translator: cached tokens, batches, and validation scores."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.config import Config, DecodingConfig
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers
from regard.decoding.token_limits import SPARE
from regard.decoding.vocabulary_shortlist import MANY, SHORTLIST, learn
from regard.models.model_folder import CACHE
from regard.task import Say, TrainingData
from regard.tasks.text_sources import Sources, TextData
from regard.tasks.translation.validation import Validation
from regard.training.objective import SequenceObjective


def open_data(
    config: Config, folder: Path, sources: Sources, say: Say, few_shapes: bool
) -> tuple[Tokenizers, TrainingData]:
    """Build tokenizers and token caches in a model folder; a resumed run reuses those it built when it started."""
    texts = TextData(config, folder, sources, say, few_shapes)
    decoding, cache = stretched(config.decoding, texts.train), texts.open_validation()
    validate = None
    if cache is not None:
        pairs, tokens = texts.sources.valid_pairs, config.training.batch_tokens
        validate = Validation(pairs, cache, texts.tokenizers, decoding, tokens)
        if config.training.metric == "bleu" and not validate.has_bleu:
            say(
                "No validation target has the four tokens that BLEU needs, so the loss selects the best model. To "
                "select by exact matches of whole lines, set training.metric=exact."
            )
    known_by = texts.fingerprint(cache)
    data = TrainingData(texts.order, texts.batch, validate, known_by, decoding, SequenceObjective, count=texts.count)
    return texts.tokenizers, data


def list_words(folder: Path) -> None:
    """Learn the lexical shortlist from a run's tokens, if the target vocabulary is large, and save it in the folder."""
    path = folder / CACHE / "train"
    if (folder / SHORTLIST).exists() or not path.is_dir():
        return
    tokenizers, cache = Tokenizers.load(folder), TokenCache.open(path)
    # The sources of a language model consist of the end token alone.
    if tokenizers.target.size >= MANY and int(cache.source_lengths.max()) > 1:
        learn(cache, tokenizers.source.size, tokenizers.target.size, tokenizers.joint).save(folder)


def stretched(decoding: DecodingConfig, cache: TokenCache) -> DecodingConfig:
    """Raise `max_ratio` where more than one pair in a thousand has a longer target than it allows."""
    ratios = (cache.target_lengths - SPARE) / np.maximum(cache.source_lengths, 1)
    needed = math.ceil(10 * float(np.quantile(ratios, 0.999))) / 10
    return replace(decoding, max_ratio=max(decoding.max_ratio, needed))
