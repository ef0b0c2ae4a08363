"""Coverage mechanisms, one per file; importing this module registers them."""

from regard.attention.coverage.see2017 import SeeCoverage
from regard.attention.coverage.tu2016 import TuCoverage

__all__ = ["SeeCoverage", "TuCoverage"]
