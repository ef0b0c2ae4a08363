"""Training and validation data of a captioner: cached pictures, cached caption tokens, and validation scores."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import Config, DecodingConfig
from regard.data.array_cache import ArrayCache, Arrays
from regard.data.batching import PICTURE, Batch, BatchOrder, draw_each, make_picture_batch
from regard.data.picture_cache import Captions, PictureCache
from regard.data.pictures import Pictures
from regard.data.question_vocabulary import covered_in_each
from regard.data.special_tokens import BOS, EOS
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers, train_tokenizers
from regard.decoding.search import search
from regard.decoding.translator import banned_tokens
from regard.distributed import share
from regard.errors import ConfigError, DataError
from regard.evaluation.bleu_chrf import bleu_of_captions, chrf
from regard.evaluation.error_rates import exact_match
from regard.models.model_folder import CACHE
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Tensor
from regard.task import Rows, Say, TrainingData
from regard.tasks.picture_sources import PictureSources, guided_grid, train_pictures_again
from regard.training.objective import SequenceObjective
from regard.training.plain_loss import batch_loss
from regard.vision.grid_positions import Grid
from regard.vision.questions.batch import Names

LONGEST = 0.99
"""`decoding.max_length` is raised to this quantile of the training captions' lengths, if it is shorter."""
AT_ONCE = 128
"""Validation batch size, in pictures."""


def check_gold(config: Config, train: Pictures) -> None:
    """Raise a ConfigError for guided attention on a corpus without gold regions or a model without a square grid."""
    if config.training.guided > 0 and (guided_grid(config) is None or "spoken" not in train.has):
        raise ConfigError(
            "training.guided needs gold regions of the captions' words and a model with a square grid of cells; with "
            f"{train.name} one of them is missing: set training.guided=0, or train on scenes."
        )


class CaptionData:
    """Cached pictures and caption tokens; with gold regions for guided attention."""

    def __init__(self, tokens: TokenCache, pictures: PictureCache, spoken: ArrayCache | None = None) -> None:
        self.tokens, self.pictures, self._spoken = tokens, pictures, spoken
        self._names = None if spoken is None else Names(**spoken.arrays)

    @property
    def fingerprint(self) -> str:
        """A checksum of all the data."""
        return " ".join(part.fingerprint for part in (self.tokens, self.pictures, self._spoken) if part is not None)

    def order(self, batch_tokens: int, seed: int, few_shapes: bool = False) -> BatchOrder:
        """Return batches over captions, grouped by length."""
        counted = np.full(len(self.tokens), PICTURE)
        return BatchOrder(counted, self.tokens.target_lengths, batch_tokens, seed, few_shapes)

    def drawn(self, each: int, batch_tokens: int, seed: int, few_shapes: bool, epoch: int) -> list[Rows]:
        """Return the batches of an epoch as rows of captions: every picture once, with `each` of its captions.

        Pictures are grouped by the length of their longest drawn caption. Only raw random bits are drawn, which NumPy
        keeps stable across releases.
        """
        counts = np.bincount(self.pictures.numbers, minlength=len(self.pictures))
        starts, told = np.concatenate(([0], np.cumsum(counts))), np.flatnonzero(counts)
        raw = np.random.PCG64([seed % 2**64, epoch, each]).random_raw(len(self.tokens))
        rows = draw_each(starts, told, each, raw).reshape(-1, each)
        longest = np.asarray(self.tokens.target_lengths)[rows].max(axis=1)
        order = BatchOrder(np.full(len(rows), PICTURE), longest, batch_tokens // each, seed, few_shapes)
        return [rows[some].ravel() for some in order.batches(epoch)]

    def count(self, rows: Rows) -> int:
        """Return how many tokens captions have."""
        return int(self.tokens.target_lengths[rows].sum())

    def batch(self, rows: Rows, each: int = 1) -> Batch:
        """Return a batch of captions and their pictures; each run of `each` rows shares a picture."""
        owners = self.pictures.numbers[rows[::each]]
        batch = make_picture_batch(self.tokens, rows, self.pictures.pictures[owners])
        if self._names is None:
            return batch
        named, covered = self._names.take(rows, owners, batch.tokens_out.shape[1])
        return batch._replace(named=named, covered=covered)


def open_data(
    config: Config, folder: Path, sources: PictureSources, say: Say, few_shapes: bool
) -> tuple[Tokenizers, TrainingData]:
    """Build tokenizers and caches in a model folder; a resumed run reuses those it built when it started."""
    said = None if sources.train is None else Captions(sources.train)
    tokenizers = _open_tokenizers(config, folder, said, sources, say)
    train = _open_train(config, folder, said, sources, tokenizers, say)
    decoding = lengthened(config.decoding, train.tokens)
    validate, known_by = None, train.fingerprint
    if sources.valid is None:
        say("No validation corpus (data.valid): keeping the last model instead of the best.")
    else:
        wanted = Captions(sources.valid)
        valid = _cached(config, folder, "valid", wanted, sources.valid, tokenizers)
        known_by = f"{known_by} {valid.fingerprint}"
        validate = CaptionValidation(wanted.captions, valid, tokenizers, decoding, config.training.batch_tokens)
    each, most, seed = config.training.told, config.training.batch_tokens, config.seed
    order = train.order(most, seed, few_shapes).batches
    if each > 1:
        order = partial(train.drawn, each, most, seed, few_shapes)
    batch = partial(train.batch, each=each)
    data = TrainingData(order, batch, validate, known_by, decoding, SequenceObjective, count=train.count, each=each)
    return tokenizers, data


def lengthened(decoding: DecodingConfig, tokens: TokenCache) -> DecodingConfig:
    """Return decoding settings whose `max_length` allows nearly all training captions."""
    needed = math.ceil(float(np.quantile(tokens.target_lengths, LONGEST)))
    return replace(decoding, max_length=max(decoding.max_length, needed) if decoding.max_length else 0)


def _open_tokenizers(
    config: Config, folder: Path, said: Captions | None, sources: PictureSources, say: Say
) -> Tokenizers:
    if said is None:
        return Tokenizers.load(folder)
    tokenizers: Tokenizers | None = sources.vocabulary
    if tokenizers is not None:
        say(f"Taking weights and vocabulary from {config.started_from}")
    else:
        say(f"Learning a vocabulary ({config.tokenizer.kind}) from the captions of {said.name}")
        tokenizers = train_tokenizers(config.tokenizer, said, config.seed)
    tokenizers.save(folder)
    return tokenizers


def _open_train(
    config: Config,
    folder: Path,
    said: Captions | None,
    sources: PictureSources,
    tokenizers: Tokenizers,
    say: Say,
) -> CaptionData:
    """Open or build the training data. A resumed run uses its caches even if the files have changed since."""
    pictures = sources.train
    if pictures is None or said is None:
        try:
            return _opened(config, folder)
        except DataError as error:
            pictures = train_pictures_again(config, say, error)
            said = Captions(pictures)
    made = _cached(config, folder, "train", said, pictures, tokenizers, guided_grid(config))
    size = tokenizers.target.size
    say(f"{len(made.pictures):,} training pictures, {len(made.tokens):,} captions, a vocabulary of {size:,} entries")
    if made.tokens.left_out:
        say(f"{made.tokens.left_out:,} captions left out: more than data.max_length = {config.data.max_length} tokens.")
    return made


def _cached(
    config: Config,
    folder: Path,
    part: str,
    said: Captions,
    pictures: Pictures,
    tokenizers: Tokenizers,
    grid: Grid | None = None,
) -> CaptionData:
    """Build the caches of pictures and captions; with a grid, also of the gold regions."""
    most = config.data.max_length
    tokens = TokenCache.reuse_or_build(folder / CACHE / part, said, tokenizers, most)
    owners = said.owners(tokenizers, most, tokens.left_out)
    kept = PictureCache.reuse_or_build(folder / CACHE / f"pictures-{part}", pictures, owners)
    if grid is None:
        return CaptionData(tokens, kept)
    origin = f"{tokens.fingerprint} {kept.fingerprint} {grid}"
    make = partial(_spoken, said, pictures, tokenizers, most, grid)
    return CaptionData(tokens, kept, ArrayCache.reuse_or_build(folder / CACHE / f"spoken-{part}", origin, make))


def _opened(config: Config, folder: Path) -> CaptionData:
    """Open the caches of a resumed run."""
    spoken = ArrayCache.open(folder / CACHE / "spoken-train") if config.training.guided > 0 else None
    pictures = PictureCache.open(folder / CACHE / "pictures-train")
    return CaptionData(TokenCache.open(folder / CACHE / "train"), pictures, spoken)


def _spoken(said: Captions, pictures: Pictures, tokenizers: Tokenizers, most: int, grid: Grid) -> Arrays:
    covered = covered_in_each(pictures, grid)
    named = said.named(pictures.every("spoken"), tokenizers, most, covered.shape[1])
    return Names.of(named, covered)._asdict()


class CaptionValidation:
    """Scores a captioner: the loss of all references, and its own captions against them.

    BLEU-4, chrF and exact match are in per cent. Decoding is greedy; BLEU splits words at white space.
    """

    def __init__(
        self,
        references: list[tuple[str, ...]],
        described: CaptionData,
        tokenizers: Tokenizers,
        decoding: DecodingConfig,
        tokens: int,
    ) -> None:
        self._references, self._described, self._tokenizers = references, described, tokenizers
        self._options = replace(decoding, method="beam", beam=1, length_penalty=0.0, coverage_penalty=0.0)
        self._batches = described.order(tokens, seed=0).batches(0)

    def __call__(self, model: Seq2Seq, check: Callable[[], None]) -> dict[str, Any]:
        """Score a model in evaluation mode; `check` is called between batches and may raise to stop."""
        loss = self._loss(model, check)
        texts = self.describe(model, check)
        overlap, characters = bleu_of_captions(texts, self._references), chrf(texts, self._references)
        return {
            "valid_loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "exact": 100 * exact_match(texts, self._references).value,
            "chrf": characters.value,
            "chrf_signature": characters.made_by,
            "bleu": overlap.value,
            "signature": overlap.made_by,
        }

    def describe(self, model: Seq2Seq, check: Callable[[], None]) -> list[str]:
        """Caption all pictures."""
        device = next(model.parameters()).device
        banned = banned_tokens(self._tokenizers.target, replaceable=False)

        def described(start: int) -> list[str]:
            some = torch.from_numpy(np.array(self._described.pictures.pictures[start : start + AT_ONCE])).to(device)
            encoded = model.encode(some, None)  # type: ignore[arg-type]
            found = search(model.decoder, encoded, self._options, bos=BOS, eos=EOS, banned=banned, look=False)
            return [self._tokenizers.target.decode(hypotheses[0].tokens) for hypotheses in found]

        return [text for some in share(range(0, len(self._references), AT_ONCE), described, check) for text in some]

    def _loss(self, model: Seq2Seq, check: Callable[[], None]) -> float:
        device = next(model.parameters()).device
        total = torch.zeros((), dtype=torch.float64, device=device)

        def lost(rows: Rows) -> Float[Tensor, ""]:
            return batch_loss(model, self._described.batch(rows).to(device)).nll

        for loss in share(self._batches, lost, check):
            total += loss
        return float(total) / sum(self._described.count(rows) for rows in self._batches)
