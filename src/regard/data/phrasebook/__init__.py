"""The embedded corpus: unlimited English–French sentences, correct by construction, with gold word alignments.

It is a grammar with a lexicon, not a list. `sentences` draws a small tree, `render` writes it in both languages at
once: French gender and agreement, elision and contraction, negation, clitics that move, participles, relative and
subordinate clauses that nest, sentences of 2 to over 60 words.

One English sentence has one French translation, by these conventions: "you" is "vous" and one man; "I" is a man;
"we" and "they" are masculine; a friend, neighbor, teacher or doctor is masculine; "it" and a "them" with which a
participle agrees take up the object just named. The English simple past is the passé composé, except for verbs of
state (love, know, have, want, live, be, think, hope), whose past is the imperfect; "was doing" and "used to" are the
imperfect; after "when" a future is said in the present tense in English and in the future in French.

**Held out.** A tenth of all (adjective, noun) and of all (verb, object) combinations, chosen by a checksum, and a few
chosen by hand, never occur in "train"; every "valid" and "test" pair holds at least one. "The red dress" is one of
those chosen by hand: a model trained here has seen red things and dresses, but no red dress. "valid" and "test" share
no sentence. All English words of the held-out text occur in training, and all French ones given some 50,000 pairs.

**Alignment.** Words are what white space separates, with punctuation attached, except the French question mark.

- A word and its translation are sure, articles and prepositions too; an elided or contracted word ("l'homme", "du")
  has the links of all its parts.
- A main verb is sure; auxiliaries without a counterpart (do, will, would, used to, the "be" of a progressive) and
  particles (look *for*) are possible. "Has seen" and "a vu" are sure word by word; in "saw", "a vu" the participle is
  sure and the auxiliary possible. The "to" of an infinitive is possible.
- "not", "never" and "no longer" are sure with "ne" and with "pas", "jamais", "plus"; "no" also with "de".
- "est-ce que" is possible with the English auxiliary, " ?" with the last English word. A reflexive pronoun is possible.
- In "the king's dress", "la robe du roi", "king's" is sure with "roi" and "de", and possible with "la".

Every word of both sides has at least a possible link.
"""

import random
from collections.abc import Iterator
from zlib import crc32

from regard.data.pair import Pair
from regard.data.phrasebook.demo import demo_pairs, demo_sentences
from regard.data.phrasebook.render import render
from regard.data.phrasebook.reserved_combinations import holds_reserved
from regard.data.phrasebook.sentences import Sampler
from regard.data.phrasebook.syntax_tree import Clause, Exists, Linked, Request, Root
from regard.errors import DataError, did_you_mean

__all__ = ["LONGEST", "SHORTEST", "SPLITS", "demo_pairs", "demo_sentences", "generate", "length_controlled"]

SPLITS = ("train", "valid", "test")
SHORTEST, LONGEST = 3, 80
"""The lengths, in English words, that `length_controlled` can make; two words hold no combination."""


def generate(split: str, size: int, seed: int = 1, start: int = 0) -> Iterator[Pair]:
    """Yield pairs `start` to `start + size - 1` of a split. Pair i depends on (seed, split, i) and nothing else."""
    if split not in SPLITS:
        raise DataError(
            f"No split named {split!r} in phrasebook.{did_you_mean(split, SPLITS)} It has {', '.join(SPLITS)}."
        )
    _require_count("size", size)
    _require_count("start", start)
    return (_pair(split, seed, index) for index in range(start, start + size))


def length_controlled(shortest: int, longest: int, size: int, seed: int = 1) -> Iterator[Pair]:
    """Yield test pairs whose English has `shortest` to `longest` words, about as many of each length."""
    if not SHORTEST <= shortest <= longest <= LONGEST:
        raise DataError(
            f"phrasebook cannot make sentences of {shortest} to {longest} words: "
            f"give {SHORTEST} <= shortest <= longest <= {LONGEST}."
        )
    _require_count("size", size)
    return (_pair_of_length(shortest, longest, seed, index) for index in range(size))


def _require_count(name: str, value: int) -> None:
    if value < 0:
        raise DataError(f"phrasebook: {name} is {value}, but must be 0 or more.")


def _pair(split: str, seed: int, index: int) -> Pair:
    rng = random.Random(f"{split}/{seed}/{index}")
    room = _room(rng)
    period = rng.random() < 0.5
    if split == "train":
        return _said(Sampler(rng, True).root(room), period)
    tries = 0
    while True:
        root = Sampler(rng, False).root(room + tries // 20)  # the very short have no combination: grow until one fits
        tries += 1
        if holds_reserved(root):
            pair = _said(root, period)
            if _half(pair.source) == split:
                return pair


def _pair_of_length(shortest: int, longest: int, seed: int, index: int) -> Pair:
    rng = random.Random(f"length/{shortest}/{longest}/{seed}/{index}")
    aim = shortest + int(rng.random() * (longest - shortest + 1))
    period = rng.random() < 0.5
    while True:
        root = Sampler(rng, False).root(aim + int(rng.random() * 3))
        if holds_reserved(root):
            pair = _said(root, period)
            words = pair.source.count(" ") + 1
            if shortest <= words <= longest and abs(words - aim) <= 1 + aim // 20 and _half(pair.source) == "test":
                return pair


def _room(rng: random.Random) -> int:
    """Draw how many words to aim at: mostly few, with a long tail."""
    u = rng.random()
    if u < 0.75:
        return 2 + int(rng.random() * 10)
    if u < 0.93:
        return 11 + int(rng.random() * 11)
    if u < 0.975:
        return 21 + int(rng.random() * 16)
    return 35 + int(rng.random() * 30)


def _said(root: Root, period: bool) -> Pair:
    return render(root, period and isinstance(root, Clause | Exists | Linked | Request))


def _half(source: str) -> str:
    """Assign an English sentence, with or without its period, to one of the two held-out splits."""
    return "test" if crc32(source.rstrip(".").encode()) % 2 else "valid"
