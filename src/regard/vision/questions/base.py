"""Interface of models that answer questions about images."""

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeVar

from torch import nn

from regard.config import ModelConfig
from regard.errors import ModelError
from regard.layers.dropout import Dropout
from regard.models.protocol import Encoded, index_state
from regard.registry import Registry
from regard.shapes import Bool, Float, Int, Tensor
from regard.vision.blocks.base import Looks
from regard.vision.encoder import ImageEncoder
from regard.vision.grid_positions import Grid
from regard.vision.initialisation import draw

Tree = TypeVar("Tree")


class QuestionTokens(NamedTuple):
    """Questions, of which several may be about one image."""

    tokens: Int[Tensor, "N T"]
    mask: Bool[Tensor, "N T"]
    """Which tokens are real."""
    about: Int[Tensor, " N"] | None = None
    """Index of the image that each question is about. None if each image has the same number of questions, one image
    after the other: then what depends on an image alone is stored once for all its questions."""


class AnswererOutput(NamedTuple):
    """Result of an answerer."""

    logits: Float[Tensor, "N W"]
    """One logit for each answer."""
    weights: Float[Tensor, "N T L H S"] | None
    """Attention weights over the image for each token (top-down: T = 1, for the whole question); L = 0 without
    attention, None if not requested."""
    grid: Grid
    """Rows and columns of the cells."""
    looks: Looks
    """Attention weights of the image encoder, by module name; empty if not requested."""


class AnswererParts(NamedTuple):
    """What an answerer is built from."""

    dropout: Dropout
    words: int
    answers: int


class Answerer(nn.Module, ABC):
    """Reads questions and images, and returns logits of answers."""

    def __init__(self, model: ModelConfig, parts: AnswererParts) -> None:
        super().__init__()
        self.encoder = ImageEncoder(model, parts.dropout)
        self.dropout = parts.dropout

    def draw(self) -> None:
        """Initialise the weights."""
        draw(self)

    def forward(
        self, source: Float[Tensor, "B ..."], asking: QuestionTokens, mask: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "N W"]:
        """Return logits of answers for images B×C×h×w, or for regions B×S×D with a mask of the real ones."""
        return self.answer(self.encode(source, asking, mask), asking, look=False)[0]

    def encode(
        self, source: Float[Tensor, "B ..."], asking: QuestionTokens, mask: Bool[Tensor, "B S"] | None = None
    ) -> Encoded:
        """Encode the images that the questions are about."""
        check(source, asking)
        encoded: Encoded = self.encoder(source, mask)
        return encoded

    def see(
        self,
        source: Float[Tensor, "B ..."],
        asking: QuestionTokens,
        mask: Bool[Tensor, "B S"] | None = None,
        look: bool = True,
    ) -> AnswererOutput:
        """Answer, and return the attention weights too."""
        check(source, asking)
        encoded, grid, looks = self.encoder.see(source, mask, look)
        logits, weights = self.answer(encoded, asking, look)
        return AnswererOutput(logits, weights if look else None, grid, looks)

    def whole(self, encoded: Encoded, asking: QuestionTokens) -> Float[Tensor, "N 1 D"]:
        """Return the image summary for each question: all that a model without attention knows of the image."""
        summary = encoded.summary[:, -1:]
        if asking.about is None:
            return summary.repeat_interleave(asking.tokens.shape[0] // summary.shape[0], dim=0)
        return summary[asking.about]

    @abstractmethod
    def answer(
        self, encoded: Encoded, asking: QuestionTokens, look: bool
    ) -> tuple[Float[Tensor, "N W"], Float[Tensor, "N T L H S"] | None]:
        """Answer questions about encoded images; weights are computed only if requested or needed."""


def of_questions(known: Tree, asking: QuestionTokens) -> Tree:
    """Give each question the data of its image: a tensor, or a tuple of tensors."""
    return known if asking.about is None else index_state(known, asking.about)


answerers: Registry[type[Answerer]] = Registry("answerer", "answerers")


def check(source: Float[Tensor, "B ..."], asking: QuestionTokens) -> None:
    """Refuse questions whose shapes do not match; image indices on a GPU are not checked, to avoid a host sync."""
    tokens, mask, about = asking
    if tokens.dim() != 2 or mask.shape != tokens.shape or (about is not None and about.shape != tokens.shape[:1]):
        got = ", ".join("×".join(map(str, part.shape)) for part in asking if part is not None)
        raise ModelError(f"Questions are tokens N×T, a mask N×T and image indices N; got {got}.")
    if about is None:
        if not source.shape[0] or tokens.shape[0] % source.shape[0]:
            raise ModelError(
                f"{len(tokens)} questions cannot be divided evenly among {len(source)} images: say which each is about."
            )
    elif about.device.type == "cpu" and len(about) and not 0 <= int(about.min()) <= int(about.max()) < len(source):
        raise ModelError(
            f"There are {len(source)} images, counted from 0, but the questions are about numbers "
            f"{int(about.min())} to {int(about.max())}."
        )
