"""A scene: what is in it, what is said of it, what can be asked about it, and where the answers are to be seen."""

from dataclasses import dataclass
from functools import cached_property

from regard.data.scenes.captions import Caption, captions_of
from regard.data.scenes.layout import lay_out
from regard.data.scenes.objects import Thing
from regard.data.scenes.painting import Painting, paint
from regard.data.scenes.portable_random import PortableRandom
from regard.data.scenes.questions import Question, questions_about
from regard.data.scenes.reserved_combinations import holds_reserved

_THINGS, _QUESTIONS, _PAINT = range(3)


@dataclass(frozen=True)
class Scene:
    """One scene. What takes time (`painting`, `captions`, `questions`) is made when it is first asked for."""

    key: tuple[int, int, int]
    """Seed, number of the split, index: all that the scene depends on."""
    pixels: int
    """Height and width of its picture. The same scene can be painted in any size."""
    layout: str
    things: tuple[Thing, ...]

    @classmethod
    def draw(cls, key: tuple[int, int, int], pixels: int, held_out: bool) -> "Scene":
        """Draw the scene of a key."""
        return cls(key, pixels, *lay_out(PortableRandom(*key, _THINGS), held_out))

    @property
    def held_out(self) -> bool:
        """Whether it has a combination of colour, texture and shape that never occurs in training."""
        return holds_reserved(self.things)

    @cached_property
    def painting(self) -> Painting:
        """The picture, and where each thing is in it."""
        return paint(self.things, self.pixels, PortableRandom(*self.key, _PAINT))

    @cached_property
    def captions(self) -> tuple[Caption, ...]:
        """All that the grammar of captions has to say of it."""
        return captions_of(self.layout, self.things)

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Questions of different kinds, with their answers."""
        return questions_about(self.things, self.held_out, PortableRandom(*self.key, _QUESTIONS))
