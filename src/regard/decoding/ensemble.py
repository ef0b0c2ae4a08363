r"""Ensembles: the mean of several models' next-token distributions, at every step.

.. math:: p(y_t | y_{<t}, x) = \frac{1}{n} \sum_i p_i(y_t | y_{<t}, x)

The models may be of any kind, but must have the same vocabularies. (Sutskever et al. 2014, section 3.6; most systems
since then report ensembles.)
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn

from regard.attention import Attention
from regard.errors import ConfigError
from regard.models.protocol import Decoder, Encoded, Step, TeacherForced
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Bool, Float, Int, Tensor


class ReadByAll(Encoded):
    """The encoder outputs of every member; a search sees those of the first."""

    members: tuple[Encoded, ...]

    @classmethod
    def of(cls, members: Sequence[Encoded]) -> "ReadByAll":
        """Combine the members' encoder outputs."""
        together = cls(*members[0])
        together.members = tuple(members)
        return together


class EnsembleDecoder(Decoder[tuple[Any, ...]]):
    r"""Average the probabilities of several decoders.

    With `mean="geometric"` it is the mean of their log-probabilities, renormalised: a product of experts, which gives
    no probability to what any member rules out.

    Its attention layers are those of all members, one member after the other. If numbers of heads differ, each member's
    heads are averaged to one. A member without attention adds no layer.
    """

    def __init__(self, members: Sequence[Decoder[Any]], mean: str = "arithmetic") -> None:
        super().__init__()
        self.decoders = nn.ModuleList(members)
        self.geometric = mean == "geometric"
        self.copies = any(member.copies for member in members)

    @property
    def members(self) -> list[Decoder[Any]]:
        """The decoders, in order."""
        return cast(list[Decoder[Any]], list(self.decoders))

    @property
    def most(self) -> int | None:
        """Maximum target length: the smallest of the members'."""
        return min((member.most for member in self.members if member.most is not None), default=None)

    @property
    def source_attentions(self) -> list[Attention]:
        """Those of all members, one member after the other."""
        return [attention for member in self.members for attention in member.source_attentions]

    @property
    def own_attentions(self) -> list[Attention]:
        """Those of all members, one member after the other."""
        return [attention for member in self.members for attention in member.own_attentions]

    def start(self, encoded: Encoded) -> tuple[Any, ...]:
        """Start each member from its own encoder output."""
        return tuple(member.start(own) for member, own in zip(self.members, _split(encoded), strict=True))

    def step(self, token: Int[Tensor, " B"], state: tuple[Any, ...], look: bool = True) -> Step:
        """Run the same step with each member."""
        steps = [member.step(token, own, look) for member, own in zip(self.members, state, strict=True)]
        logits = self._mean([step.logits for step in steps])
        weights = [step.weights for step in steps if step.weights is not None]
        return Step(logits, tuple(step.state for step in steps), _join(weights) if look else None)

    def reorder(self, state: tuple[Any, ...], rows: Int[Tensor, " N"]) -> tuple[Any, ...]:
        """Select rows of each member's state."""
        return tuple(member.reorder(own, rows) for member, own in zip(self.members, state, strict=True))

    def reorder_within(self, state: tuple[Any, ...], rows: Int[Tensor, " N"]) -> tuple[Any, ...]:
        """Reorder each member's state within sources."""
        return tuple(member.reorder_within(own, rows) for member, own in zip(self.members, state, strict=True))

    def alone(self, state: tuple[Any, ...], rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> tuple[Any, ...]:
        """Restrict each member to one source position."""
        return tuple(member.alone(own, rows, places) for member, own in zip(self.members, state, strict=True))

    def teach(self, tokens: Int[Tensor, "B T"], encoded: Encoded, look: bool = True) -> TeacherForced:
        """Run each member over the same tokens. The features are log-probabilities, as outputs are averaged."""
        taught = [member.teach(tokens, own, look) for member, own in zip(self.members, _split(encoded), strict=True)]
        logits = [member.logits(own) for member, own in zip(self.members, taught, strict=True)]
        weights = [own.weights for own in taught if own.weights is not None]
        return TeacherForced(self._mean(logits), _join(weights) if len(weights) == len(taught) else None)

    def project(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N W"]:
        """Return them unchanged: `teach` returns log-probabilities."""
        return features

    def copied_as(self, source: Sequence[int]) -> list[int]:
        """Return what any member can copy."""
        return sorted({word for member in self.members for word in member.copied_as(source)})

    def _mean(self, logits: Sequence[Float[Tensor, "*N W"]]) -> Float[Tensor, "*N W"]:
        every = torch.stack([each.float().log_softmax(dim=-1) for each in logits])
        if self.geometric:
            return every.mean(dim=0)  # logits need not be normalised: the caller does it
        return every.logsumexp(dim=0) - math.log(len(every))


class Ensemble(nn.Module):
    """Models that decode together."""

    def __init__(self, members: Sequence[Seq2Seq]) -> None:
        super().__init__()
        if not members:
            raise ConfigError("An ensemble needs at least one model.")
        if len({member.reads for member in members}) > 1:
            raise ConfigError("An ensemble is of translators or of language models: the two cannot be combined.")
        self.models = nn.ModuleList(members)

    @property
    def members(self) -> list[Seq2Seq]:
        """The models, in order."""
        return cast(list[Seq2Seq], list(self.models))

    @property
    def decoder(self) -> EnsembleDecoder:
        """The ensemble of the members' decoders, with the arithmetic mean."""
        return self.averaging("arithmetic")

    @property
    def reads(self) -> bool:
        """Whether it reads a source."""
        return self.members[0].reads

    @property
    def most_read(self) -> int | None:
        """Maximum source length: the smallest of the members'."""
        return min((member.most_read for member in self.members if member.most_read is not None), default=None)

    def averaging(self, mean: str) -> EnsembleDecoder:
        """Return the ensemble of the members' decoders, with the given mean."""
        return EnsembleDecoder([member.decoder for member in self.members], mean)

    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> ReadByAll:
        """Encode the source with each member; `lengths` as in `Seq2Seq.encode`."""
        return ReadByAll.of([member.encode(source, mask, lengths) for member in self.members])


def _split(encoded: Encoded) -> tuple[Encoded, ...]:
    assert isinstance(encoded, ReadByAll), "an ensemble decodes what its own members have read"
    return encoded.members


def _join(weights: Sequence[Float[Tensor, "*B _ _ S"]]) -> Float[Tensor, "*B L H S"]:
    """Concatenate the layers of all members; layers are the third axis from the end, heads the second."""
    looking = [each for each in weights if each.shape[-3]]
    if not looking:
        return weights[0]
    if len({each.shape[-2] for each in looking}) > 1:
        looking = [each.mean(dim=-2, keepdim=True) for each in looking]
    return torch.cat([each.float() for each in looking], dim=-3)
