"""The contract of what answers questions about images."""

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeVar

from torch import nn

from regard.config import ModelConfig
from regard.errors import ModelError
from regard.layers.dropout import Dropout
from regard.models.protocol import Encoded, pick
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
    """Which image of the batch each question is about; None if there are as many about each, one image after the
    other: then what is known of an image is there once for all its questions."""


class AnswererOutput(NamedTuple):
    """What an answerer yields."""

    logits: Float[Tensor, "N W"]
    """One for each answer."""
    weights: Float[Tensor, "N T L H S"] | None
    """Where in the image was looked, with each token (top-down: T = 1, with the whole question); L = 0 without
    attention, None where nobody asked."""
    grid: Grid
    """Rows and columns of the cells."""
    looks: Looks
    """What the image encoder attended to, by the module's name; empty where nobody asked."""


class Parts(NamedTuple):
    """What an answerer is made for."""

    dropout: Dropout
    words: int
    answers: int


class Answerer(nn.Module, ABC):
    """Reads questions and images, and scores answers."""

    def __init__(self, model: ModelConfig, parts: Parts) -> None:
        super().__init__()
        self.encoder = ImageEncoder(model, parts.dropout)
        self.dropout = parts.dropout

    def draw(self) -> None:
        """Draw first weights."""
        draw(self)

    def forward(
        self, source: Float[Tensor, "B ..."], asking: QuestionTokens, mask: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "N W"]:
        """Make logits of answers from images B×C×h×w, or from regions B×S×D with a mask of those that are real."""
        return self.answer(self.encode(source, asking, mask), asking, look=False)[0]

    def encode(
        self, source: Float[Tensor, "B ..."], asking: QuestionTokens, mask: Bool[Tensor, "B S"] | None = None
    ) -> Encoded:
        """Read the images that questions are asked about."""
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
        """Answer, and tell where was looked."""
        check(source, asking)
        encoded, grid, looks = self.encoder.see(source, mask, look)
        logits, weights = self.answer(encoded, asking, look)
        return AnswererOutput(logits, weights if look else None, grid, looks)

    def whole(self, encoded: Encoded, asking: QuestionTokens) -> Float[Tensor, "N 1 D"]:
        """Return for each question what its whole image is: all there is without attention."""
        summary = encoded.summary[:, -1:]
        if asking.about is None:
            return summary.repeat_interleave(asking.tokens.shape[0] // summary.shape[0], dim=0)
        return summary[asking.about]

    @abstractmethod
    def answer(
        self, encoded: Encoded, asking: QuestionTokens, look: bool
    ) -> tuple[Float[Tensor, "N W"], Float[Tensor, "N T L H S"] | None]:
        """Answer questions about encoded images; weights are made only if they are asked for or needed on the way."""


def of_questions(known: Tree, asking: QuestionTokens) -> Tree:
    """Give each question what is known of its image: a tensor, or a tuple of such."""
    return known if asking.about is None else pick(known, asking.about)


answerers: Registry[type[Answerer]] = Registry("answerer", "answerers")


def check(source: Float[Tensor, "B ..."], asking: QuestionTokens) -> None:
    """Refuse questions that do not fit together; whether an image is there is the caller's word, not asked of a GPU."""
    tokens, mask, about = asking
    if tokens.dim() != 2 or mask.shape != tokens.shape or (about is not None and about.shape != tokens.shape[:1]):
        got = ", ".join("×".join(map(str, part.shape)) for part in asking if part is not None)
        raise ModelError(f"Questions are tokens N×T, a mask N×T and the image of each, N; got {got}.")
    if about is None:
        if not source.shape[0] or tokens.shape[0] % source.shape[0]:
            raise ModelError(
                f"{len(tokens)} questions cannot be as many of each of {len(source)} images: say which each is about."
            )
    elif about.device.type == "cpu" and len(about) and not 0 <= int(about.min()) <= int(about.max()) < len(source):
        raise ModelError(
            f"There are {len(source)} images, counted from 0, and questions about number {int(about.min())} to "
            f"{int(about.max())}."
        )
