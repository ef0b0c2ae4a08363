"""The verb with its auxiliaries, negation, adverb and clitic pronouns, in English and French at once."""

from typing import NamedTuple

from regard.data.phrasebook.elision import English, French, Piece, Word
from regard.data.phrasebook.lexicon import Fixed
from regard.data.phrasebook.syntax_tree import Agreement, Pronoun, Tense, VerbPhrase
from regard.data.phrasebook.verbs import AVOIR, FAIRE, ÊTRE, FrenchVerb, Verb

_NEGATIVE = {"not": "pas", "never": "jamais", "no longer": "plus"}
_REFLEXIVE = ("me", "se", "nous", "vous", "se")
_RANK = {"me": 0, "nous": 0, "vous": 0, "se": 0, "le": 1, "la": 1, "les": 1, "lui": 2, "leur": 2}


class Helpers(NamedTuple):
    """An English verb taken apart: what only helps, the "have" of the perfect, and the word with the meaning."""

    helping: English
    have: Word | None
    main: Word


class Clitic(NamedTuple):
    """An object pronoun before the French verb, and the English it stands for."""

    form: str
    word: Word
    possible: tuple[Word, ...]
    agreement: Agreement | None
    """That of a direct object, with which the participle after "avoir" agrees; None for an indirect one."""


class Group(NamedTuple):
    """English: `before` (adverb), `first` (the word that a question moves), `after`. French: in its final order."""

    before: English
    first: Word
    after: English
    french: French


def english_be(person: int, past: bool) -> str:
    """Conjugate "be": `person` counts I, he, we, you, they."""
    if past:
        return "was" if person < 2 else "were"
    return ("am", "is", "are")[min(person, 2)]


def participle(verb: FrenchVerb, agreement: Agreement | None) -> str:
    """Return the past participle, agreeing if there is something to agree with."""
    form = verb.participle
    if agreement is None:
        return form
    if agreement.feminine:
        form += "e"
    return form + "s" if agreement.plural and not form.endswith("s") else form


def _english(verb: Verb, tense: Tense, person: int, supported: bool) -> Helpers:
    """Conjugate an English verb; `supported` asks for "do" where the verb has no other auxiliary."""
    helping: list[str] = []
    have = None
    main = verb.en
    if tense in (Tense.PRESENT, Tense.AFTER_WHEN, Tense.CONCEDED, Tense.PAST):
        past = tense is Tense.PAST
        if verb.fr in (ÊTRE, FAIRE):
            main = english_be(person, past)
        elif "modal" in verb.flags:
            main = verb.past if past else verb.en
        elif supported:
            helping = ["did" if past else "does" if person == 1 else "do"]
        else:
            main = verb.past if past else verb.third if person == 1 else verb.en
    elif tense in (Tense.PROGRESSIVE, Tense.WAS_ING):
        helping, main = [english_be(person, tense is Tense.WAS_ING)], verb.ing
    elif tense is Tense.PERFECT:
        have, main = Word("has" if person == 1 else "have"), verb.perfect
    elif tense is Tense.USED_TO:
        helping = ["used", "to"]
    else:
        helping = ["will" if tense is Tense.FUTURE else "would"]
    return Helpers([Word(text) for text in helping], have, Word(main))


def _simple(verb: Verb, tense: Tense) -> tuple[str, ...] | None:
    """Return the French simple tense, or None for the passé composé."""
    if tense in (Tense.PRESENT, Tense.PROGRESSIVE):
        return verb.fr.present
    if tense in (Tense.WAS_ING, Tense.USED_TO) or (tense is Tense.PAST and verb.stative):
        return verb.fr.imperfect
    if tense in (Tense.FUTURE, Tense.AFTER_WHEN):
        return verb.fr.future
    if tense is Tense.WOULD:
        return verb.fr.conditional
    return verb.fr.subjunctive if tense is Tense.CONCEDED else None


def clitics_of(phrase: VerbPhrase, direct: Word | None, indirect: Word | None, to: Word | None) -> list[Clitic]:
    """Gather the object pronouns of a verb phrase, whose English words are given, in their French order."""
    clitics = []
    if direct is not None and isinstance(phrase.direct, Pronoun):
        dative = "dative" in phrase.verb.flags
        form = phrase.direct.indirect if dative else phrase.direct.direct
        clitics.append(Clitic(form, direct, (), None if dative else phrase.direct.agreement))
    if indirect is not None and isinstance(phrase.indirect, Pronoun):
        clitics.append(Clitic(phrase.indirect.indirect, indirect, (to,) if to else (), None))
    return sorted(clitics, key=lambda clitic: _RANK[clitic.form])


def verb_group(
    phrase: VerbPhrase,
    tense: Tense,
    subject: Agreement,
    polarity: str,
    adverb: Fixed | None,
    asking: bool,
    clitics: list[Clitic],
    preceding: Agreement | None,
) -> Group:
    """Build the verb of a finite clause; `preceding` is a direct object that came before it (que, quelle robe)."""
    head = phrase.modal or phrase.verb
    supported = asking or polarity == "not"
    helping, have, main = _english(head, tense, subject.person, supported)
    chain = [*helping, *([have] if have else []), main]
    negative: English = []
    if polarity == "not" and head.en == "can" and tense is Tense.PRESENT:
        main.text = "cannot"
        negative = [main]
        middle: English = []
    else:
        negative = [Word(text) for text in polarity.split()]
        middle = list(negative)
    adverbs = [Word(text) for text in adverb.en] if adverb else []
    middle += adverbs
    tail: English = []
    infinitive = main
    if phrase.modal:
        infinitive = Word(phrase.verb.en)
        tail = [Word("to"), infinitive] if "to" in head.flags else [infinitive]
    particle = [Word(text) for text in phrase.verb.particle.split()]
    auxiliary_first = len(chain) > 1 or "be" in head.flags or "modal" in head.flags
    if auxiliary_first:
        before, after = [], [*middle, *chain[1:], *tail, *particle]
    else:
        before, after = middle, [*tail, *particle]

    french: French = []
    moved = [Piece(c.form, (c.word,), c.possible) for c in clitics]
    if phrase.verb.fr.reflexive:
        moved.insert(0, Piece(_REFLEXIVE[subject.person], (), (infinitive, *particle)))
    if polarity:
        french.append(Piece("ne", tuple(negative)))
    if not phrase.modal:
        french += moved
    forms = _simple(head, tense)
    own_particle = () if phrase.modal else tuple(particle)
    if forms is not None:
        french.append(Piece(forms[subject.person], (main,), (*helping, *own_particle)))
    else:
        auxiliary = ÊTRE if head.fr.être else AVOIR
        helped = (have,) if have else ()
        french.append(Piece(auxiliary.present[subject.person], helped, () if have else (main, *helping)))
    if polarity:
        french.append(Piece(_NEGATIVE[polarity], tuple(negative)))
    if adverb:
        french += [Piece(text, tuple(adverbs)) for text in adverb.fr]
    if forms is None:
        agreeing = subject if head.fr.être else preceding
        for clitic in clitics:
            agreeing = agreeing or clitic.agreement
        french.append(Piece(participle(head.fr, agreeing), (main,), own_particle))
    if phrase.modal:
        french += moved
        to = tuple(tail[:-1])
        french.append(Piece(phrase.verb.fr.infinitive, (infinitive,), (*to, *particle)))
    return Group(before, chain[0], after, french)


def infinitive_group(
    phrase: VerbPhrase, subject: Agreement, ing: bool, clitics: list[Clitic]
) -> tuple[English, French]:
    """Build "eating" (`ing`) or "eat" and "manger", with the clitics before the French infinitive."""
    main = Word(phrase.verb.ing if ing else phrase.verb.en)
    particle = [Word(text) for text in phrase.verb.particle.split()]
    french = [Piece(c.form, (c.word,), c.possible) for c in clitics]
    if phrase.verb.fr.reflexive:
        french.insert(0, Piece(_REFLEXIVE[subject.person], (), (main, *particle)))
    french.append(Piece(phrase.verb.fr.infinitive, (main,), tuple(particle)))
    return [main, *particle], french
