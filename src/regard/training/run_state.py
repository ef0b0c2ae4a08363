"""Where a run is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Window:
    """Sums since the last line of metrics.jsonl."""

    steps: int = 0
    tokens: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    beside: dict[str, float] = field(default_factory=dict)
    """Losses beside the cross-entropy, by name."""

    def add(self, tokens: int, loss: float, seconds: float, beside: Mapping[str, float] | None = None) -> None:
        """Take in a step: its target tokens, its losses per token, its time."""
        self.steps += 1
        self.tokens += tokens
        self.loss += loss * tokens
        self.seconds += seconds
        for name, value in (beside or {}).items():
            self.beside[name] = self.beside.get(name, 0.0) + value * tokens

    @property
    def mean_loss(self) -> float:
        """The loss per token."""
        return self.loss / max(self.tokens, 1)

    @property
    def mean_beside(self) -> dict[str, float]:
        """The other losses per token."""
        return {name: value / max(self.tokens, 1) for name, value in self.beside.items()}

    @property
    def tokens_per_second(self) -> float:
        """Target tokens, over the time that steps took (validations and saves left out)."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def steps_per_second(self) -> float:
        """Steps over the same time."""
        return self.steps / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Score:
    """What a validation found."""

    step: int
    score: float
    """Higher is better."""
    loss: float
    """Decides between equal scores: early in a training, BLEU is 0 again and again."""

    @property
    def rank(self) -> tuple[float, float]:
        """Greater is better."""
        return self.score, -self.loss


def metric_value(result: Mapping[str, Any], metric: str) -> float:
    """Return the score that decides between validations, by `training.metric`; higher is better."""
    if metric == "loss":
        return -float(result["valid_loss"])
    # Without a target of four tokens there is no BLEU: all validations are equal in it, and the loss decides.
    return float(result.get(metric, 0.0) if metric == "bleu" else result[metric])


@dataclass
class Pace:
    """What a time budget goes by (`training.minutes`), in seconds."""

    before: float = 0.0
    """What it took to open the corpus and all else before the first step, over all resumed parts."""
    step: float = 0.0
    """What a step takes."""
    validation: float = 0.0
    """What the last validation took, with the save that went with it."""
    validated: float = 0.0
    """How many seconds were used when it ended."""
    planned: int = 0
    """How many steps the whole run is planned to make; 0 before the first ones were measured."""
    used_up: float = 0.0
    """`training.minutes`, where they are used up."""


@dataclass
class RunState:
    """Where a run is: with the weights, all that is needed to go on."""

    step: int = 0
    """Steps made."""
    epoch: int = 0
    """The epoch of the last step, from 1."""
    batch: int = 0
    """How many of that epoch's batches are used up."""
    seconds: float = 0.0
    """Time spent so far, over all resumed parts."""
    history: list[Score] = field(default_factory=list)
    """All validations."""
    window: Window = field(default_factory=Window)
    fingerprint: str = ""
    few_shapes: bool = False
    """Whether batches are drawn to come in few shapes, as a GPU likes them: a run keeps to it on any device."""
    pace: Pace = field(default_factory=Pace)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunState":
        """Take back what `dataclasses.asdict` gave."""
        history = [Score(**score) for score in values["history"]]
        pace = Pace(**values.get("pace", {}))  # older checkpoints have none
        return cls(**{**values, "history": history, "window": Window(**values["window"]), "pace": pace})

    @property
    def scores(self) -> list[tuple[float, float]]:
        """How good each validation was, in an order that tuples have."""
        return [validation.rank for validation in self.history]

    @property
    def best(self) -> Score | None:
        """The first of the best validations."""
        return max(self.history, key=lambda validation: validation.rank, default=None)

    def waited(self, warmup: int) -> int:
        """Return how many validations have passed since the best; those within the warm-up do not count."""
        best = self.best
        return sum(one.step > max(best.step, warmup) for one in self.history) if best else 0
