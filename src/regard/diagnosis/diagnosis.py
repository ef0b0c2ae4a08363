"""The diagnosis of a translator or a language model: all checks on a validation set."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.pair import Pair
from regard.decoding.translator import Translator
from regard.diagnosis import attention_checks, output_checks
from regard.diagnosis.findings import Finding, Outcome
from regard.diagnosis.measurements import Measurements, measure
from regard.errors import DataError

CHECKS: tuple[Callable[[Measurements], Outcome], ...] = (
    attention_checks.uniform,
    attention_checks.stuck,
    attention_checks.saturated,
    attention_checks.off_by_one,
    attention_checks.dead_heads,
    attention_checks.duplicate_heads,
    output_checks.coverage,
    output_checks.repetition,
    output_checks.length,
    output_checks.exposure,
    output_checks.vocabulary,
    output_checks.gradients,
    output_checks.calibration,
)


@dataclass(frozen=True)
class Diagnosis:
    """The outcomes of all checks of a model on a corpus."""

    data: str
    """The name of the corpus."""
    pairs: int
    tokens: int
    """Target tokens."""
    outcomes: tuple[Outcome, ...]
    measurements: Measurements = field(repr=False)

    @property
    def findings(self) -> list[Finding]:
        """What was found wrong."""
        return [outcome.finding for outcome in self.outcomes if outcome.finding is not None]

    def __getitem__(self, check: str) -> Outcome:
        """Return the outcome of a check by its name."""
        for outcome in self.outcomes:
            if outcome.check == check:
                return outcome
        raise KeyError(f"{check}: there are {', '.join(outcome.check for outcome in self.outcomes)}")

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        return {
            "data": self.data,
            "pairs": self.pairs,
            "tokens": self.tokens,
            "checks": [outcome.to_json() for outcome in self.outcomes],
        }

    def lines(self) -> Iterator[str]:
        """Yield the report as text: a table, then each finding with its causes and what to try."""
        yield f"{self.data}: {self.pairs:,} pairs, {self.tokens:,} target tokens"
        name = max(len(outcome.check) for outcome in self.outcomes)
        for outcome in self.outcomes:
            yield f"  {outcome.check:<{name}}  {outcome.verdict:<10}  {outcome.figure}"
        if not self.findings:
            yield "Nothing is wrong, as far as these checks can tell."
        for finding in self.findings:
            yield ""
            yield finding.problem
            yield f"  Evidence: {finding.evidence}"
            yield from (f"  Possible cause: {cause}." for cause in finding.causes)
            for remedy in finding.remedies:
                tried = "".join(f" --set {setting}" for setting in remedy.settings)
                yield f"  Try: {remedy.what}{':' if tried else '.'}{tried}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def save(self, path: str | Path) -> list[str]:
        """Draw it (.png, .svg, .pdf); returns notes for the user."""
        from regard.diagnosis.picture import save_diagnosis

        return save_diagnosis(self, Path(path))


def diagnose(translator: Translator, pairs: Iterable[Pair], *, data: str = "corpus", most: int = 200) -> Diagnosis:
    """Examine a model on the first `most` pairs of a corpus, which it should not have been trained on."""
    chosen: Sequence[Pair] = list(islice(pairs, most))
    if not chosen:
        raise DataError(f"{data} has no sentence pairs, so there is nothing to examine the model on.")
    measured = measure(translator, chosen)
    outcomes = tuple(check(measured) for check in CHECKS)
    return Diagnosis(data, len(chosen), measured.tokens, outcomes, measured)
