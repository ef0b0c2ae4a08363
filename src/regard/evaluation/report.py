"""Evaluation reports, in which every score states how it was computed."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.data.region_features import counted


@dataclass(frozen=True)
class Score:
    """One score, with all that is needed to compare it with another."""

    name: str
    value: float
    made_by: str
    """sacreBLEU's signature, or a description of what was counted and how."""
    count: int
    """The number of sentences, sources or tokens scored (`unit` says which)."""
    unit: str = "sentences"
    best: str = "high"
    """`high` or `low`: which values are better."""
    rate: bool = False
    """Whether its scale is 0 to 1 (an error rate), rather than 0 to 100 (BLEU) or unbounded (perplexity)."""
    partial: bool = False
    """Whether it is over a part of the corpus: one class, one kind of question, familiar combinations."""

    @property
    def shown(self) -> str:
        """The value as text, with a sensible number of digits."""
        return f"{self.value:.4f}" if self.rate else f"{self.value:.2f}"

    def __str__(self) -> str:
        return f"{self.name} {self.shown}"


@dataclass(frozen=True)
class LengthBin:
    """The sentences whose sources have from `first` to `last` words (no upper end: None), and their BLEU."""

    first: int
    last: int | None
    count: int
    bleu: float | None
    """None where there are no such sentences."""

    @property
    def label(self) -> str:
        """Show the range, such as `11–20` or `51+`."""
        return f"{self.first}+" if self.last is None else f"{self.first}–{self.last}"


@dataclass(frozen=True)
class Report:
    """The scores of a model on a corpus."""

    data: str
    """The name of the corpus."""
    sentences: int
    search: str
    """The decoding settings, in words."""
    scores: tuple[Score, ...]
    by_length: tuple[LengthBin, ...]
    by_length_signature: str
    translations: tuple[str, ...] = field(default=(), repr=False)
    """The model's outputs, line by line; not part of the JSON."""
    unit: str = "sentences"
    """The unit of `sentences`."""

    def __getitem__(self, name: str) -> Score:
        """Return a score by its name."""
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(f"{name}: this report has {', '.join(score.name for score in self.scores)}")

    def __contains__(self, name: str) -> bool:
        return any(score.name == name for score in self.scores)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists; a number that is not finite (a perplexity can overflow) is null."""
        record = asdict(self)
        del record["translations"], record["unit"]
        record["scores"] = {entry.pop("name"): _finite(entry) for entry in record["scores"]}
        record["by_length"] = list(record["by_length"])
        return record

    def lines(self) -> Iterator[str]:
        """Yield the report as text: a heading, then one line per score."""
        yield f"{self.data}: {counted(self.sentences, self.unit.removesuffix('s'))}, {self.search}"
        wide = max(len(score.name) for score in self.scores)
        for score in self.scores:
            over = counted(score.count, score.unit.removesuffix("s"))
            yield f"  {score.name:<{wide}}  {score.shown:>8}  {over} | {score.made_by}"
        if self.by_length:
            yield f"  BLEU by source length in words | {self.by_length_signature}"
        for entry in self.by_length:
            if entry.bleu is not None:
                yield f"  {entry.label:>{wide}}  {entry.bleu:>8.2f}  {counted(entry.count, 'sentence')}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _finite(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "value": entry["value"] if math.isfinite(entry["value"]) else None}
