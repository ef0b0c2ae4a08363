"""The leaves of both sides, and how French pieces run together into words: elision and contraction.

An English `Word` is a leaf; a French `Piece` names the leaves it translates. So the gold alignment is read off
the construction and never guessed from the finished text.
"""

from functools import cache

from regard.data.pair import Alignment, Pair


class Word:
    """An English word. `place` is its position in the sentence, known once the sentence is whole."""

    __slots__ = ("place", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = -1


class Piece:
    """A French word before it meets its neighbours, with the English words it surely and possibly translates."""

    __slots__ = ("article", "possible", "sure", "text")

    def __init__(
        self, text: str, sure: tuple[Word, ...] = (), possible: tuple[Word, ...] = (), article: bool = False
    ) -> None:
        self.text = text
        self.sure = sure
        self.possible = possible
        self.article = article


English = list[Word]
French = list[Piece]
Both = tuple[English, French]

CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
ELIDED = {"le": "l'", "la": "l'", "je": "j'", "ne": "n'", "me": "m'", "se": "s'", "de": "d'", "que": "qu'"}
ASPIRATED = frozenset(["héros", "haricot", "haricots", "huit", "onze"])
VOWELS = frozenset("aeiouyhàâéèêîôœ")


@cache
def open_initial(text: str) -> bool:
    """Tell whether a French word begins with a vowel sound, so that the word before it elides."""
    return text[0].lower() in VOWELS and text.rstrip(",") not in ASPIRATED


def comma(side: English | French) -> None:
    """Set a comma after the last word."""
    side[-1].text += ","


def _shortened(text: str, following: str) -> str | None:
    """Return `text` as it stands before `following` if it elides there."""
    if text == "si":
        return "s'" if following in ("il", "ils") else None
    short = ELIDED.get(text)
    return short if short and open_initial(following) else None


def run_together(pieces: French) -> list[tuple[str, tuple[Word, ...], tuple[Word, ...]]]:
    """Apply contraction (de + le = du) and elision (le + homme = l'homme), and merge the links of what is joined."""
    words = []
    prefix, sure, possible = "", (), ()  # type: str, tuple[Word, ...], tuple[Word, ...]
    k, last = 0, len(pieces) - 1
    while k <= last:
        piece = pieces[k]
        text, sure, possible = piece.text, sure + piece.sure, possible + piece.possible
        if k < last:
            following = pieces[k + 1]
            if following.article and (text == "de" or text == "à"):
                # `le` keeps its own form where it elides itself: "de l'homme", not "du homme".
                elides = following.text == "le" and open_initial(pieces[k + 2].text)
                joined = None if elides else CONTRACTED.get((text, following.text))
                if joined:
                    text, sure, possible = joined, sure + following.sure, possible + following.possible
                    k += 1
            else:
                short = _shortened(text, following.text)
                if short:
                    prefix += short
                    k += 1
                    continue
        words.append((prefix + text, sure, possible))
        prefix, sure, possible = "", (), ()
        k += 1
    return words


def finish(english: English, french: French, mark: str) -> Pair:
    """Turn both sides into text with the closing `mark` ("", "." or "?"), and their links into an alignment."""
    for place, word in enumerate(english):
        word.place = place
    words = run_together(french)
    if mark == "?":
        words.append(("?", (), (english[-1],)))
    sure, possible = set(), set()
    for j, (_, certain, maybe) in enumerate(words):
        for word in certain:
            sure.add((word.place, j))
        for word in maybe:
            possible.add((word.place, j))
    source = " ".join([word.text for word in english]) + mark
    target = " ".join([text for text, _, _ in words]) + ("." if mark == "." else "")
    return Pair(source, target, Alignment(frozenset(sure), frozenset(possible)))
