"""The combinations of words in a tree, which decide whether it may be in training text."""

from collections.abc import Iterator

from regard.data.phrasebook.collocations import is_reserved
from regard.data.phrasebook.syntax_tree import (
    Action,
    Clause,
    Couple,
    Exists,
    Gap,
    Linked,
    Nominal,
    Phrase,
    Prepositional,
    Pronoun,
    Question,
    Request,
    Root,
    VerbPhrase,
)

Combination = tuple[str, str]


def holds_reserved(root: Root) -> bool:
    """Return whether a tree has a held-out combination."""
    return any(is_reserved(word, noun) for word, noun in combinations_in(root))


def combinations_in(node: Root) -> Iterator[Combination]:
    """Yield every (adjective, noun) and (verb, object noun), in base form, wherever they stand in the sentence."""
    if isinstance(node, Linked):
        yield from combinations_in(node.main)
        yield from combinations_in(node.other)
    elif isinstance(node, Exists):
        yield from _of_phrase(node.phrase)
        yield from _of_phrase(node.place.phrase)
    elif isinstance(node, Question):
        yield from _of_clause(node.clause, node.asked)
        if node.asked:
            yield from _of_phrase(node.asked)
    elif isinstance(node, Request):
        yield from _of_verb(node.phrase, None)
    elif isinstance(node, Clause):
        yield from _of_clause(node, None)
    else:
        yield from _of_phrase(node)


def _of_phrase(node: Phrase | Gap | None) -> Iterator[Combination]:
    if isinstance(node, Couple):
        yield from _of_phrase(node.left)
        yield from _of_phrase(node.right)
    elif isinstance(node, Nominal):
        for adjective in (node.before, node.after):
            if adjective:
                yield adjective.en, node.noun.en
        yield from _of_phrase(node.owner)
        if node.place:
            yield from _of_phrase(node.place.phrase)
        if node.relative:
            yield from _of_clause(node.relative.clause, node if node.relative.object else None)


def _of_clause(node: Clause, asked: Nominal | None) -> Iterator[Combination]:
    """`asked` is the object that stands elsewhere: the antecedent, or what is asked for."""
    yield from _of_phrase(node.subject)
    known = asked
    for phrase in node.phrases:
        yield from _of_verb(phrase, known)
        known = phrase.direct if isinstance(phrase.direct, Nominal) else None
        if phrase.quality and isinstance(node.subject, Nominal):
            for adjective in phrase.quality.adjectives:
                yield adjective.en, node.subject.noun.en


def _of_verb(node: VerbPhrase, known: Nominal | None) -> Iterator[Combination]:
    """`known` is what a missing object, or "it", stands for."""
    thing = node.direct if isinstance(node.direct, Nominal) else None
    if node.direct is None or (isinstance(node.direct, Pronoun) and node.direct.object in ("it", "them")):
        thing = known
    if thing:
        yield node.verb.en, thing.noun.en
    yield from _of_phrase(node.direct)
    yield from _of_phrase(node.indirect)
    for item in node.rest:
        if isinstance(item, Prepositional):
            yield from _of_phrase(item.phrase)
        elif isinstance(item, Action):
            yield from _of_verb(item.phrase, None)
    if node.clause is not None:
        yield from combinations_in(node.clause)
