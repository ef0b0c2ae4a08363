"""From tree to text: every function returns the English words and the French pieces of one node."""

from regard.data.pair import Pair
from regard.data.phrasebook.determiners import determiner
from regard.data.phrasebook.elision import Both, English, French, Piece, Word, comma, finish, open_initial
from regard.data.phrasebook.lexicon import Adjective, Fixed, Name, english_number, french_number
from regard.data.phrasebook.syntax_tree import (
    Action,
    Agreement,
    Clause,
    Couple,
    Exists,
    Gap,
    Linked,
    Nominal,
    Phrase,
    Prepositional,
    Pronoun,
    Quality,
    Question,
    Relative,
    Request,
    Root,
    Sentence,
    Tense,
    VerbPhrase,
)
from regard.data.phrasebook.verb_group import Clitic, clitics_of, english_be, infinitive_group, verb_group
from regard.data.phrasebook.verbs import AVOIR

_LINKERS = {
    "and": "et",
    "but": "mais",
    "so": "donc",
    "because": "parce que",
    "when": "quand",
    "if": "si",
    "while": "pendant que",
    "although": "bien que",
    "that": "que",
    "why": "pourquoi",
    "where": "où",
    "to": "pour",
    "before": "avant de",
    "without": "sans",
}


def render(root: Root, period: bool = False) -> Pair:
    """Write a tree in both languages. Questions get their mark; a statement gets a `period` if asked for."""
    if isinstance(root, Question):
        english, french = _question(root)
        return finish(english, french, "?")
    if isinstance(root, Request):
        english, french = _request(root)
    elif isinstance(root, Clause | Exists | Linked):
        english, french = sentence(root)
    else:
        english, french = noun_phrase(root)
    return finish(english, french, "." if period else "")


def agreement_of(phrase: Phrase | Gap) -> Agreement:
    """Return what a verb, an adjective or a participle agrees with."""
    if isinstance(phrase, Name):
        return Agreement(1, phrase.feminine)
    if isinstance(phrase, Couple):
        return Agreement(4, agreement_of(phrase.left).feminine and agreement_of(phrase.right).feminine)
    return phrase.agreement


def _inflected(adjective: Adjective, agreement: Agreement) -> str:
    return adjective.forms[agreement.feminine + 2 * agreement.plural]


def _expression(node: Fixed) -> Both:
    english = [Word(text) for text in node.en]
    french = []
    for j, text in enumerate(node.fr):
        sure = tuple([english[i] for i, k in node.sure if k == j])
        french.append(Piece(text, sure, tuple([english[i] for i, k in node.possible if k == j])))
    return english, french


def _linker(joint: str) -> Both:
    word = Word(joint)
    return [word], [Piece(text, (word,)) for text in _LINKERS[joint].split()]


# ---------------------------------------------------------------------------------------------- noun phrases


def noun_phrase(phrase: Phrase, denied: bool = False) -> Both:
    """Write a noun phrase; `denied` is the object of a negated verb: "a" and "any" become "de"."""
    if isinstance(phrase, Nominal):
        return _nominal(phrase, denied)
    if isinstance(phrase, Couple):
        left, right, (joint, et) = noun_phrase(phrase.left), noun_phrase(phrase.right), _linker("and")
        return left[0] + joint + right[0], left[1] + et + right[1]
    if isinstance(phrase, Name):
        word = Word(phrase.en)
        return [word], [Piece(phrase.fr, (word,))]
    word = Word(phrase.object)
    return [word], [Piece(phrase.strong, (word,))]


def _nominal(node: Nominal, denied: bool) -> Both:
    agreement = node.agreement
    noun = Word(node.noun.en_plural if node.plural else node.noun.en)
    french: French = [Piece(node.noun.fr_plural if node.plural else node.noun.fr, (noun,))]
    adjectives: English = []
    very = [Word("very")] if node.very else []
    if node.before:
        word = Word(node.before.en)
        adjectives.append(word)
        text = _inflected(node.before, agreement)
        if not agreement.feminine and not agreement.plural and open_initial(french[0].text):
            text = node.before.liaison
        french.insert(0, Piece(text, (word,)))
    if node.after:
        word = Word(node.after.en)
        adjectives.append(word)
        french.append(Piece(_inflected(node.after, agreement), (word,)))
    if very:  # only ever with a single adjective
        french.insert(0 if node.before else 1, Piece("très", tuple(very)))
    english = [*very, *adjectives, noun]
    if node.count:
        number = Word(english_number(node.count))
        english.insert(0, number)
        french = [Piece(t, (number,)) for t in french_number(node.count, agreement.feminine).split()] + french
    if node.owner is not None:
        owner_en, owner_fr = noun_phrase(node.owner)
        owner = owner_en[-1]
        owner.text += "'s"
        article = Piece("les" if node.plural else "la" if agreement.feminine else "le", (), (owner,), True)
        english, french = owner_en + english, [article, *french, Piece("de", (owner,)), *owner_fr]
    elif node.determiner:
        words, pieces = determiner(node, french[0].text, english[0].text, denied)
        english, french = words + english, pieces + french
    if node.place is not None:
        _extend((english, french), _prepositional(node.place))
    if node.relative is not None:
        _extend((english, french), _relative(node.relative, agreement))
    return english, french


def _extend(both: Both, more: Both) -> None:
    both[0].extend(more[0])
    both[1].extend(more[1])


def _relative(node: Relative, antecedent: Agreement) -> Both:
    word = Word(node.word)
    pronoun = "où" if node.word == "where" else "que" if node.object else "qui"
    both = ([word], [Piece(pronoun, (word,))])
    _extend(both, _clause(node.clause, antecedent if node.object else None))
    return both


def _prepositional(node: Prepositional) -> Both:
    words = [Word(text) for text in node.en.split()]
    french = [Piece(text, tuple(words)) for text in node.fr.split()]
    both = (words, french)
    _extend(both, noun_phrase(node.phrase))
    return both


# -------------------------------------------------------------------------------------------- verb phrases


def _quality(node: Quality, subject: Agreement) -> Both:
    english: English = []
    french: French = []
    for k, adjective in enumerate(node.adjectives):
        if k:
            _extend((english, french), _linker("and"))
        if node.very and not k:
            word = Word("very")
            english.append(word)
            french.append(Piece("très", (word,)))
        word = Word(adjective.en)
        english.append(word)
        french.append(Piece(_inflected(adjective, subject), (word,)))
    return english, french


def _objects(phrase: VerbPhrase, denied: bool) -> tuple[Both, list[Clitic]]:
    """Write the objects that stay after the verb, and gather those that move before it in French."""
    english: English = []
    french: French = []
    direct = indirect = to = None
    after: Both = ([], [])
    if isinstance(phrase.indirect, Pronoun):
        indirect = Word(phrase.indirect.object)
        if isinstance(phrase.direct, Pronoun):
            to = Word("to")
            after = ([to, indirect], [])
        else:
            english.append(indirect)
    elif phrase.indirect is not None:
        to = Word("to")
        after = ([to], [Piece("à", (to,))])
        _extend(after, noun_phrase(phrase.indirect))
    if isinstance(phrase.direct, Pronoun):
        direct = Word(phrase.direct.object)
        english.append(direct)
    elif phrase.direct is not None:
        _extend((english, french), noun_phrase(phrase.direct, denied))
    _extend((english, french), after)
    return (english, french), clitics_of(phrase, direct, indirect, to)


def _put_dative(phrase: VerbPhrase, english_verb: Word, objects: Both) -> None:
    """Set the "à" of verbs such as "répondre à" before a full noun phrase."""
    if "dative" in phrase.verb.flags and phrase.direct is not None and not isinstance(phrase.direct, Pronoun):
        if english_verb.text == "to":
            objects[1].insert(0, Piece("à", (english_verb,)))
        else:
            objects[1].insert(0, Piece("à", (), (english_verb,)))


def _rest(phrase: VerbPhrase, subject: Agreement) -> Both:
    both: Both = ([], [])
    for item in phrase.rest:
        if isinstance(item, Prepositional):
            _extend(both, _prepositional(item))
        elif isinstance(item, Action):
            _extend(both, _action(item, subject))
        else:
            _extend(both, _expression(item))
    if phrase.clause is not None:
        _extend(both, _linker(phrase.joint))
        _extend(both, sentence(phrase.clause))
    return both


def _action(node: Action, subject: Agreement) -> Both:
    objects, clitics = _objects(node.phrase, False)
    english, french = infinitive_group(node.phrase, subject, node.joint != "to", clitics)
    _put_dative(node.phrase, english[-1], objects)
    both = _linker(node.joint)
    for part in ((english, french), objects, _rest(node.phrase, subject)):
        _extend(both, part)
    return both


# ------------------------------------------------------------------------------------------------- clauses


def _subject(subject: Phrase | Gap) -> Both:
    if isinstance(subject, Gap):
        return [], []
    if isinstance(subject, Pronoun):
        word = Word(subject.subject)
        return [word], [Piece(subject.je, (word,))]
    return noun_phrase(subject)


def _predicate(
    node: Clause, phrase: VerbPhrase, preceding: Agreement | None, asking: bool
) -> tuple[English, Word, Both]:
    """Return what stands before the finite verb in English, that verb, and the rest with all of the French."""
    subject = agreement_of(node.subject)
    objects, clitics = _objects(phrase, bool(node.polarity))
    group = verb_group(phrase, node.tense, subject, node.polarity, node.adverb, asking, clitics, preceding)
    _put_dative(phrase, (group.after or [group.first])[-1], objects)
    both = (list(group.after), list(group.french))
    _extend(both, objects)
    if phrase.quality is not None:
        _extend(both, _quality(phrase.quality, subject))
    _extend(both, _rest(phrase, subject))
    return group.before, group.first, both


def _clause(node: Clause, preceding: Agreement | None = None) -> Both:
    english: English = []
    french: French = []
    if node.front is not None:
        english, french = _expression(node.front)
        comma(english)
        comma(french)
    _extend((english, french), _subject(node.subject))
    for k, phrase in enumerate(node.phrases):
        if k:
            _extend((english, french), _linker("and"))
        before, first, after = _predicate(node, phrase, preceding, False)
        english += [*before, first]
        _extend((english, french), after)
    return english, french


def _exists(node: Exists) -> Both:
    """Write "there is": "there" is "il y", a form of "be" is one of "avoir", "no" is "ne", "pas" and "de"."""
    person = node.phrase.agreement.person
    there = Word("there")
    be = (
        [Word("will"), Word("be")]
        if node.tense is Tense.FUTURE
        else [Word(english_be(person, node.tense is Tense.PAST))]
    )
    forms = {Tense.PRESENT: AVOIR.present, Tense.PAST: AVOIR.imperfect, Tense.FUTURE: AVOIR.future}[node.tense]
    verb = Piece(forms[1], (be[-1],), tuple(be[:-1]))
    english, french = noun_phrase(node.phrase, node.negated)
    pieces = [Piece("il", (there,)), Piece("y", (there,)), verb]
    if node.negated:
        no = english[0]  # the determiner, which "no" replaces
        no.text = "no"
        pieces[1:2] = [Piece("ne", (no,)), Piece("y", (there,))]
        pieces.append(Piece("pas", (no,)))
    both = ([there, *be, *english], [*pieces, *french])
    _extend(both, _prepositional(node.place))
    return both


def _linked(node: Linked) -> Both:
    main, other, both = sentence(node.main), sentence(node.other), _linker(node.joint)
    if node.fronted:
        _extend(both, other)
        comma(both[0])
        comma(both[1])
        _extend(both, main)
        return both
    if node.joint in ("but", "so", "although"):
        comma(main[0])
        comma(main[1])
    _extend(main, both)
    _extend(main, other)
    return main


def sentence(node: Sentence) -> Both:
    """Write a clause or several joined ones."""
    if isinstance(node, Clause):
        return _clause(node)
    return _exists(node) if isinstance(node, Exists) else _linked(node)


def _question(node: Question) -> Both:
    """Write a question: English moves its first auxiliary, French says "est-ce que" and keeps its order."""
    clause = node.clause
    if isinstance(clause.subject, Pronoun) and clause.subject.subject == "who":
        return _clause(clause)
    preceding = node.asked.agreement if node.asked else None
    english, french = noun_phrase(node.asked) if node.asked else ([], [])
    if node.word and not node.asked:
        word = Word(node.word)
        english = [word]
        pronoun = {"where": "où", "when": "quand", "why": "pourquoi", "what": ""}[node.word]
        french = [Piece(pronoun, (word,))] if pronoun else []
    subject = _subject(clause.subject)
    (phrase,) = clause.phrases
    _, first, after = _predicate(clause, phrase, preceding, True)
    if node.word == "where" and phrase.verb.en == "be":  # "où est la clé ?"
        return [*english, first, *subject[0], *after[0]], [*french, after[1][0], *subject[1], *after[1][1:]]
    if node.word == "what":
        french = [Piece("qu'est-ce", (english[0],), (first,)), Piece("que", (), (english[0], first))]
    else:
        french = [*french, Piece("est-ce", (), (first,)), Piece("que", (), (first,))]
    return [*english, first, *subject[0], *after[0]], french + subject[1] + after[1]


def _request(node: Request) -> Both:
    phrase = node.phrase
    objects, _ = _objects(phrase, node.negated)
    main = Word(phrase.verb.en)
    english = [main, *(Word(text) for text in phrase.verb.particle.split())]
    french = [Piece(phrase.verb.fr.present[3], (main,), tuple(english[1:]))]
    if node.negated:
        support, negation = Word("do"), Word("not")
        french[0].possible += (support,)
        french = [Piece("ne", (negation,)), *french, Piece("pas", (negation,))]
        english = [support, negation, *english]
    _put_dative(phrase, english[-1], objects)
    both = (english, french)
    _extend(both, objects)
    _extend(both, _rest(phrase, Agreement(3, False)))
    return both
