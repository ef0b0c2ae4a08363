"""`regard train --plan`, and what `regard train` does when nobody sets anything."""

import json
import os
import re

import pytest

from regard.config_io import read_toml, to_dict

WORDS = (
    *("the", "a", "red", "green", "dress", "man", "woman", "sees", "buys", "not"),
    *("house", "tree", "small", "big", "old", "new", "and", "or", "dog", "cat"),
)
STEPS = ("--steps", "2", "--device", "cpu", "--set", "decoding.beam=1")


def sentences(count, most=8):
    """Make sentences, none of them twice."""
    return [
        " ".join(WORDS[(number // 20**place) % 20] for place in range(2 + number % (most - 2)))
        for number in range(400, 400 + count)
    ]


def turned(text):
    return " ".join(text.upper().split()[::-1])


@pytest.fixture
def write(here):
    """Write a corpus into the current folder."""

    def corpus(pairs, name="own.tsv"):
        (here / name).write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
        return name

    return corpus


@pytest.fixture
def small(write):
    return write([(text, turned(text)) for text in sentences(300)])


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Time one step, not four, of what is planned."""
    monkeypatch.setattr("regard.training.cost_estimate.TIMED", 1)


def masked(text):
    """Put # for what depends on the machine: memory and time."""
    text = re.sub(r"about \S+ [MG]iB of \S+ [MG]iB", "about # of #", text)
    return re.sub(r"about [^;]*? for ([\d,]+ steps)", r"about # for \1", text)


def values(ran):
    """What a plan chose, by name."""
    assert ran.code == 0, ran.err
    return {choice["name"]: choice["value"] for choice in json.loads(ran.out)["choices"]}


# -- the table and the JSON --------------------------------------------------------------------------------------------


def test_the_table(regard, small, here):
    ran = regard("train", "--data", small, "--out", "m", "--plan", "--device", "cpu")
    assert ran.code == 0, ran.err
    assert [line.rstrip() for line in masked(ran.out).splitlines()] == TABLE.splitlines()
    assert not (here / "m").exists()


def test_the_table_of_texts_alone(regard, here):
    (here / "own.txt").write_text("".join(f"{text}\n" for text in sentences(300)), encoding="utf-8")
    ran = regard("train", "--data", "own.txt", "--out", "m", "--plan", "--device", "cpu")
    assert [line.rstrip() for line in masked(ran.out).splitlines()] == OF_TEXTS.splitlines()


def test_json_says_the_same_and_more(regard, small, here):
    asked = ("train", "--data", small, "--out", "m", "--device", "cpu")
    ran = regard(*asked, "--plan", "--json")
    told = json.loads(ran.out)
    table = regard(*asked, "--plan").out
    assert set(told) >= {"corpus", "choices", "estimate", "config"}
    assert (told["corpus"]["pairs"], told["corpus"]["target"]["words"]) == (300, told["corpus"]["source"]["words"])
    for choice in told["choices"]:
        assert choice["reason"]
        assert re.search(rf"^{re.escape(choice['name'])} ", table, re.MULTILINE)
    assert told["estimate"]["steps"] == values(ran)["training.steps"]
    assert 0 < told["estimate"]["memory"] < told["estimate"]["available"]
    assert told["config"]["training"]["metric"] == values(ran)["training.metric"]
    assert not (here / "m").exists()


def test_what_is_trained_is_what_was_planned(regard, small, here):
    asked = ("train", "--data", small, "--out", "m", *STEPS)
    told = json.loads(regard(*asked, "--plan", "--json").out)
    ran = regard(*asked)
    assert ran.code == 0, ran.err
    assert ran.err.startswith("Planned for 300 pairs: ")
    of_run, planned = to_dict(read_toml(here / "m" / "config.toml")), told["config"]
    for one in (of_run, planned):
        one["training"].pop("precision")  # auto is settled where training begins
        one["decoding"].pop("max_ratio")  # training raises it
    assert of_run == planned


def test_beside_a_preset_only_the_rest_is_chosen(regard, small):
    ran = regard(
        "train", "--data", small, "--out", "m", "--device", "cpu", "--plan", "--json", "--preset", "gnmt2016-small"
    )
    assert set(values(ran)) <= {"data.held_out", "data.max_length", "tokenizer.kind", "training.metric"} | {
        f"training.{name}" for name in ("steps", "epochs", "validate_every", "patience")
    }
    assert json.loads(ran.out)["config"]["preset"] == "gnmt2016-small"


def test_from_a_model_its_own_is_kept(regard, small, here, write):
    assert regard("train", "--data", small, "--out", "m", *STEPS).code == 0
    more = write([("old tree", "ERT DLO"), *((text, turned(text)) for text in sentences(100, 5))], "more.tsv")
    asked = ("train", "--from", "m", "--data", more, "--device", "cpu", "--out", "n")
    told = json.loads(regard(*asked, "--plan", "--json").out)
    before = to_dict(read_toml(here / "m" / "config.toml"))
    assert (told["config"]["tokenizer"], told["config"]["model"]) == (before["tokenizer"], before["model"])
    rate = before["training"]["learning_rate"]
    assert told["config"]["training"]["learning_rate"] == pytest.approx(rate / 3)
    ran = regard(*asked, "--steps", "1")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("given", ["--config", "--resume", "pictures"])
def test_what_is_not_planned(regard, refused, small, here, given):
    asked = ["--data", small]
    if given == "pictures":
        asked = ["--preset", "captioner-small", "--data", "scenes:20"]
    else:
        assert regard("train", "--data", small, "--out", "m", *STEPS).code == 0
        asked = asked if given == "--resume" else [*asked, "--config", "m/config.toml"]
    more = ["--resume"] if given == "--resume" else []
    asked = [] if more else asked
    assert refused("train", *asked, *more, "--out", "m" if more else "n", "--plan") == (
        "--plan is for new training runs on texts: leave it out with --config, --resume or pictures."
    )


def test_json_alone(refused, small):
    assert refused("train", "--data", small, "--out", "m", "--json") == "--json goes with --plan."


def test_what_was_set_wrongly_is_refused_before_the_corpus_is_read(refused, small):
    message = refused("train", "--data", small, "--out", "m", "--plan", "--set", "training.metric=blue")
    assert message.startswith("training.metric is 'blue'; it must be one of ")


# -- where corpora come from -------------------------------------------------------------------------------------------


def test_standard_input_is_surveyed_and_then_trained_on(regard, small, here):
    content = (here / small).read_bytes()
    ran = regard("train", "--data", "-", "--out", "m", *STEPS, stdin=content)
    assert ran.code == 0, ran.err
    assert "Planned for 300 pairs: " in ran.err
    assert re.search(r"^2\d\d training pairs", ran.err, re.MULTILINE)
    assert values(regard("train", "--data", "-", "--out", "n", "--device", "cpu", "--plan", "--json", stdin=content))


def test_a_pipe_is_surveyed_and_then_trained_on(regard, small, here):
    reading, writing = os.pipe()
    os.write(writing, (here / small).read_bytes())
    os.close(writing)
    ran = regard("train", "--data", f"/dev/fd/{reading}", "--out", "m", *STEPS)
    os.close(reading)
    assert ran.code == 0, ran.err
    assert "Planned for 300 pairs: " in ran.err


def test_tagged_and_mixed_corpora(regard, small, write):
    more = write([(text, text) for text in sentences(100, 5)], "more.tsv")
    for given, pairs in (
        (("--tagged", f"up={small}", "--tagged", f"same={more}"), 400),
        (("--data", f"{small}*2", "--data", more), 400),
    ):
        told = json.loads(regard("train", *given, "--out", "m", "--device", "cpu", "--plan", "--json").out)
        assert told["corpus"]["pairs"] in (pairs, 700)
        ran = regard("train", *given, "--out", f"m{given[0]}", *STEPS)
        assert ran.code == 0, ran.err


def test_alignments_guide_what_is_planned(regard, corpus, here):
    guided = ("train", "--data", corpus / "pairs.tsv", "--out", "m", *STEPS, "--set", "training.guided=0.5")
    ran = regard(*guided)
    assert ran.code == 0, ran.err
    assert "Planned for 60 pairs: " in ran.err


# -- corpora that are hardly ones --------------------------------------------------------------------------------------

HEBREW = ("שלום", "עולם", "ספר", "ילד", "ילדה", "בית", "כלב", "חתול")
ARABIC = ("مرحبا", "عالم", "كتاب", "ولد", "بنت", "بيت", "كلب", "قط")
EMOJI = "😀😃😄😁😆😅🤣😂🙂🙃😉😊😇🥰😍"
CHINESE = "".join(map(chr, range(0x4E00, 0x4F00)))


def picked(units, number, count):
    return [units[(number * 7 + place * place * 3) % len(units)] for place in range(count)]


TINY_CORPORA = {
    "five pairs": [(text, turned(text)) for text in sentences(5)],
    "one pair": [("one pair", "une paire")],
    "one pair again and again": [("one pair", "une paire")] * 100,
    "emoji": [("".join(picked(EMOJI, n, 5)), "".join(picked(EMOJI, n + 1, 4))) for n in range(60)],
    "one symbol": [("a", "a")] * 50,
    "digits": [(str(number), str(number)[::-1]) for number in range(1000, 1060)],
    "copies": [(text, text) for text in sentences(60)],
    "one source": [("same", text) for text in sentences(60)],
    "unequal": [*((" ".join(sentences(40)), "x") for _ in range(3)), *(("y", text) for text in sentences(60))],
    "right to left": [(" ".join(picked(HEBREW, n, 5)), " ".join(picked(ARABIC, n, 5))) for n in range(60)],
    "without spaces": [(text, "".join(picked(CHINESE, n, 18))) for n, text in enumerate(sentences(60))],
    "one character": [(text, "xyz"[n % 3]) for n, text in enumerate(sentences(60))],
    "control characters": [(f"a\x01b\x02 {text}", f"\x07{text}\u200b\u202e") for text in sentences(60)],
}


@pytest.mark.parametrize("name", TINY_CORPORA)
def test_anything_that_has_texts_is_trained_on(regard, here, write, name):
    """With a small network: what is chosen besides is what is tried here."""
    data = write(TINY_CORPORA[name])
    tiny = [f"model.{one}" for one in ("embedding=8", "encoder.width=8", "decoder.width=8", "decoder.readout_width=8")]
    less = [part for one in (*tiny, "model.attention.width=8") for part in ("--set", one)]
    ran = regard("train", "--data", data, "--out", "m", *STEPS, *less)
    assert ran.code == 0, ran.err
    assert re.search(r"^Finished after [12] steps", ran.err, re.MULTILINE)
    found = read_toml(here / "m" / "config.toml")
    of_sentences = name in ("one pair", "without spaces")
    assert (found.tokenizer.kind, found.training.metric) == (("bpe", "chrf") if of_sentences else ("spelled", "exact"))
    ran = regard("translate", "m", stdin="".join(f"{source}\n" for source, _ in TINY_CORPORA[name][:3]).encode())
    assert ran.code == 0, ran.err
    assert len(ran.lines) == min(3, len(TINY_CORPORA[name]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "own.tsv is empty: there is nothing to learn from."),
        (
            " \t \n\t\n  \t  \n",
            "own.tsv, line 1: the source and the target are empty. Fill in what is missing, or remove the line.",
        ),
        (
            f"{'ab' * 1_000_000}\tx\n" * 3,
            "All 3 pairs are longer than data.max_length = 1,024 tokens: the shortest has 2,000,000 characters, about "
            "2,001,000 tokens. Cut the texts into sentences, or raise data.max_length.",
        ),
        (
            f"x\t{'a ' * 1_000_000}\n",
            "The pair is longer than data.max_length = 1,024 tokens: the shortest has 2,000,000 characters, about "
            "1,000,000 tokens. Cut the texts into sentences, or raise data.max_length.",
        ),
    ],
)
@pytest.mark.parametrize("plan", [True, False])
def test_what_is_refused(refused, here, content, message, plan):
    (here / "own.tsv").write_text(content)
    assert refused("train", "--data", "own.tsv", "--out", "m", *(["--plan"] if plan else [])) == message
    assert not (here / "m").exists()


TABLE = """\
300 pairs: sources of 4.5 words and 17 characters on average, targets of 4.5 and 17.
setting                   value                           because
data.held_out             50                              no validation corpus was given: this many of the 300 sources
                                                          are held out
preset                    bahdanau2014-conditional-small  both sides are made of few words: recurrent decoders are
                                                          better at new combinations of them
tokenizer.kind            spelled                         100% of the targets have at most one rare word: frequent words
                                                          stay whole, all others are spelled
tokenizer.vocabulary      8000                            room for all characters and all frequent words
tokenizer.joint           true                            source and target share one vocabulary
data.max_length           128                             no text is longer
model.dropout             0.3                             without dropout, a corpus of this size is memorised
training.batch_tokens     500                             a twentieth of the corpus, at least 500 tokens
training.accumulate       1                               ″
training.schedule         cosine                          warm-up, then cosine decay to zero
training.learning_rate    0.002                           ″
training.label_smoothing  0.1                             keeps the model from becoming overconfident
training.beta2            0.98                            adapts faster to changing gradients
training.steps            1000                            about 303 passes over 1,650 tokens
training.epochs           1212                            ″
training.warmup           100                             1 step of 10
training.validate_every   50                              20 validations, about a tenth of the time
training.patience         10                              early stopping after this many without improvement
training.average          last                            the mean of the last five checkpoints is better than the last
training.average_last     5                               ″
training.save_every       25                              ″
training.metric           exact                           a string is right or wrong
decoding.beam             5                               gains a little on strings over greedy search
decoding.length_penalty   1.0                             ″
1,455,569 parameters with a vocabulary of 81; about # of # of memory; about # for 1,000 steps on the CPU.
"""
OF_TEXTS = """\
300 texts of 4.5 words.
setting                   value      because
preset                    gpt-small  one text a line and nothing to read: a language model
tokenizer.kind            bpe        sentences: frequent words stay whole, rare ones are cut into pieces
tokenizer.vocabulary      1000       300 texts in 18 different characters
data.max_length           128        no text is longer
model.dropout             0.4        the fewer tokens, the more dropout
training.batch_tokens     500        a twentieth of the corpus, at least 500 tokens
training.accumulate       1          ″
training.schedule         cosine     warm-up, then cosine decay to zero
training.learning_rate    0.002      ″
training.label_smoothing  0.1        keeps the model from becoming overconfident
training.beta2            0.98       adapts faster to changing gradients
training.steps            1200       about 302 passes over 1,988 tokens
training.epochs           1208       ″
training.warmup           240        1 step of 5
training.average          last       the mean of the last five checkpoints is better than the last
training.average_last     5          ″
training.save_every       30         ″
training.metric           loss       a language model has no translations to score
1,969,896 parameters with a vocabulary of 1,000; about # of # of memory; about # for 1,200 steps on the CPU.
"""
