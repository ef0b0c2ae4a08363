"""The plan of a training: what nobody set is chosen from the corpus, by the rules below, each with its reason.

`make_plan` looks at a `Survey` of the corpus, at what was set already, and at the kind of device; the same three give
the same plan. Each rule is a function that chooses some settings; what was set is never chosen, and rules further down
see what was set or chosen before. The scores in the rules' docstrings are exact match or BLEU on validation data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from regard.config import Config
from regard.data.survey import Side, Survey
from regard.presets.base import preset
from regard.settings import assign

RECURRENT, TRANSFORMER, BASE = "bahdanau2014-conditional-small", "transformer2017-tiny", "transformer2017"
LANGUAGE_MODEL = "gpt-small"
STRINGS: Final = 0.85
"""A corpus is one of strings if so many of its targets have at most one word that is not frequent."""
LONGEST: Final = 1024
"""Tokens of a text: longer ones are left out unless data.max_length is set."""
BESIDE: Final = (
    *("tokenizer.kind", "tokenizer.vocabulary", "data.max_length", "data.held_out"),
    *("training.metric", "training.steps", "training.validate_every", "training.patience"),
)
"""What is chosen beside a preset or a model to start from, which bring the rest: it depends on the corpus alone."""

Changes = Callable[[Config], Config]


class Choice(NamedTuple):
    """One setting, and why it is what it is."""

    name: str
    value: Any
    reason: str


@dataclass
class Plan:
    """A configuration in the making."""

    config: Config
    survey: Survey
    device: str
    """cpu or cuda."""
    valid: int
    """Validation pairs; 0 for none."""
    given: frozenset[str]
    """Names that were set; that of a group stands for all in it."""
    only: tuple[str, ...] = ()
    """Names that may be chosen; empty for all."""
    choices: list[Choice] = field(default_factory=list)

    def choose(self, reason: str, **values: Any) -> None:
        """Choose settings (`training__steps` is `training.steps`), except those that were set."""
        for name, value in ((name.replace("__", "."), value) for name, value in values.items()):
            if not covers(self.given, name) and (not self.only or covers(self.only, name)):
                self.config = assign(self.config, name, value)
                self.choices.append(Choice(name, value, reason))

    @property
    def transformer(self) -> bool:
        """Whether a Transformer writes."""
        return self.config.model.decoder.kind == "transformer"

    @property
    def tokens(self) -> int:
        """Tokens of the corpus, end marks included, on the side that has more; estimated before they are counted."""
        kind, sides = self.config.tokenizer.kind, (self.survey.source, self.survey.target)
        return max(1, round(self.survey.pairs * (1 + max(tokens_of(side, kind) for side in sides))))


def make_plan(
    survey: Survey,
    device: str,
    changes: Changes = lambda config: config,
    given: Iterable[str] = (),
    valid: int = 0,
    base: Config | None = None,
) -> Plan:
    """Choose what was not set. `changes` puts what was set into a configuration, and `given` is its names.

    Without a `base` (a preset that was asked for, or the settings of a model to start from) the plan chooses the system
    too; with one, what depends on the corpus alone.
    """
    name, reason = system(survey, device)
    config = changes(preset(name) if base is None else base)
    plan = Plan(config, survey, device, valid, frozenset(given), only=() if base is None else BESIDE)
    if base is None:
        plan.choices.append(Choice("preset", name, reason))
    for rule in RULES:
        rule(plan)
    return plan


def covers(names: Iterable[str], name: str) -> bool:
    """Say whether a setting is among names of settings and of groups of them."""
    return any(name == one or name.startswith(f"{one}.") for one in names)


def of_strings(survey: Survey) -> bool:
    """Say whether the targets are words, forms or commands, and not sentences."""
    target = survey.target
    return target.spelled >= STRINGS and not (target.unspaced and target.characters > 10)


def is_closed(survey: Survey) -> bool:
    """Say whether both sides are made of frequent words alone: commands and actions, tags."""
    return all(side.types == side.frequent and side.words >= 2 for side in (survey.source, survey.target))


def tokens_of(side: Side, kind: str) -> float:
    """Estimate the tokens of a text."""
    if kind in ("characters", "words", "spelled"):
        return {"characters": side.characters, "words": side.words, "spelled": side.units}[kind]
    return max(1.25 * side.words, side.characters / 5) if not side.unspaced else max(side.words, side.characters / 2)


# -- the rules ------------------------------------------------------------------------------------------------------


def system(survey: Survey, device: str) -> tuple[str, str]:
    """Choose the preset to start from.

    On an H200, exact match on dev after 2,500 to 6,000 steps, one seed, recurrent and Transformer: German inflection
    90.1 and 91.5, Finnish 93.6 and 94.8, Turkish 96.5 and 97.8, French 89.7 and 89.8; SCAN's "turn left", recurrent 39
    to 99.8, Transformer 9 to 67; English–Japanese BLEU 40.0 and 41.4. On a CPU a Transformer takes some five times as
    long to get there.
    """
    if not survey.paired:
        return LANGUAGE_MODEL, "one text a line and nothing to read: a language model"
    if of_strings(survey) and is_closed(survey):
        return (
            RECURRENT,
            "both sides are made of few words in new combinations, which recurrent decoders take apart best",
        )
    if device == CPU:
        return (
            RECURRENT,
            "on a CPU a small recurrent model with attention learns several times faster than a Transformer",
        )
    if of_strings(survey):
        return TRANSFORMER, "short strings: a small Transformer is 0.1 to 1.4 points ahead of a recurrent model"
    if survey.pairs < 10_000:
        return RECURRENT, f"{survey.pairs:,} pairs of sentences are few for a Transformer"
    if survey.pairs < 1_000_000:
        return TRANSFORMER, f"{survey.pairs:,} pairs of sentences: a small Transformer with much dropout"
    return BASE, f"{survey.pairs:,} pairs of sentences bear a Transformer of the usual size"


def tokenizer(plan: Plan) -> None:
    """Choose how text becomes tokens.

    Exact match on dev, characters and spelled: Finnish 88.5 and 93.0 (recurrent), 93.8 and 94.8 (Transformer), German
    88.1 and 89.4. For sentences 8,000 joint subwords of 50,000 pairs and 10,000 of Multi30k's 29,000 are what the best
    recipes have.
    """
    survey = plan.survey
    if survey.paired and of_strings(survey):
        share = f"{survey.target.spelled:.0%}"
        plan.choose(
            f"{share} of the targets have at most one rare word: frequent words stay whole, others are spelled",
            tokenizer__kind="spelled",
            tokenizer__joint=True,
        )
        plan.choose("room for every character and every frequent word", tokenizer__vocabulary=8000)
        return
    plan.choose("sentences: frequent words stay whole, rare ones are cut into pieces", tokenizer__kind="bpe")
    letters = survey.target.alphabet + survey.source.alphabet
    size = max(500, min(survey.pairs // 4, 8000 if survey.pairs < 500_000 else 32000), letters + 1000)
    plan.choose(
        f"{survey.pairs:,} pairs with {letters:,} different characters", tokenizer__vocabulary=round(size / 100) * 100
    )


def lengths(plan: Plan) -> None:
    """Leave out only what is far too long: SCAN's "simple" loses 588 pairs and 6 points at 128 characters."""
    kind, survey = plan.config.tokenizer.kind, plan.survey
    sides = (survey.source, survey.target)
    if kind in ("bpe", "unigram"):
        longest = max(3 * side.most_words if not side.unspaced else side.longest for side in sides)
    elif kind == "spelled" and is_closed(survey) or kind == "words":
        longest = max(side.most_words for side in sides)
    else:
        longest = max(side.longest for side in sides)
    most = min(max(128, -(-longest // 64) * 64), LONGEST)
    reason = (
        "no text is longer" if most < LONGEST else f"the longest text has {max(s.longest for s in sides):,} characters"
    )
    plan.choose(reason, data__max_length=most)


def network(plan: Plan) -> None:
    """Choose what the preset leaves to the corpus: dropout, positions, copying.

    German inflection by a Transformer, 4,000 steps: 89.7 without copying, 91.5 with it; a recurrent model of 256 units
    loses by it (90.1, 86.7). Positions that turn (rotary) reach in 3,000 steps 90.0, sinusoidal ones 89.2. SCAN's
    "turn left", recurrent, 2,500 steps: 38 to 47 with a dropout of 0.3, 89 with 0.5.
    """
    survey = plan.survey
    if not plan.transformer:
        if of_strings(survey) and is_closed(survey):
            plan.choose("few words in new combinations are learnt by heart otherwise", model__dropout=0.5)
        else:
            plan.choose("a corpus of this size is learnt by heart otherwise", model__dropout=0.3)
        return
    if of_strings(survey):
        plan.choose("strings are short: distances count, not places", model__positions="rotary")
        plan.choose(
            "as many units between looks as a Transformer usually has",
            model__encoder__feed_forward=1024,
            model__decoder__feed_forward=1024,
        )
        if survey.copied >= 0.5:
            share = f"{survey.copied:.0%}"
            plan.choose(f"{share} of the targets' characters stand in the source, in this order", model__copy=True)
    rate = 0.3 if of_strings(survey) or plan.tokens >= 600_000 else 0.4
    plan.choose("the smaller the corpus, the more dropout", model__dropout=rate if survey.pairs < 1_000_000 else 0.1)


def optimisation(plan: Plan) -> None:
    """Choose batches and rates.

    English–Japanese: R-Drop brings 0.7 BLEU to a Transformer (40.75, 41.42) and takes up to twice the time.
    """
    most = (6000 if of_strings(plan.survey) else 8000) if plan.transformer else 2000
    size = max(min(most, plan.tokens // 20), 500)
    reason = "as the system learns best" if size == most else "at least twenty batches an epoch"
    plan.choose(reason, training__batch_tokens=size, training__accumulate=1)
    rate = 2e-3 if not (plan.transformer and of_strings(plan.survey)) else 1.5e-3
    plan.choose("rises, then falls to zero at the last step", training__schedule="cosine", training__learning_rate=rate)
    plan.choose("keeps a model from being too sure", training__label_smoothing=0.1)
    if plan.transformer and not of_strings(plan.survey) and plan.tokens < 3_000_000:
        plan.choose("two passes with different dropout should agree: +0.7 BLEU on a small corpus", training__r_drop=3.0)


def budget(plan: Plan) -> None:
    """Choose how long to train, and how often to validate.

    Recurrent models were as good after 2,500 steps of 2,000 tokens on 10,000 short strings as after 6,000;
    Transformers needed 5,000 of 6,000 tokens there, and as many of 8,000 on 50,000 sentences.
    """
    settings, tokens = plan.config.training, plan.tokens
    each = max(1, tokens // settings.batch_tokens)
    wanted = 5000 * max(1, tokens / 500_000) ** 0.4 if plan.transformer else 2500 * max(1, tokens / 150_000) ** 0.5
    steps = round(min(wanted, 300 * each) / 20) * 20
    fixed = settings.steps or covers(plan.given, "training.epochs") or settings.minutes
    if not fixed:
        passes = steps / each
        plan.choose(
            f"about {passes:,.0f} passes over {tokens:,} tokens", training__steps=steps, training__epochs=100_000
        )
    steps = plan.config.training.steps
    if not steps:
        return
    plan.choose(
        "a tenth of the steps, a fifth for a Transformer", training__warmup=steps // (5 if plan.transformer else 10)
    )
    work = plan.valid * (1 + tokens / plan.survey.pairs)
    count = min(20, max(5, round(0.1 * steps * settings.batch_tokens / (2 * work)))) if plan.valid else 5
    every = max(1, steps // count)
    if plan.valid:
        plan.choose(f"{count} validations, which take about a tenth of the time", training__validate_every=every)
        plan.choose("two fifths of all validations without a better score", training__patience=max(3, 2 * count // 5))
    plan.choose(
        "the mean of the last five checkpoints is calmer than the last",
        training__average="last",
        training__average_last=5,
        training__save_every=max(1, steps // 40),
    )


def deciding(plan: Plan) -> None:
    """Choose the metric that tells which model is best: BLEU of one-word targets is 0 at every step."""
    target = plan.survey.target
    if not plan.survey.paired:
        plan.choose("a language model translates nothing", training__metric="loss")
    elif of_strings(plan.survey):
        plan.choose("a string is right or wrong", training__metric="exact")
    elif target.unspaced and target.words < 4 or target.words < 4:
        plan.choose("targets of fewer than four words have no BLEU", training__metric="chrf")
    else:
        plan.choose("sentences: what people compare", training__metric="bleu")


def search(plan: Plan) -> None:
    """Choose how the model is searched: a beam of 5 gains up to 1.8 BLEU on sentences, 0.3 points on strings."""
    reason = (
        "gains a little and costs little on strings"
        if of_strings(plan.survey)
        else "gains 1 to 2 BLEU over greedy search"
    )
    plan.choose(reason, decoding__beam=5, decoding__length_penalty=1.0)


RULES: Final[tuple[Callable[[Plan], None], ...]] = (
    tokenizer,
    lengths,
    network,
    optimisation,
    budget,
    deciding,
    search,
)
