"""Classify a text: attention with a learned query sums its words to a vector, and its sentences to another."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn

from regard.attention import build_attention
from regard.attention.positions import Position
from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.models.build import TRANSFORMER, check_model, initialise, make_embedding, make_position
from regard.models.registries import encoders
from regard.shapes import Bool, Float, Int, Tensor

UNFIT_FOCUSES = ("hard", "monotonic")
"""A reward for each written token trains the one, and the other moves on from step to step: here there is one step."""


class Documents(NamedTuple):
    """Texts as sentences: N sentences of at most S tokens, of which the B texts have at most L each.

    A model that is not hierarchical reads every text as one sentence.
    """

    tokens: Int[Tensor, "N S"]
    mask: Bool[Tensor, "N S"]
    sentences: Int[Tensor, "B L"]
    """Which rows of `tokens` each text is made of, in order."""
    sentence_mask: Bool[Tensor, "B L"]
    lengths: Int[Tensor, " N"]
    """Tokens of each sentence; on the host, as `counts` are."""
    counts: Int[Tensor, " B"]
    """Sentences of each text."""

    def to(self, device: torch.device | str) -> "Documents":
        """Copy to a device what a model needs there."""
        later = torch.device(device).type == "cuda"
        return self.mapped(lambda part: part.to(device, non_blocking=later))

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "Documents":
        """Change the tensors that a device needs."""
        return self._replace(
            tokens=change(self.tokens),
            mask=change(self.mask),
            sentences=change(self.sentences),
            sentence_mask=change(self.sentence_mask),
        )


class Pooled(NamedTuple):
    """A sequence as one vector."""

    vector: Float[Tensor, "B D"]
    weights: Float[Tensor, "B H S"] | None
    """None without attention."""


class Classified(NamedTuple):
    """What a text classifier yields."""

    logits: Float[Tensor, "B W"]
    words: Float[Tensor, "N H S"] | None
    """Attention weights within each sentence; None without attention."""
    sentences: Float[Tensor, "B H L"] | None
    """Attention weights of the sentences; None where the model is not hierarchical."""


class AttentivePooling(nn.Module):
    r"""Encode a sequence and sum its states by attention with a learned query (Yang et al. 2016, section 2.2).

    .. math::
        u_{it} &= \tanh(W_w h_{it} + b_w) \\
        \alpha_{it} &= \mathrm{softmax}_t(u_{it}^\top u_w) \\
        s_i &= \textstyle\sum_t \alpha_{it} h_{it}

    This is additive attention whose query is a parameter: the projected query is the bias `b_w`, and `v_a` is the
    context vector `u_w`. Any other score works in the same way. Without attention the vector is the encoder's summary:
    its last state, or for a Transformer the mean of its states.
    """

    def __init__(self, config: ModelConfig, input_width: int, dropout: Dropout) -> None:
        super().__init__()
        self.encoder = encoders[config.encoder.kind](replace(config, embedding=input_width), dropout)
        self.attention, self.query = None, None
        summary = self.encoder.summary
        self.width = summary.width * summary.directions
        if config.attention is not None:
            width = self.encoder.state_width
            self.attention = build_attention(config.attention, width, width)
            self.query = nn.Parameter(torch.empty(width))
            self.width = self.attention.context_width

    def forward(
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"]
    ) -> Pooled:
        """Return the vector of each row, and the weights of its states."""
        encoded = self.encoder(embedded, mask, lengths)
        if self.attention is None or self.query is None:
            return Pooled(encoded.summary[:, self.encoder.summary.layers - 1], None)
        query = self.query.expand(mask.shape[0], 1, -1)
        attended = self.attention(query, self.attention.remember(encoded.states, encoded.mask))
        return Pooled(attended.context[:, 0], attended.weights[:, 0])


class TextClassifier(nn.Module):
    r"""One linear map over a text's vector (Yang et al. 2016, equation 11; flat: Zhou et al. 2016, equations 9 to 12).

    A hierarchical model pools the words of each sentence to a vector, and the sentences to the text's. A flat one pools
    all words of the text at once.
    """

    def __init__(
        self,
        embedding: Embedding,
        words: AttentivePooling,
        sentences: AttentivePooling | None,
        classes: int,
        dropout: Dropout,
        position: Position | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.words, self.sentences = embedding, words, sentences
        self.position = position
        """What a Transformer over sentences is told of their order."""
        self.dropout = dropout
        self.output = nn.Linear((sentences or words).width, classes)

    @property
    def hierarchical(self) -> bool:
        """Whether texts are read sentence by sentence."""
        return self.sentences is not None

    def forward(self, documents: Documents) -> Float[Tensor, "B W"]:
        """Return a logit for each class."""
        return self.see(documents).logits

    def see(self, documents: Documents) -> Classified:
        """Classify, and return the attention weights too."""
        words = self.words(self.dropout(self.embedding(documents.tokens)), documents.mask, documents.lengths)
        if self.sentences is None:
            return Classified(self._logits(words.vector), words.weights, None)
        vectors = words.vector[documents.sentences]
        if self.position is not None:
            vectors = self.position.embed(vectors, 0)
        text = self.sentences(self.dropout(vectors), documents.sentence_mask, documents.counts)
        return Classified(self._logits(text.vector), words.weights, text.weights)

    def _logits(self, vector: Float[Tensor, "B D"]) -> Float[Tensor, "B W"]:
        logits: Tensor = self.output(self.dropout(vector[:, None])[:, 0])
        return logits


def make_text_classifier(config: ModelConfig, source_size: int, classes: int) -> TextClassifier:
    """Make the model that a configuration describes, without first weights."""
    if classes < 1:
        raise ConfigError(f"A classifier needs at least 1 class, got {classes}.")
    check_model(config, source_size, classes)
    _check_meaning(config)
    dropout, position = Dropout(config.dropout, config.variational), make_position(config)
    embedding = make_embedding(config, source_size, config.encoder.kind, position)
    words, sentences, order = AttentivePooling(config, config.embedding, dropout), None, None
    if config.hierarchical:
        sentences = AttentivePooling(config, words.width, dropout)
        if config.encoder.kind == TRANSFORMER:
            order = make_position(replace(config, embedding=words.width))
    return TextClassifier(embedding, words, sentences, classes, dropout, order)


@torch.no_grad()
def draw(model: nn.Module) -> None:
    """Draw first weights as for all models; queries are drawn so that scores start near zero."""
    initialise(model)
    for module in model.modules():
        if isinstance(module, AttentivePooling) and module.query is not None:
            nn.init.normal_(module.query, std=module.query.shape[0] ** -0.5)


def _check_meaning(config: ModelConfig) -> None:
    """Refuse what has no meaning where nothing is written."""
    for name, usual in (("copy", False), ("reverse_source", False), ("tie", "none")):
        if (got := getattr(config, name)) != usual:
            raise ConfigError(
                f"model.{name} is {str(got).lower()}, which is for models that write, and model.task=classify writes "
                f"nothing: set it to {str(usual).lower()}."
            )
    attention = config.attention
    if attention is None:
        return
    if attention.focus in UNFIT_FOCUSES:
        raise ConfigError(
            f"model.attention.focus={attention.focus} is for decoders, which attend step by step: take softmax, "
            "sparsemax, entmax or gumbel."
        )
    for name, usual in (("reach", "global"), ("coverage", "none")):
        if (given := getattr(attention, name)) != usual:
            raise ConfigError(
                f"model.attention.{name}={given} is for decoders, which attend step by step, and a text is classified "
                f"by attending to it once: set it to {usual}."
            )
    if attention.score == "location":
        raise ConfigError(
            "model.attention.score=location goes by the place of a word alone, whatever stands there: take another "
            "score to classify texts."
        )
