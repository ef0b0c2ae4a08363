"""The request of a comparison: variants of a model, and the conditions that are the same for all of them."""

import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from regard.config import Config, DataConfig
from regard.config_io import assign, override, read_toml
from regard.data.configured_corpora import entries_of
from regard.data.corpus import Corpus, open_corpus
from regard.data.line_files import STDIN
from regard.data.pair import Pair
from regard.data.pictures import EMBEDDED, Pictures, are_pictures, held_out, needed_by, open_pictures
from regard.data.special_tokens import tag_mark
from regard.data.tagged_corpora import check_known, embedded, open_tagged, own_part, parse_entry
from regard.errors import ConfigError, DataError, did_you_mean
from regard.presets.vision import any_preset
from regard.training.setting_checks import check_links
from regard.training.time_budget import FOREVER

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
VALIDATIONS = 10
"""The number of validations in a budget of steps, if `training.validate_every` is not set."""
MOST_SENTENCES = 50
"""The maximum number of example sentences."""
HANDFUL = 4
SHOWN_WORDS = 20
"""Test sentences with more words are not chosen as examples."""

K = TypeVar("K")


@dataclass(frozen=True)
class Variant:
    """One of the models to compare: its name and all its settings, including data and budget."""

    name: str
    config: Config


@dataclass(frozen=True)
class Terms:
    """The conditions that are the same for all variants."""

    test: tuple[str, ...] = ()
    """The test corpus, in any form; empty for the default of `find_test`."""
    seeds: tuple[int, ...] = ()
    """Train each variant once per seed; empty for the one seed in its settings."""
    minutes: float = 0.0
    """Training time per run, instead of the steps and epochs in its settings; 0 for those."""
    baseline: str = ""
    """The variant that the others are compared with; empty for the first that is not a language model."""
    sentences: tuple[str, ...] = ()
    """Example sentences whose attention is shown; empty for a few of the test corpus."""
    test_tagged: tuple[str, ...] = ()
    """Test corpora, each as TAG=CORPUS, for variants whose training corpora have tags."""


@dataclass(frozen=True)
class Entry:
    """A variant as a user writes it."""

    name: str = ""
    """The variant's name; defaults to the preset's."""
    preset: str = ""
    config: str = ""
    """A config.toml, instead of a preset."""
    set: tuple[str, ...] = ()
    """Settings of this variant, as NAME=VALUE; they take precedence over those of all variants."""


@dataclass(frozen=True)
class Request:
    """A comparison as a user writes it, in a file or on the command line."""

    variant: tuple[Entry, ...] = ()
    data: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    set: tuple[str, ...] = ()
    """Settings of all variants, as NAME=VALUE."""
    steps: int = 0
    epochs: int = 0
    minutes: float = 0.0
    seeds: tuple[int, ...] = ()
    baseline: str = ""
    sentences: tuple[str, ...] = ()
    tagged: tuple[str, ...] = ()
    """Several corpora instead of `data`, each as TAG=CORPUS; likewise the next two."""
    valid_tagged: tuple[str, ...] = ()
    test_tagged: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()
    """Several corpora instead of `data`, each as CORPUS or CORPUS*WEIGHT."""


def read_request(path: Path) -> Request:
    """Read a comparison from a TOML file: the fields of `Request`, and a `[[variant]]` for each `Entry`."""
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    entries = values.pop("variant", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"{path}: variants are written as [[variant]], one for each.")
    try:
        variants = tuple(_parse(Entry, entry, f"variant {number}") for number, entry in enumerate(entries, start=1))
        return replace(_parse(Request, values, ""), variant=variants)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def resolve(request: Request) -> tuple[list[Variant], Terms]:
    """Resolve a request into full configurations: the preset, then data and budget, then individual settings."""
    if not request.variant:
        raise ConfigError("There is nothing to compare: give --presets, or --variants with a file that lists some.")
    _check_budget(request)
    variants = []
    for entry in request.variant:
        if entry.preset and entry.config:
            raise ConfigError(f"Variant {entry.name!r} has a preset and a config: each is a whole configuration.")
        if not entry.preset and not entry.config:
            raise ConfigError(f"Variant {entry.name!r} has neither a preset nor a config to start from.")
        name = entry.name or entry.preset or Path(entry.config).stem
        try:
            chosen = any_preset(entry.preset) if entry.preset else read_toml(Path(entry.config))
            chosen = _on_terms(chosen, request)
            variants.append(Variant(name, override(override(chosen, request.set), entry.set)))
        except ConfigError as error:
            raise ConfigError(f"Variant {name!r}: {error}") from None
    every = [variant.config.data for variant in variants]
    if not all(data.train or data.mixed or data.tagged for data in every):
        raise ConfigError(
            "There is nothing to train on: give --source and --target, or --data with a .tsv or .jsonl file, "
            "or an embedded name (regard list corpora)."
        )
    terms = Terms(
        request.test, request.seeds, request.minutes, request.baseline, request.sentences, request.test_tagged
    )
    check(variants, terms)
    return variants, terms


def check(variants: Sequence[Variant], terms: Terms) -> None:
    """Raise an error for variants or conditions that do not allow a comparison."""
    names = [variant.name for variant in variants]
    if not names:
        raise ConfigError("There is nothing to compare: give at least one variant.")
    for variant in variants:
        if STDIN in (*variant.config.data.train, *variant.config.data.valid, *terms.test):
            raise DataError("Standard input (-) can be read only once, and a comparison reads its corpora often.")
    check_links(*(variant.config for variant in variants))
    if len({variant.config.model.image is None for variant in variants}) > 1:
        raise ConfigError("Some variants read pictures and others texts: compare those that read the same.")
    for name in names:
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"The variant name {name!r} cannot be a folder name: use letters, digits and . _ + - (at most 64)."
            )
    # The names become folders, on a file system that may ignore case.
    if twice := [name for i, name in enumerate(names) if name.lower() in [n.lower() for n in names[:i]]]:
        raise ConfigError(f"There are two variants named {twice[0]!r}: give each its own name.")
    if terms.baseline and terms.baseline not in names:
        hint = did_you_mean(terms.baseline, names)
        raise ConfigError(f"The baseline {terms.baseline!r} is not among the variants ({', '.join(names)}).{hint}")
    if len(set(terms.seeds)) < len(terms.seeds):
        raise ConfigError(f"A seed is given twice: {', '.join(map(str, terms.seeds))}.")
    if not 0 <= terms.minutes < float("inf"):
        raise ConfigError(f"minutes is {terms.minutes}; it must be above 0, or 0 for no limit.")
    if len(terms.sentences) > MOST_SENTENCES:
        raise DataError(f"There are {len(terms.sentences):,} sentences to show; give at most {MOST_SENTENCES}.")
    if empty := [number for number, text in enumerate(terms.sentences, start=1) if not text.strip()]:
        raise DataError(f"Sentence {empty[0]} of those to show is empty: leave it out.")


@dataclass(frozen=True)
class ComparisonTest:
    """The test corpus of a comparison."""

    parts: tuple[str, ...]
    split: str
    """`test`, or `valid` if there is no test corpus."""
    tagged: bool = False
    """Whether the parts are several corpora with tags."""

    def open(self) -> Corpus:
        """Open the corpus. Embedded corpora use seed 1, whatever the training seed is."""
        return open_tagged(self.parts, self.split) if self.tagged else open_corpus(self.parts, self.split)

    def open_pictures(self, config: Config) -> Pictures:
        """Open the pictures in the form that a model of this configuration reads; scenes also use seed 1."""
        assert config.model.image is not None
        size, plain = max(config.model.image.size, 1), config.data.plain_captions
        needed = needed_by(config.model)
        return open_pictures(self.parts, self.split, pixels=size, plain=plain, needed=needed)


def find_test(variants: Sequence[Variant], terms: Terms) -> ComparisonTest:
    """Return the test corpus: the one given, an embedded corpus's test part, or the validation corpus."""
    data = [variant.config.data for variant in variants]
    if len({bool(one.tagged) for one in data}) > 1:
        raise DataError("Some variants are trained with tags (data.tagged), others without: compare only one kind.")
    if data[0].tagged:
        return _find_tagged(data, terms)
    if terms.test_tagged:
        raise DataError("--test-tagged has tags, but the training corpus has none: give --test instead.")
    if terms.test:
        return ComparisonTest(terms.test, "test")
    if len({(one.train, one.mixed) for one in data}) > 1:
        raise DataError("The variants are not trained on the same data: give a --test corpus to score all of them on.")
    embedded_ones = {own_part(entry.parts) for entry in entries_of(data[0])}
    if len(embedded_ones) == 1 and (name := embedded_ones.pop()):
        return ComparisonTest(name, "test")
    if len(data[0].train) == 1 and data[0].train[0].partition(":")[0] == EMBEDDED:
        return ComparisonTest((EMBEDDED,), "test")
    if are_pictures(data[0].train) and (own := held_out(data[0].train)):
        return ComparisonTest(own, "test")
    if data[0].valid and len({one.valid for one in data}) == 1:
        return ComparisonTest(data[0].valid, "valid")
    raise DataError("There is nothing to score on: give --test, or --test-source and --test-target.")


def _find_tagged(data: Sequence[DataConfig], terms: Terms) -> ComparisonTest:
    """Return the tagged test corpora, by the same rules."""
    if terms.test:
        raise DataError("The test corpus has no tags, but data.tagged has: give --test-tagged instead.")
    trained = [entry for one in data for entry in one.tagged]
    check_known(terms.test_tagged, trained, "--test-tagged")
    marks = [tag_mark(tag) for tag in dict.fromkeys(parse_entry(entry).tag for entry in trained)]
    for number, text in enumerate(terms.sentences, start=1):
        if text.split(maxsplit=1)[0] not in marks:
            raise DataError(f"Sentence {number} of those to show has no tag: begin it with {' or '.join(marks)}.")
    if terms.test_tagged:
        return ComparisonTest(terms.test_tagged, "test", tagged=True)
    if len({one.tagged for one in data}) > 1:
        raise DataError("The variants are not trained on the same data: give --test-tagged to score all of them on.")
    if len(own := embedded(data[0].tagged)) == len(data[0].tagged):
        return ComparisonTest(own, "test", tagged=True)
    if data[0].valid_tagged and len({one.valid_tagged for one in data}) == 1:
        return ComparisonTest(data[0].valid_tagged, "valid", tagged=True)
    raise DataError("There is nothing to score on: give --test-tagged.")


def choose_sentences(pairs: Iterable[Pair], count: int = HANDFUL) -> tuple[str, ...]:
    """Choose example sentences from the test corpus: of different lengths, none too long to display."""
    every = list(dict.fromkeys(pair.source for pair in pairs if pair.source.strip()))
    short = [text for text in every if len(text.split()) <= SHOWN_WORDS] or every
    ranked = sorted(short, key=lambda text: (len(text.split()), len(text)))
    # The middle of each of `count` equal parts of the ranking: neither the shortest nor the longest.
    places = [] if not ranked else [int(len(ranked) * (number + 0.5) / count) for number in range(count)]
    return tuple(dict.fromkeys(ranked[place] for place in places))


def choose_pictures(pictures: Pictures, count: int = HANDFUL) -> tuple[str, ...]:
    """Choose example pictures spread over the test corpus, as numbers; only those that can be displayed."""
    # Alternate even and odd numbers: every other scene has held-out combinations.
    every = range(len(pictures))
    visible = every if "image" in pictures.has else [index for index in every if pictures.shown(index) is not None]
    places = [min(len(visible) * number // count + number % 2, len(visible) - 1) for number in range(count)]
    return tuple(dict.fromkeys(str(visible[place]) for place in places)) if visible else ()


def _check_budget(request: Request) -> None:
    budgets = [name for name in ("steps", "epochs", "minutes") if getattr(request, name)]
    if len(budgets) > 1:
        raise ConfigError(f"There are two budgets: give one of {' and '.join(budgets)}.")
    for name in ("steps", "epochs", "minutes"):
        if not getattr(request, name) >= 0:
            raise ConfigError(f"{name} is {getattr(request, name)}; it must be above 0.")


def _on_terms(config: Config, request: Request) -> Config:
    """Set the common data and budget in a configuration. With a budget, early stopping is off."""
    named = {
        "valid": request.valid,
        "tagged": request.tagged,
        "valid_tagged": request.valid_tagged,
    }
    given: dict[str, Any] = {f"data.{name}": list(parts) for name, parts in named.items() if parts}
    if request.data or request.mixed:
        given |= {"data.train": list(request.data), "data.mixed": list(request.mixed)}
    if request.steps or request.epochs or request.minutes:
        given["training.patience"] = 0
    if request.steps:
        given |= {"training.steps": request.steps, "training.epochs": FOREVER}
        if not config.training.validate_every:
            given["training.validate_every"] = max(1, request.steps // VALIDATIONS)
    if request.epochs:
        given |= {"training.epochs": request.epochs, "training.steps": 0}
    for name, value in given.items():
        config = assign(config, name, value)
    return config


def _parse(kind: type[K], values: Mapping[str, Any], where: str) -> K:
    """Make a dataclass from a TOML table; a single string is accepted for a list of one."""
    hints = {name: hint for name, hint in typing.get_type_hints(kind).items() if name != "variant"}
    at = f"{where}: " if where else ""
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name not in hints:
            known = [*hints, *(["variant"] if kind is Request else [])]
            raise ConfigError(
                f"{at}Unknown key {name!r}.{did_you_mean(name, known)} There are: {', '.join(sorted(known))}."
            )
        given[name] = _value(hints[name], value, f"{at}{name}")
    return kind(**given)


def _value(hint: Any, value: Any, name: str) -> Any:
    if isinstance(hint, types.GenericAlias):
        inner = typing.get_args(hint)[0]
        many = value if isinstance(value, list) else [value]
        return tuple(_value(inner, one, name) for one in many)
    number = isinstance(value, int) and not isinstance(value, bool)
    if (hint is str and isinstance(value, str)) or (hint is int and number):
        return value
    if hint is float and (number or isinstance(value, float)):
        return float(value)
    wanted = {str: "a text", int: "a whole number", float: "a number"}[hint]
    raise ConfigError(f"{name} must be {wanted}, got {value!r}.")


def presets_in(text: str) -> Iterator[Entry]:
    """Parse `a,b,c` as three presets, each a variant under its own name."""
    for name in text.split(","):
        if not name.strip():
            raise ConfigError(f"--presets must be names separated by commas, got {text!r}.")
        any_preset(name.strip())
        yield Entry(name.strip(), name.strip())


def merged(request: Request, given: Mapping[str, Any]) -> Request:
    """Override the file by the command line, including its settings of single variants; `set` options accumulate."""
    chosen = {name: value for name, value in given.items() if value not in (None, (), "")}
    if {"steps", "epochs", "minutes"} & chosen.keys():
        entries = tuple(replace(entry, set=_without_budget(entry.set)) for entry in request.variant)
        request = replace(request, variant=entries, set=_without_budget(request.set), steps=0, epochs=0, minutes=0.0)
    if {"data", "mixed"} & chosen.keys():
        request = replace(request, data=(), mixed=())
    typed = chosen.pop("set", ())
    entries = tuple(replace(entry, set=(*entry.set, *typed)) for entry in request.variant)
    return replace(request, variant=entries, **chosen)


def _without_budget(settings: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one for one in settings if one.partition("=")[0].strip() not in ("training.steps", "training.epochs"))
