"""The pointer-generator decoder: a mixture of a decoder's vocabulary distribution and of copied source tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.attention import Attention
from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.masks import exact
from regard.models.protocol import Copied, Decoder, Encoded, Step, TeacherForced, index_state
from regard.shapes import Bool, Float, Int, Tensor

NONE = 0
"""Padding: the target token of source tokens that cannot be copied."""
MARKS = (2, 3)
"""Start and end tokens, which cannot be copied; the unknown token can."""
SMALLEST = 1e-30
"""Lower bound of the output layer's share, so that its logarithm is finite."""
ROUNDING = 0.01
"""How far a sum of weights may be from one, in half precision."""


class PointerState(NamedTuple):
    """What is carried from step to step."""

    own: Any
    """The state of the wrapped decoder."""
    words: Int[Tensor, "B S"]
    """The target token at each source position; padding where it cannot be copied."""


class Pointer(Decoder[PointerState]):
    r"""Mix copying by attention with the output layer's distribution (See et al. 2017, equations 8 and 9).

    .. math::
        p_{gen} = \sigma(w^\top f_t + b_{ptr}) \qquad
        P(w) = p_{gen} P_{vocab}(w) + (1 - p_{gen}) \sum_{i: w_i = w} a^t_i

    `f_t` is the input of the output layer, and `a^t` the attention weights of the decoder's last layer, averaged over
    heads. It works with any decoder and any attention. With a joint vocabulary a source token and its target token have
    the same id; with two vocabularies, `target_of` maps each source token to the target token of the same text.
    Differs from the paper: `f_t` stands for the context, the state and the input, from which the readout computed it.
    Special tokens of a source are not copied: their attention goes to `P_vocab`. The vocabulary is not extended by the
    words of each source: subwords spell every word, and unknown tokens are copied as such, for
    `decoding.replace_unknown` to replace by the source word attended to.
    """

    copies = True

    def __init__(self, writer: Decoder[Any], source_size: int) -> None:
        """Wrap a decoder. Vocabularies of the same size count as joint until `match` says otherwise."""
        super().__init__()
        writer.tells_last = True
        self.writer = writer
        self.output = writer.output
        self.grows = writer.grows
        self.p_gen = nn.Linear(self.output.in_features, 1)
        own = torch.arange(source_size)
        joint = source_size == self.output.out_features
        copied = own if joint else torch.zeros_like(own)
        for mark in MARKS:
            copied = copied.masked_fill(own == mark, NONE)
        # A parameter, so that model folders store it, but not a trainable one.
        self.target_of = nn.Parameter(copied, requires_grad=False)

    @torch.no_grad()
    def match(self, words: Sequence[int]) -> None:
        """Set the target token of each source token; padding for those that cannot be copied."""
        self.target_of.copy_(torch.tensor(words))

    @property
    def most(self) -> int | None:
        """Maximum target length: that of the wrapped decoder."""
        return self.writer.most

    @property
    def source_attentions(self) -> list[Attention]:
        """Those of the wrapped decoder."""
        return self.writer.source_attentions

    @property
    def own_attentions(self) -> list[Attention]:
        """Those of the wrapped decoder."""
        return self.writer.own_attentions

    def copied_as(self, source: Sequence[int]) -> list[int]:
        """Return the target tokens that can be copied from a source."""
        return [word for word in self.target_of[list(source)].tolist() if word != NONE]

    # -- the decoder protocol
    # ---------------------------------------------------------------------------------------------

    def start(self, encoded: Encoded) -> PointerState:
        """Start the wrapped decoder, and store what can be copied."""
        return PointerState(self.writer.start(encoded), self._words(encoded))

    def steady(self, encoded: Encoded, steps: int, copies: int) -> PointerState | None:
        """Start each hypothesis; what can be copied is stored once per source."""
        own = self.writer.steady(encoded, steps, copies)
        return None if own is None else PointerState(own, self._words(encoded))

    def step(self, token: Int[Tensor, " B"], state: PointerState, look: bool = True) -> Step:
        """Run a step of the wrapped decoder, and mix its distribution with copying."""
        step = self.writer.step(token, state.own, look)
        words, weights, features = state.words, step.weights, step.features
        assert features is not None
        if weights is None or not weights.shape[1]:  # restricted to one position by `alone`
            weights = torch.ones_like(words, dtype=features.dtype)[:, None, None]
        elif words.shape[0] < weights.shape[0]:  # several hypotheses per source
            words = words.repeat_interleave(weights.shape[0] // words.shape[0], dim=0)
        logits = mixture(step.logits, Copied(*self._shared(features, weights, words), words))
        return Step(logits, state._replace(own=step.state), step.weights if look else None, features)

    def reorder(self, state: PointerState, rows: Int[Tensor, " N"]) -> PointerState:
        """Select rows of the whole state."""
        return PointerState(self.writer.reorder(state.own, rows), index_state(state.words, rows))

    def reorder_within(self, state: PointerState, rows: Int[Tensor, " N"]) -> PointerState:
        """Select rows of what differs between the hypotheses of one source."""
        return state._replace(own=self.writer.reorder_within(state.own, rows))

    def alone(self, state: PointerState, rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> PointerState:
        """Attend to one position and copy from it alone."""
        return PointerState(self.writer.alone(state.own, rows, places), state.words[rows, places][:, None])

    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded, look: bool = True) -> TeacherForced:
        """Run the wrapped decoder over given tokens, and add what it copies."""
        taught = self.writer.teach(tokens, encoded, look)
        assert taught.weights is not None
        words = self._words(encoded)
        shared = self._shared(taught.features, taught.weights, words[:, None])
        return taught._replace(weights=taught.weights if look else None, copied=Copied(*shared, words))

    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Apply the output layer: logits without copying."""
        return self.writer.project(features)

    def logits(self, taught: TeacherForced, real: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "*N W"]:
        """Return the log-probabilities of the mixture."""
        assert taught.copied is not None
        generated, shares, words = taught.copied
        words = words[:, None].expand(shares.shape)
        if real is not None:
            generated, shares, words = generated[real], shares[real], words[real]
        return mixture(super().logits(taught, real), Copied(generated, shares, words))

    # -- copying
    # ----------------------------------------------------------------------------------------------------------

    def _words(self, encoded: Encoded) -> Int[Tensor, "B S"]:
        assert encoded.tokens is not None, "a decoder that copies needs to know what was read"
        return self.target_of[encoded.tokens]

    def _shared(
        self, features: Float[Tensor, "*B D"], weights: Float[Tensor, "*B L H S"], words: Int[Tensor, "*#B S"]
    ) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B S"]]:
        """Return the share left to the output layer, and the share that each source position gives to its word.

        Attention to positions whose token cannot be copied goes to the output layer.
        """
        looks = exact(weights[..., -1, :, :]).mean(dim=-2)
        # Weights may sum to zero (monotonic attention that stops nowhere); a sum of one up to rounding counts as one.
        total = looks.sum(dim=-1)
        found = (total / (1 - ROUNDING)).clamp_max(1.0)
        looks = looks * (found / total.clamp_min(SMALLEST))[..., None]
        fixed = words == NONE
        left = (1 - found) + (looks * fixed).sum(dim=-1)
        score = exact(self.p_gen(features))
        # A softmax over both gives the sigmoid and its complement, each exact near zero.
        writes, copies = torch.softmax(torch.cat((score, torch.zeros_like(score)), dim=-1), dim=-1).unbind(dim=-1)
        generated = (writes + copies * left).clamp_min(SMALLEST)
        return generated, copies[..., None] * looks.masked_fill(fixed, 0.0)


def mixture(logits: Float[Tensor, "*N W"], copied: Copied) -> Float[Tensor, "*N W"]:
    """Return the log-probabilities of all words; `copied` has one row of words for each row of logits."""
    written = exact(logits).log_softmax(dim=-1) + copied.generated.log()[..., None]
    shares = torch.zeros_like(written).scatter_add(-1, copied.words, copied.shares.to(written.dtype))
    some = shares > 0
    both = torch.logaddexp(written, shares.masked_fill(~some, 1.0).log())
    return torch.where(some, both, written)


def check_copying(config: ModelConfig) -> None:
    """Refuse copying where there is no source to copy from."""
    if not config.copy:
        return
    if config.image is not None:
        raise ConfigError(
            "model.copy copies tokens of a source text, but this model reads images (model.image): leave it out."
        )
    if config.encoder.kind == "none":
        raise ConfigError(
            "model.copy copies tokens of a source, but a language model (model.encoder.kind=none) has none: leave it "
            "out."
        )
    if config.attention is None:
        raise ConfigError(
            "model.copy copies the tokens that the decoder attends to, but model.attention is none: give it attention, "
            "or set model.copy=false."
        )
