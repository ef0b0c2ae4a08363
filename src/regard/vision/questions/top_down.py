"""Top-down attention: the question is read to its end, then attends once to the regions."""

import torch
from torch import nn

from regard.attention import Attended, Attention, build_attention
from regard.attention.build import check_pruned
from regard.config import AttentionConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.embedding import Embedding
from regard.layers.rnn_cells import CellState, cells
from regard.models.protocol import Encoded
from regard.shapes import Bool, Float, Tensor
from regard.vision.questions.base import Answerer, AnswererParts, QuestionTokens, answerers, of_questions
from regard.vision.questions.gated_tanh import GatedTanh, GatedTanhScore
from regard.vision.questions.question_words import PAD

GATED = "gated-tanh"
"""The paper's score. It is not in the registry of scores, as nothing else uses it."""


@answerers.register("top-down")
class TopDown(Answerer):
    r"""Attend to the regions that matter to a question (Anderson et al. 2018, section 3.3).

    .. math::
        q = \mathrm{GRU}(E w_1, \dots, E w_T) \qquad a_i = w_a^\top f_a([v_i; q]) \qquad
        \alpha = \mathrm{softmax}(a) \qquad \hat v = \sum_i \alpha_i v_i

    .. math:: h = f_q(q) \odot f_v(\hat v) \qquad p(y) = \mathrm{softmax}(W_o f_o(h))

    where all `f` are gated (`GatedTanh`). Differs from the paper: a question has one answer, so a softmax replaces the
    sigmoids that score each answer independently; embeddings are not GloVe's; a question token comes first; regions may
    be the cells of any image encoder. `model.attention.heads` gives several heads with projections of their own, whose
    joined context is used; any other score may be set. Without attention, `v̂` is the mean of the regions.
    """

    def __init__(self, model: ModelConfig, parts: AnswererParts) -> None:
        super().__init__(model, parts)
        reader, config = model.encoder, model.questions
        _check(model)
        self.embedding = Embedding(parts.words, model.embedding, PAD)
        self.reader = cells[reader.cell](model.embedding, reader.width)
        width, seen = reader.width, self.encoder.state_width
        self.attention = None if model.attention is None else _attention(model.attention, width, seen)
        seen = seen if self.attention is None else self.attention.context_width
        self.f_q, self.f_v = GatedTanh(width, config.fusion), GatedTanh(seen, config.fusion)
        self.f_o = GatedTanh(config.fusion, config.fusion)
        self.output = nn.Linear(config.fusion, parts.answers)

    @torch.no_grad()
    def draw(self) -> None:
        """Initialise the weights; embeddings small, so that they do not saturate the GRU's gates."""
        super().draw()
        nn.init.normal_(self.embedding.weight, std=self.embedding.weight.shape[1] ** -0.5)
        self.embedding.weight[PAD].zero_()

    def answer(
        self, encoded: Encoded, asking: QuestionTokens, look: bool
    ) -> tuple[Float[Tensor, "N W"], Float[Tensor, "N T L H S"] | None]:
        """Read each question, attend, and combine the two."""
        question = self._read(asking.tokens, asking.mask)
        weights: Tensor | None
        if self.attention is None:
            seen = self.whole(encoded, asking)
            weights = seen.new_zeros(seen.shape[0], 1, 0, 1, encoded.mask.shape[1])
        else:
            memory = of_questions(self.attention.remember(encoded.states, encoded.mask), asking)
            attended: Attended = self.attention(question, memory, look=look)
            seen = attended.context
            weights = None if attended.weights is None else attended.weights[:, :, None]
        both = self.f_q(question) * self.f_v(self.dropout(seen))
        logits: Tensor = self.output(self.dropout(self.f_o(self.dropout(both))))
        return logits[:, 0], weights

    def _read(self, tokens: Tensor, mask: Bool[Tensor, "N T"]) -> Float[Tensor, "N 1 D"]:
        """Return the state after the last real token of each question; padding after it has no effect."""
        embedded = self.dropout(self.embedding(tokens))
        nothing = embedded.new_zeros(tokens.shape[0], self.reader.network.hidden_size)
        memory = nothing if self.reader.gates == 4 else None
        states = self.reader.run(embedded, CellState(nothing, memory))
        last = mask.sum(dim=1).clamp(min=1) - 1
        return states[torch.arange(states.shape[0], device=states.device), last][:, None]


def _attention(config: AttentionConfig, query_width: int, state_width: int) -> Attention:
    """Build the attention to the regions: with the paper's score, or any registered one."""
    if config.score == GATED and (config.reach != "global" or config.coverage != "none"):
        raise ConfigError(
            f"model.attention.score={GATED} attends once, to all regions: set model.attention.reach=global and "
            "model.attention.coverage=none."
        )
    check_pruned(config, "model.attention", layers=1)
    own = GatedTanhScore if config.score == GATED else None
    return build_attention(config, query_width, state_width, score=own)


def _check(model: ModelConfig) -> None:
    reader = model.encoder
    if reader.kind != "recurrent" or reader.layers != 1 or reader.bidirectional:
        raise ConfigError(
            "A top-down answerer reads the question with one recurrent layer from left to right: set "
            "model.encoder.kind=recurrent, model.encoder.layers=1 and model.encoder.bidirectional=false."
        )
    for name, value in (("model.encoder.width", reader.width), ("model.questions.fusion", model.questions.fusion)):
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}.")
    if model.attention is not None and model.attention.focus in ("hard", "monotonic"):
        raise ConfigError(
            f"model.attention.focus={model.attention.focus} is for consecutive attention steps, and a question attends "
            "once: use softmax, sparsemax, entmax or gumbel."
        )
