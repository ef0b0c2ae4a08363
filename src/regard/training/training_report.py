"""What a finished training says of itself: what it reached, whether it is done, and the one thing to try next.

A pure function of `metrics.jsonl` and the settings. What it goes by are the constants below, and no other run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.config import Config, TrainingConfig
from regard.task import task_of
from regard.training.learning_rate_schedule import depends_on_total_steps
from regard.training.progress import SCORES
from regard.training.run_state import Score, metric_value

Record = Mapping[str, Any]

LAST = 1 / 3
"""A model that gets better within this last part of its steps was still getting better…"""
GAIN, LOSS_GAIN = 0.005, 0.01
"""…by so much of the whole range of its score, or, where that is next to nothing, of its validation loss."""
SOLVED = 0.995
"""The part of the whole range from which there is little to gain."""
RISE, RISE_BY = 1.05, 0.01
"""A validation loss has risen that is so many times the lowest, and so much more."""
UNLEARNT, NOTHING = 0.9, 0.05
"""Losses that are still so much of the first ones, with a score within so much of 0: nothing was learnt."""
MOST_DROPOUT = 0.4
"""With more dropout than this, more data help rather than more dropout."""
FEW = 100
"""Fewer steps than this cannot be expected to teach anything."""


@dataclass(frozen=True)
class Diagnosis:
    """Two sentences about a training."""

    state: str
    """unvalidated, once, unlearnt, solved, improving, overfitting or flat."""
    reached: str
    """What was reached, and whether it was still getting better."""
    advice: str
    """The one thing to try next."""

    def __str__(self) -> str:
        """Return both."""
        return f"{self.reached}\n{self.advice}"


class History(NamedTuple):
    """What is known of a run."""

    losses: list[tuple[int, float]]
    """Steps and their training losses."""
    validations: list[Score]
    epoch: int
    """That of the last step."""
    metric: str
    """What decided: the loss where BLEU was to, and there was none."""

    @classmethod
    def of(cls, records: Sequence[Record], config: Config) -> "History":
        """Pick what is known from metrics.jsonl."""
        finite = [record for record in records if all(map(_is_finite, record.values()))]
        told = [record for record in finite if "valid_loss" in record]
        metric = config.training.metric
        if not all(metric in record for record in told):
            metric = "loss"
        scores = [Score(record["step"], metric_value(record, metric), record["valid_loss"]) for record in told]
        losses = [(record["step"], record["loss"]) for record in finite if "loss" in record]
        return cls(losses, scores, max((record.get("epoch", 1) for record in finite), default=1), metric)

    @property
    def steps(self) -> int:
        """How many steps were made, as far as anybody wrote down."""
        return max([step for step, _ in self.losses] + [one.step for one in self.validations], default=0)

    @property
    def best(self) -> Score:
        """The first of the best validations."""
        return max(self.validations, key=lambda one: one.rank)

    @property
    def goes_by_loss(self) -> bool:
        """Whether only the loss can tell if a model got better: it decides, or the score is still next to nothing."""
        return self.metric == "loss" or self.best.score <= NOTHING * _range(self.metric)

    def loss_at(self, step: int) -> float:
        """Return the last training loss written down until a step, or else the first."""
        return next((loss for at, loss in reversed(self.losses) if at <= step), self.losses[0][1])


def diagnose(records: Sequence[Record], config: Config, end: str) -> Diagnosis:
    """Say what a run reached, why it ended (`regard.training.train_model.Result.end`), and what to try next."""
    history = History.of(records, config)
    if not history.validations:
        return Diagnosis(
            "unvalidated",
            f"There was no validation, so the quality on unseen data is unknown{_training(history)}.",
            "Next: give data that is not trained on, --valid CORPUS.",
        )
    state = _state(history, config.training, end)
    best, place = history.best, f"step {history.best.step:,} of {history.steps:,}"
    reached = f"The best validation was {_words(best, history.metric)} at {place}, {_how(state, history)}."
    return Diagnosis(state, reached, f"Next: {_next(state, history, config, end)}.")


def _state(history: History, settings: TrainingConfig, end: str) -> str:
    if len(history.validations) == 1:
        return "once"
    if history.metric != "loss" and history.best.score >= SOLVED * _range(history.metric):
        return "solved"
    if _is_unlearnt(history):
        return "unlearnt"
    if end != "patience" and _is_improving(history):
        return "improving"
    return "overfitting" if _overfits(history, settings) else "flat"


def _is_unlearnt(history: History) -> bool:
    validations, losses = history.validations, history.losses
    if not history.goes_by_loss:
        return False
    fell = min(one.loss for one in validations) < UNLEARNT * validations[0].loss
    return not fell and not (losses and losses[-1][1] < UNLEARNT * losses[0][1])


def _is_improving(history: History) -> bool:
    validations, best = history.validations, history.best
    begin = (1 - LAST) * validations[-1].step
    before = [one for one in validations if one.step <= begin or one is validations[0]]
    if history.goes_by_loss:
        lowest = min(one.loss for one in before)
        return lowest - min(one.loss for one in validations) >= LOSS_GAIN * lowest
    return best.score - max(one.score for one in before) >= GAIN * _range(history.metric)


def _overfits(history: History, settings: TrainingConfig) -> bool:
    lowest, last = min(history.validations, key=lambda one: one.loss), history.validations[-1]
    # A model that label smoothing makes less sure has a higher loss without it, up to this, and is no worse for that.
    smoothed = -math.log(1 - settings.label_smoothing)
    risen = last.loss > max(RISE * lowest.loss + RISE_BY, smoothed)
    return risen and bool(history.losses) and history.losses[-1][1] < history.loss_at(lowest.step)


def _how(state: str, history: History) -> str:
    lowest, last = min(history.validations, key=lambda one: one.loss), history.validations[-1]
    if state == "overfitting":
        return (
            f"and the model overfits: since step {lowest.step:,} the validation loss has risen from {lowest.loss:.4f} "
            f"to {last.loss:.4f}, while the training loss fell from {history.loss_at(lowest.step):.4f} to "
            f"{history.losses[-1][1]:.4f}"
        )
    by_loss = history.goes_by_loss and history.metric != "loss"
    return {
        "once": "the only one, so whether the model was still improving is unknown",
        "solved": "which leaves little to gain",
        "unlearnt": "and almost nothing was learnt: the validation loss was "
        f"{history.validations[0].loss:.4f} at first and {lowest.loss:.4f} at best",
        "improving": f"and the {'validation loss was still falling' if by_loss else 'model was still improving'}",
        "flat": "and the model had stopped improving",
    }[state]


def _next(state: str, history: History, config: Config, end: str) -> str:
    settings, steps = config.training, history.steps
    if state == "solved":
        return "confirm it on held-out test data with regard evaluate"
    if state == "improving":
        return _longer(settings, history, end)
    if state == "overfitting":
        more = round(config.model.dropout + 0.1, 2)
        return f"more dropout, --set model.dropout={more:g}" if more <= MOST_DROPOUT else "more training data"
    if state == "flat":
        # With label smoothing, and of objects, a training loss is not what a validation loss is.
        alike = bool(history.losses) and not settings.label_smoothing and task_of(config.model).compares_losses
        underfits = alike and history.losses[-1][1] >= history.best.loss
        return f"a larger model{_larger(config)}" if underfits else "more training data"
    if steps <= max(FEW, settings.warmup):
        return _longer(settings, history, end)
    if state == "once":
        return f"validate more often, --set training.validate_every={steps // 10}"
    return f"a lower learning rate, --set training.learning_rate={settings.learning_rate / 3:.1g}"


def _longer(settings: TrainingConfig, history: History, end: str) -> str:
    if end == "minutes":
        return f"go on for longer, --resume --minutes {2 * settings.minutes:g}"
    if end == "patience":
        return f"raise the patience, --resume --set training.patience={2 * settings.patience}"
    limit = f"--epochs {2 * settings.epochs}"
    if end == "steps":
        limit = f"--steps {2 * history.steps}" + (f" {limit}" if 2 * history.epoch > settings.epochs else "")
    if depends_on_total_steps(settings):
        return f"train again for longer, {limit}"
    return f"go on for longer, --resume {limit}"


def _larger(config: Config) -> str:
    return f", --preset {config.preset.removesuffix('-small')}" if config.preset.endswith("-small") else ""


def _training(history: History) -> str:
    if not history.losses:
        return ""
    (first, before), (last, now) = history.losses[0], history.losses[-1]
    if first == last:
        return f"; the training loss was {now:.4f} at step {last:,}"
    return f"; the training loss went from {before:.4f} at step {first:,} to {now:.4f} at step {last:,}"


def _words(score: Score, metric: str) -> str:
    return f"loss {score.loss:.4f}" if metric == "loss" else SCORES[metric].format(score.score)


def _range(metric: str) -> float:
    return 1.0 if metric == "ap" else 100.0


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
