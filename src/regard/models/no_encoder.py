"""The encoder of a language model, which has no source."""

from regard.config import ModelConfig
from regard.layers.dropout import Dropout
from regard.models.protocol import Encoded, Encoder, Summary
from regard.models.registries import encoders
from regard.shapes import Bool, Float, Int, Tensor


@encoders.register("none")
class NoEncoder(Encoder):
    """No encoder: what remains of a translator is a language model."""

    def __init__(self, model: ModelConfig, dropout: Dropout) -> None:
        super().__init__()
        self.state_width = 0
        self.summary = Summary("", layers=0, width=0)

    def forward(
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> Encoded:
        """Return states of width zero."""
        return Encoded(embedded[..., :0], mask, embedded.new_zeros(embedded.shape[0], 0, 0))
