"""Statistical significance of a difference between two systems.

Paired bootstrap resampling (Koehn 2004, section 4) by sacreBLEU: the test sentences are resampled with replacement a
thousand times, the same for both systems. p estimates how often two equally good systems would differ by more than
these two do. The seed is sacreBLEU's (12345, or SACREBLEU_SEED of the environment) and is part of its signature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from regard.evaluation.bleu_chrf import References

SAMPLES = 1000
LEVEL = 0.05
"""The significance level: a difference with a smaller p is significant."""


@dataclass(frozen=True)
class BootstrapResult:
    """A system's BLEU, or main score of a picture task, compared with the baseline's."""

    bleu: float
    interval: float | None
    """Half the width of the 95 % confidence interval of the resampled scores; None if nothing was resampled."""
    difference: float | None
    """From the baseline; None for the baseline itself."""
    p: float | None

    @property
    def significant(self) -> bool:
        """Whether the difference is significant."""
        return self.p is not None and self.p < LEVEL


def paired_bootstrap(
    baseline: str, systems: Mapping[str, Sequence[str]], references: References, samples: int = SAMPLES
) -> tuple[dict[str, BootstrapResult], str]:
    """Test the cased BLEU (13a) of each system against the baseline's, on the same lines; also return the signature.

    Lines with several references are of captions, whose words are split at white space instead. Differs from sacreBLEU
    in one case: a system with exactly the baseline's score has p = 1, not 1/1001.
    """
    ordered: list[tuple[str, Sequence[str]]] = [(baseline, list(systems[baseline]))]
    ordered += [(name, list(lines)) for name, lines in systems.items() if name != baseline]
    pictured = any(not isinstance(right, str) for right in references)
    metric = BLEU(tokenize="none" if pictured else "13a", force=True)
    every = [(right,) if isinstance(right, str) else right for right in references]
    columns = [list(column) for column in zip_longest(*every)]
    test = PairedTest(ordered, {"BLEU": metric}, columns, "bs", n_samples=samples)
    signatures, found = test()
    results = [result for result in found["BLEU"] if isinstance(result, Result)]
    tested = {}
    for (name, _), result in zip(ordered, results, strict=True):
        difference = None if name == baseline else float(result.score - results[0].score)
        p = None if difference is None else 1.0 if difference == 0 else float(result.p_value or 0.0)
        tested[name] = BootstrapResult(float(result.score), float(result.ci or 0.0), difference, p)
    return {name: tested[name] for name in systems}, str(signatures["BLEU"])
