"""Train and score several variants of a model under the same conditions, and write a report.

>>> from pathlib import Path
>>> from regard.compare import Request, compare, presets_in, resolve
>>> request = Request(variant=tuple(presets_in("cho2014-small,bahdanau2014-small")), data=("phrasebook",), steps=1000)
>>> variants, terms = resolve(request)
>>> print(compare(variants, Path("comparison"), terms))
"""

from regard.compare.comparison import Comparison, compare
from regard.compare.variants import Entry, Request, Terms, Variant, presets_in, read_request, resolve

__all__ = ["Comparison", "Entry", "Request", "Terms", "Variant", "compare", "presets_in", "read_request", "resolve"]
