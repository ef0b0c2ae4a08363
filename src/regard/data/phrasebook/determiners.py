"""Articles, possessives, demonstratives and quantities before a noun."""

from regard.data.phrasebook.elision import Both, Piece, Word, open_initial
from regard.data.phrasebook.syntax_tree import Nominal

_POSSESSIVE = {
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "your": ("votre", "votre", "vos"),
    "their": ("leur", "leur", "leurs"),
}


def determiner(node: Nominal, following: str, following_en: str, denied: bool) -> Both:
    """Choose the determiner by gender, number, and the first sound of what follows."""
    name = node.determiner
    feminine, plural = node.noun.feminine, node.plural
    the = "les" if plural else "la" if feminine else "le"
    if name == "a":
        word = Word("an" if following_en[0] in "aeiou" else "a")
        return [word], [Piece("de" if denied else "une" if feminine else "un", (word,))]
    if name == "some":
        word = Word("any" if denied else "some")
        if denied or (plural and node.before):
            return [word], [Piece("de", (word,))]
        if plural:
            return [word], [Piece("des", (word,))]
        return [word], [Piece("de", (word,)), Piece(the, (word,), (), True)]
    if name in ("many", "how many"):
        words = [Word(text) for text in name.split()]
        return words, [
            Piece("combien" if name == "how many" else "beaucoup", tuple(words)),
            Piece("de", (), tuple(words)),
        ]
    if name == "all the":
        every, article = Word("all"), Word("the")
        return [every, article], [Piece("toutes" if feminine else "tous", (every,)), Piece(the, (article,), (), True)]
    word = Word(name)
    if name == "the":
        return [word], [Piece(the, (word,), (), True)]
    if name in _POSSESSIVE:
        masculine, feminine_form, many = _POSSESSIVE[name]
        text = many if plural else feminine_form if feminine and not open_initial(following) else masculine
    elif name in ("this", "these"):
        text = "ces" if plural else "cette" if feminine else "cet" if open_initial(following) else "ce"
    elif name == "which":
        text = "quel" + ("le" if feminine else "") + ("s" if plural else "")
    else:
        assert name == "every", name
        text = "chaque"
    return [word], [Piece(text, (word,))]
