"""The results of a comparison, from which the report is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.compare.run_statistics import Row
from regard.compare.variants import ComparisonTest


@dataclass(frozen=True)
class Findings:
    """The results of a comparison, from which the report is written."""

    rows: tuple[Row, ...]
    test: ComparisonTest
    test_name: str
    sentences: tuple[str, ...]
    signature: str
    """sacreBLEU's signature of the paired test; empty if there was none."""
    references: Mapping[str, str] = field(default_factory=dict)
    """References of the example sentences that are in the test corpus."""
    command: str = ""

    @property
    def baseline(self) -> Row:
        """The variant that the others are compared with."""
        return next(row for row in self.rows if row.baseline)

    @property
    def pictured(self) -> bool:
        """Whether the task has scores of its own: models that read pictures, or classify texts."""
        return any(row.scores for row in self.rows)

    @property
    def unit(self) -> str:
        """What was read: pictures, texts to classify, or sentences."""
        if not self.pictured:
            return "sentences"
        return "texts" if any(run.unit == "texts" for row in self.rows for run in row.finished) else "pictures"

    @property
    def main(self) -> str:
        """The name of the main score."""
        return next((next(iter(row.scores)) for row in self.rows if row.scores), "BLEU")

    @property
    def seeds(self) -> list[int]:
        """The seeds, which are the same for all variants."""
        return [run.record.job.config.seed for run in self.rows[0].runs]
