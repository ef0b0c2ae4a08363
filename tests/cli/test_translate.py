"""`regard translate`: line i of the output belongs to line i of the input, whatever the input is."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard as package
from regard.data.corpus import open_corpus
from regard.decoding.translated_pairs import PairRows
from regard.decoding.translation import nothing

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=9)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS, max_size=5))
def test_there_are_as_many_lines_as_came_in(regard, trained, texts):
    ran = regard("translate", trained, "--beam", "2", stdin="".join(f"{text}\n" for text in texts).encode())
    assert ran.code == 0, ran.err
    assert len(ran.lines) == len(texts)
    for text, line in zip(texts, ran.lines, strict=True):
        assert text.removeprefix("\ufeff").strip() or not line


def test_a_line_is_translated_as_it_would_be_alone(regard, trained, corpus):
    texts = (corpus / "pairs.en").read_text(encoding="utf-8").splitlines()[:9]
    translator = package.load(trained)
    expected = [translator.translate([text])[0].text for text in texts]
    assert any(expected)
    with_gaps = "\n\n".join(texts).encode()
    assert regard("translate", trained, stdin=with_gaps).lines[::2] == expected
    assert regard("translate", trained, "--batch", "2", stdin=with_gaps).lines[1::2] == [""] * 8


def test_marks_and_ends_of_files_are_not_text(regard, trained):
    plain = regard("translate", trained, stdin=b"the dog\na cat\n").out
    assert regard("translate", trained, stdin="\ufeffthe dog\r\na cat\r\n".encode()).out == plain
    assert regard("translate", trained, stdin=b"the dog\na cat").out == plain


def test_separators_of_lines_elsewhere_are_text_here(regard, trained):
    ran = regard("translate", trained, stdin="the\u2028dog\u0085sees\x0ba\x0ccat\n\nend\n".encode())
    assert len(ran.lines) == 3
    assert ran.lines[1] == ""


def test_nothing_in_nothing_out(regard, trained):
    ran = regard("translate", trained, stdin=b"")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_lines_before_a_broken_one_are_translated(regard, trained):
    ran = regard("translate", trained, stdin=b"the dog\n\n\xff\nmore\n")
    assert ran.code == 2
    assert ran.out == regard("translate", trained, stdin=b"the dog\n\n").out
    assert ran.err == (
        "regard: Line 3 of the input is not valid UTF-8 (byte 1): "
        "convert it, for example with iconv -f latin1 -t utf-8.\n"
    )


def test_n_best_are_numbered_by_line_and_sorted(regard, trained):
    texts = ["the dog", "", "a red cat"]
    ran = regard("translate", trained, "--n-best", "3", "--beam", "4", stdin="\n".join(texts).encode())
    assert ran.code == 0
    rows = [line.split("\t") for line in ran.lines]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "3", "3", "3"]
    assert rows[3] == ["2", "0.0000", ""]
    for number in ("1", "3"):
        scores = [float(row[1]) for row in rows if row[0] == number]
        assert scores == sorted(scores, reverse=True)
    best = regard("translate", trained, "--beam", "4", stdin="\n".join(texts).encode()).lines
    assert [rows[0][2], rows[3][2], rows[4][2]] == best


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--beam", "0"), "--beam is 0; it must be at least 1."),
        (("--n-best", "0"), "--n-best is 0; it must be at least 1."),
        (("--batch", "-3"), "--batch is -3; it must be at least 1."),
        (
            ("--beam", "2", "--n-best", "3"),
            "n_best is 3 but decoding.beam is 2: beam search returns at most as many hypotheses as its beam has. Set "
            "the beam to 3 or more.",
        ),
        (("--device", "gpu"), "There is no device 'gpu': use auto, cpu or cuda."),
    ],
)
def test_refusals(refused, trained, given, message):
    assert refused("translate", trained, *given, stdin=b"the dog\n") == message


class TestPairs:
    TEXTS = ("the dog", "", "a red  cat ", "  ", "the dog")

    def pairs(self, regard, model, *options, texts=TEXTS):
        ran = regard("translate", model, "--pairs", "--beam", "4", *options, stdin="\n".join(texts).encode())
        assert ran.code == 0, ran.err
        return [line.split("\t") for line in ran.lines], ran.err

    def test_what_was_read_beside_what_was_written(self, regard, trained, here):
        best = regard("translate", trained, "--beam", "4", stdin="\n".join(self.TEXTS).encode()).lines
        expected = [[text, line] for text, line in zip(self.TEXTS, best, strict=True) if text.strip()]
        found, told = self.pairs(regard, trained)
        assert found == expected
        assert told == "regard: 2 lines are left out: empty, or with an empty translation.\n"
        turned, _ = self.pairs(regard, trained, "--reverse")
        assert turned == [pair[::-1] for pair in expected]
        assert self.pairs(regard, trained, "--tag", "<bt>")[0] == [[f"<bt> {text}", line] for text, line in expected]
        tagged, _ = self.pairs(regard, trained, "--reverse", "--tag", "<bt>")
        assert tagged == [[f"<bt> {line}", text] for text, line in expected]
        # It is a corpus as it is.
        (here / "made.tsv").write_text("".join("\t".join(pair) + "\n" for pair in tagged))
        assert [list(map(str, (pair.source, pair.target))) for pair in open_corpus(["made.tsv"])] == tagged
        assert self.pairs(regard, trained, texts=["the dog", "", "a cat"])[1].startswith("regard: 1 line is left out: ")
        assert self.pairs(regard, trained, texts=["the dog"])[1] == ""

    def test_several_of_each(self, regard, trained):
        listed = regard("translate", trained, "--beam", "4", "--n-best", "4", stdin=b"the dog\na cat\n").lines
        found, _ = self.pairs(regard, trained, "--n-best", "4", texts=["the dog", "a cat"])
        texts = {"1": "the dog", "2": "a cat"}
        expected = [(texts[number], text) for number, _, text in (line.split("\t") for line in listed)]
        assert [tuple(pair) for pair in found] == list(dict.fromkeys(expected))

    def test_no_pair_has_an_empty_side(self):
        rows = PairRows(reverse=True)
        translation = nothing()
        assert list(rows.rows("a text", translation)) == []
        assert list(rows.rows(" ", replace(translation, text="b"))) == []
        assert list(rows.rows("a", replace(translation, text="b\tc", n_best=[translation]))) == ["b c\ta"]
        assert rows.left_out == 2

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (("--reverse",), "--reverse is for --pairs: give both, or leave it out."),
            (("--tag", "bt"), "--tag is for --pairs: give both, or leave it out."),
            (("--pairs", "--tag", "a b"), "The tag 'a b' must be one word, such as <bt>: leave out its white space."),
            (("--pairs", "--tag", " bt"), "The tag ' bt' must be one word, such as <bt>: leave out its white space."),
            (
                ("--pairs",),
                "Line 2 of the input has a tab, which separates the texts of a pair: give single texts, such as one "
                "column of a TSV file (cut -f 1).",
            ),
        ],
    )
    def test_refused(self, refused, trained, given, message):
        assert refused("translate", trained, *given, stdin=b"the dog\na\tb\n") == message

    def test_a_language_model_has_no_pairs(self, refused, language_model):
        assert refused("translate", language_model, "--pairs", stdin=b"the dog\n") == (
            f"{language_model} is a language model, which continues texts: --pairs needs one that translates."
        )


def test_in_python_it_is_the_same(regard, trained):
    translation = package.load(trained).translate(["the red dress"], beam=3)[0]
    assert regard("translate", trained, "--beam", "3", stdin=b"the red dress\n").out == f"{translation.text}\n"


def test_a_slow_writer_is_answered_before_the_input_ends(trained):
    """Through pipes, as another program would: the answer to a line comes while the next is not yet written."""
    arguments = [sys.executable, "-m", "regard", "translate", str(trained)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        for text in (b"the dog\n", b"\n", b"a cat\n"):
            process.stdin.write(text)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait() == 0


def test_decoding_settings_can_be_changed_for_one_call(regard, refused, trained):
    long = regard(
        "translate", trained, "--set", "decoding.min_length=9", "--set", "decoding.max_length=12", stdin=b"the cat\n"
    )
    short = regard("translate", trained, "--set", "decoding.max_length=2", stdin=b"the cat\n")
    assert len(long.lines[0].split()) >= 9
    assert len(short.lines[0].split()) <= 2
    assert refused("translate", trained, "--set", "model.dropout=0.5") == (
        "'model.dropout=0.5' cannot be changed in a trained model: only decoding settings can."
    )


def method(*changes):
    return [part for change in changes for part in ("--set", f"decoding.{change}")]


def test_several_models_write_together(regard, refused, trained, another):
    both = package.load(trained, another).translate(["the red dress", "a cat"], beam=3)
    ran = regard("translate", trained, "--with", another, "--beam", "3", stdin=b"the red dress\na cat\n")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [translation.text for translation in both]
    turned = regard("translate", another, "--with", trained, "--beam", "3", stdin=b"the red dress\na cat\n")
    assert turned.out == ran.out
    itself = regard("translate", trained, "--with", trained, "--with", trained, "--n-best", "2", stdin=b"the dog\n")
    assert itself.out == regard("translate", trained, "--n-best", "2", stdin=b"the dog\n").out
    assert refused("translate", trained, "--with", "nowhere") == (
        "There is no model folder nowhere: train a model with regard train … --out nowhere."
    )


def test_models_that_do_not_fit_are_refused_by_name(refused, trained, language_model):
    assert refused("translate", trained, "--with", language_model) == (
        f"{trained} and {language_model} cannot form an ensemble: it needs the same vocabularies, and theirs differ. "
        "Train both on the same data with the same tokenizer settings."
    )


def test_samples_come_from_the_seed(regard, trained):
    def draw(*changes, text=b"the dog\n\na red cat\n"):
        ran = regard("translate", trained, "--n-best", "4", *method("method=sample", *changes), stdin=text)
        assert ran.code == 0, ran.err
        return ran.lines

    first = draw()
    assert [line.split("\t")[0] for line in first] == [*"1111", "2", *"3333"]
    assert draw() == first
    assert draw("seed=2") != first
    assert [line.split("\t")[1:] for line in draw(text=b"a red cat\n")] == [line.split("\t")[1:] for line in first[5:]]
    greedy = regard("translate", trained, "--beam", "1", stdin=b"the dog\n").lines
    assert {line.split("\t")[2] for line in draw("top_k=1", text=b"the dog\n")} == {*greedy}


@pytest.mark.parametrize("changes", [("method=mbr", "samples=5"), ("method=diverse", "groups=2", "beam=4")])
def test_every_method_is_at_hand(regard, trained, changes):
    ran = regard("translate", trained, "--n-best", "3", *method(*changes, "max_length=9"), stdin=b"the dog\na cat\n")
    assert (ran.code, ran.err) == (0, "")
    scores = [float(line.split("\t")[1]) for line in ran.lines if line.startswith("1\t")]
    assert 1 <= len(scores) <= 3
    one = regard("translate", trained, *method(*changes, "max_length=9"), stdin=b"the dog\na cat\n")
    assert one.lines[0] == ran.lines[0].split("\t")[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("method=greedy",), "No decoding method named 'greedy'. (regard list methods shows all)"),
        (
            ("metod=beam",),
            "Unknown setting 'decoding.metod'. Did you mean 'decoding.method'? (regard list settings shows all)",
        ),
        (("top_p=2",), "decoding.top_p is 2.0; it must be above 0 and at most 1 (1 for all tokens)."),
        (("samples=few",), "decoding.samples must be a whole number, got 'few'."),
    ],
)
def test_settings_that_are_none_are_refused(refused, trained, changes, message):
    assert refused("translate", trained, *method(*changes), stdin=b"the dog\n") == message


def test_a_language_model_continues_each_line_also_an_empty_one(regard, language_model):
    changes = method("method=sample", "min_length=3", "max_length=6")
    ran = regard("translate", language_model, *changes, stdin=b"le chien\n\nla\n")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith("le chien ")
    assert len(ran.lines[1].split()) >= 3
    assert ran.lines[2].startswith("la ")


def test_a_language_that_a_model_does_not_know_of(refused, trained):
    assert refused("translate", trained, "--to", "de", stdin=b"the dog\n") == (
        "This model writes one language only, so it cannot be asked for 'de': leave out --to."
    )


def test_fast_is_three_settings(regard, trained, corpus, caplog):
    """Rounded to 8 bits, ended early, and with a shortlist where the model has one."""
    texts = "\n".join((corpus / "pairs.en").read_text(encoding="utf-8").splitlines()[:9]).encode()
    translator = package.load(trained)
    own = translator.options
    fast = translator.faster()
    assert (fast.precision, fast.patience, fast.shortlist) == ("int8", 1.0, 0)
    assert replace(fast, precision=own.precision, patience=own.patience) == own
    one_by_one = ("--set", "decoding.precision=int8", "--set", "decoding.patience=1")
    assert (
        regard("translate", trained, "--fast", stdin=texts).lines
        == regard("translate", trained, *one_by_one, stdin=texts).lines
    )
    translator.options = replace(own, patience=2.0, shortlist=5)
    assert (translator.faster().patience, translator.faster().shortlist) == (2.0, 5)
    translator.shortlist = object()
    translator.options = own
    assert translator.faster().shortlist == 32


def test_a_shortlist_that_there_is_not(regard, trained):
    size = package.load(trained).tokenizers.target.size
    ran = regard("translate", trained, "--set", "decoding.shortlist=32", stdin=b"the dog\n")
    assert (ran.code, ran.err) == (
        2,
        "regard: decoding.shortlist needs a table of likely words, and the model folder has no shortlist.safetensors: "
        f"none was made, since of {size} words a shortlist would save nothing. Set decoding.shortlist=0.\n",
    )


def test_terms_survive(regard, refused, trained, tmp_path):
    (tmp_path / "terms.tsv").write_text("dog\tchien <dog>\n", encoding="utf-8")
    own = ("--keep", r"<[^>]+>|\d+", "--glossary", tmp_path / "terms.tsv")
    ran = regard("translate", trained, *own, "--n-best", "2", stdin=b"the dog <1>\na cat\n3 cats and 3 dogs\n")
    assert (ran.code, ran.err) == (0, "")
    found = [line.split("\t") for line in ran.lines]
    assert all("<1>" in text and "chien <dog>" in text for number, _, text in found if number == "1")
    assert all(text.split().count("3") == 2 for number, _, text in found if number == "3")
    plain = regard("translate", trained, "--n-best", "2", stdin=b"a cat\n").lines
    assert [line[1:] for line in ran.lines if line.startswith("2")] == [line[1:] for line in plain]
    assert refused("translate", trained, "--keep", "(", stdin=b"a\n") == (
        "The pattern of terms to keep, '(', is not a regular expression: missing ), unterminated subpattern at "
        "position 0."
    )
    assert refused("translate", trained, "--glossary", "nowhere.tsv", stdin=b"a\n") == "No file 'nowhere.tsv'."
