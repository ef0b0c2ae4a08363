"""All that a report is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.compare.run_statistics import Row
from regard.compare.variants import HeldOut


@dataclass(frozen=True)
class Findings:
    """All that a report is made of."""

    rows: tuple[Row, ...]
    test: HeldOut
    test_name: str
    sentences: tuple[str, ...]
    signature: str
    """sacreBLEU's, of the paired test; nothing where there was none."""
    references: Mapping[str, str] = field(default_factory=dict)
    """The right translations of the sentences that the test corpus has."""
    command: str = ""

    @property
    def baseline(self) -> Row:
        """What the others are measured against."""
        return next(row for row in self.rows if row.baseline)

    @property
    def pictured(self) -> bool:
        """Whether what was read has scores of its own: pictures, or texts that are classified."""
        return any(row.scores for row in self.rows)

    @property
    def unit(self) -> str:
        """What was read: pictures, texts to classify, or sentences."""
        if not self.pictured:
            return "sentences"
        return "texts" if any(run.unit == "texts" for row in self.rows for run in row.finished) else "pictures"

    @property
    def main(self) -> str:
        """The name of the score that variants are measured by."""
        return next((next(iter(row.scores)) for row in self.rows if row.scores), "BLEU")

    @property
    def seeds(self) -> list[int]:
        """The seeds of the first variant's runs; those of the others are the same."""
        return [run.record.job.config.seed for run in self.rows[0].runs]
