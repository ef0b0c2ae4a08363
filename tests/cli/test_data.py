"""`regard data`: what it prints can be read back, pair by pair."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from regard.data.builtin_corpora import corpora
from regard.data.corpus import open_corpus

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9).filter(str.strip)


def content(pairs):
    return [(pair.source, pair.target, None if pair.alignment is None else str(pair.alignment)) for pair in pairs]


@pytest.mark.parametrize("name", [*corpora])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize(("option", "suffix"), [((), "tsv"), (("--json",), "jsonl")])
def test_what_is_printed_can_be_read_back(regard, here, name, split, option, suffix):
    ran = regard("data", name, "--split", split, "--size", "23", *option)
    assert (ran.code, ran.err) == (0, "")
    (here / f"back.{suffix}").write_text(ran.out, encoding="utf-8", newline="")
    expected = content(open_corpus([f"{name}:23"], split))
    assert content(open_corpus([f"back.{suffix}"])) == expected
    assert len(expected) == 23


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
@example(pairs=[("a", "b\r")])
@example(pairs=[("a\tb", "c")])
@example(pairs=[("a", "b\nc")])
def test_any_text_survives_as_json_and_as_tsv_or_is_refused(regard, here, pairs):
    lines = "".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in pairs)
    as_json = regard("data", "-", "--json", stdin=lines.encode())
    assert [tuple(json.loads(line).values()) for line in as_json.lines] == pairs
    as_tsv = regard("data", "-", stdin=lines.encode())
    if as_tsv.code == 0:
        (here / "back.tsv").write_bytes(as_tsv.out.encode())
        found = [(source, target) for source, target, _ in content(open_corpus(["back.tsv"]))]
        assert found == [
            (source.removeprefix("\ufeff") if i == 0 else source, t) for i, (source, t) in enumerate(pairs)
        ]
    else:
        assert any("\t" in text or "\n" in text or text.endswith("\r") for pair in pairs for text in pair)


def test_what_tsv_cannot_hold_is_refused_and_named(regard, here):
    (here / "a.jsonl").write_text('{"source": "x", "target": "y"}\n{"source": "a\\tb", "target": "c"}\n')
    ran = regard("data", "a.jsonl")
    assert (ran.code, ran.out) == (2, "x\ty\n")
    assert ran.err == "regard: a.jsonl, pair 2: a tab or a line break, which TSV cannot hold. Use --json.\n"


def test_a_size_is_the_first_of_more(regard):
    few, more = (regard("data", "phrasebook", "--size", size).lines for size in ("5", "17"))
    assert more[:5] == few
    assert len(regard("data", "copy", "--split", "valid", "--size", "777").lines) == 777  # more than there are unasked
    assert len(regard("data", "phrasebook:3", "--size", "9").lines) == 3


def test_a_seed_decides(regard):
    one, two, again = (regard("data", "phrasebook", "--size", "5", "--seed", seed).out for seed in "121")
    assert one == again
    assert one != two


def test_two_files_become_one(regard, corpus):
    both = regard("data", corpus / "pairs.en", corpus / "pairs.fr").lines
    rows = (corpus / "pairs.tsv").read_text(encoding="utf-8").splitlines()
    assert both == [row.rpartition("\t")[0] for row in rows]
    assert regard("data", *(corpus / f"pairs.{end}" for end in ("en", "fr", "align"))).lines == rows


def test_check_reads_all_and_sums_up(regard, here):
    (here / "a.tsv").write_text("a b c\td\ne\tf g\t0-0 0p1\n")
    assert regard("data", "a.tsv", "--check").out == (
        "a.tsv: 2 pairs, 1 with a gold alignment\n"
        "  source: 4 words, 2.0 a line, at most 3\n"
        "  target: 3 words, 1.5 a line, at most 2\n"
        "Nothing looks wrong.\n"
    )
    assert regard("data", "a.tsv", "--check", "--size", "1").out == (
        "a.tsv: 1 pair, 0 with a gold alignment\n"
        "  source: 3 words, 3.0 a line, at most 3\n"
        "  target: 1 word, 1.0 a line, at most 1\n"
        "Nothing looks wrong.\n"
    )


@pytest.mark.parametrize(
    ("given", "content", "message"),
    [
        (
            (),
            "a\tb\nc\n",
            "a.tsv, line 2: no tab. A line is source TAB target, or source TAB target TAB alignment.",
        ),
        (
            (),
            "a\tb\n\td\n",
            "a.tsv, line 2: the source is empty. Fill in what is missing, or remove the line.",
        ),
        (("--check",), "", "a.tsv is empty: there is nothing to learn from."),
        (("--size", "0"), "a\tb\n", "--size is 0; it must be at least 1."),
        (("--size", "-1", "--check"), "a\tb\n", "--size is -1; it must be at least 1."),
        (("--split", "nonsense"), "a\tb\n", "Leave out --split: only embedded corpora have parts, and a.tsv is none."),
    ],
)
def test_refusals(regard, here, given, content, message):
    (here / "a.tsv").write_text(content)
    ran = regard("data", "a.tsv", *given)
    assert (ran.code, ran.err) == (2, f"regard: {message}\n")


def test_an_unknown_split(refused):
    assert refused("data", "copy", "--split", "vaild") == (
        "No split named 'vaild' in copy. Did you mean 'valid'? It has train, valid, test."
    )


def test_check_tells_what_is_wrong_and_clean_leaves_it_out(regard, here):
    lines = [f"the {a} cat\tle chat {a}" for a in "abcdefghijklmnopqrst"]
    (here / "a.tsv").write_text("\n".join([*lines, "\tvide", lines[0], "a <b>\tle <b>"]) + "\n")
    assert regard("data", "a.tsv", "--check").lines[3:] == [
        "2 lines look wrong (8.7 %); --clean OUT leaves out:",
        "  empty: 1 (4.3 %), a side has no text",
        "    a.tsv, line 21: the source is empty. Fill in what is missing, or remove the line.",
        "  duplicate: 1 (4.3 %), the same pair came before",
        "    line 22: 'the a cat' → 'le chat a' (as line 1)",
        "Kept, unless asked for with --drop:",
        "  markup: 1 (4.3 %), a tag or an entity of HTML; may be right",
        "    line 23: 'a <b>' → 'le <b>'",
    ]
    ran = regard("data", "a.tsv", "--clean", "b.tsv")
    assert ran.lines == [
        "b.tsv: 21 of 23 lines",
        "b.dropped.tsv: 2 lines left out, each with its rule and its number",
        "  empty: 1 (4.3 %), a side has no text",
        "  duplicate: 1 (4.3 %), the same pair came before",
        "Kept, unless asked for with --drop:",
        "  markup: 1 (4.3 %), a tag or an entity of HTML; may be right",
    ]
    assert regard("data", "b.tsv").lines == [*lines, "a <b>\tle <b>"]
    assert (here / "b.dropped.tsv").read_text() == "empty\t21\t\tvide\nduplicate\t22\tthe a cat\tle chat a\n"
    assert regard("data", "a.tsv", "--clean", "b.jsonl", "--drop", "markup").lines[0] == "b.jsonl: 21 of 23 lines"
    assert json.loads((here / "b.dropped.jsonl").read_text().splitlines()[1])["rule"] == "markup"


def test_check_for_programs(regard, here):
    (here / "a.tsv").write_text("a\tb\nc\td\n\te\n")
    (here / "v.en").write_text("c\n")
    (here / "v.fr").write_text("d\n")
    found = json.loads(regard("data", "a.tsv", "--check", "--json", "--against", "v.en,v.fr").out)
    assert {key: found[key] for key in ("corpus", "lines", "pairs", "aligned", "wrong")} == {
        "corpus": "a.tsv",
        "lines": 3,
        "pairs": 2,
        "aligned": 0,
        "wrong": 2,
    }
    assert found["source"] == {"words": 2, "mean": 1.0, "longest": 1}
    assert [(rule["rule"], rule["lines"], rule["wrong"]) for rule in found["rules"]] == [
        ("empty", 1, True),
        ("overlap", 1, True),
    ]
    assert found["rules"][1]["examples"] == [{"line": 2, "source": "c", "target": "d"}]
    cleaned = json.loads(regard("data", "a.tsv", "--clean", "b.tsv", "--json").out)
    assert (cleaned["out"], cleaned["dropped"], cleaned["kept"]) == ("b.tsv", "b.dropped.tsv", 2)
    assert [rule["left_out"] for rule in cleaned["rules"]] == [1]


@pytest.mark.parametrize("option", [("--drop", "empty"), ("--against", "a.tsv")])
def test_options_of_checks_go_with_a_check(refused, here, option):
    (here / "a.tsv").write_text("a\tb\n")
    assert refused("data", "a.tsv", *option) == f"{option[0]} goes with --check or --clean."
    assert refused("data", "scenes:3", "--check", *option) == (
        f"scenes:3 has pictures, and {option[0]} is for texts: leave it out."
    )
