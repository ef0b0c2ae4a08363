"""The plan of a training: what nobody set is chosen from the corpus, by the rules below, each with its reason.

`make_plan` looks at a `Survey` of the corpus, at what was set already, and at the kind of device; the same three give
the same plan. Each rule is a function that chooses some settings; what was set is never chosen, and rules further down
see what was set or chosen before. The scores in the rules' docstrings are exact match or BLEU on validation data.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from regard.config import Config
from regard.data.survey import Side, Survey
from regard.presets.base import preset
from regard.settings import assign

RECURRENT, TRANSFORMER, LANGUAGE_MODEL = "bahdanau2014-conditional", "transformer2017-tiny", "gpt-small"
"""The systems that a plan chooses among."""
STRINGS: Final = 0.85
"""A corpus is one of strings if so many of its targets have at most one word that is not frequent."""
LONGEST: Final = 1024
"""Tokens of a text: longer ones are left out unless data.max_length is set."""
BESIDE: Final = ("tokenizer.kind", "tokenizer.vocabulary", "data.max_length", "training.metric", "training.steps")
"""What is chosen beside a preset or a model to start from, which bring the rest: it depends on the corpus alone."""

Changes = Callable[[Config], Config]


class Choice(NamedTuple):
    """One setting, and why it is what it is."""

    name: str
    value: Any
    reason: str


@dataclass
class Plan:
    """A configuration in the making."""

    config: Config
    survey: Survey
    device: str
    """cpu or cuda."""
    valid: int
    """Validation pairs; 0 for none."""
    given: frozenset[str]
    """Names that were set; that of a group stands for all in it."""
    only: tuple[str, ...] = ()
    """Names that may be chosen; empty for all."""
    choices: list[Choice] = field(default_factory=list)

    def choose(self, reason: str, values: Mapping[str, Any]) -> None:
        """Choose settings, except those that were set."""
        for name, value in values.items():
            if not covers(self.given, name) and (not self.only or covers(self.only, name)):
                self.config = assign(self.config, name, value)
                self.choices.append(Choice(name, value, reason))

    @property
    def strings(self) -> bool:
        """Whether the targets are words, forms or commands, and not sentences."""
        target = self.survey.target
        return target.spelled >= STRINGS and not (target.unspaced and target.characters > 10)

    @property
    def closed(self) -> bool:
        """Whether both sides are made of frequent words alone: commands and actions, tags, phonemes."""
        sides = (self.survey.source, self.survey.target)
        return self.strings and all(side.types == side.frequent and side.words >= 2 for side in sides)

    @property
    def transformer(self) -> bool:
        """Whether the decoder is a Transformer's."""
        return self.config.model.decoder.kind == "transformer"

    @property
    def tokens(self) -> int:
        """Tokens of the corpus, end marks included, on the side that has more; an estimate before they are counted."""
        sides = (self.survey.source, self.survey.target)
        return max(1, round(self.survey.pairs * (1 + max(_units(side, self.config.tokenizer.kind) for side in sides))))


def make_plan(
    survey: Survey, changes: Changes, given: Iterable[str], device: str, valid: int, base: Config | None = None
) -> Plan:
    """Choose what was not set. `changes` puts what was set into a configuration, and `given` is its names.

    Without a `base` (a preset that was asked for, or the settings of a model to start from) the plan chooses the system
    too; with one, only what depends on the corpus alone.
    """
    name, reason = _system(survey, device)
    plan = Plan(
        changes(preset(name) if base is None else base),
        survey,
        device,
        valid,
        frozenset(given),
        only=() if base is None else BESIDE,
    )
    if base is None:
        plan.choices.append(Choice("preset", name, reason))
    for rule in (tokens, lengths, widths, optimisation, budget, deciding, search):
        rule(plan)
    return plan


def covers(names: Iterable[str], name: str) -> bool:
    """Say whether a setting is among names of settings and of groups of them."""
    return any(name == one or name.startswith(f"{one}.") for one in names)
