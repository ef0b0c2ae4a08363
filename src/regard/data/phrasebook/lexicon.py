"""Nouns, adjectives, names, numbers and fixed expressions, each with its French."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun; `tags` say what it is and hence which verbs, adjectives and prepositions it goes with."""

    en: str
    en_plural: str
    fr: str
    fr_plural: str
    feminine: bool
    tags: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; `forms` are masculine, feminine and their plurals; `liaison` stands before a vowel (bel, vieil).

    `before` says that it precedes the French noun; `predicate` that it may follow "is"; `nouns` what it describes.
    """

    en: str
    forms: tuple[str, str, str, str]
    before: bool
    liaison: str
    predicate: bool
    nouns: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A proper name, of a person or of a city."""

    en: str
    fr: str
    feminine: bool


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """An expression that is translated as a whole: its words, and links `(i, j)` between them."""

    en: tuple[str, ...]
    fr: tuple[str, ...]
    sure: tuple[tuple[int, int], ...]
    possible: tuple[tuple[int, int], ...] = ()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _french_plural(singular: str) -> str:
    if singular.endswith(("s", "x")):
        return singular
    if singular.endswith("al"):
        return singular[:-1] + "ux"
    return singular + ("x" if singular.endswith("eau") else "s")


_NOUNS = """
man/men homme m person plain | woman/women femme f person plain | boy garçon m person plain
girl fille f person plain | child/children enfant m person plain
mother mère f person kin family single | father père m person kin family single
brother frère m person kin family | sister sœur f person kin family
friend ami m person kin | neighbor voisin m person kin
teacher professeur m person job | doctor médecin m person job
king roi m person royal | queen reine f person royal | hero/heroes héros m person royal
dog chien m animal | cat chat m animal | horse cheval m animal | bird oiseau m animal
mouse/mice souris f animal
dress/dresses robe f clothes portable washable | hat chapeau m clothes portable
shirt chemise f clothes portable washable
shoe chaussure f clothes portable
book livre m portable text | letter lettre f portable text | newspaper journal m portable text
key clé f portable | bag sac m portable opening
clock horloge f portable breakable fixable | box/boxes boîte f portable opening
cup tasse f portable breakable washable
flower fleur f portable plant
table table f furniture on fixable | chair chaise f furniture breakable fixable on | bed lit m furniture on
door porte f part opening fixable | window fenêtre f part opening washable breakable | tree arbre m plant
car voiture f vehicle fixable washable | bicycle vélo m vehicle fixable
boat bateau m vehicle fixable | train train m rail
apple pomme f food | orange orange f food | egg œuf m food | cake gâteau m food | bean haricot m food
bread pain m mass eaten | cheese fromage m mass eaten | soup soupe f mass eaten
water eau f mass drunk | milk lait m mass drunk | wine vin m mass drunk
house maison f place inside visit | room chambre f place inside | kitchen cuisine f place inside
garden jardin m place inside visit | school école f place at | church/churches église f place inside visit
hotel hôtel m place inside at | street rue f place inside | station gare f place at
bridge pont m place on | river rivière f place water
island île f place on visit | museum musée m place at inside visit
castle château m place inside visit | village village m place inside visit | city/cities ville f place inside visit
beach/beaches plage f place on at | hospital hôpital m place at visit | market marché m place at
"""


def _nouns() -> tuple[Noun, ...]:
    nouns = []
    for entry in _NOUNS.replace("\n", "|").split("|"):
        if entry.strip():
            english, french, gender, *tags = entry.split()
            singular, _, plural = english.partition("/")
            nouns.append(
                Noun(
                    singular,
                    plural or singular + "s",
                    french,
                    _french_plural(french),
                    gender == "f",
                    frozenset([*tags, singular]),
                )
            )
    return tuple(nouns)


NOUNS = _nouns()

_THINGS = "clothes portable furniture part vehicle"
_BEFORE = f"""
big grand:grande:grands:grandes = dog horse bird bag box table bed door window tree car boat house room kitchen garden \
school church hotel station bridge river island museum castle city beach hospital market
small petit:petite:petits:petites = boy girl child animal {_THINGS} apple cake tree place
old vieux:vieille:vieux:vieilles:vieil = man woman king queen friend neighbor teacher doctor dog cat horse clothes \
book letter newspaper key bag clock box cup furniture part vehicle tree house school church hotel bridge castle \
village city street station
young jeune:jeune:jeunes:jeunes = man woman girl king queen teacher doctor
beautiful beau:belle:beaux:belles:bel = woman girl child queen horse bird clothes flower tree letter boat house room \
garden church hotel island castle village city beach bridge
new nouveau:nouvelle:nouveaux:nouvelles:nouvel = friend neighbor teacher doctor king clothes book bag clock key \
vehicle furniture house school hotel museum hospital bridge
good bon:bonne:bons:bonnes = friend teacher doctor book apple orange cake mass hotel
bad mauvais:mauvaise:mauvais:mauvaises = teacher doctor book cake egg wine soup cheese hotel
long long:longue:longs:longues = dress letter street river bridge train table
first premier:première:premiers:premières = book letter dress car train king queen house cake
last dernier:dernière:derniers:dernières = book letter train king queen apple egg house boat man woman
"""
_AFTER = """
red rouge:rouge:rouges:rouges = clothes bag box cup book flower door chair vehicle apple house
blue bleu:bleue:bleus:bleues = clothes bag box cup book flower door chair vehicle bird
green vert:verte:verts:vertes = clothes bag box cup book door chair vehicle bird apple tree
white blanc:blanche:blancs:blanches = clothes bag cup flower door chair table vehicle animal house egg
black noir:noire:noirs:noires = clothes bag cup dog cat horse bird mouse vehicle door
yellow jaune:jaune:jaunes:jaunes = clothes bag box cup flower bird vehicle apple house
round rond:ronde:ronds:rondes = table box window clock hat bag cake
clean propre:propre:propres:propres = clothes cup table window car house room kitchen street hotel beach water
dirty sale:sale:sales:sales = clothes cup table window car house room kitchen street beach water dog bag
empty vide:vide:vides:vides = bag box cup house room street church beach train bed
open ouvert:ouverte:ouverts:ouvertes = door window box bag museum church school hotel market
closed fermé:fermée:fermés:fermées = door window box museum church school hotel market station
expensive cher:chère:chers:chères = clothes bag clock vehicle hotel wine cheese book
famous célèbre:célèbre:célèbres:célèbres = man woman teacher doctor king queen hero book museum church castle bridge \
hotel
happy heureux:heureuse:heureux:heureuses = person
sad triste:triste:tristes:tristes = person
tired fatigué:fatiguée:fatigués:fatiguées = person dog horse
sick malade:malade:malades:malades = person dog cat horse bird
kind gentil:gentille:gentils:gentilles = man woman boy girl child friend neighbor teacher doctor queen dog
dangerous dangereux:dangereuse:dangereux:dangereuses = dog horse street river bridge city
interesting intéressant:intéressante:intéressants:intéressantes = book letter newspaper museum city village castle
quiet tranquille:tranquille:tranquilles:tranquilles = street village garden hotel room beach island river church
hot chaud:chaude:chauds:chaudes = water milk soup bread cake
cold froid:froide:froids:froides = water milk soup room house kitchen church river
fresh frais:fraîche:frais:fraîches = bread milk cheese egg orange water
broken cassé:cassée:cassés:cassées = breakable
"""

COLORS = frozenset(["red", "blue", "green", "white", "black", "yellow"])
ORDINAL = frozenset({"first", "last"})
_NEVER_PREDICATE = ORDINAL | {"new"}  # "la robe est nouvelle" would rather be "neuve"


def _adjectives(table: str, before: bool) -> tuple[Adjective, ...]:
    adjectives = []
    for line in table.strip().splitlines():
        head, nouns = line.split(" = ")
        english, french = head.split()
        forms = french.split(":")
        adjectives.append(
            Adjective(
                english,
                (forms[0], forms[1], forms[2], forms[3]),
                before,
                forms[4] if len(forms) > 4 else forms[0],
                english not in _NEVER_PREDICATE,
                frozenset(nouns.split()),
            )
        )
    return tuple(adjectives)


ADJECTIVES = _adjectives(_BEFORE, True) + _adjectives(_AFTER, False)

PEOPLE = tuple(Name(n, n, True) for n in ("Marie", "Alice", "Anne", "Claire", "Julie")) + tuple(
    Name(n, n, False) for n in ("Paul", "Louis", "Marc", "Antoine", "Pierre")
)
CITIES = (Name("Paris", "Paris", False), Name("London", "Londres", False), Name("Rome", "Rome", False))

_UNITS = _words(
    "zero one two three four five six seven eight nine "
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_UNITÉS = _words(
    "zéro un deux trois quatre cinq six sept huit neuf "
    "dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf"
)
_DIZAINES = {2: "vingt", 3: "trente", 4: "quarante", 5: "cinquante", 6: "soixante", 8: "quatre-vingt"}


def english_number(n: int) -> str:
    """Write 1 to 99 in English: "twenty-one"."""
    if n < 20:
        return _UNITS[n]
    return _TENS[n // 10 - 2] + (f"-{_UNITS[n % 10]}" if n % 10 else "")


def french_number(n: int, feminine: bool = False) -> str:
    """Write 1 to 99 in French, traditional spelling: "vingt et une", "quatre-vingts", "soixante et onze"."""
    if n < 20:
        return "une" if feminine and n == 1 else _UNITÉS[n]
    if n == 80:
        return "quatre-vingts"
    tens = n // 10 if n // 10 not in (7, 9) else n // 10 - 1
    rest = n - 10 * tens
    if not rest:
        return _DIZAINES[tens]
    unit = "une" if feminine and rest == 1 else _UNITÉS[rest]
    return f"{_DIZAINES[tens]} et {unit}" if rest in (1, 11) and tens != 8 else f"{_DIZAINES[tens]}-{unit}"


MONTHS = tuple(
    zip(
        _words("January February March April May June July August September October November December"),
        _words("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
        strict=True,
    )
)
ORDINALS = _words("first second third fourth fifth sixth seventh eighth ninth tenth")
DAYS = tuple(
    zip(
        _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        _words("lundi mardi mercredi jeudi vendredi samedi dimanche"),
        strict=True,
    )
)


def fixed(english: str, french: str, links: str) -> Fixed:
    """Read an expression whose links are written as alignments are: `0-1` sure, `0p1` possible."""
    sure: list[tuple[int, int]] = []
    possible: list[tuple[int, int]] = []
    for link in links.split():
        i, mark, j = link.partition("-" if "-" in link else "p")
        (sure if mark == "-" else possible).append((int(i), int(j)))
    return Fixed(tuple(english.split()), tuple(french.split()), tuple(sure), tuple(possible))


YESTERDAY = fixed("yesterday", "hier", "0-0")
LAST_WEEK = fixed("last week", "la semaine dernière", "0-2 1-1 1p0")
LAST_YEAR = fixed("last year", "l'année dernière", "0-1 1-0")
TOMORROW = fixed("tomorrow", "demain", "0-0")
NEXT_WEEK = fixed("next week", "la semaine prochaine", "0-2 1-1 1p0")
NEXT_YEAR = fixed("next year", "l'année prochaine", "0-1 1-0")
TODAY = fixed("today", "aujourd'hui", "0-0")
NOW = fixed("now", "maintenant", "0-0")
EVERY_DAY = fixed("every day", "tous les jours", "0-0 0p1 1-2")
MORNING = fixed("in the morning", "le matin", "0p0 1-0 2-1")
EVENING = fixed("in the evening", "le soir", "0p0 1-0 2-1")
THIS_EVENING = fixed("this evening", "ce soir", "0-0 1-1")
OFTEN = fixed("often", "souvent", "0-0")
ALWAYS = fixed("always", "toujours", "0-0")
SOMETIMES = fixed("sometimes", "parfois", "0-0")
ALREADY = fixed("already", "déjà", "0-0")
ON_DAY = tuple(fixed(f"on {en}", fr, "0p0 1-0") for en, fr in DAYS)
IN_MONTH = tuple(fixed(f"in {en}", f"en {fr}", "0-0 1-1") for en, fr in MONTHS)
AT_HOUR = (
    *(
        fixed(f"at {english_number(n)} o'clock", f"à {french_number(n, True)} heure{'s' * (n > 1)}", "0-0 1-1 2-2")
        for n in range(1, 12)
    ),
    fixed("at noon", "à midi", "0-0 1-1"),
    fixed("at midnight", "à minuit", "0-0 1-1"),
)


def date_in_words(day: int, month: int) -> Fixed:
    """Say "on the third of May", days 1 to 10; French counts with cardinals except for the first."""
    number = "premier" if day == 1 else french_number(day)
    english, french = MONTHS[month]
    return fixed(f"on the {ORDINALS[day - 1]} of {english}", f"le {number} {french}", "0p0 1-0 2-1 3p2 4-2")


def date_in_digits(day: int, month: int) -> Fixed:
    """Say "on May 3": in French the day comes first."""
    english, french = MONTHS[month]
    return fixed(f"on {english} {day}", f"le {'1er' if day == 1 else day} {french}", "0p0 1-2 2-1")
