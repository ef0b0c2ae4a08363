"""The test data of a comparison: the references, and the examples to show."""

from collections.abc import Mapping
from dataclasses import dataclass

from regard.compare.variants import ComparisonTest, Terms
from regard.config import Config
from regard.evaluation.bleu_chrf import References
from regard.task import task_of


@dataclass(frozen=True)
class Subject:
    """The parts of a test corpus that a report needs."""

    name: str
    references: References
    """The references of every line or picture; empty for tasks that write no text."""
    examples: tuple[str, ...]
    """The examples to show: sentences, or the numbers of pictures."""
    right: Mapping[str, str]
    """The references of the examples, if known, by sentence or picture name."""


def find_subject(test: ComparisonTest, config: Config, terms: Terms) -> Subject:
    """Open the test data in the form that the first variant reads."""
    subject: Subject = task_of(config.model).subject(test, config, terms)
    return subject
