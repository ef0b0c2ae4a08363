"""Settings of models that answer questions, beside those of `ModelConfig`."""

from dataclasses import dataclass

POOLINGS = ("first", "mean")


@dataclass(frozen=True)
class QuestionsConfig:
    """How a question and an image become an answer; `model.encoder` is what reads the question.

    `model.attention` is how the image is looked at. Without it (attention=none) all that is known of the image is one
    vector, whatever the question: its mean, or its class token.
    """

    kind: str = "top-down"
    """What answers: top-down (Anderson et al. 2017), or cross (a Transformer whose words look at the image)."""
    fusion: int = 512
    """top-down: units in which question and image meet."""
    pooling: str = "first"
    """cross: what the answer is read from, the question mark that stands first (first), or the mean of all words."""
    shared: bool = False
    """cross: every layer has the same weights: what finds one thing also finds the next (Dehghani et al. 2019)."""
