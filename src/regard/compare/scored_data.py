"""What all variants of a comparison are scored on: what is right there, and what of it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass

from regard.compare.pictured import numbers_in
from regard.compare.variants import HeldOut, Terms, choose_pictures, choose_sentences
from regard.config import Config
from regard.data.pictures import Pictures
from regard.evaluation.bleu_chrf import References


@dataclass(frozen=True)
class Subject:
    """A test corpus, as far as a report speaks of it."""

    name: str
    references: References
    """What is right of every line or picture; none where nothing is written."""
    examples: tuple[str, ...]
    """What is shown: sentences, or the numbers of pictures."""
    right: Mapping[str, str]
    """What is right of these, where that is known; by what they are called."""


def find_subject(test: HeldOut, config: Config, terms: Terms) -> Subject:
    """Open what is scored on, as the first variant reads it."""
    if config.model.image is not None:
        return _pictures(test.open_pictures(config), config, terms)
    corpus = test.open()
    pairs = list(corpus)
    sentences = terms.sentences or choose_sentences(pairs)
    right = {pair.source: pair.target for pair in pairs if pair.source in sentences}
    return Subject(corpus.name, [pair.target for pair in pairs], sentences, right)


def _pictures(pictures: Pictures, config: Config, terms: Terms) -> Subject:
    chosen = terms.sentences or choose_pictures(pictures)
    places = numbers_in(chosen, pictures)
    right = {pictures.called(place): _said(pictures, place) for place in places}
    written = config.model.task == "write"
    references = [pictures.captions(index) for index in range(len(pictures))] if written else []
    return Subject(pictures.name, references, chosen, right)


def _said(pictures: Pictures, place: int) -> str:
    """Return what is right of a picture, in a line."""
    if "captions" in pictures.has:
        return " / ".join(pictures.captions(place))
    return pictures.labels[pictures.label(place)] if "label" in pictures.has else ""
