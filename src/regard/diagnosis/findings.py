"""What a check concludes."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Remedy:
    """Something to try."""

    what: str
    settings: tuple[str, ...] = ()
    """The settings that try it, as `--set` takes them."""


LONGER = Remedy("train longer", ("training.patience=0",))
COVER = Remedy(
    "let attention know what it has covered", ("model.attention.coverage=see2017", "training.coverage_loss=1")
)


@dataclass(frozen=True)
class Finding:
    """A problem, with the evidence."""

    problem: str
    evidence: str
    causes: tuple[str, ...]
    remedies: tuple[Remedy, ...]


@dataclass(frozen=True)
class Outcome:
    """The result of one check."""

    check: str
    """The name of the check."""
    figure: str
    """What was measured, in words; why it was not, if it could not be."""
    finding: Finding | None = None
    judged: bool = True
    """Whether there was enough to judge by."""

    @property
    def verdict(self) -> str:
        """The conclusion in a word or two."""
        if not self.judged:
            return "not judged"
        return "fine" if self.finding is None else "look here"

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        record: dict[str, Any] = {"check": self.check, "verdict": self.verdict, "figure": self.figure}
        if self.finding is not None:
            record |= {
                "problem": self.finding.problem,
                "evidence": self.finding.evidence,
                "causes": list(self.finding.causes),
                "remedies": [{"what": one.what, "set": list(one.settings)} for one in self.finding.remedies],
            }
        return record


def not_judged(check: str, why: str) -> Outcome:
    """Return the outcome of a check that lacks what it needs."""
    return Outcome(check, why, judged=False)
