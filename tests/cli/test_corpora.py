"""Whole runs on the less common corpora: tags, plain text, words and phonemes, alignments of one's own."""

import json

import pytest

from regard.config_io import read_toml
from regard.data.pair import Pair
from regard.decoding.translator import Translator

SMALL = (
    *("--set", "model.embedding=5", "--set", "model.encoder.width=7", "--set", "model.decoder.width=11"),
    *("--set", "model.decoder.readout_width=5", "--set", "model.attention.width=3"),
    *("--set", "training.steps=3", "--device", "cpu"),
)
LANGUAGE_MODEL = (
    *("--preset", "bahdanau2014-small"),
    *("--set", "model.encoder.kind=none", "--set", "model.attention=none", "--set", "model.decoder.kind=luong"),
    *("--set", "model.decoder.readout=none", "--set", "training.metric=loss"),
)


class TestTags:
    @pytest.mark.parametrize("option", ["tokenizer.joint=false", "model.tie=all"])
    def test_one_model_for_several(self, regard, here, option):
        tagged = ("--tagged", "again=copy:40", "--tagged", "back=reverse:40")
        valid = ("--valid-tagged", "back=reverse:valid:10")
        kind = ("--set", "tokenizer.kind=characters", "--set", option)
        ran = regard("train", *tagged, *valid, "--out", "model", *SMALL, *kind)
        assert ran.code == 0, ran.err
        assert ran.err.endswith('regard attend model "a sentence of yours" --to again\n')
        lines = b"<2again> ba be\n\n<2back> ba be\n"
        own = regard("translate", "model", "--beam", "3", stdin=lines)
        assert (own.code, own.err) == (0, "")
        assert len(own.lines) == 3
        told = [regard("translate", "model", "--beam", "3", "--to", to, stdin=b"ba be\n") for to in ("again", "back")]
        assert [own.lines[0], own.lines[2]] == [line for ran in told for line in ran.lines]
        # What names a language keeps it.
        assert regard("translate", "model", "--beam", "3", "--to", "back", stdin=lines).out == own.out
        assert "<2back>" in regard("attend", "model", "ba be", "--to", "back", "--beam", "1").out
        aligned = [regard("align", "model", "--data", "copy:9", "--to", to) for to in ("again", "back")]
        assert [(ran.code, len(ran.lines)) for ran in aligned] == [(0, 9)] * 2, aligned
        ran = regard("evaluate", "model", "--data", "copy:9", "--to", "again", "--beam", "1", "--json")
        assert json.loads(ran.out)["scores"]["AER"]["count"] == 9
        assert "already finished" in regard("train", "--resume", "--out", "model").err
        refusals = {
            (): "'ba be' has no tag for the language to write, and this model writes several (again, back): "
            "give --to again (in training, --tagged again=CORPUS), or begin it with <2again>.",
            ("--to", "bakc"): "This model does not write 'bakc', but again, back. Did you mean 'back'?",
        }
        for options, message in refusals.items():
            ran = regard("translate", "model", *options, stdin=b"ba be\n")
            assert (ran.code, ran.err) == (2, f"regard: {message}\n")

    def test_a_model_without_tags(self, regard, trained):
        ran = regard("translate", trained, "--to", "de", stdin=b"the dress\n")
        assert (ran.code, ran.err) == (
            2,
            "regard: This model was trained without tags, so it cannot write 'de': leave out --to.\n",
        )

    def test_training_that_is_refused(self, refused):
        assert refused("train", "--tagged", "de", "--out", "m").startswith("data.tagged: 'de' is not TAG=CORPUS")
        assert refused("train", "--tagged", "de=copy", "--data", "copy", "--out", "m") == (
            "data.train and data.tagged are both given: give either one corpus or several with tags."
        )


class TestSeveral:
    @pytest.fixture(autouse=True)
    def files(self, here):
        for name, count in (("a.tsv", 12), ("x*2", 8)):
            (here / name).write_text("".join(f"{name[0]}{n} na\tba\n" for n in range(count)))
        (here / "p.en").write_text("na\nna ba\n")
        (here / "p.de").write_text("ba\nba na\n")

    @pytest.mark.parametrize(
        ("given", "train", "mixed"),
        [
            (["a.tsv"], ("a.tsv",), ()),
            (["p.en, p.de"], ("p.en", "p.de"), ()),
            (["x*2"], ("x*2",), ()),
            (["a.tsv*2"], (), ("a.tsv*2",)),
            (["a.tsv", "p.en,p.de*0.5"], (), ("a.tsv", "p.en,p.de*0.5")),
            (["x*2", "a.tsv"], (), ("x*2*1", "a.tsv")),
            (["x*2*3", "a.tsv"], (), ("x*2*3", "a.tsv")),
        ],
    )
    def test_what_is_given_is_trained_on(self, regard, here, given, train, mixed):
        data = [part for one in given for part in ("--data", one)]
        ran = regard("train", *data, "--out", "m", *SMALL, "--set", "tokenizer.kind=characters")
        assert ran.code == 0, ran.err
        chosen = read_toml(here / "m/config.toml").data
        assert (chosen.train, chosen.mixed) == (train, mixed)
        assert regard("train", *data, "--out", "m", "--resume").code == 0

    def test_what_is_typed_goes_before_a_file(self, regard, here):
        (here / "c.toml").write_text('[data]\ntrain = ["a.tsv"]\n')
        few = ("--out", "m", "--overwrite", *SMALL, "--set", "tokenizer.kind=characters")
        assert regard("train", "--config", "c.toml", "--data", "a.tsv*2", "--data", "p.en,p.de", *few).code == 0
        assert read_toml(here / "m/config.toml").data.train == ()
        assert regard("train", "--config", "m/config.toml", "--data", "a.tsv", *few).code == 0
        assert read_toml(here / "m/config.toml").data.mixed == ()

    def test_training_that_is_refused(self, refused):
        assert refused("train", "--data", "a.tsv*0", "--out", "m") == (
            "data.mixed: 'a.tsv*0' has the weight 0; it must be above 0 and at most 1,000. Leave out a corpus that is "
            "not to be trained on."
        )
        for entry, message in (
            ("a.tsv*many", "data.mixed: 'a.tsv*many' ends in 'many' after the *, which is not a weight: "),
            ("a.tsv*-2", "data.mixed: 'a.tsv*-2' ends in '-2' after the *, which is not a weight: "),
            ("b.tsv*2", "No file 'b.tsv'. Did you mean 'a.tsv'?"),
        ):
            assert refused("train", "--data", entry, "--out", "m").startswith(message)
        both = ("--data", "a.tsv", "--data", "x*2")
        assert refused("train", *both, "--source", "a", "--target", "b", "--out", "m") == (
            "Give either --data or --source and --target, not both."
        )
        assert refused("train", *both, "--data", "-", "--out", "m") == (
            "data.mixed: '-' is standard input, which cannot be mixed: give a file."
        )
        assert refused("train", *both, "--tagged", "x=a.tsv", "--out", "m") == (
            "data.tagged and data.mixed are both given: give one of them."
        )

    def test_a_part_is_held_out(self, regard, refused, here):
        few = ("--out", "m", *SMALL, "--set", "tokenizer.kind=characters", "--set", "data.held_out=2")
        ran = regard("train", "--data", "-", *few, stdin=(here / "a.tsv").read_bytes())
        assert ran.code == 0, ran.err
        assert "Held out 2 pairs of standard input for validation; to train on all, " in ran.err
        assert "10 training pairs" in ran.err
        assert "validation loss" in ran.err
        found = regard("evaluate", "m", "--data", "m/cache/held_out.jsonl")
        assert found.out.startswith("m/cache/held_out.jsonl: 2 sentences")
        assert refused("train", "--data", "a.tsv", "--valid", "a.tsv", *few, "--overwrite") == (
            "data.valid is a validation corpus, and data.held_out=2 takes another from the training corpus: leave one "
            "of them out."
        )

    def test_compared(self, regard, here):
        few = ("--steps", "1", "--out", "out", *SMALL[:-4], "--device", "cpu", "--set", "tokenizer.kind=characters")
        held_out = ("--set", "data.held_out=2", "--test", "a.tsv")
        data = ("--data", "a.tsv*2", "--data", "p.en,p.de")
        ran = regard("compare", "--presets", "bahdanau2014-small", "--jobs", "0", *data, *held_out, *few)
        assert ran.code == 0, ran.err
        assert r"1 variant on a.tsv\*2 and p.en,p.de" in (here / "out/report.md").read_text()
        assert (here / "out/models/bahdanau2014-small/cache/held_out.jsonl").is_file()
        record = json.loads((here / "out/runs/bahdanau2014-small.json").read_text())
        assert sorted(record["contents"]) == ["a.tsv", "p.de", "p.en"]


class TestPlainText:
    def test_a_language_model(self, regard, here):
        (here / "a.txt").write_text("the red dress\n\nthe blue dress\n" * 20)
        ran = regard("train", "--data", "a.txt", "--valid", "a.txt", "--out", "lm", *SMALL, *LANGUAGE_MODEL)
        assert ran.code == 0, ran.err
        assert "40 training pairs" in ran.err
        report = json.loads(regard("evaluate", "lm", "--data", "a.txt", "--json").out)
        assert [*report["scores"]] == ["perplexity"]
        # Pairs will do as well: their sources are not read.
        (here / "a.tsv").write_text("any thing\tthe red dress\nelse\tthe blue dress\n" * 20)
        pairs = json.loads(regard("evaluate", "lm", "--data", "a.tsv", "--json").out)
        assert pairs["scores"] == report["scores"]
        ran = regard("train", "--data", "a.tsv", "--out", "other", *SMALL, *LANGUAGE_MODEL)
        assert ran.code == 0, ran.err
        first, second = (Translator.load(here / name) for name in ("lm", "other"))
        assert first.tokenizers.fingerprint == second.tokenizers.fingerprint

    def test_a_model_that_reads(self, refused, here, trained):
        (here / "a.txt").write_text("the red dress\n")
        message = (
            "a.txt has one text a line, but this model needs pairs of source and target: give two parallel files, or "
            "one .tsv or .jsonl file. Plain text is for language models (model.encoder.kind=none)."
        )
        reading = ("--preset", "bahdanau2014-small", "--out", "model")
        assert refused("train", "--data", "a.txt", *reading) == message
        assert not (here / "model").exists()
        assert refused("train", "--data", "copy:9", "--valid", "a.txt", *reading) == message
        assert refused("evaluate", trained, "--data", "a.txt") == message

    def test_printed(self, regard, refused, here):
        (here / "a.txt").write_text("the red dress\n\nblue\n")
        assert regard("data", "a.txt").out == "the red dress\nblue\n"
        assert regard("data", "a.txt", "--check").out == (
            "a.txt: 2 texts\n  text: 4 words, 2.0 a line, at most 3\nNothing looks wrong.\n"
        )
        assert refused("data", "a.txt", "--json") == (
            "a.txt has one text a line, and --json is for pairs: leave it out."
        )


class TestPronunciations:
    def test_letters_to_phonemes(self, regard, here):
        (here / "g2p.tsv").write_text("READ\tR IY D\nREAD\tR EH D\nCAB\tK AE B\nBAD\tB AE D\n" * 5)
        kinds = ("tokenizer.kind=characters", "tokenizer.target_kind=words", "tokenizer.joint=false")
        sets = [part for kind in kinds for part in ("--set", kind)]
        ran = regard("train", "--data", "g2p.tsv", "--valid", "g2p.tsv", "--out", "g2p", *SMALL, *sets)
        assert ran.code == 0, ran.err
        model = Translator.load(here / "g2p")
        trace = model.align([Pair("CAB", "K AE B")])[0]
        assert trace.source == ("C", "A", "B", "</s>")
        assert trace.target == ("K", "AE", "B", "</s>")
        apart, grouped = (
            json.loads(regard("evaluate", "g2p", "--data", "g2p.tsv", "--json", *more).out)
            for more in ((), ("--group",))
        )
        assert (apart["sentences"], grouped["sentences"]) == (20, 3)
        assert grouped["scores"]["sequence error rate"]["count"] == 3

    def test_one_vocabulary_is_refused(self, refused, here):
        (here / "g2p.tsv").write_text("READ\tR IY D\n")
        sets = ("--set", "tokenizer.kind=characters", "--set", "tokenizer.target_kind=words")
        assert refused("train", "--data", "g2p.tsv", "--out", "g2p", *sets) == (
            "tokenizer.target_kind=words beside tokenizer.kind=characters makes two vocabularies, but "
            "tokenizer.joint=true asks for one: set tokenizer.joint=false."
        )


class TestAlignments:
    def test_training_is_guided_by_a_file(self, regard, here):
        (here / "a.en").write_text("the red dress\nthe dress\n" * 20)
        (here / "a.fr").write_text("la robe rouge\nla robe\n" * 20)
        (here / "links").write_text("1-1 2-3 3-2\n1-1 2p2\n" * 20)
        files = ("--source", "a.en", "--target", "a.fr", "--alignments", "talp:links")
        ran = regard("train", *files, "--out", "guided", *SMALL, "--set", "training.guided=0.5")
        assert ran.code == 0, ran.err
        index = json.loads((here / "guided" / "cache" / "train" / "cache.json").read_text())
        assert index["aligned"] == 40
        ran = regard("evaluate", "guided", *files, "--layer", "0", "--head", "0", "--shift", "--json")
        assert "layer 0, head 0, attention of the next step" in json.loads(ran.out)["scores"]["AER"]["made_by"]

    def test_both_directions(self, regard, refused, trained, corpus, here):
        pairs = ("--data", corpus / "pairs.tsv")
        ran = regard("evaluate", trained, *pairs, "--beam", "1", "--reverse-model", trained, "--json")
        made_by = json.loads(ran.out)["scores"]["AER"]["made_by"]
        assert "both directions merged by grow-diag-final-and" in made_by
        ran = regard(
            *("evaluate", trained, *pairs, "--beam", "1", "--json"),
            *("--reverse-model", trained, "--symmetrise", "intersection"),
        )
        assert "merged by intersection" in json.loads(ran.out)["scores"]["AER"]["made_by"]
        assert refused("evaluate", trained, *pairs, "--symmetrise", "union") == (
            "--symmetrise merges the alignments of two models: give --reverse-model as well."
        )
        assert refused("evaluate", trained, *pairs, "--reverse-model", trained, "--symmetrise", "onion") == (
            "No way to merge alignments named 'onion'. Did you mean 'union'? (regard list symmetrisations shows all)"
        )
        assert refused("evaluate", trained, *pairs, "--layer", "7") == (
            "There is no layer 7: this model has 1, counted from 0."
        )
        assert refused("evaluate", trained, "--data", "dates:5", "--shift") == (
            "There is no gold alignment to score the attention against: give one with --alignments."
        )

    def test_printed_the_other_way_round(self, regard, here):
        (here / "a.de").write_text("das Kleid\n")
        (here / "a.en").write_text("the red dress\n")
        (here / "a.talp").write_text("1-1 2-3 2p2\n")
        assert regard("data", "a.de", "a.en", "a.talp").out == "das Kleid\tthe red dress\t0-0 1p1 1-2\n"
        assert regard("data", "a.de", "a.en", "a.talp", "--reverse").out == "the red dress\tdas Kleid\t0-0 1p1 2-1\n"
