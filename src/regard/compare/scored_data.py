"""What all variants of a comparison are scored on: what is right there, and what of it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass

from regard.compare.variants import HeldOut, Terms
from regard.config import Config
from regard.evaluation.bleu_chrf import References
from regard.task import task_of


@dataclass(frozen=True)
class Subject:
    """A test corpus, as far as a report speaks of it."""

    name: str
    references: References
    """What is right of every line or picture; none where nothing is written."""
    examples: tuple[str, ...]
    """What is shown: sentences, or the numbers of pictures."""
    right: Mapping[str, str]
    """What is right of these, where that is known; by what they are called."""


def find_subject(test: HeldOut, config: Config, terms: Terms) -> Subject:
    """Open what is scored on, as the first variant reads it."""
    subject: Subject = task_of(config.model).subject(test, config, terms)
    return subject
