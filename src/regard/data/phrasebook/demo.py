"""A few sentences to show: each holds a combination of words that no model has seen in training."""

from regard.data.pair import Pair
from regard.data.phrasebook import lexicon as x
from regard.data.phrasebook import verbs as v
from regard.data.phrasebook.render import render
from regard.data.phrasebook.syntax_tree import (
    HE,
    IT_F,
    IT_M,
    SHE,
    WE,
    YOU,
    Clause,
    Gap,
    Linked,
    Nominal,
    Prepositional,
    Quality,
    Question,
    Relative,
    Root,
    Tense,
    VerbPhrase,
)

_NOUN = {noun.en: noun for noun in x.NOUNS}
_ADJECTIVE = {adjective.en: adjective for adjective in x.ADJECTIVES}
_VERB = {verb.en: verb for verb in (*v.TRANSITIVE, *v.INTRANSITIVE)}
_NAME = {name.en: name for name in x.PEOPLE}


def demo_pairs() -> tuple[Pair, ...]:
    """Return the demo's sentences with their translations and alignments."""
    return tuple(render(tree) for tree in demo_trees())


def demo_trees() -> tuple[Root, ...]:
    """Build the demo's trees: a noun phrase, clitics, a negation, a question, a relative clause, a long sentence."""
    dress = Nominal(_NOUN["dress"], after=_ADJECTIVE["red"])
    bought = VerbPhrase(_VERB["buy"], dress)
    gave = VerbPhrase(_VERB["give"], IT_F, SHE, rest=[x.YESTERDAY])
    opening = VerbPhrase(_VERB["open"], Nominal(_NOUN["window"]), rest=[x.MORNING])
    looking = VerbPhrase(_VERB["look"], Nominal(_NOUN["key"]))
    sister = Nominal(_NOUN["sister"], determiner="my")
    baked = Relative("that", Clause(sister, [VerbPhrase(_VERB["buy"], rest=[x.YESTERDAY])], Tense.PAST), object=True)
    bread = Nominal(_NOUN["bread"], relative=baked)
    good = Quality((_ADJECTIVE["good"],), very=True)
    return (
        dress,
        Clause(HE, [bought, gave], Tense.PAST),
        Clause(WE, [opening], Tense.PRESENT, "not"),
        Question(Clause(YOU, [looking], Tense.PROGRESSIVE), "why"),
        Clause(bread, [VerbPhrase(v.BE, quality=good)], Tense.PRESENT),
        _long(),
    )


def _long() -> Linked:
    """When it rains, …, but … thinks that … because …."""
    queen = Nominal(_NOUN["queen"])
    singing = Relative("where", Clause(queen, [VerbPhrase(_VERB["sing"])], Tense.PRESENT))
    castle = Nominal(_NOUN["castle"], before=_ADJECTIVE["old"], relative=singing)
    friends = Nominal(_NOUN["friend"], True, "my", before=_ADJECTIVE["old"])
    stay = VerbPhrase(v.STAY, rest=[Prepositional("in", "dans", castle)])
    first = Linked(
        "when", Clause(friends, [stay], Tense.PRESENT), Clause(IT_M, [VerbPhrase(v.RAIN)], Tense.PRESENT), True
    )

    man = Nominal(_NOUN["man"], before=_ADJECTIVE["young"])
    man.relative = Relative(
        "who", Clause(Gap(man.agreement), [VerbPhrase(_VERB["love"], _NAME["Marie"])], Tense.PRESENT)
    )
    market = Prepositional("to", "à", Nominal(_NOUN["market"]))
    going = Clause(SHE, [VerbPhrase(v.GO, rest=[market, x.TOMORROW])], Tense.FUTURE)
    wanted = Relative("that", Clause(SHE, [VerbPhrase(_VERB["want"])], Tense.PRESENT), object=True)
    dress = Nominal(_NOUN["dress"], after=_ADJECTIVE["red"], relative=wanted)
    dear = VerbPhrase(v.BE, quality=Quality((_ADJECTIVE["expensive"],)))
    told = Linked("because", going, Clause(dress, [dear], Tense.PRESENT, "not"))
    return Linked("but", first, Clause(man, [VerbPhrase(v.THINK, joint="that", clause=told)], Tense.PRESENT))


def demo_sentences() -> tuple[str, ...]:
    """Return the demo's sentences in English."""
    return tuple(pair.source for pair in demo_pairs())
