"""Laws of the embedded corpus: its French is right, its English determines it, and what is held out stays out."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.data.pair import Alignment, Pair
from regard.data.phrasebook import LONGEST, demo_pairs, demo_sentences, generate, length_controlled
from regard.data.phrasebook import lexicon as x
from regard.data.phrasebook import verbs as v
from regard.data.phrasebook.collocations import FITTING, OBJECTS, is_reserved
from regard.data.phrasebook.demo import demo_trees
from regard.data.phrasebook.noun_phrases import apart, fits, other_names
from regard.data.phrasebook.render import render
from regard.data.phrasebook.reserved_combinations import combinations_in, holds_reserved
from regard.data.phrasebook.syntax_tree import (
    HE,
    IT_F,
    IT_M,
    SHE,
    THEM_F,
    THEY,
    WE,
    WHO,
    YOU,
    Action,
    Agreement,
    Clause,
    Couple,
    Exists,
    Gap,
    I,
    Linked,
    Nominal,
    Prepositional,
    Quality,
    Question,
    Relative,
    Request,
    Root,
    Tense,
    VerbPhrase,
)
from regard.errors import DataError

N = {noun.en: noun for noun in x.NOUNS}
A = {adjective.en: adjective for adjective in x.ADJECTIVES}
V = {verb.en: verb for verb in (*v.INTRANSITIVE, *v.DATIVE, *v.TRANSITIVE)}
NAMES = {name.en: name for name in (*x.PEOPLE, *x.CITIES)}
MARIE, PAUL, ANNE = NAMES["Marie"], NAMES["Paul"], NAMES["Anne"]


SWEPT = 8_000
WRITE = """
import sys
from regard.data.phrasebook import generate, length_controlled
parts = {
    "train": generate("train", 26_000), "more": generate("train", 8_000, seed=2), "valid": generate("valid", 1_000),
    "test": generate("test", 1_000), "long": length_controlled(20, 60, 200), "spread": length_controlled(5, 44, 200),
}
sys.stdout.reconfigure(encoding="utf-8")
for name, pairs in parts.items():
    for pair in pairs:
        print(name, pair.source, pair.target, pair.alignment, sep="\\t")
"""


@pytest.fixture(scope="module")
def corpus(once: Callable[[str, Callable[[Path], object]], Path]) -> dict[str, list[Pair]]:
    """Tens of thousands of pairs, written by another process: there nothing checks the types of every call."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2] / "src"), *sys.path])}

    def write(folder: Path) -> None:
        folder.mkdir()
        with (folder / "pairs.tsv").open("wb") as file:
            subprocess.run([sys.executable, "-c", WRITE], env=environment, stdout=file, check=True)

    parts: dict[str, list[Pair]] = {}
    for line in (once("phrasebook", write) / "pairs.tsv").read_text(encoding="utf-8").splitlines():
        name, source, target, links = line.split("\t")
        part = parts.setdefault(name, [])
        part.append(Pair(source, target, read_alignment(links) if len(part) < SWEPT else None))
    return parts


def read_alignment(links: str) -> Alignment:
    found = [(link.replace("p", "-").split("-"), "p" in link) for link in links.split()]
    sure = frozenset((int(i), int(j)) for (i, j), possible in found if not possible)
    return Alignment(sure, frozenset((int(i), int(j)) for (i, j), _ in found))


@pytest.fixture(scope="module")
def train(corpus: dict[str, list[Pair]]) -> list[Pair]:
    return corpus["train"]


@pytest.fixture(scope="module")
def heldout(corpus: dict[str, list[Pair]]) -> dict[str, list[Pair]]:
    return {split: corpus[split] for split in ("valid", "test")}


@pytest.fixture(scope="module")
def swept(corpus: dict[str, list[Pair]]) -> list[Pair]:
    """What every law is held against, pair by pair."""
    return [*corpus["train"][:SWEPT], *corpus["valid"], *corpus["test"], *corpus["long"]]


def np(noun: str, determiner: str = "the", plural: bool = False, adjective: str = "", **more: object) -> Nominal:
    """Build a noun phrase; the adjective goes where it belongs."""
    node = Nominal(N[noun], plural, determiner, **more)  # type: ignore[arg-type]
    for name in adjective.split():
        if A[name].before:
            node.before = A[name]
        else:
            node.after = A[name]
    return node


def vp(verb: str, direct: object = None, indirect: object = None, **more: object) -> VerbPhrase:
    return VerbPhrase(V[verb], direct, indirect, **more)  # type: ignore[arg-type]


def be(*adjectives: str, very: bool = False) -> VerbPhrase:
    return VerbPhrase(v.BE, quality=Quality(tuple(A[name] for name in adjectives), very))


def says(
    subject: object, phrase: VerbPhrase, tense: Tense = Tense.PRESENT, polarity: str = "", **more: object
) -> Clause:
    return Clause(subject, [phrase], tense, polarity, **more)  # type: ignore[arg-type]


def whose(antecedent: Nominal, word: str, clause: Clause, as_object: bool = False) -> Nominal:
    antecedent.relative = Relative(word, clause, as_object)
    return antecedent


def at(en: str, fr: str, noun: str, determiner: str = "the", adjective: str = "") -> Prepositional:
    return Prepositional(en, fr, np(noun, determiner, adjective=adjective))


RAINS = says(IT_M, VerbPhrase(v.RAIN))
ARRIVES = says(SHE, vp("arrive"), Tense.AFTER_WHEN)
MAN = np("man").agreement
TRANSLATIONS: list[tuple[Root, str, str]] = [
    (np("dress", adjective="red"), "the red dress", "la robe rouge"),
    (np("house", "", True, "small", count=3), "three small houses", "trois petites maisons"),
    (np("friend", "my", True, "old"), "my old friends", "mes vieux amis"),
    (np("hotel", "this", adjective="old"), "this old hotel", "ce vieil hôtel"),
    (np("hotel", "this"), "this hotel", "cet hôtel"),
    (np("hero"), "the hero", "le héros"),
    (np("bird", "a", adjective="beautiful"), "a beautiful bird", "un bel oiseau"),
    (np("friend", "his", adjective="new"), "his new friend", "son nouvel ami"),
    (np("school", "my"), "my school", "mon école"),
    (np("house", "some", True, "beautiful"), "some beautiful houses", "de belles maisons"),
    (np("house", "some", True, "white"), "some white houses", "des maisons blanches"),
    (np("water", "some", adjective="cold"), "some cold water", "de l'eau froide"),
    (np("apple", "", True, count=21), "twenty-one apples", "vingt et une pommes"),
    (np("egg", "", True, count=80), "eighty eggs", "quatre-vingts œufs"),
    (np("orange", "many", True), "many oranges", "beaucoup d'oranges"),
    (np("girl", "all the", True), "all the girls", "toutes les filles"),
    (np("dress", "", adjective="white", owner=np("king")), "the king's white dress", "la robe blanche du roi"),
    (np("horse", "", True, owner=ANNE), "Anne's horses", "les chevaux d'Anne"),
    (np("house", "a", adjective="small", very=True), "a very small house", "une très petite maison"),
    (says(HE, vp("see", I)), "he sees me", "il me voit"),
    (says(HE, vp("see", SHE), Tense.PAST), "he saw her", "il l'a vue"),
    (says(I, vp("help", YOU), Tense.FUTURE), "I will help you", "je vous aiderai"),
    (says(SHE, vp("love", I), polarity="not"), "she does not love me", "elle ne m'aime pas"),
    (says(WE, vp("have", np("car", "a")), polarity="not"), "we do not have a car", "nous n'avons pas de voiture"),
    (says(HE, vp("drink", np("water", "some")), Tense.PERFECT, "never"), "he has never drunk any water",
     "il n'a jamais bu d'eau"),
    (says(MARIE, VerbPhrase(v.GO, rest=[at("to", "à", "market")]),
          Tense.PAST), "Marie went to the market", "Marie est allée au marché"),
    (says(Couple(MARIE, ANNE), vp("leave"), Tense.PAST), "Marie and Anne left", "Marie et Anne sont parties"),
    (says(Couple(MARIE, PAUL), be("happy")), "Marie and Paul are happy", "Marie et Paul sont heureux"),
    (says(np("woman", plural=True), vp("get"), Tense.PAST, "not"), "the women did not get up",
     "les femmes ne se sont pas levées"),
    (says(THEY, vp("eat", np("bread", "the")), Tense.WAS_ING), "they were eating the bread", "ils mangeaient le pain"),
    (says(WE, vp("eat", np("soup", "some")), Tense.USED_TO), "we used to eat some soup", "nous mangions de la soupe"),
    (says(HE, vp("call", SHE, modal=v.CAN), polarity="not"), "he cannot call her", "il ne peut pas l'appeler"),
    (says(SHE, vp("answer", np("teacher", plural=True))), "she answers the teachers", "elle répond aux professeurs"),
    (says(SHE, vp("talk", HE), Tense.PAST), "she talked to him", "elle lui a parlé"),
    (Clause(PAUL, [vp("buy", np("apple", plural=True)), vp("give", THEM_F, I)], Tense.PAST),
     "Paul bought the apples and gave them to me", "Paul a acheté les pommes et me les a données"),
    (Clause(HE, [vp("take", np("key")), vp("show", IT_F, SHE)], Tense.PAST), "he took the key and showed it to her",
     "il a pris la clé et la lui a montrée"),
    (says(SHE, vp("arrive", rest=[x.date_in_words(1, 4)]), Tense.PAST), "she arrived on the first of May",
     "elle est arrivée le premier mai"),
    (says(SHE, vp("leave", rest=[x.date_in_digits(3, 7)]), Tense.FUTURE), "she will leave on August 3",
     "elle partira le 3 août"),
    (says(whose(np("dress"), "that", says(np("woman"), vp("buy"), Tense.PAST), True), be("red")),
     "the dress that the woman bought is red", "la robe que la femme a achetée est rouge"),
    (says(whose(np("man"), "who", says(Gap(MAN), vp("sleep"))), be("sick")), "the man who sleeps is sick",
     "l'homme qui dort est malade"),
    (Linked("when", says(HE, vp("leave"), Tense.FUTURE), ARRIVES), "he will leave when she arrives",
     "il partira quand elle arrivera"),
    (Linked("if", says(THEY, vp("sleep"), Tense.FUTURE), RAINS, True), "if it rains, they will sleep",
     "s'il pleut, ils dormiront"),
    (Linked("although", says(SHE, vp("work")), says(HE, be("tired"), Tense.CONCEDED), True),
     "although he is tired, she works", "bien qu'il soit fatigué, elle travaille"),
    (says(HE, VerbPhrase(v.SAY, joint="that", clause=says(ANNE, vp("stop"), Tense.WOULD)), Tense.PAST),
     "he said that Anne would stop", "il a dit qu'Anne s'arrêterait"),
    (says(I, vp("get", rest=[Action("before", vp("open", np("window")))]), Tense.FUTURE),
     "I will get up before opening the window", "je me lèverai avant d'ouvrir la fenêtre"),
    (Question(says(np("man"), vp("see", np("dog")))), "does the man see the dog?",
     "est-ce que l'homme voit le chien ?"),
    (Question(says(HE, vp("eat"), Tense.PROGRESSIVE), "what"), "what is he eating?", "qu'est-ce qu'il mange ?"),
    (Question(says(YOU, vp("eat"), Tense.PAST), "which", np("apple", "how many", True)),
     "how many apples did you eat?", "combien de pommes est-ce que vous avez mangées ?"),
    (Question(says(np("key"), VerbPhrase(v.BE)), "where"), "where is the key?", "où est la clé ?"),
    (Question(says(WHO, vp("break", np("clock")), Tense.PAST)), "who broke the clock?", "qui a cassé l'horloge ?"),
    (Request(vp("close", np("door")), True), "do not close the door", "ne fermez pas la porte"),
    (Exists(np("cat", "some", True), at("near", "près de", "hospital"), Tense.PAST, True),
     "there were no cats near the hospital", "il n'y avait pas de chats près de l'hôpital"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "english", "french"), TRANSLATIONS, ids=[english for _, english, _ in TRANSLATIONS])
def test_says_in_both_languages_what_the_tree_means(tree: Root, english: str, french: str) -> None:
    assert render(tree) == Pair(english, french)


@pytest.mark.parametrize(
    ("tree", "links"),
    [
        (np("man"), "0-0 1-0"),
        (np("dress", adjective="red"), "0-0 1-2 2-1"),
        (np("dress", "", owner=np("king")), "0-2 1p0 1-2 1-3 2-1"),
        (says(SHE, vp("love", I), polarity="not"), "0-0 1p2 2-1 2-3 3-2 4-2"),
        (says(HE, vp("see", SHE), Tense.PAST), "0-0 1p1 1-2 2-1"),
        (says(HE, vp("see", SHE), Tense.PERFECT), "0-0 1-1 2-2 3-1"),
        (says(SHE, vp("look", np("key")), Tense.FUTURE), "0-0 1p1 2-1 3p1 4-2 5-3"),
        (Question(says(HE, vp("sleep"))), "0p0 0p1 0p2 1-1 2-2 2p3"),
    ],
)
def test_alignment_follows_the_documented_rules(tree: Root, links: str) -> None:
    assert str(render(tree).alignment) == links


WRONG_FRENCH = {
    "a missing elision": r"\b(le|la|je|ne|me|de|que|se) (?!onze\b|huit\b|héros|haricot)[aeiouyhâàéèêîôœ]",
    "an elision before a consonant": r"\b[ljnmdsc]'[bcdfgjklmnpqrstvwxz]|qu'[^aeiouyàéèêîœAE]",
    "an elision before an aspirated h": r"'(héros|haricots?|huit|onze)\b",
    "a missing contraction": r"\b(de|à) (le|les)\b(?! (lui|leur)\b)",
    "si before il": r"\bsi ils?\b",
    "a feminine possessive before a vowel": r"\b(ma|sa) [aeiouhâéèêîôœ]",
    "ce before a vowel": r"\bce (?!hé|ha)[aeiouhâéèêîôœ]",
    "beau, nouveau, vieux before a masculine vowel": r"\b(ce|le|un|mon|son|notre|votre|leur) (beau|nouveau|vieux) "
    r"(homme|ami|enfant|oiseau|arbre|hôtel|œuf|hôpital)\b",
    "des before a preposed adjective": r"\bdes (petit|beaux|belle|grand|vie|nouve|bons|mauvais|jeunes|long)",
    "a negated indefinite article": r"\b(pas|jamais|plus) (un|une|des)\b",
    "ne without its second half": r"\b(ne |n')(?!.*\b(pas|jamais|plus)\b)",
    "a doubled word": r"\b(?!nous\b|vous\b)(\w+) \1\b",
    "a plural article with a singular": r"\b(les|des|ces|mes|ses|nos|vos|leurs) (robe|homme|chien|maison|fille|roi)\b",
    "a disagreeing adjective": r"\b(robes?|chemises?|maisons?|portes?) (blanc|vert|bleu|noir|cher|ouvert)s?\b",
    "a singular article with a plural": r"\b(le|la|ce|cette|(?<!et )une?) (robes|hommes|chiens|maisons|filles|rois)\b",
    "être with an uninflected participle": r"\belle est (allé|venu|parti|arrivé|resté|tombé)\b"
    r"|\b(nous sommes|ils sont) (allé|venu|parti|arrivé|resté|tombé)\b",
}


@pytest.mark.parametrize("fault", WRONG_FRENCH)
def test_no_french_sentence_has(fault: str, swept: list[Pair]) -> None:
    pattern = re.compile(WRONG_FRENCH[fault])
    assert [pair.target for pair in swept if pattern.search(pair.target)][:3] == []


@pytest.mark.parametrize(
    ("fault", "french"),
    [
        ("a missing elision", "je aime la robe"),
        ("an elision before an aspirated h", "l'héros"),
        ("a missing contraction", "près de le roi"),
        ("a negated indefinite article", "il n'a pas une robe"),
        ("ne without its second half", "il ne voit le chien"),
        ("être with an uninflected participle", "hier, elle est allé à Rome"),
    ],
)
def test_the_detectors_detect(fault: str, french: str) -> None:
    assert re.search(WRONG_FRENCH[fault], french)


def test_no_english_sentence_has_a_wrong_article(swept: list[Pair]) -> None:
    wrong = re.compile(r"\ba [aeiou]|\ban [^aeiou]|\b(is|was|has|does) (is|was|has|does)\b")
    assert [pair.source for pair in swept if wrong.search(pair.source)][:3] == []


IS = r"(?:is|are|was|were|will be) (?:not |never |very )?(?:\w+ and )?"
COLOR = r"(?:red|blue|green|white|black|yellow)"
NONSENSE = {
    "asks what somebody helps": r"^what (?!.* that ).*\b(?:help|helping|call|calling)\b",
    "is finding": r"\b(?:is|am|are|was|were) (?:not )?(?:finding|losing|breaking|seeing)\b",
    "has a train eat": r"\b(?:train|boat)s? (?:\w+ ){0,3}(?:leaves?|left) (?:with \w+ )?(?:before|without)\b",
    "contradicts itself": rf"\b{COLOR} \w+ {IS}{COLOR}\b"
    + "".join(
        rf"|\b{one} \w+ {IS}{other}\b"
        for pair in ("big small", "old young", "good bad", "clean dirty", "open closed", "hot cold", "happy sad")
        for one, other in (pair.split(), reversed(pair.split()))
    ),
    "says the same twice": r"\b(tired|sick|happy|sad|kind) \w+ (?:is|are|was|were) \1\b",
    "denies two qualities": r"\b(?:is|are|was|were|be) (?:not|never) (?:\w+ )and (?!the|a|an|it)\w+(?:$|[.,?])",
    "does it to the subject again": r"\b((?:the|this|these|my|our|your) \w+) "
    r"(?:helps?|answers?|calls?|loves?|helped|answered|called|saw|talks? to|waits? for) \1\b(?!')",
}


@pytest.mark.parametrize("fault", NONSENSE)
def test_no_english_sentence(fault: str, swept: list[Pair]) -> None:
    pattern = re.compile(NONSENSE[fault])
    assert [pair.source for pair in swept if pattern.search(pair.source)][:3] == []


@pytest.mark.parametrize(
    ("fault", "english"),
    [
        ("asks what somebody helps", "what will she help?"),
        ("is finding", "who was finding us yesterday?"),
        ("has a train eat", "the train will leave without eating the soup."),
        ("contradicts itself", "the green cup was black"),
        ("contradicts itself", "the old queen was sick and young"),
        ("says the same twice", "although the tired girl is tired, it rains"),
        ("denies two qualities", "the water is not cold and good."),
        ("does it to the subject again", "the hero answers the hero"),
    ],
)
def test_the_detectors_of_nonsense_detect(fault: str, english: str) -> None:
    assert re.search(NONSENSE[fault], english)


def test_an_object_is_not_the_subject_again() -> None:
    assert apart(np("king"), np("king")).determiner == "this"
    assert apart(np("king", plural=True), np("king", plural=True)).determiner == "these"
    assert apart(np("king", "this"), np("king", "this")).determiner == "the"
    assert apart(np("mother", "my"), Couple(PAUL, np("mother", "my"))).determiner == "your"
    assert apart(np("king"), np("king", adjective="old")).determiner == "the"
    assert apart(np("king", "a"), np("king", "a")).determiner == "a"
    assert PAUL not in other_names(PAUL)
    assert not {PAUL, MARIE} & set(other_names(Couple(MARIE, PAUL)))
    assert len(other_names(SHE)) == len(x.PEOPLE)


def test_a_quality_is_new_and_no_contradiction() -> None:
    assert fits(A["tired"], np("king", adjective="old"))
    assert not fits(A["old"], np("king", adjective="old"))
    assert not fits(A["young"], np("king", adjective="old"))
    assert not fits(A["blue"], np("boat", adjective="old red"))
    assert fits(A["sad"], SHE)


def test_one_english_sentence_has_one_translation(corpus: dict[str, list[Pair]]) -> None:
    french: dict[str, str] = {}
    pairs = [pair for part in corpus.values() for pair in part]
    assert len(pairs) > 36_000
    for pair in pairs:
        assert french.setdefault(pair.source, pair.target) == pair.target


def test_every_word_is_linked_and_no_link_leads_nowhere(swept: list[Pair]) -> None:
    for pair in swept:
        assert pair.alignment is not None
        source, target = pair.source.split(), pair.target.split()
        assert {i for i, _ in pair.alignment.possible} == set(range(len(source))), pair
        assert {j for _, j in pair.alignment.possible} == set(range(len(target))), pair


def test_sure_links_of_numbers_and_names_join_like_with_like(swept: list[Pair]) -> None:
    copied = {name.en for name in x.PEOPLE} | {str(day) for day in range(2, 29)}
    for pair in swept:
        assert pair.alignment is not None
        source, target = pair.source.split(), pair.target.split()
        for i, j in pair.alignment.sure:
            word = source[i].rstrip(".,?").removesuffix("'s")
            if word in copied:
                assert word in target[j] or target[j] in ("de", "du"), pair


def test_marks_are_the_same_on_both_sides(swept: list[Pair]) -> None:
    for pair in swept:
        assert pair.source.endswith(".") == pair.target.endswith("."), pair
        assert pair.source.endswith("?") == pair.target.endswith(" ?"), pair
        assert pair.source.count(",") == pair.target.count(","), pair


def test_a_pair_depends_on_its_place_alone(corpus: dict[str, list[Pair]]) -> None:
    assert list(generate("train", 20, start=30)) == corpus["train"][30:50]
    assert list(generate("valid", 5)) == corpus["valid"][:5]
    assert list(generate("train", 20, seed=1)) != list(generate("train", 20, seed=2))


def test_training_never_holds_a_reserved_combination(train: list[Pair]) -> None:
    """Read off the text, not off the trees that made it."""
    reserved = {f"{a.en} {noun}" for n in x.NOUNS for a in FITTING[n].reserved for noun in (n.en, n.en_plural)}
    for verb, nouns in OBJECTS.items():
        forms = {verb.en, verb.third, verb.past, verb.perfect, verb.ing}
        for noun in nouns.reserved:
            reserved |= {f"{f} {verb.particle}".strip() + f" {d} {noun.en}" for f in forms for d in ("the", "a", "my")}
    found = re.compile(r"\b(" + "|".join(sorted(reserved)) + r")\b(?!')")
    assert "red dress" in reserved
    assert [pair.source for pair in train[:SWEPT] if found.search(pair.source)][:3] == []


def test_a_tenth_is_reserved() -> None:
    for table in (FITTING, OBJECTS):
        free = sum(len(options.free) for options in table.values())
        reserved = sum(len(options.reserved) for options in table.values())
        assert 0.07 < reserved / (free + reserved) < 0.14


def test_combinations_are_found_wherever_they_stand() -> None:
    dress = whose(np("dress", adjective="red"), "that", says(SHE, vp("wash"), Tense.PAST), True)
    tree = Clause(PAUL, [vp("buy", dress), vp("give", IT_F, I)], Tense.PAST)
    assert set(combinations_in(tree)) == {("red", "dress"), ("wash", "dress"), ("buy", "dress"), ("give", "dress")}
    assert set(combinations_in(says(np("door"), be("open")))) == {("open", "door")}
    assert is_reserved("red", "dress")


def test_the_splits_share_nothing(train: list[Pair], heldout: dict[str, list[Pair]]) -> None:
    said = {split: {pair.source.rstrip(".") for pair in pairs} for split, pairs in heldout.items()}
    said["train"] = {pair.source.rstrip(".") for pair in train}
    assert not said["valid"] & said["test"]
    assert not said["train"] & (said["valid"] | said["test"])


def test_every_held_out_word_occurs_in_training(corpus: dict[str, list[Pair]]) -> None:
    """A rare French inflection ("nous nous arrêterons") may wait for more pairs than these, but hardly any do."""

    def english(part: str) -> list[str]:
        return [word.removesuffix("'s") for pair in corpus[part] for word in re.split(r"[ .,?]+", pair.source)]

    def french(part: str) -> list[str]:
        return [word for pair in corpus[part] for word in re.split(r"[ .,?']+", pair.target)]

    assert set(english("valid") + english("test")) - set(english("train")) == set()
    known = set(french("train") + french("more"))
    said = french("valid") + french("test")
    assert sum(word not in known for word in said) < len(said) / 5_000


def test_most_sentences_are_short_and_some_are_long(train: list[Pair]) -> None:
    lengths = [len(pair.source.split()) for pair in train]
    assert 9 < sum(lengths) / len(lengths) < 11
    assert 0.04 < sum(length > 25 for length in lengths) / len(lengths) < 0.07
    assert 0.015 < sum(length > 35 for length in lengths) / len(lengths) < 0.035
    assert min(lengths) == 2
    assert max(lengths) >= 60


def test_length_control_spreads_over_its_range(corpus: dict[str, list[Pair]]) -> None:
    lengths = [len(pair.source.split()) for pair in corpus["spread"]]
    assert min(lengths) >= 5
    assert max(lengths) <= 44
    quarters = [sum(low <= length < low + 10 for length in lengths) for low in (5, 15, 25, 35)]
    assert all(25 < quarter < 75 for quarter in quarters)


def test_length_control_is_held_out_and_repeatable(train: list[Pair]) -> None:
    pairs = list(length_controlled(3, 6, 8))
    assert pairs == list(length_controlled(3, 6, 8))
    assert not {pair.source.rstrip(".") for pair in pairs} & {pair.source.rstrip(".") for pair in train}


def test_the_demo_is_new_to_every_model() -> None:
    assert all(holds_reserved(tree) for tree in demo_trees())
    sentences = demo_sentences()
    assert sentences[0] == "the red dress"
    assert any(len(sentence.split()) > 40 for sentence in sentences)
    assert demo_pairs()[1].target == "il a acheté la robe rouge et la lui a donnée hier"


def test_conjugates() -> None:
    eat, buy, send = V["eat"].fr, V["buy"].fr, V["send"].fr
    assert eat.imperfect == ("mangeais", "mangeait", "mangions", "mangiez", "mangeaient")
    assert eat.present[2] == "mangeons"
    assert buy.present == ("achète", "achète", "achetons", "achetez", "achètent")
    assert buy.future[1] == "achètera"
    assert send.present == ("envoie", "envoie", "envoyons", "envoyez", "envoient")
    assert send.future[4] == "enverront"
    assert v.HOPE.fr.future[0] == "espérerai"
    assert v.ÊTRE.imperfect[2] == "étions"


@pytest.mark.parametrize(
    ("number", "masculine", "feminine"),
    [
        (1, "un", "une"),
        (17, "dix-sept", "dix-sept"),
        (21, "vingt et un", "vingt et une"),
        (61, "soixante et un", "soixante et une"),
        (70, "soixante-dix", "soixante-dix"),
        (71, "soixante et onze", "soixante et onze"),
        (77, "soixante-dix-sept", "soixante-dix-sept"),
        (80, "quatre-vingts", "quatre-vingts"),
        (81, "quatre-vingt-un", "quatre-vingt-une"),
        (91, "quatre-vingt-onze", "quatre-vingt-onze"),
        (99, "quatre-vingt-dix-neuf", "quatre-vingt-dix-neuf"),
    ],
)
def test_counts(number: int, masculine: str, feminine: str) -> None:
    assert (x.french_number(number), x.french_number(number, True)) == (masculine, feminine)


def test_agreement_of_you_is_singular() -> None:
    assert not Agreement(3, False).plural


def test_says_what_is_allowed() -> None:
    with pytest.raises(DataError) as unknown:
        generate("trian", 1)
    assert str(unknown.value) == (
        "No split named 'trian' in phrasebook. Did you mean 'train'? It has train, valid, test."
    )
    with pytest.raises(DataError) as negative:
        generate("train", -1)
    assert str(negative.value) == "phrasebook: size is -1, but must be 0 or more."
    with pytest.raises(DataError) as lengths:
        length_controlled(9, 4, 1)
    assert str(lengths.value) == (
        f"phrasebook cannot make sentences of 9 to 4 words: give 3 <= shortest <= longest <= {LONGEST}."
    )
