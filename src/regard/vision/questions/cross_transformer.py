"""A Transformer over the question with attention to the image in every layer."""

import torch
from torch import nn

from regard.attention import Attended, build_attention
from regard.attention.build import check_pruned
from regard.config import DecoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.masks import erase
from regard.models.build import make_position
from regard.models.protocol import Encoded
from regard.models.transformer_layer import FeedForward, Residual, check_choices, check_layers
from regard.shapes import Float, Tensor
from regard.vision.questions.base import Answerer, AnswererParts, QuestionTokens, answerers, of_questions
from regard.vision.questions.gated_sum import SummedLook
from regard.vision.questions.question_words import PAD

POOLINGS = ("first", "mean")


class QuestionLayer(nn.Module):
    """Self-attention over words, attention to the image, a feed-forward network (Vaswani et al. 2017, section 3.1).

    It is a decoder's layer, but not causal. `model.questions.summed` adds the output of a `SummedLook` to the context.
    Without attention it does not attend to the image.
    """

    def __init__(self, model: ModelConfig, state_width: int, dropout: Dropout, layer: int) -> None:
        super().__init__()
        config = model.encoder
        width, norm = config.width, config.norm
        self.self_attention = build_attention(
            model.self_attention, width, width, itself=True, position=model.positions, layer=layer
        )
        self.around_words = Residual(width, norm, dropout)
        self.attention = None
        if model.attention is not None:
            self.attention = build_attention(model.attention, width, state_width, layer=layer)
            self.around_image = Residual(width, norm, dropout)
        sums = model.attention if model.questions.summed else None
        self.summed = None if sums is None else SummedLook(sums, width, state_width)
        within = DecoderConfig(width=width, feed_forward=config.feed_forward, activation=config.activation)
        self.feed_forward = FeedForward(within, dropout)
        self.around_network = Residual(width, norm, dropout)

    def forward(
        self, words: Float[Tensor, "N T D"], encoded: Encoded, asking: QuestionTokens, look: bool
    ) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N T H S"] | None]:
        """Run one layer over all words."""
        entering = self.around_words.enter(words)
        own: Attended = self.self_attention(entering, self.self_attention.remember(entering, asking.mask), look=False)
        words, weights = self.around_words.leave(words, own.context), None
        if self.attention is not None:
            # Keys and values are computed once per image, then gathered for each of its questions.
            memory = of_questions(self.attention.remember(encoded.states, encoded.mask), asking)
            entering = self.around_image.enter(words)
            seen: Attended = self.attention(entering, memory, look=look)
            context = seen.context if self.summed is None else seen.context + self.summed(entering, encoded, asking)
            words, weights = self.around_image.leave(words, context), seen.weights
        words = self.around_network.leave(words, self.feed_forward(self.around_network.enter(words)))
        return words, weights


@answerers.register("cross")
class Cross(Answerer):
    r"""Layers in which the words of a question attend to each other and to the image (Tan & Bansal 2019, LXMERT).

    .. math::
        Y = X + \mathrm{Attention}(X, X) \qquad Z = Y + \mathrm{Attention}(Y, V) \qquad
        X' = Z + \mathrm{FFN}(Z) \qquad p(y) = \mathrm{softmax}(W_o x_0)

    where X are the question token and the words, and V the cells. The answer is a linear map of the final state of
    the question token, or of the mean of all tokens. With several layers a word can find an object in one, and start
    from there to find another in the next.
    Differs from the paper: the image does not attend to the words, so several questions can share its encoding. Without
    attention, the image's summary is added to every word instead.
    """

    def __init__(self, model: ModelConfig, parts: AnswererParts) -> None:
        super().__init__(model, parts)
        reader, config = model.encoder, model.questions
        _check(model)
        width = reader.width
        self.pooling = config.pooling
        self.embedding = Embedding(parts.words, model.embedding, PAD, make_position(model), scaled=True)
        self.summary = None if model.attention is not None else nn.Linear(self.encoder.state_width, width)
        self.depth = reader.layers
        self.layers = nn.ModuleList(
            QuestionLayer(model, self.encoder.state_width, parts.dropout, layer)
            for layer in range(1 if config.shared else self.depth)
        )
        self.norm = nn.LayerNorm(width) if reader.norm == "pre" else None
        self.output = nn.Linear(width, parts.answers)

    def answer(
        self, encoded: Encoded, asking: QuestionTokens, look: bool
    ) -> tuple[Float[Tensor, "N W"], Float[Tensor, "N T L H S"] | None]:
        """Run the words through all layers."""
        tokens, mask, _ = asking
        words = self.dropout(erase(self.embedding(tokens), mask))
        if self.summary is not None:
            words = words + self.summary(self.whole(encoded, asking))
        found = []
        for depth in range(self.depth):
            layer = self.layers[depth % len(self.layers)]
            words, weights = layer(words, encoded, asking, look)
            found += [] if weights is None else [weights]
        words = erase(words if self.norm is None else self.norm(words), mask)
        pooled = words[:, 0] if self.pooling == "first" else words.sum(dim=1) / mask.sum(dim=1, keepdim=True)
        logits: Tensor = self.output(self.dropout(pooled[:, None])[:, 0])
        no_layers = words.new_zeros(*tokens.shape, 0, 1, encoded.mask.shape[1])
        return logits, torch.stack(found, dim=2) if found else no_layers


def _check(model: ModelConfig) -> None:
    if model.encoder.kind != "transformer":
        raise ConfigError(
            f"The words of a cross answerer go through a Transformer, but model.encoder.kind is {model.encoder.kind}: "
            "set it to transformer."
        )
    check_choices(model, "encoder")
    check_layers(model, "encoder")
    config = model.questions
    if config.pooling not in POOLINGS:
        raise ConfigError(f"model.questions.pooling must be one of {', '.join(POOLINGS)}, got {config.pooling!r}.")
    if model.encoder.layers < 1:
        raise ConfigError(f"model.encoder.layers must be at least 1, got {model.encoder.layers}.")
    for name, attention in (("attention", model.attention), ("self_attention", model.self_attention)):
        if attention is not None and attention.focus in ("hard", "monotonic"):
            raise ConfigError(
                f"model.{name}.focus={attention.focus} is for a target that is generated word by word: use softmax, "
                "sparsemax, entmax or gumbel."
            )
        if attention is not None and name == "attention":
            check_pruned(attention, "model.attention", model.encoder.layers)
            if not attention.project and attention.heads == 1:
                raise ConfigError("A cross answerer adds its context to its words: set model.attention.project=true.")
