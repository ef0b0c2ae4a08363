"""Detect the language of a text, among those that are served."""

import functools
from collections.abc import Iterable
from typing import NamedTuple

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from regard.serve.sentences import has_letters

READ = 5_000
"""Characters that are looked at: more do not change the answer."""


class Detected(NamedTuple):
    """A language that a text may be in."""

    language: str
    confidence: float
    """In percent; of all languages that the detector knows, not only of those that are served."""


def detect(text: str, languages: Iterable[str]) -> list[Detected]:
    """Return the given languages, the most probable first; those that the detector does not know are left out.

    Nothing can be said of a text without letters: then the first language comes back with no confidence.
    """
    among = list(dict.fromkeys(languages))
    if has_letters(text):
        probability = dict(_identifier().rank(text[:READ]))
        known = [code for code in among if _base(code) in probability]
        found = [Detected(code, round(100 * float(probability[_base(code)]), 1)) for code in known]
        if found:
            return sorted(found, key=lambda each: -probability[_base(each.language)])
    return [Detected(code, 0.0) for code in among[:1]]


@functools.cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _base(code: str) -> str:
    return code.partition("-")[0]
