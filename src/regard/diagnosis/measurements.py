"""What a diagnosis is made from: a model's behaviour on sentence pairs, with teacher forcing and without."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention.weight_hooks import hooked
from regard.data.batching import pad_sources
from regard.data.pair import Pair
from regard.data.special_tokens import BOS, EOS
from regard.decoding.batching import BATCH, batches
from regard.decoding.edit_hooks import hooks_of
from regard.decoding.edits import AblateHead
from regard.decoding.translator import Translator
from regard.diagnosis.source_gradients import Gradients, gradients
from regard.errors import DataError, ModelError
from regard.models.inference_mode import inference_mode
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Int, Tensor

Floats = NDArray[np.float32]

MOST_FOR_GRADIENTS = 32
"""Pairs to compute gradients for, which takes a backward pass for each target token."""
MOST_FOR_ABLATION = 64
"""Pairs to ablate heads on, which takes a forward pass for each head."""
LONGEST_FOR_GRADIENTS = 60
"""Pairs with more tokens on either side are left out there."""


@dataclass(frozen=True, eq=False)
class ForcedPair:
    """A pair under teacher forcing."""

    source: tuple[int, ...]
    """Token ids, the end token last; a language model has no more than that."""
    target: tuple[int, ...]
    log_probs: Floats
    """Log-probability of each target token."""
    confidence: Floats
    """Probability of the most probable token at each step."""
    correct: NDArray[np.bool_]
    """Whether the target token is the most probable one."""
    weights: Floats
    """Attention, layers × heads × target × source tokens; no layers without attention."""


@dataclass(frozen=True, eq=False)
class Output:
    """What the model generates for a source by itself, beside the reference."""

    tokens: tuple[str, ...]
    """The tokens as displayed, without the end token."""
    ended: bool
    """Whether the model ended the output by itself."""
    reference: tuple[str, ...]
    weights: Floats
    """Attention, layers × heads × target × source tokens; the target has the end token if the output ended."""


@dataclass(frozen=True, eq=False)
class Measurements:
    """A model's behaviour on a corpus."""

    translator: Translator
    forced: tuple[ForcedPair, ...]
    outputs: tuple[Output, ...]
    """One for each pair; none for a language model, which translates nothing."""
    gradients: tuple[Gradients, ...]
    """Of the first pairs that are short enough; none for a language model."""
    ablation: Mapping[tuple[int, int], float]
    """How much the loss per token rises if a (layer, head) is ablated."""
    likeliest: Floats
    """The highest probability that each token of the target vocabulary has at any step."""

    @property
    def tokens(self) -> int:
        """The number of target tokens."""
        return sum(len(pair.target) for pair in self.forced)

    @property
    def attends(self) -> bool:
        """Whether the model has attention to the source."""
        return bool(self.forced[0].weights.shape[0])

    def heads(self) -> Iterator[tuple[int, int]]:
        """Yield each (layer, head) of the attention to the source."""
        layers, heads = self.forced[0].weights.shape[:2]
        yield from ((layer, head) for layer in range(layers) for head in range(heads))


def measure(translator: Translator, pairs: Sequence[Pair]) -> Measurements:
    """Run a single model over sentence pairs: teacher forcing, its own search, gradients and ablations."""
    model = translator.model
    if not isinstance(model, Seq2Seq):
        raise ModelError("An ensemble cannot be examined: examine its members one by one.")
    if not pairs:
        raise DataError("There are no sentence pairs, so there is nothing to examine the model on.")
    encoded = [*zip(*translator._encode_pairs(pairs), strict=True)]
    order = [row for batch in batches([max(map(len, pair)) for pair in encoded], BATCH) for row in batch]
    likeliest = np.zeros(translator.tokenizers.target.size, np.float32)
    found: dict[int, ForcedPair] = {}
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        found |= zip(rows, _force(translator, [encoded[row] for row in rows], likeliest), strict=True)
    forced = tuple(found[row] for row in range(len(pairs)))
    return Measurements(
        translator,
        forced,
        _outputs(translator, pairs, forced) if model.reads else (),
        _gradients(translator, forced) if model.reads else (),
        _ablation(translator, forced) if forced[0].weights.shape[1] * forced[0].weights.shape[0] > 1 else {},
        likeliest,
    )


def _padded(translator: Translator, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    tokens, mask = pad_sources([list(text) for text in texts])
    return tokens.to(translator.device), mask.to(translator.device)


def shifted(targets: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Return what the decoder reads: the start token, then the target without its last token."""
    return torch.cat([torch.full_like(targets[:, :1], BOS), targets[:, :-1]], dim=1)


def _force(translator: Translator, pairs: Sequence[tuple[list[int], list[int]]], likeliest: Floats) -> list[ForcedPair]:
    """Run teacher forcing over a batch, and update the highest probability of each token."""
    model = translator.model
    assert isinstance(model, Seq2Seq)
    sources, targets = zip(*pairs, strict=True)
    with inference_mode(model):
        tokens, real = _padded(translator, targets)
        encoded = model.encode(*_padded(translator, sources))
        taught = model.decoder.teach(shifted(tokens), encoded, look=True)
        probabilities = model.decoder.logits(taught, real).float().log_softmax(dim=-1)
        best, argmax = probabilities.max(dim=-1)
        own = probabilities.gather(1, tokens[real][:, None])[:, 0]
        np.maximum(likeliest, probabilities.amax(dim=0).exp().cpu().numpy(), out=likeliest)
        parts = (own, best.exp(), argmax == tokens[real])
        columns = [torch.split(part.cpu(), [len(target) for target in targets]) for part in parts]
        assert taught.weights is not None
        looks = taught.weights.float().permute(0, 2, 3, 1, 4).cpu()
    return [
        ForcedPair(
            tuple(source),
            tuple(target),
            columns[0][row].numpy(),
            columns[1][row].numpy(),
            columns[2][row].numpy(),
            looks[row, :, :, : len(target), : len(source)].numpy(),
        )
        for row, (source, target) in enumerate(pairs)
    ]


def _outputs(translator: Translator, pairs: Sequence[Pair], forced: Sequence[ForcedPair]) -> tuple[Output, ...]:
    """Translate each source once, by the model's own search."""
    sources = list(dict.fromkeys(pair.source for pair in pairs))
    written = dict(zip(sources, translator.translate(sources), strict=True))
    end, target = translator.tokenizers.target.pieces([EOS])[0], translator.tokenizers.target
    outputs = []
    for pair, given in zip(pairs, forced, strict=True):
        tokens, trace = written[pair.source].tokens, written[pair.source].attention
        ended = tokens[-1:] == (end,)
        own = tokens[:-1] if ended else tokens
        outputs.append(Output(own, ended, tuple(target.pieces(given.target[:-1])), trace.weights))
    return tuple(outputs)


def for_gradients(forced: Sequence[ForcedPair]) -> list[ForcedPair]:
    """Return the pairs that gradients are computed for: the first that are short enough."""
    short = [pair for pair in forced if max(len(pair.source), len(pair.target)) <= LONGEST_FOR_GRADIENTS]
    return short[:MOST_FOR_GRADIENTS]


def _gradients(translator: Translator, forced: Sequence[ForcedPair]) -> tuple[Gradients, ...]:
    chosen = for_gradients(forced)
    return gradients(translator, [(pair.source, pair.target) for pair in chosen]) if chosen else ()


def _ablation(translator: Translator, forced: Sequence[ForcedPair]) -> dict[tuple[int, int], float]:
    """Return the rise of the loss per token without each head, on the first pairs."""
    model, chosen = translator.model, forced[:MOST_FOR_ABLATION]
    assert isinstance(model, Seq2Seq)
    layers, heads = chosen[0].weights.shape[:2]
    longest = max(len(pair.source) for pair in chosen)
    before = _loss(translator, chosen)
    rises = {}
    for layer, head in ((layer, head) for layer in range(layers) for head in range(heads)):
        with hooked(hooks_of(model.decoder, [AblateHead(layer=layer, head=head)], longest)):
            rises[layer, head] = _loss(translator, chosen) - before
    return rises


def _loss(translator: Translator, forced: Sequence[ForcedPair]) -> float:
    """Return the negative log-likelihood per target token."""
    unused = np.zeros(translator.tokenizers.target.size, np.float32)
    again = _force(translator, [(list(pair.source), list(pair.target)) for pair in forced], unused)
    return -float(np.concatenate([pair.log_probs for pair in again]).mean())
