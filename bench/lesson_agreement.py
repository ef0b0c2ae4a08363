"""How a Transformer makes French agree: who attends to the noun, and what the agreement depends on.

Two kinds of English sentences are made of the phrasebook's words. In one the participle agrees with what "it" stands
for ("bought the dress and sold it": "l'a vendue"), in the other article and adjective agree with a noun that comes
after them ("bought the small dress": "la petite robe"). Each has a right translation, and a wrong one that differs in
gender alone. The encoder's head for each kind is chosen on half of the nouns, and all else is measured on the others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from regard.attention.weight_hooks import Look, WeightHook, hooked
from regard.data.special_tokens import EOS
from regard.decoding.translator import Translator
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Tensor

CHOOSING = {
    "dress": ("la", "robe"),
    "hat": ("le", "chapeau"),
    "letter": ("la", "lettre"),
    "book": ("le", "livre"),
    "cup": ("la", "tasse"),
    "cake": ("le", "gâteau"),
    "car": ("la", "voiture"),
    "boat": ("le", "bateau"),
}
"""Nouns on which the head is chosen, with their French; a feminine one and a masculine one in turn."""
MEASURING = {
    "shirt": ("la", "chemise"),
    "newspaper": ("le", "journal"),
    "key": ("la", "clé"),
    "bag": ("le", "sac"),
    "box": ("la", "boîte"),
    "cheese": ("le", "fromage"),
    "flower": ("la", "fleur"),
    "bicycle": ("le", "vélo"),
}
SUBJECTS = {"the king": "le roi", "my sister": "ma sœur", "she": "elle", "Paul": "Paul"}
DEEDS = (("bought", "acheté", "sold", "vendu"), ("found", "trouvé", "lost", "perdu"))
SIZES = (("small", "petit", "petite"), ("big", "grand", "grande"))
ROUTES = ("nothing", "the chosen head", "encoder", "cross-attention", "decoder's own", "all three")
"""What is forbidden to attend to the noun."""


@dataclass(frozen=True)
class Sentence:
    """An English sentence with its right and wrong translation; words are counted from 0."""

    source: str
    right: str
    wrong: str
    feminine: bool
    noun: int
    """The English noun."""
    agreeing: tuple[int, ...]
    """The English words whose translation agrees with it; the first one's attention to the noun is measured."""
    told: tuple[int, ...]
    """The French words that tell the gender, and are written before the agreement; none if nothing does."""
    due: tuple[int, ...]
    """The French words that agree."""


def participles(nouns: Mapping[str, tuple[str, str]]) -> Iterator[Sentence]:
    """Yield sentences whose participle agrees with the noun that "it" stands for."""
    for (noun, (article, french)), (subject, sujet), deed in product(nouns.items(), SUBJECTS.items(), DEEDS):
        feminine, source = article == "la", f"{subject} {deed[0]} the {noun} and {deed[2]} it".split()
        begun = f"{sujet} a {deed[1]} {article} {french} et l'a {deed[3]}"
        first, last = (begun + "e" * (feminine == agrees) for agrees in (True, False))
        place = begun.split().index(french)
        yield Sentence(
            " ".join(source), first, last, feminine, source.index(noun), (len(source) - 1,), (place - 1, place),
            (place + 3,),
        )  # fmt: skip


def adjectives(nouns: Mapping[str, tuple[str, str]]) -> Iterator[Sentence]:
    """Yield sentences in which article and adjective come before the noun that they agree with."""
    for (noun, (article, french)), (subject, sujet), deed, size in product(
        nouns.items(), SUBJECTS.items(), DEEDS[:1], SIZES
    ):
        feminine, source = article == "la", f"{subject} {deed[0]} the {size[0]} {noun}".split()
        begun = f"{sujet} a {deed[1]}"
        right, wrong = (
            f"{begun} {'la' if gender else 'le'} {size[1 + gender]} {french}" for gender in (feminine, not feminine)
        )
        place, at = len(begun.split()), source.index(noun)
        yield Sentence(" ".join(source), right, wrong, feminine, at, (at - 1, at - 2), (), (place, place + 1))


KINDS: dict[str, Callable[[Mapping[str, tuple[str, str]]], Iterator[Sentence]]] = {
    "participle": participles,
    "adjective": adjectives,
}


class Forbid(WeightHook):
    """Takes the weight of some queries on some keys away; the other keys share it in proportion."""

    def __init__(self, queries: Sequence[int], keys: Sequence[int], head: int | None = None) -> None:
        self.queries, self.keys, self.head = queries, list(keys), head

    def __call__(self, look: Look) -> Float[Tensor, "B H T S"]:
        weights = look.weights.clone()
        heads = range(weights.shape[1]) if self.head is None else (self.head,)
        for head, query in product(heads, self.queries):
            if 0 <= query - look.first < weights.shape[2]:
                row = weights[:, head, query - look.first]
                row[:, self.keys] = 0
                row /= row.sum(dim=-1, keepdim=True).clamp_min(1e-12)
        return weights


def encoder_weights(translator: Translator, sentence: Sentence) -> tuple[NDArray[np.float32], tuple[int, ...], int]:
    """Return the encoder's layers × heads × tokens × tokens, the noun's tokens, and the last token that agrees."""
    (trace,) = translator.align([(sentence.source, sentence.right)])
    own = translator.self_attention(trace).encoder
    assert own is not None, "the model's encoder has no self-attention: give a Transformer"
    agreeing = max(_tokens(own.source_words, sentence.agreeing[:1]))
    return own.weights, tuple(_tokens(own.source_words, (sentence.noun,))), agreeing


def _tokens(words: Sequence[int], wanted: Sequence[int]) -> list[int]:
    return [place for place, word in enumerate(words) if word in wanted]


def heads_on_noun(translator: Translator, sentences: Sequence[Sentence]) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Return of each layer and head the mean weight on the noun and how often it is largest; and 1 / length."""
    given, largest, even = [], [], []
    for sentence in sentences:
        weights, noun, agreeing = encoder_weights(translator, sentence)
        row = weights[:, :, agreeing]
        on_noun = row[:, :, list(noun)].sum(axis=-1)
        others = np.delete(row, noun, axis=-1).max(axis=-1)
        given.append(on_noun)
        largest.append(on_noun > others)
        even.append(len(noun) / row.shape[-1])
    return np.mean(given, axis=0), np.mean(largest, axis=0), float(np.mean(even))


def _hooks(
    translator: Translator, sentence: Sentence, target: str, route: str, chosen: tuple[int, int]
) -> dict[nn.Module, WeightHook]:
    """Return what keeps agreeing words from attending to the noun on a route."""
    model, both = translator.model, translator.tokenizers
    assert isinstance(model, Seq2Seq)
    read = both.source.words([*both.source.encode_all([sentence.source])[0], EOS])
    written = both.target.words(both.target.encode_all([target])[0])
    noun, agreeing = _tokens(read, (sentence.noun,)), _tokens(read, sentence.agreeing)
    due = _tokens(written, sentence.due)
    told = [1 + place for place in _tokens(written, sentence.told)]  # the decoder reads the start token first
    encoder, cross, own = (
        model.encoder.own_attentions, model.decoder.source_attentions, model.decoder.own_attentions,
    )  # fmt: skip
    hooks: dict[nn.Module, WeightHook] = {}
    if route == "the chosen head":
        hooks[encoder[chosen[0]]] = Forbid(agreeing, noun, chosen[1])
    if route in ("encoder", "all three"):
        hooks |= {module: Forbid(agreeing, noun) for module in encoder}
    if route in ("cross-attention", "all three"):
        hooks |= {module: Forbid(due, noun) for module in cross}
    if route in ("decoder's own", "all three"):
        # Every later token, so that none hands the gender on.
        later = range(max(told, default=0) + 1, len(written) + 1)
        hooks |= {module: Forbid(later, told) for module in own if told}
    return hooks


def odds(translator: Translator, sentence: Sentence, route: str, chosen: tuple[int, int]) -> float:
    """Return the log of how many times likelier the right translation is than the wrong one."""
    found = []
    for target in (sentence.right, sentence.wrong):
        with hooked(_hooks(translator, sentence, target, route, chosen)):
            (log_probs,) = translator.score([(sentence.source, target)])
        found.append(sum(log_probs))
    return found[0] - found[1]


def measure_kind(translator: Translator, kind: str) -> dict[str, Any]:
    """Choose the head for one kind of sentences, and measure it and every route."""
    sentences = list(KINDS[kind](MEASURING))
    weights, _, _ = heads_on_noun(translator, list(KINDS[kind](CHOOSING)))
    layer, head = (int(place) for place in np.unravel_index(weights.argmax(), weights.shape))
    tested, largest, even = heads_on_noun(translator, sentences)
    routes = {}
    for route in ROUTES:
        if route == "decoder's own" and not sentences[0].told:
            continue
        found = [(each.feminine, odds(translator, each, route, (layer, head))) for each in sentences]
        routes[route] = {
            "feminine": float(np.mean([value > 0 for feminine, value in found if feminine])),
            "masculine": float(np.mean([value > 0 for feminine, value in found if not feminine])),
            "odds": float(np.mean([value for _, value in found])),
        }
    return {
        "example": sentences[8].source,
        "sentences": len(sentences),
        "layer": layer,
        "head": head,
        "chosen_weight": float(weights[layer, head]),
        "weight": float(tested[layer, head]),
        "largest": float(largest[layer, head]),
        "even": even,
        "heads": np.round(tested, 4).tolist(),
        "routes": routes,
    }
