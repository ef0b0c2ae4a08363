"""The output layer: logits over the vocabulary, its weights shared with the embeddings where that is asked for."""

from torch import nn

from regard.errors import ConfigError
from regard.models.registries import Parts


def make_output(width: int, parts: Parts, tied: bool, fix: str) -> nn.Linear:
    """Make the layer that reads features of this width; `fix` says how to make a width fit that does not."""
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
