"""The plan of a training: it can always be followed, changes nothing that was set, and gives a reason for all else."""

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from surveys import CLOSED, STRINGS, made_up

import regard.presets  # noqa: F401 (importing it registers them)
from regard.config import Config
from regard.config_io import override, to_dict, to_toml
from regard.data.survey import Survey, SurveyedSide
from regard.errors import ConfigError
from regard.models.build import build_empty
from regard.presets.base import preset, presets
from regard.training.memory_estimate import classes_of, of_batch, of_weights, vocabulary_of
from regard.training.plan_rules import (
    BASE,
    BESIDE,
    CLASSIFIER,
    GOING_ON,
    LANGUAGE_MODEL,
    OF_WRITING,
    RECURRENT,
    ROOM,
    TRANSFORMER,
    Choice,
    Plan,
    choose_preset,
    covers,
    make_plan,
    tokens_of,
)
from regard.training.planning import describe_survey, grouped, plan_lines
from regard.training.setting_checks import check

GIB = 1 << 30
TRAIN = "data.train=corpus.tsv"
SETTINGS = (
    *("tokenizer.kind=words", "tokenizer.kind=characters", "tokenizer.kind=bpe", "tokenizer.joint=false"),
    *("tokenizer.vocabulary=700", "data.max_length=50", "data.max_length=3000", "model.dropout=0", "model.copy=true"),
    *("model.positions=sinusoidal", "model.positions=learned", "model.attention=none", "model.tie=output"),
    *("model.attention.score=location", "model.decoder.layers=2", "model.self_attention.heads=2"),
    *("training.steps=50", "training.steps=1", "training.epochs=3", "training.minutes=2", "training.metric=loss"),
    *("training.batch_tokens=77", "training.batch_tokens=100000", "training.accumulate=3", "training.r_drop=2"),
    *("training.schedule=constant", "training.average=ema", "training.patience=0", "training.validate_every=7"),
    *("training.teacher_forcing=0.5", "training.label_smoothing=0", "training.warmup=9", "decoding.beam=1"),
)


def counts(most):
    return st.integers(0, 3) | st.integers(0, most)


def shares(most=1.0):
    return st.sampled_from([0.0, most]) | st.floats(0, most)


SIDES = st.builds(
    SurveyedSide,
    characters=shares(2000.0),
    longest=counts(1 << 24),
    words=shares(1000.0),
    most_words=counts(1 << 23),
    alphabet=counts(100_000),
    types=counts(10**7),
    frequent=counts(1000),
    spelled=shares(),
    units=shares(2000.0),
    unspaced=st.booleans(),
)
SURVEYS = st.builds(
    Survey,
    pairs=counts(10**9),
    sources=counts(10**9),
    ambiguous=shares(),
    identical=shares(),
    copied=shares(),
    copied_words=shares(),
    shortest=counts(1 << 24),
    paired=st.booleans(),
    targets=counts(20_000),
    source=SIDES,
    target=SIDES,
)
SET = st.lists(
    st.sampled_from(SETTINGS), max_size=4, unique_by=lambda one: one.partition("=")[0].removesuffix(".score")
)
MEMORY = st.sampled_from([0, GIB // 4, 2 * GIB, 140 * GIB])
DEVICES = st.sampled_from(["cpu", "cuda"])


def planned(survey, device="cuda", given_=(), valid=100, base=None, memory=0):
    """Plan with what is typed, as the command line does."""
    changes = [TRAIN, "training.device=cpu", *given_]
    names = [one.partition("=")[0] for one in changes]
    return make_plan(survey, device, lambda config: override(config, changes), names, valid, base, memory)


def value_of(config, name):
    for part in name.split("."):
        config = None if config is None else getattr(config, part)
    return config


def can_be_followed(config):
    """Check what a run checks first, and build the model where nothing is stored."""
    check(config)
    with torch.device("meta"):
        build_empty(config.model, 999, 999)


def is_refused(base, given_=()):
    try:
        can_be_followed(override(base, [TRAIN, "training.device=cpu", *given_]))
    except ConfigError:
        return True
    return False


LABELLED = {"pairs": 1000, "targets": 50, "source_characters": 16.0, "target_characters": 4.0, "target_words": 1.0}
"""Texts with as many classes, and as few and short texts, as a classifier is planned for."""


class TestLaws:
    @settings(max_examples=60, deadline=None)
    @given(survey=SURVEYS, device=DEVICES, set_=SET, valid=counts(10**6), memory=MEMORY)
    def test_any_corpus_gives_a_plan_that_can_be_followed(self, survey, device, set_, valid, memory):
        writes = any(covers(OF_WRITING, one.partition("=")[0]) for one in set_)
        named = preset(choose_preset(survey, device, writes)[0])
        assume(not is_refused(named, set_))
        plan = planned(survey, device, set_, valid, memory=memory)
        can_be_followed(plan.config)
        names = [choice.name for choice in plan.choices]
        assert len(names) == len(set(names))
        for choice in plan.choices:
            assert choice.reason.strip()
            assert choice.name == "preset" or value_of(plan.config, choice.name) == choice.value
        for one in set_:
            name = one.partition("=")[0]
            assert name not in names
            assert value_of(plan.config, name) == value_of(override(Config(), [one]), name)
        assert override(Config(), [TRAIN]).data.train == plan.config.data.train
        assert to_toml(plan.config) == to_toml(planned(survey, device, set_, valid, memory=memory).config)
        assert all(plan_lines(plan))
        json.dumps([choice._asdict() for choice in plan.choices])

    @settings(max_examples=40, deadline=None)
    @given(survey=SURVEYS, device=DEVICES, name=st.sampled_from(sorted(presets)), memory=MEMORY, model=st.booleans())
    def test_beside_a_preset_little_is_chosen_and_less_beside_a_model(self, survey, device, name, memory, model):
        base = replace(preset(name), started_from="/models/one" if model else "")
        assume(not is_refused(base))
        plan = planned(survey, device, (), 100, base, memory)
        assert {choice.name for choice in plan.choices} <= set(GOING_ON if model else BESIDE)
        before, after = to_dict(override(base, [TRAIN, "training.device=cpu"])), to_dict(plan.config)
        changed = {f"{group}.{leaf}" for group in ("data", "tokenizer", "training", "decoding")
                   for leaf in after[group] if after[group][leaf] != before[group].get(leaf)}  # fmt: skip
        assert changed <= {choice.name for choice in plan.choices}
        assert (after["model"], after["preset"], after["seed"]) == (before["model"], before["preset"], before["seed"])
        if not model or survey.paired == (base.model.encoder.kind != "none"):
            can_be_followed(plan.config)

    @settings(max_examples=40, deadline=None)
    @given(survey=SURVEYS, device=DEVICES, memory=st.integers(2, 200))
    def test_what_is_chosen_fits_into_memory(self, survey, device, memory):
        plan = planned(survey, device, memory=memory * GIB)
        entries = vocabulary_of(plan.config.tokenizer, survey)
        written = classes_of(plan.config.model, survey)
        need = of_weights(plan.config.model, entries, written) + of_batch(plan.config, entries, device)
        assert need <= ROOM * memory * GIB
        free = planned(survey, device)
        tokens, before = (one.config.training.batch_tokens * one.config.training.accumulate for one in (plan, free))
        assert 0.5 * before < tokens < 2 * before

    def test_a_group_that_was_set_is_set_as_a_whole(self):
        plan = planned(made_up(**CLOSED), given_=["model.attention=none"])
        assert plan.config.model.attention is None
        assert not any(choice.name.startswith("model.attention") for choice in plan.choices)
        assert plan.config.model.decoder.width == 512
        assert covers(["model.attention"], "model.attention.width")
        assert not covers(["model.attention"], "model.attention_width")


class TestRules:
    """Each branch, by a corpus that takes it."""

    @pytest.mark.parametrize(
        ("survey", "device", "name"),
        [
            (made_up(paired=False), "cuda", LANGUAGE_MODEL),
            (made_up(paired=False), "cpu", LANGUAGE_MODEL),
            (made_up(**CLOSED), "cuda", RECURRENT),
            (made_up(**STRINGS), "cuda", TRANSFORMER),
            (made_up(**STRINGS, pairs=49_999), "cuda", RECURRENT),
            (made_up(**STRINGS), "cpu", RECURRENT),
            (made_up(**{**STRINGS, "unspaced": True}), "cuda", TRANSFORMER),
            (made_up(), "cpu", RECURRENT),
            (made_up(pairs=9_999), "cuda", RECURRENT),
            (made_up(pairs=10_000), "cuda", TRANSFORMER),
            (made_up(pairs=1_000_000), "cuda", BASE),
            (made_up(pairs=1_000_000), "cpu", RECURRENT),
            (made_up(**LABELLED), "cpu", CLASSIFIER),
            (made_up(**LABELLED), "cuda", CLASSIFIER),
            (made_up(**{**LABELLED, "pairs": 999}), "cpu", RECURRENT),
            (made_up(**{**LABELLED, "targets": 51}), "cpu", RECURRENT),
            (made_up(**{**LABELLED, "targets": 1}), "cpu", RECURRENT),
            (made_up(**{**LABELLED, "source_characters": 15.9}), "cpu", RECURRENT),
        ],
    )
    def test_system(self, survey, device, name):
        plan = planned(survey, device)
        assert plan.choices[0][:2] == ("preset", name)
        assert plan.config.preset == name

    def test_tokenizer(self):
        def kind(survey, *given_, base=None):
            chosen = planned(survey, given_=given_, base=base).config.tokenizer
            return chosen.kind, chosen.vocabulary, chosen.joint

        assert kind(made_up(**STRINGS)) == ("spelled", 8000, True)
        assert kind(made_up(**STRINGS, alphabet=5000)) == ("spelled", 32000, True)
        assert kind(made_up(**STRINGS, unspaced=True)) == ("bpe", 8000, True)
        assert kind(made_up(pairs=20_000)) == ("bpe", 5000, True)
        assert kind(made_up(alphabet=700, pairs=7)) == ("bpe", 2400, True)
        assert kind(made_up(alphabet=7, pairs=7)) == ("bpe", 1000, True)
        assert kind(made_up(pairs=10**6)) == ("bpe", 32000, True)
        assert kind(made_up(**STRINGS), "tokenizer.kind=characters") == ("characters", 10000, True)
        two = ("tokenizer.target_kind=words", "tokenizer.joint=false")
        assert kind(made_up(**STRINGS), *two) == ("spelled", 8000, False)
        small = preset("bahdanau2014-small")
        assert kind(made_up(), base=small) == ("bpe", small.tokenizer.vocabulary, True)
        assert kind(made_up(**STRINGS), base=small)[0] == "spelled"

    @pytest.mark.parametrize(
        ("changes", "given_", "most"),
        [
            ({}, (), 128),
            ({"most_words": 100, "longest": 700}, (), 448),
            ({"most_words": 100, "longest": 100}, (), 128),
            ({"unspaced": True, "longest": 129}, (), 192),
            ({"most_words": 9999, "longest": 9999}, (), 1024),
            ({**STRINGS, "longest": 200}, (), 256),
            ({**CLOSED, "longest": 900, "most_words": 129}, (), 960),
            ({"most_words": 300, "longest": 900}, ("tokenizer.kind=words",), 320),
            ({"most_words": 300, "longest": 900}, ("tokenizer.kind=characters",), 960),
        ],
    )
    def test_lengths(self, changes, given_, most):
        assert planned(made_up(**changes), given_=given_).config.data.max_length == most

    def test_network(self):
        recurrent = planned(made_up(**CLOSED)).config.model
        assert (recurrent.decoder.width, recurrent.encoder.width, recurrent.attention.width) == (512, 256, 256)
        assert planned(made_up(**CLOSED), "cpu").config.model.decoder.width == 256
        forms = planned(made_up(**STRINGS)).config.model
        assert (forms.positions, forms.decoder.feed_forward, forms.copy) == ("rotary", 1024, False)
        assert planned(made_up(**STRINGS, copied=0.8)).config.model.copy
        assert not planned(made_up(**STRINGS, copied=0.8), given_=["training.r_drop=1"]).config.model.copy
        assert not planned(made_up(copied=0.9)).config.model.copy
        assert planned(made_up(), given_=["tokenizer.joint=false"]).config.model.tie == "output"
        dropouts = [planned(made_up(pairs=pairs)).config.model.dropout for pairs in (20_000, 200_000)]
        assert dropouts == [0.4, 0.3]
        dropouts = [planned(made_up(**STRINGS, pairs=pairs)).config.model.dropout for pairs in (20_000, 200_000)]
        assert dropouts == [0.3, 0.15]

    def test_optimisation(self):
        assert planned(made_up()).config.training.r_drop > 0
        assert planned(made_up(pairs=900_000)).config.training.r_drop == 0
        assert planned(made_up(**STRINGS)).config.training.r_drop == 0
        assert planned(made_up(), given_=["model.dropout=0"]).config.training.r_drop == 0
        assert planned(made_up(pairs=3)).config.training.batch_tokens == 500
        base = replace(preset(TRANSFORMER), started_from="/models/one")
        going_on = planned(made_up(), base=base).config.training
        assert going_on.learning_rate == pytest.approx(base.training.learning_rate / 3)

    def test_budget(self):
        def plan(*given_, valid=100, base=None, **changes):
            return planned(made_up(**changes), given_=given_, valid=valid, base=base).config.training

        tiny = plan(pairs=1)
        assert (tiny.steps, tiny.batch_tokens) == (300, 500)
        assert plan().steps < plan(pairs=200_000).steps
        assert 5 <= plan().steps / plan().validate_every <= 21
        assert plan("training.steps=3").validate_every == 1
        assert plan("training.steps=3").epochs == 100_000
        assert plan("training.epochs=3").epochs == 3
        assert plan("training.minutes=3", "training.epochs=1000").steps == preset(TRANSFORMER).training.steps
        alone = plan(valid=0)
        assert (alone.validate_every, alone.patience) == tuple(
            getattr(preset(TRANSFORMER).training, name) for name in ("validate_every", "patience")
        )
        assert plan(base=preset("bahdanau2014-small")) == replace(
            override(preset("bahdanau2014-small"), ["training.device=cpu"]).training
        )

    @pytest.mark.parametrize(
        ("changes", "metric"),
        [(STRINGS, "exact"), ({"words": 3.9}, "chrf"), ({}, "bleu"), ({"paired": False}, "loss")],
    )
    def test_deciding(self, changes, metric):
        assert planned(made_up(**changes)).config.training.metric == metric

    def test_a_classifier_keeps_the_settings_of_its_preset(self):
        plan = planned(made_up(**LABELLED))
        assert plan.choices == [
            Choice("preset", CLASSIFIER, "50 different targets, each repeated: they are classes of the texts"),
            Choice("data.max_length", 128, "no text is longer"),
        ]

    @pytest.mark.parametrize("one", ["model.dropout=0.1", "decoding.beam=2", "training.metric=chrf"])
    def test_who_sets_something_of_a_model_that_writes_gets_one(self, one):
        assert planned(made_up(**LABELLED), "cpu", [one]).config.preset == RECURRENT

    def test_search(self):
        reasons = [planned(made_up(**changes)).choices[-1].reason for changes in ({}, STRINGS)]
        assert reasons == [
            "gains 1 to 2 BLEU on sentences over greedy search",
            "gains a little on strings over greedy search",
        ]
        assert not any(choice.name.startswith("decoding") for choice in planned(made_up(paired=False)).choices)

    def test_fitting(self):
        def reasons(plan):
            return {(one.name, one.value): one.reason for one in plan.choices if "GiB" in one.reason}

        sizes = ("training.batch_tokens", "training.accumulate", "data.max_length")
        survey = made_up(pairs=200_000)
        assert reasons(planned(survey, memory=16 * GIB)) == {}
        why = "one batch of 8,000 tokens would need up to 4.8 GiB, and there are 2.0: several smaller ones make a step"
        assert reasons(planned(survey, memory=2 * GIB)) == {
            ("training.batch_tokens", 1000): why,
            ("training.accumulate", 8): why,
        }
        kept = planned(survey, given_=["training.batch_tokens=8000"], memory=2 * GIB)
        assert value_of(kept.config, sizes[0]) == 8000
        long = planned(made_up(**STRINGS, longest=1000, copied=0.9), memory=2 * GIB)
        assert [value_of(long.config, name) for name in sizes] == [1000, 8, 1024]
        tight = planned(made_up(**STRINGS, longest=1000, copied=0.9), memory=GIB)
        assert value_of(tight.config, "data.max_length") < 1024
        assert any(one.reason.startswith("texts of 1,024 tokens would need up to ") for one in tight.choices)

    def test_tokens_of_a_text(self):
        side = made_up().source
        found = [tokens_of(side, kind) for kind in ("characters", "words", "spelled", "bpe")]
        assert found == [30.0, 6.0, 20.0, 7.5]
        assert tokens_of(replace(side, unspaced=True), "unigram") == 15.0


class TestTold:
    def test_one_line_for_each_reason(self):
        choices = [
            Choice("preset", "cho2014", "why not"),
            Choice("training.steps", 20, "short"),
            Choice("training.learning_rate", 0.002, "short"),
            Choice("model.copy", True, "so"),
            Choice("data.max_length", 64, "short"),
        ]
        survey = made_up(pairs=1234)
        plan = Plan(Config(), survey, "cpu", 0, frozenset(), choices=choices)
        assert plan_lines(plan) == [
            "Planned for 1,234 pairs: sources of 6.0 words and 30 characters on average, targets of 6.0 and 30. "
            "(--plan shows it as a table; --set and --preset override it.)",
            "  preset=cho2014: why not",
            "  training.steps=20, training.learning_rate=0.002: short",
            "  model.copy=true: so",
            "  data.max_length=64: short",
        ]
        assert [len(group) for group in grouped(choices)] == [1, 2, 1, 1]
        plan.notice = "3 pairs look wrong"
        assert plan_lines(plan)[0] == "3 pairs look wrong"
        plan.choices = []
        assert plan_lines(plan) == ["3 pairs look wrong"]

    def test_what_was_seen(self):
        assert describe_survey(made_up(paired=False, pairs=2)) == "2 texts of 6.0 words"
        assert describe_survey(made_up(pairs=1)).startswith("1 pair: sources of ")

    def test_the_plan_of_sentences(self):
        assert plan_lines(planned(made_up(), "cpu")) == SENTENCES.splitlines()

    def test_the_plan_of_strings(self):
        assert plan_lines(planned(made_up(**STRINGS, copied=0.9))) == FORMS.splitlines()

    def test_the_plan_beside_a_preset(self):
        assert plan_lines(planned(made_up(**CLOSED), base=preset("luong2015-small"))) == BESIDE_A_PRESET.splitlines()


SENTENCES = """\
Planned for 50,000 pairs: sources of 6.0 words and 30 characters on average, targets of 6.0 and 30. (--plan shows it as a table; --set and --preset override it.)
  preset=bahdanau2014-conditional-small: on a CPU a small recurrent model with attention learns several times faster than a Transformer
  tokenizer.kind=bpe: sentences: frequent words stay whole, rare ones are cut into pieces
  tokenizer.joint=true: source and target share one vocabulary
  tokenizer.vocabulary=8000: 50,000 pairs in 100 different characters
  data.max_length=128: no text is longer
  model.dropout=0.3: without dropout, a corpus of this size is memorised
  training.batch_tokens=2000, training.accumulate=1: the batch size that the preset was tuned with
  training.schedule=cosine, training.learning_rate=0.002: warm-up, then cosine decay to zero
  training.label_smoothing=0.1: keeps the model from becoming overconfident
  training.beta2=0.98: adapts faster to changing gradients
  training.steps=5840, training.epochs=108: about 27 passes over 425,000 tokens
  training.warmup=584: 1 step of 10
  training.validate_every=292: 20 validations, about a tenth of the time
  training.patience=10: early stopping after this many without improvement
  training.average=last, training.average_last=5, training.save_every=146: the mean of the last five checkpoints is better than the last
  training.metric=bleu: sentences: the metric that papers report
  decoding.beam=5, decoding.length_penalty=1.0: gains 1 to 2 BLEU on sentences over greedy search"""  # noqa: E501
FORMS = """\
Planned for 50,000 pairs: sources of 1.5 words and 30 characters on average, targets of 1.5 and 30. (--plan shows it as a table; --set and --preset override it.)
  preset=transformer2017-tiny: 50,000 pairs of short strings: a small Transformer
  tokenizer.kind=spelled: 95% of the targets have at most one rare word: frequent words stay whole, all others are spelled
  tokenizer.vocabulary=8000: room for all characters and all frequent words
  tokenizer.joint=true: source and target share one vocabulary
  data.max_length=128: no text is longer
  model.positions=rotary: relative positions suit short strings
  model.encoder.feed_forward=1024, model.decoder.feed_forward=1024: feed-forward layers four times as wide as the model
  model.copy=true: 90% of the targets' characters stand in their sources, in this order
  model.dropout=0.15: the fewer tokens, the more dropout
  training.batch_tokens=8000, training.accumulate=1: the batch size that the preset was tuned with
  training.schedule=cosine, training.learning_rate=0.0015: warm-up, then cosine decay to zero
  training.label_smoothing=0.1: keeps the model from becoming overconfident
  training.beta2=0.98: adapts faster to changing gradients
  training.steps=6160, training.epochs=304: about 76 passes over 650,000 tokens
  training.warmup=1232: 1 step of 5
  training.validate_every=616: 10 validations, about a tenth of the time
  training.patience=5: early stopping after this many without improvement
  training.average=last, training.average_last=5, training.save_every=154: the mean of the last five checkpoints is better than the last
  training.metric=exact: a string is right or wrong
  decoding.beam=5, decoding.length_penalty=1.0: gains a little on strings over greedy search"""  # noqa: E501
BESIDE_A_PRESET = """\
Planned for 50,000 pairs: sources of 6.0 words and 30 characters on average, targets of 6.0 and 30. (--plan shows it as a table; --set and --preset override it.)
  tokenizer.kind=spelled: 100% of the targets have at most one rare word: frequent words stay whole, all others are spelled
  training.steps=5300, training.epochs=120: about 30 passes over 350,000 tokens
  training.validate_every=265: 20 validations, about a tenth of the time
  training.patience=10: early stopping after this many without improvement
  training.metric=exact: a string is right or wrong"""  # noqa: E501
