"""Verbs: their English forms, and all the French forms the grammar uses, conjugated here."""

from dataclasses import dataclass, field

PERSONS = 5
"""je, il or elle, nous, vous, ils or elles; "you" is always "vous", said to one person (see the package docstring)."""

_IMPERFECT = ("ais", "ait", "ions", "iez", "aient")
_FUTURE = ("ai", "a", "ons", "ez", "ont")


@dataclass(frozen=True, slots=True, eq=False)
class FrenchVerb:
    """A conjugated verb; each tense is a tuple of the five persons. `être` names the auxiliary."""

    infinitive: str
    present: tuple[str, ...]
    imperfect: tuple[str, ...]
    future: tuple[str, ...]
    conditional: tuple[str, ...]
    subjunctive: tuple[str, ...]
    participle: str
    être: bool
    reflexive: bool


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb of both languages.

    `subjects` and `objects` are tags of nouns. `stative`: the English simple past is the French imperfect, and there
    are no progressive forms. `punctual`: no progressive forms. `dative`: what English says as a direct object
    or with "to" is "à" in French. `gives`: takes a second object with "to". `place`: a place may follow.
    `articles` limits the determiners of the object to "definite" or "indefinite" ones.
    """

    en: str
    third: str
    past: str
    perfect: str
    ing: str
    particle: str
    fr: FrenchVerb
    subjects: frozenset[str] = frozenset({"person"})
    objects: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    articles: str = "any"
    stative: bool = field(init=False)
    punctual: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stative", "stative" in self.flags)
        object.__setattr__(self, "punctual", "punctual" in self.flags)


def conjugate(
    infinitive: str,
    present: str = "",
    future: str = "",
    participle: str = "",
    strong: str = "",
    stem: str = "",
    subjunctive: str = "",
    être: bool = False,
    reflexive: bool = False,
) -> FrenchVerb:
    """Conjugate. `strong` is the stem of je, il, ils in -er verbs (achèt-); `stem` that of the imperfect if unusual."""
    if infinitive.endswith("er") and not present:
        weak = infinitive[:-2]
        strong_stem = strong or weak
        soft = weak + "e" if weak.endswith("g") else weak
        forms = (strong_stem + "e", strong_stem + "e", soft + "ons", weak + "ez", strong_stem + "ent")
        # espérer keeps é in the future; acheter, appeler, lever take their strong stem there.
        future = future or (strong_stem if not strong.endswith("èr") else weak) + "er"
        participle = participle or weak + "é"
    elif infinitive.endswith("re") and not present:
        weak = infinitive[:-2]
        forms = (weak + "s", weak, weak + "ons", weak + "ez", weak + "ent")
        future, participle = weak + "r", weak + "u"
    else:
        forms = tuple(present.split())  # type: ignore[assignment]
    past = stem or forms[2].removesuffix("ons")
    plain = past[:-1] if past.endswith("ge") else past
    return FrenchVerb(
        infinitive,
        forms,
        tuple((plain if ending.startswith("i") else past) + ending for ending in _IMPERFECT),
        tuple(future + ending for ending in _FUTURE),
        tuple(future + ending for ending in _IMPERFECT),
        tuple(subjunctive.split()),
        participle,
        être or reflexive,
        reflexive,
    )


def _verb(
    english: str,
    french: FrenchVerb,
    objects: str = "",
    flags: str = "",
    subjects: str = "person",
    articles: str = "any",
) -> Verb:
    """Read `base third past perfect ing [particle]`."""
    base, third, past, perfect, ing, *particle = english.split()
    return Verb(
        base,
        third,
        past,
        perfect,
        ing,
        " ".join(particle),
        french,
        frozenset(subjects.split()),
        frozenset(objects.split()),
        frozenset(flags.split()),
        articles,
    )


C = conjugate
ÊTRE = C("être", "suis est sommes êtes sont", "ser", "été", stem="ét", subjunctive="sois soit soyons soyez soient")
AVOIR = C("avoir", "ai a avons avez ont", "aur", "eu")
ALLER = C("aller", "vais va allons allez vont", "ir", "allé", être=True)
FAIRE = C("faire", "fais fait faisons faites font", "fer", "fait")
VOULOIR = C("vouloir", "veux veut voulons voulez veulent", "voudr", "voulu")

BE = _verb("be is was been being", ÊTRE, flags="stative be")
FEEL = _verb("be is was been being", FAIRE, flags="stative be")  # the weather: "it is cold", "il fait froid"
RAIN = _verb(
    "rain rains rained rained raining", C("pleuvoir", "- pleut pleuvons - pleuvent", "pleuvr", "plu", stem="pleuv")
)
SNOW = _verb("snow snows snowed snowed snowing", C("neiger"))

GOING = _verb("go goes went gone going", ALLER, flags="to")
WANT_TO = _verb("want wants wanted wanted wanting", VOULOIR, flags="stative to")
CAN = _verb(
    "can can could could can", C("pouvoir", "peux peut pouvons pouvez peuvent", "pourr", "pu"), flags="stative modal"
)
MUST = _verb(
    "must must must must must", C("devoir", "dois doit devons devez doivent", "devr", "dû"), flags="stative modal"
)

SAY = _verb("say says said said saying", C("dire", "dis dit disons dites disent", "dir", "dit"), flags="punctual")
THINK = _verb("think thinks thought thought thinking", C("penser"), flags="stative")
KNOW_THAT = _verb(
    "know knows knew known knowing", C("savoir", "sais sait savons savez savent", "saur", "su"), flags="stative"
)
HOPE = _verb("hope hopes hoped hoped hoping", C("espérer", strong="espèr"), flags="stative")

_THINGS = "portable food vehicle animal"
TRANSITIVE = (
    _verb(
        "see sees saw seen seeing",
        C("voir", "vois voit voyons voyez voient", "verr", "vu"),
        "person animal portable vehicle train furniture place",
        "punctual place",
        "person animal",
    ),
    _verb(
        "love loves loved loved loving",
        C("aimer"),
        "person animal clothes text flower place food mass vehicle",
        "stative",
        articles="definite",
    ),
    _verb(
        "know knows knew known knowing",
        C("connaître", "connais connaît connaissons connaissez connaissent", "connaîtr", "connu"),
        "person place",
        "stative",
        articles="definite",
    ),
    _verb("have has had had having", AVOIR, "animal portable vehicle food mass", "stative", articles="indefinite"),
    _verb("want wants wanted wanted wanting", VOULOIR, "portable food mass vehicle animal", "stative"),
    _verb("eat eats ate eaten eating", C("manger"), "food eaten", "place with", "person"),
    _verb(
        "drink drinks drank drunk drinking",
        C("boire", "bois boit buvons buvez boivent", "boir", "bu"),
        "drunk",
        "place with",
    ),
    _verb(
        "buy buys bought bought buying", C("acheter", strong="achèt"), f"{_THINGS} furniture mass house castle", "place"
    ),
    _verb("sell sells sold sold selling", C("vendre"), f"{_THINGS} furniture mass house castle hotel", ""),
    _verb("find finds found found finding", C("trouver"), "person animal portable vehicle", "punctual place"),
    _verb("lose loses lost lost losing", C("perdre"), "portable dog cat", "punctual place"),
    _verb(
        "open opens opened opened opening",
        C("ouvrir", "ouvre ouvre ouvrons ouvrez ouvrent", "ouvrir", "ouvert"),
        "opening letter",
        "",
    ),
    _verb("close closes closed closed closing", C("fermer"), "opening book", ""),
    _verb("wash washes washed washed washing", C("laver"), "washable dog horse apple", "place"),
    _verb("wear wears wore worn wearing", C("porter"), "clothes", "place"),
    _verb(
        "write writes wrote written writing",
        C("écrire", "écris écrit écrivons écrivez écrivent", "écrir", "écrit"),
        "book letter",
        "place",
    ),
    _verb(
        "look looks looked looked looking for", C("chercher"), "person animal portable vehicle hotel station", "place"
    ),
    _verb("wait waits waited waited waiting for", C("attendre"), "person train boat letter", "place"),
    _verb("help helps helped helped helping", C("aider"), "person animal", "place"),
    _verb("call calls called called calling", C("appeler", strong="appell"), "person dog cat", ""),
    _verb("repair repairs repaired repaired repairing", C("réparer"), "fixable", "place"),
    _verb("break breaks broke broken breaking", C("casser"), "breakable", "punctual place"),
    _verb(
        "take takes took taken taking",
        C("prendre", "prends prend prenons prenez prennent", "prendr", "pris"),
        "portable train food",
        "",
    ),
    _verb("visit visits visited visited visiting", C("visiter"), "visit", "with"),
    _verb("give gives gave given giving", C("donner"), "portable food animal vehicle", "gives", articles="any"),
    _verb("show shows showed shown showing", C("montrer"), "portable animal vehicle house room garden", "gives"),
    _verb(
        "send sends sent sent sending",
        C("envoyer", strong="envoi", future="enverr"),
        "text clothes flower box",
        "gives",
    ),
)
DATIVE = (
    _verb("answer answers answered answered answering", C("répondre"), "person", "dative"),
    _verb("talk talks talked talked talking to", C("parler"), "person", "dative place"),
)
INTRANSITIVE = (
    _verb(
        "sleep sleeps slept slept sleeping",
        C("dormir", "dors dort dormons dormez dorment", "dormir", "dormi"),
        flags="place",
        subjects="person animal",
    ),
    _verb("work works worked worked working", C("travailler"), flags="place with"),
    _verb("sing sings sang sung singing", C("chanter"), flags="place with", subjects="person bird"),
    _verb("dance dances danced danced dancing", C("danser"), flags="place with"),
    _verb(
        "run runs ran run running",
        C("courir", "cours court courons courez courent", "courr", "couru"),
        flags="place",
        subjects="person dog cat horse mouse",
    ),
    _verb("swim swims swam swum swimming", C("nager"), flags="swim with"),
    _verb(
        "arrive arrives arrived arrived arriving",
        C("arriver", être=True),
        flags="punctual at",
        subjects="person train boat",
    ),
    _verb(
        "leave leaves left left leaving",
        C("partir", "pars part partons partez partent", "partir", "parti", être=True),
        flags="punctual with",
        subjects="person train boat",
    ),
    _verb("fall falls fell fallen falling", C("tomber", être=True), flags="punctual place", subjects="person cup book"),
    _verb("get gets got gotten getting up", C("lever", strong="lèv", reflexive=True), flags="punctual"),
    _verb(
        "stop stops stopped stopped stopping",
        C("arrêter", reflexive=True),
        flags="punctual place",
        subjects="person car train",
    ),
)
LIVE = _verb("live lives lived lived living", C("habiter"), flags="stative")
STAY = _verb("stay stays stayed stayed staying", C("rester", être=True))
GO = _verb("go goes went gone going", ALLER, flags="to-place")
COME = _verb(
    "come comes came come coming",
    C("venir", "viens vient venons venez viennent", "viendr", "venu", être=True),
    flags="from-place",
)


def named(names: str) -> tuple[Verb, ...]:
    """Return the transitive verbs of these English names."""
    verbs = {verb.en: verb for verb in TRANSITIVE}
    return tuple(verbs[name] for name in names.split())
