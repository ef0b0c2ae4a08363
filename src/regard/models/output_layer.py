"""The output layer: logits over the vocabulary, with weights tied to the embeddings if configured."""

from torch import nn

from regard.errors import ConfigError
from regard.models.registries import DecoderParts


def make_output(width: int, parts: DecoderParts, tied: bool, fix: str) -> nn.Linear:
    """Build the output layer for features of this width; `fix` tells the user how to make a tied width match."""
    output = nn.Linear(width, parts.target_size)
    if tied:
        embedded = parts.embedding.embedding_dim
        if width != embedded:
            raise ConfigError(
                f"model.tie shares the target embeddings ({embedded} wide) with the output layer, which reads "
                f"{width}: {fix}, or model.tie=none."
            )
        output.weight = parts.embedding.weight
    return output
