import re
from pathlib import Path

import pytest

from regard.compare.training_run import changes, contents_of, make_jobs
from regard.compare.variants import (
    ComparisonTest,
    Entry,
    Request,
    Terms,
    Variant,
    check,
    choose_sentences,
    find_test,
    merged,
    presets_in,
    read_request,
    resolve,
)
from regard.config import Config, DataConfig
from regard.config_io import assign
from regard.data.pair import Pair
from regard.errors import ConfigError, DataError, RegardError
from regard.presets import preset

TWO = (Entry("a", "cho2014-small"), Entry("b", "bahdanau2014-small", set=("model.dropout=0.5",)))


def refusal(kind, call, *args):
    with pytest.raises(kind) as caught:
        call(*args)
    return str(caught.value)


def test_settings_of_all_come_before_those_of_one():
    request = Request(TWO, ("copy",), set=("model.dropout=0.25", "model.embedding=17"))
    (first, second), _ = resolve(request)
    assert (first.config.model.dropout, second.config.model.dropout) == (0.25, 0.5)
    assert first.config.model.embedding == second.config.model.embedding == 17
    assert first.config.data.train == ("copy",)
    assert (first.name, first.config.preset) == ("a", "cho2014-small")


def test_a_budget_is_the_same_for_all_and_spent_whole():
    (one, two), _ = resolve(Request(TWO, ("copy",), steps=70))
    for config in (one.config, two.config):
        settings = config.training
        assert (settings.steps, settings.patience, settings.validate_every) == (70, 0, 7)
        assert settings.epochs > 10_000
    (one, _), _ = resolve(Request(TWO, ("copy",), epochs=3))
    assert (one.config.training.epochs, one.config.training.steps, one.config.training.patience) == (3, 0, 0)
    (one, _), _ = resolve(Request(TWO, ("copy",), steps=70, set=("training.validate_every=5", "training.patience=2")))
    assert (one.config.training.validate_every, one.config.training.patience) == (5, 2)
    (one, _), _ = resolve(Request(TWO, ("copy",)))
    assert one.config.training == preset("cho2014-small").training


def test_a_file_lists_variants(tmp_path):
    path = tmp_path / "variants.toml"
    path.write_text(
        'data = ["train.en", "train.de"]\ntest = "test.tsv"\nsteps = 40\nseeds = [1, 2]\nminutes = 0\n'
        'set = "model.dropout=0.1"\n'
        '[[variant]]\npreset = "cho2014-small"\n'
        '[[variant]]\nname = "dot"\npreset = "luong2015-small"\nset = ["model.attention.score=dot"]\n'
    )
    request = read_request(path)
    assert request == Request(
        variant=(
            Entry(preset="cho2014-small"),
            Entry("dot", "luong2015-small", set=("model.attention.score=dot",)),
        ),
        data=("train.en", "train.de"),
        test=("test.tsv",),
        set=("model.dropout=0.1",),
        steps=40,
        seeds=(1, 2),
    )
    variants, terms = resolve(request)
    assert [variant.name for variant in variants] == ["cho2014-small", "dot"]
    assert variants[1].config.model.attention.score == "dot"
    assert terms == Terms(test=("test.tsv",), seeds=(1, 2))


def test_the_command_line_goes_before_the_file():
    request = Request(TWO, ("copy",), steps=40, set=("model.dropout=0.1",), baseline="a")
    given = {"data": (), "set": ("model.dropout=0.2",), "minutes": 2.0, "steps": None, "baseline": None}
    found = merged(request, given)
    assert (found.minutes, found.steps, found.baseline, found.set) == (2.0, 0, "a", ("model.dropout=0.1",))
    assert [variant.config.model.dropout for variant in resolve(found)[0]] == [0.2, 0.2]


def test_a_budget_of_the_command_line_goes_before_that_of_a_variant():
    own = Entry("own", "cho2014-small", set=("training.steps = 9", "training.epochs=2", "model.dropout=0.5"))
    (one,), _ = resolve(merged(Request((own,), ("copy",), set=("training.steps=8",)), {"steps": 3}))
    assert (one.config.training.steps, one.config.model.dropout) == (3, 0.5)
    assert one.config.training.epochs > 10_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dta = 1", "Unknown key 'dta'. Did you mean 'data'? There are: baseline, data, epochs, minutes, mixed, "
                    "seeds, sentences, set, steps, tagged, test, test_tagged, valid, valid_tagged, variant."),
        ("steps = 'many'", "steps must be a whole number, got 'many'."),
        ("seeds = [1.5]", "seeds must be a whole number, got 1.5."),
        ("variant = 3", "variants are written as [[variant]], one for each."),
        ("[[variant]]\npreste = 'x'", "variant 1: Unknown key 'preste'. Did you mean 'preset'? There are: config, "
                                      "name, preset, set."),
        ("[[variant]]\nname = 3", "variant 1: name must be a text, got 3."),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused(tmp_path, text, message):
    path = tmp_path / "v.toml"
    path.write_text(text)
    assert refusal(ConfigError, read_request, path) == f"{path}: {message}"


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "v.toml"
    assert refusal(ConfigError, read_request, path) == f"{path} cannot be read: No such file or directory."
    path.write_text("= 3")
    assert refusal(ConfigError, read_request, path).startswith(f"{path} is not valid TOML: Invalid")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request((), ("copy",)), "There is nothing to compare: give --presets, or --variants with a file that lists "
                                 "some."),
        (Request(TWO), "There is nothing to train on: give --source and --target, or --data with a .tsv or .jsonl "
                       "file, or an embedded name (regard list corpora)."),
        (Request(TWO, ("copy",), steps=3, minutes=2), "There are two budgets: give one of steps and minutes."),
        (Request(TWO, ("copy",), steps=-3), "steps is -3; it must be above 0."),
        (Request((Entry("x"),), ("copy",)), "Variant 'x' has neither a preset nor a config to start from."),
        (Request((Entry("x", "a", "b"),), ("copy",)), "Variant 'x' has a preset and a config: each is a whole "
                                                      "configuration."),
        (Request((Entry("x", "cho2014-smal"),), ("copy",)), "Variant 'x': No preset named 'cho2014-smal'. Did you mean "
                                                            "'cho2014-small'? (regard list presets and regard list "
                                                            "visions show all)"),
        (Request((Entry("x", "cho2014-small", set=("model.droput=1",)),), ("copy",)),
         "Variant 'x': Unknown setting 'model.droput'. Did you mean 'model.dropout'? (regard list settings shows all)"),
        (Request((TWO[0], TWO[0]), ("copy",)), "There are two variants named 'a': give each its own name."),
        (Request((TWO[0], Entry("A", "cho2014-small")), ("copy",)),
         "There are two variants named 'A': give each its own name."),
        (Request((Entry("../x", "cho2014-small"),), ("copy",)),
         "The variant name '../x' cannot be a folder name: use letters, digits and . _ + - (at most 64)."),
        (Request(TWO, ("copy",), baseline="c"), "The baseline 'c' is not among the variants (a, b)."),
        (Request(TWO, ("copy",), seeds=(1, 2, 1)), "A seed is given twice: 1, 2, 1."),
        (Request(TWO, ("-",)), "Standard input (-) can be read only once, and a comparison reads its corpora often."),
        (Request(TWO, ("copy",), sentences=("x",) * 51), "There are 51 sentences to show; give at most 50."),
        (Request(TWO, ("copy",), sentences=("x", " ")), "Sentence 2 of those to show is empty: leave it out."),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(request_, message):
    assert refusal(RegardError, resolve, request_) == message


def test_presets_are_read_from_a_list():
    assert list(presets_in("cho2014-small, luong2015-small")) == [
        Entry("cho2014-small", "cho2014-small"),
        Entry("luong2015-small", "luong2015-small"),
    ]
    message = "--presets must be names separated by commas, got 'cho2014-small,'."
    assert refusal(ConfigError, lambda: list(presets_in("cho2014-small,"))) == message


def on(train, valid=(), name="x"):
    return Variant(name, Config(data=DataConfig(train=train, valid=valid)))


def test_the_test_corpus_is_given_or_embedded_or_that_of_the_validation():
    assert find_test([on(("a", "b"))], Terms(test=("t.tsv",))) == ComparisonTest(("t.tsv",), "test")
    assert find_test([on(("reverse:60",))], Terms()) == ComparisonTest(("reverse",), "test")
    assert ComparisonTest(("reverse:5",), "test").open().name == "reverse:test:5"
    assert find_test([on(("a", "b"), ("c", "d"))], Terms()) == ComparisonTest(("c", "d"), "valid")
    assert refusal(DataError, find_test, [on(("a", "b"))], Terms()) == (
        "There is nothing to score on: give --test, or --test-source and --test-target."
    )
    assert refusal(DataError, find_test, [on(("a", "b")), on(("a", "c"), name="y")], Terms()) == (
        "The variants are not trained on the same data: give a --test corpus to score all of them on."
    )


def told(tagged, valid=(), name="x"):
    return Variant(name, Config(data=DataConfig(tagged=tagged, valid_tagged=valid)))


def test_corpora_with_tags_are_scored_on_corpora_with_tags():
    files, own = ("de=a.en,a.de", "fr=b.tsv"), ("de=reverse:60", "fr=copy:9")
    assert find_test([told(files)], Terms(test_tagged=("fr=t.tsv",))) == ComparisonTest(
        ("fr=t.tsv",), "test", tagged=True
    )
    assert find_test([told(own)], Terms()) == ComparisonTest(("de=reverse", "fr=copy"), "test", tagged=True)
    assert find_test([told(files, ("de=v.tsv",))], Terms()) == ComparisonTest(("de=v.tsv",), "valid", tagged=True)
    opened = ComparisonTest(("de=reverse:3", "fr=copy:2"), "test", tagged=True).open()
    assert [pair.source[:5] for pair in opened] == ["<2de>"] * 3 + ["<2fr>"] * 2


@pytest.mark.parametrize(
    ("variants", "terms", "message"),
    [
        ([told(("de=a.tsv", "fr=copy:9"))], Terms(), "There is nothing to score on: give --test-tagged."),
        ([told(("de=a.tsv",))], Terms(test=("t.tsv",)), "The test corpus has no tags, but data.tagged has: give "
                                                        "--test-tagged instead."),
        ([told(("de=a.tsv",))], Terms(test_tagged=("fr=t.tsv",)), "--test-tagged: there is no tag 'fr' in data.tagged, "
                                                                  "which has de."),
        ([told(("de=a.tsv",))], Terms(test_tagged=("t.tsv",)), "--test-tagged: 't.tsv' is not TAG=CORPUS, such as "
                                                               "de=train.en,train.de or fr=pairs.tsv (commas separate "
                                                               "the files of a corpus)."),
        ([told(("de=a.tsv", "fr=b.tsv"))], Terms(sentences=("<2fr> a", "a b")),
         "Sentence 2 of those to show has no tag: begin it with <2de> or <2fr>."),
        ([told(("de=a.tsv",)), told(("de=b.tsv",), name="y")], Terms(),
         "The variants are not trained on the same data: give --test-tagged to score all of them on."),
        ([told(("de=a.tsv",)), on(("a.tsv",), name="y")], Terms(), "Some variants are trained with tags "
                                                                  "(data.tagged), others without: compare only one "
                                                                  "kind."),
        ([on(("a.tsv",))], Terms(test_tagged=("fr=t.tsv",)),
         "--test-tagged has tags, but the training corpus has none: give --test instead."),
    ],
)  # fmt: skip
def test_tags_that_do_not_go_together_are_refused(variants, terms, message):
    assert refusal(RegardError, find_test, variants, terms) == message


def test_what_is_learnt_from_is_known_by_its_contents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "links", "reverse", "pic.npz", "pic.captions.tsv"):
        Path(name).write_text(name)
    (tmp_path / "images").mkdir()
    Path("images/captions.tsv").write_text("said")
    names = [
        contents_of(DataConfig(train=("a", "b", "talp:links"), valid=("missing.tsv",))),
        contents_of(DataConfig(train=("reverse:9",), valid=("reverse",))),
        contents_of(DataConfig(tagged=("de=a,b",), valid_tagged=("de=links",))),
        contents_of(DataConfig(train=("pic.npz",), valid=("images",))),
    ]
    assert [sorted(one) for one in names] == [
        ["a", "b", "talp:links"], [], ["a", "b", "links"], ["images/captions.tsv", "pic.captions.tsv", "pic.npz"],
    ]  # fmt: skip
    assert names[0]["a"] == names[2]["a"] != names[0]["b"]


def test_sentences_are_chosen_of_different_lengths_and_none_too_long():
    pairs = [Pair(" ".join("x" * count), "y") for count in range(1, 60)]
    lengths = [len(text.split()) for text in choose_sentences(pairs)]
    assert lengths == sorted(set(lengths))
    assert len(lengths) == 4
    assert max(lengths) <= 20
    assert choose_sentences([Pair("a b", "y")] * 9) == ("a b",)
    assert len(choose_sentences([Pair("x " * 50, "y")])) == 1
    assert choose_sentences([Pair("", "y")]) == ()


def test_every_variant_gets_every_seed():
    variants = [on(("copy",), name="a"), on(("copy",), name="b")]
    jobs = make_jobs(variants, Terms(seeds=(3, 4)), ComparisonTest(("copy",), "test"), ())
    assert [(job.name, job.variant, job.config.seed) for job in jobs] == [
        ("a-seed3", "a", 3), ("b-seed3", "b", 3), ("a-seed4", "a", 4), ("b-seed4", "b", 4),
    ]  # fmt: skip
    assert [job.name for job in make_jobs(variants, Terms(), ComparisonTest(("copy",), "test"), ())] == ["a", "b"]


def test_only_what_changes_the_training_counts_as_a_change():
    (old,) = make_jobs([on(("copy",))], Terms(), ComparisonTest(("copy",), "test"), ())
    new = assign(assign(old.config, "decoding.beam", 9), "training.device", "cpu")
    (same,) = make_jobs([Variant("x", new)], Terms(), ComparisonTest(("other",), "test"), ("a",))
    assert changes(old, same) == []
    (other,) = make_jobs([Variant("x", assign(new, "model.dropout", 0.9))], Terms(minutes=2), old.test, ())
    assert changes(old, other) == ["model.dropout: 0.2 → 0.9", "minutes: 0 → 2"]


def test_terms_are_checked_for_the_library_too():
    message = "There is nothing to compare: give at least one variant."
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        check([], Terms())
    with pytest.raises(ConfigError, match=r"^minutes is -1; it must be above 0, or 0 for no limit\.$"):
        check([on(("copy",))], Terms(minutes=-1))
