"""Validation during training: loss of the references; exact match, chrF and BLEU of greedy translations."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.config import DecodingConfig
from regard.data.batching import BatchOrder, make_batch, pad_sources
from regard.data.pair import Pair
from regard.data.special_tokens import BOS, EOS
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers
from regard.decoding.search import search
from regard.decoding.translator import banned_tokens, cut
from regard.distributed import share
from regard.evaluation.bleu_chrf import bleu, chrf, has_four_tokens
from regard.evaluation.error_rates import exact_match
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Tensor
from regard.task import Rows
from regard.training.plain_loss import batch_loss


class Validation:
    """Scores a model on a validation corpus.

    BLEU (cased, 13a) and chrF are sacreBLEU's defaults on raw text, over pairs, and come with their signatures. If no
    target has four tokens, there is no BLEU. Exact match is in per cent of distinct sources; any target of a source in
    the corpus counts as correct. Decoding is greedy whatever `decoding.beam` is: it is cheap enough for every
    validation and ranks models alike. Pairs longer than `data.max_length` are translated but do not count in the loss.
    A language model is scored by loss and perplexity only.
    """

    def __init__(
        self, pairs: Sequence[Pair], cache: TokenCache, tokenizers: Tokenizers, decoding: DecodingConfig, tokens: int
    ) -> None:
        """`tokens` is the maximum number of tokens in a batch."""
        self._cache, self._tokenizers, self._tokens = cache, tokenizers, tokens
        self._pairs, self._right = pairs, dict[str, list[str]]()
        for pair in pairs:
            self._right.setdefault(pair.source, []).append(pair.target)
        self.has_bleu = has_four_tokens([pair.target for pair in pairs])
        encoded = tokenizers.source.encode_all(list(self._right))
        self._sources = [[*ids, EOS] for ids in encoded]
        # Penalties rank finished hypotheses, so they do not affect greedy search.
        self._options = replace(decoding, method="beam", beam=1, length_penalty=0.0, coverage_penalty=0.0)
        self._batches = BatchOrder.of(cache, tokens, seed=0).batches(0)

    def __call__(self, model: Seq2Seq, check: Callable[[], None]) -> dict[str, Any]:
        """Score a model in evaluation mode; `check` is called between batches and may raise to stop."""
        loss = self._loss(model, check)
        scores = {"valid_loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        if not model.reads:
            return scores
        return scores | self.scores_of(self.translate(model, check))

    def scores_of(self, written: Mapping[str, str]) -> dict[str, Any]:
        """Score given translations, one per distinct source."""
        texts, references = [written[pair.source] for pair in self._pairs], [pair.target for pair in self._pairs]
        characters = chrf(texts, references)
        exact = exact_match([written[source] for source in self._right], [*map(tuple, self._right.values())])
        scores: dict[str, Any] = {
            "exact": 100 * exact.value,
            "chrf": characters.value,
            "chrf_signature": characters.made_by,
        }
        if self.has_bleu:
            overlap = bleu(texts, references)
            scores |= {"bleu": overlap.value, "signature": overlap.made_by}
        return scores

    def translate(self, model: Seq2Seq, check: Callable[[], None]) -> dict[str, str]:
        """Translate each distinct source, in batches of similar length."""
        device = next(model.parameters()).device
        texts, most = [""] * len(self._sources), model.most_read

        def translated(rows: list[int]) -> list[str]:
            source, mask = (part.to(device) for part in pad_sources([cut(self._sources[row], most) for row in rows]))
            encoded = model.encode(source, mask)
            found = search(
                model.decoder, encoded, self._options, bos=BOS, eos=EOS, banned=banned_tokens(self._tokenizers.target)
            )
            return [self._tokenizers.target.decode(hypotheses[0].tokens) for hypotheses in found]

        batches = self._by_length()
        for rows, found in zip(batches, share(batches, translated, check), strict=True):
            for row, text in zip(rows, found, strict=True):
                texts[row] = text
        return dict(zip(self._right, texts, strict=True))

    def _loss(self, model: Seq2Seq, check: Callable[[], None]) -> float:
        device = next(model.parameters()).device
        total = torch.zeros((), dtype=torch.float64, device=device)

        def lost(rows: Rows) -> Float[Tensor, ""]:
            return batch_loss(model, make_batch(self._cache, rows).to(device)).nll

        for loss in share(self._batches, lost, check):
            total += loss
        return float(total) / sum(int(self._cache.target_lengths[rows].sum()) for rows in self._batches)

    def _by_length(self) -> list[list[int]]:
        batches: list[list[int]] = []
        longest = 0
        for row in sorted(range(len(self._sources)), key=lambda row: -len(self._sources[row])):
            if not batches or longest * (len(batches[-1]) + 1) > self._tokens:
                longest = len(self._sources[row])
                batches.append([])
            batches[-1].append(row)
        return batches
