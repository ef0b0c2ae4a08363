"""From what a person set to a plan: the corpora are opened and surveyed, and the rules of `plan` are asked."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from regard.config import Config
from regard.config_io import toml_value
from regard.data.configured_corpora import open_data
from regard.data.corpus import Corpus, for_model
from regard.data.corpus_checks import quick_check
from regard.data.pictures import are_pictures
from regard.data.survey import Survey, survey
from regard.data.validation_split import sources_to_hold_out
from regard.decoding.model_loading import NOTHING, find_device
from regard.errors import DataError
from regard.task import task_of
from regard.training.memory_estimate import available
from regard.training.plan_rules import Changes, Choice, Plan, covers, make_plan, tokens_of


def can_plan(config: Config, base: Config | None = None) -> bool:
    """Say whether there is something to plan for: texts, for a model that reads texts."""
    return not are_pictures(config.data.train) and (base is None or task_of(base.model).planned)


def plan_for(changes: Changes, given: Iterable[str], base: Config | None = None) -> Plan:
    """Look at the corpus that the settings name, and choose what nobody set (see `make_plan`)."""
    names, first = frozenset(given), changes(Config() if base is None else base)
    device = find_device(first.training.device)
    corpus = open_data(replace(first.data, held_out=0), "train", first.seed)
    assert corpus is not None
    reads = first.model.encoder.kind != NOTHING
    found = survey(corpus if reads else for_model(corpus, reads), first.seed)
    if not found.pairs:
        raise DataError(f"{corpus.name} is empty: there is nothing to learn from.")
    kept, valid = _validation(first, found, names)
    plan = make_plan(
        found, device.type, lambda config: _holding(changes(config), kept), names, valid, base, available(device)
    )
    _check_lengths(plan)
    if kept and not first.data.held_out:
        reason = f"no validation corpus was given: this many of the {found.sources:,} sources are held out"
        plan.choices.insert(0, Choice("data.held_out", kept, reason))
    plan.notice = quick_check(corpus)
    return plan


def _validation(config: Config, found: Survey, given: frozenset[str]) -> tuple[int, int]:
    """Return how many sources are held out, and how many pairs are validated with."""
    corpus: Corpus | None = open_data(replace(config.data, held_out=0), "valid", config.seed)
    if corpus is not None:
        return config.data.held_out, sum(1 for _ in corpus)
    if covers(given, "data.held_out") or not found.paired:
        return config.data.held_out, config.data.held_out
    kept = sources_to_hold_out(found.pairs, found.sources)
    return kept, kept


def _check_lengths(plan: Plan) -> None:
    """Raise a DataError for a corpus whose shortest text is by far too long: it would all be left out."""
    found, longest, kind = plan.survey, plan.config.data.max_length, plan.config.tokenizer.kind
    side = max((found.source, found.target), key=lambda side: side.characters)
    tokens = round(found.shortest * tokens_of(side, kind) / max(side.characters, 1))
    if tokens > 2 * longest:
        texts = f"All {found.pairs:,} {'pairs' if found.paired else 'texts'} are" if found.pairs > 1 else "The pair is"
        raise DataError(
            f"{texts} longer than data.max_length = {longest:,} tokens: the shortest has {found.shortest:,} "
            f"characters, about {tokens:,} tokens. Cut the texts into sentences, or raise data.max_length."
        )


def _holding(config: Config, sources: int) -> Config:
    return replace(config, data=replace(config.data, held_out=sources))


def plan_lines(plan: Plan) -> list[str]:
    """Write a plan as lines, one for each reason; none where nothing was left to choose."""
    notice = [plan.notice] if plan.notice else []
    if not plan.choices:
        return notice
    lines = [
        *notice,
        f"Planned for {describe_survey(plan.survey)}. (--plan shows it as a table; --set and --preset override it.)",
    ]
    for choices in grouped(plan.choices):
        settings = ", ".join(f"{choice.name}={format_value(choice.value)}" for choice in choices)
        lines.append(f"  {settings}: {choices[0].reason}")
    return lines


def grouped(choices: Sequence[Choice]) -> list[list[Choice]]:
    """Put choices together that were made for one reason, one after the other."""
    groups: list[list[Choice]] = []
    for choice in choices:
        if groups and groups[-1][0].reason == choice.reason:
            groups[-1].append(choice)
        else:
            groups.append([choice])
    return groups


def describe_survey(found: Survey) -> str:
    """Say what a corpus is like."""
    pairs = "1 pair" if found.pairs == 1 else f"{found.pairs:,} {'pairs' if found.paired else 'texts'}"
    target = found.target
    if not found.paired:
        return f"{pairs} of {target.words:.1f} words"
    source = found.source
    return (
        f"{pairs}: sources of {source.words:.1f} words and {source.characters:.0f} characters on average, targets of "
        f"{target.words:.1f} and {target.characters:.0f}"
    )


def format_value(value: Any) -> str:
    """Write a value as --set takes it."""
    return value if isinstance(value, str) else toml_value(value)
