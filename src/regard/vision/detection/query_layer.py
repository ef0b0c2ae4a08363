"""One layer of object queries."""

from typing import NamedTuple

from torch import nn

from regard.attention import Memory, build_attention
from regard.config import ModelConfig
from regard.layers.dropout import Dropout
from regard.models.transformer_layer import FeedForward, Residual
from regard.shapes import Float, Tensor
from regard.vision.detection.queries import CellAttention


class Looked(NamedTuple):
    """Result of a layer."""

    outputs: Float[Tensor, "B N D"]
    weights: Float[Tensor, "B N H S"] | None


class QueryLayer(nn.Module):
    """Self-attention among queries, attention to cells, a feed-forward network (Carion et al. 2020, appendix A.3).

    It is the Transformer's decoder layer without causality: all queries are there at once, in no order. Position
    vectors are added to the queries before each attention. Differs from the paper: in self-attention they are in the
    values too, not only in queries and keys; norms may come first (`model.decoder.norm`).
    """

    def __init__(self, model: ModelConfig, look: type[CellAttention], dropout: Dropout, layer: int) -> None:
        super().__init__()
        config = model.decoder
        assert model.attention is not None
        self.self_attention = build_attention(
            model.self_attention, config.width, config.width, itself=True, layer=layer
        )
        self.look = look(model.attention, config.width, layer)
        self.feed_forward = FeedForward(config, dropout)
        self.around_queries, self.around_cells, self.around_network = (
            Residual(config.width, config.norm, dropout) for _ in range(3)
        )

    def forward(
        self,
        inputs: Float[Tensor, "B N D"],
        places: Float[Tensor, "B N D"],
        memory: Memory,
        boxes: Float[Tensor, "B N 4"],
        cells: Float[Tensor, "S 2"],
        look: bool,
    ) -> Looked:
        """Run one layer over all queries."""
        entering = self.around_queries.enter(inputs) + places
        every = entering.new_ones(entering.shape[:2]).bool()
        own = self.self_attention(entering, self.self_attention.remember(entering, every), look=False)
        outputs = self.around_queries.leave(inputs, own.context)
        seen = self.look(self.around_cells.enter(outputs) + places, memory, boxes, cells, look)
        outputs = self.around_cells.leave(outputs, seen.context)
        outputs = self.around_network.leave(outputs, self.feed_forward(self.around_network.enter(outputs)))
        return Looked(outputs, seen.weights)
