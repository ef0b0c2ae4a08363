"""Laws of the checks: what is wrong is found, what is right survives, and no line is lost in silence."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.corpus import open_corpus
from regard.data.corpus_checks import Options, check, quick_check
from regard.data.corpus_cleaning import clean
from regard.data.line_features import measure
from regard.data.line_files import open_lines
from regard.data.raw_lines import entries
from regard.data.unicode_scripts import script_of
from regard.errors import ConfigError, DataError

SHARED = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r\t"), max_size=9)
SOUND = [
    f"the {a} {b} sleeps\tle {b} {a} dort bien" for a in ("red", "blue", "old") for b in ("cat", "dog", "cow", "owl")
]
"""Pairs without a fault."""


@pytest.fixture
def written(tmp_path):
    """Write lines to a file and open it as a corpus."""

    def write(lines, name="a.tsv"):
        content = b"".join(line if isinstance(line, bytes) else f"{line}\n".encode() for line in lines)
        (tmp_path / name).write_bytes(content)
        return open_corpus([str(tmp_path / name)])

    return write


def found(checked):
    return {finding.name: (finding.broken.places + 1).tolist() for finding in checked.findings}


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("malformed", "no tab"),
        ("malformed", "a\tb\tc\td"),
        ("malformed", b"a\xff\tb\n"),
        ("malformed", b"a\0\tb\n"),
        ("malformed", "a\tb\t9-9"),
        ("empty", "\tvide"),
        ("empty", "void\t "),
        ("empty", ""),
        ("control", "ring\x07 ring\tdring"),
        ("control", "lost \ufffd mark\tperdu"),
        ("mojibake", "so nice\ttrÃ¨s joli"),
        ("mojibake", "the dash\tle â€“ tiret"),
        ("script", "good day\tдобрый день"),
        ("script", "今日は\tbonjour à tous"),
        ("ratio", "hi\t" + "le chat dort sur le grand lit " * 3),
        ("long", "word " * 400 + "\t" + "mot " * 500),
        ("identical", "not translated at all, this one\tnot translated at all, this one"),
        ("duplicate", SOUND[3]),
        ("markup", "a <b>bold</b> word\tun mot gras"),
        ("markup", "fish &amp; chips\tpoisson frit"),
        ("near-duplicate", "The RED cat sleeps!\tle  cat red dort bien."),
        ("same", "Linux 5\tLinux 5"),
        ("several", "the red cat sleeps\tautre chose"),
    ],
)
def test_a_planted_fault_is_found_where_it_is_and_nothing_else_is(written, rule, line):
    checked = check(written([*SOUND, line]))
    rows = found(checked)
    assert rows.pop(rule)[-1] == len(SOUND) + 1
    assert rows == {}
    assert checked.findings[0].examples[-1].line == len(SOUND) + 1


def test_nothing_is_wrong_with_sound_pairs(written):
    assert check(written(SOUND)).findings == ()


@pytest.mark.parametrize(
    "line",
    [
        "IBM\tIBM",  # a name is the same in both
        "GmbH & Co. KG\tune société",
        "NÃO\tnon",
        "„Spaß“\tle « CAFÉ »",
        "if a < b and c > d\tsi a < b",
        "😀😀\t👍",
        "12 + 3\t15",
        "...\t...",
    ],
)
def test_what_is_right_is_not_wrong(written, line):
    checked = check(written([*SOUND, line]))
    assert [finding.name for finding in checked.findings if finding.taken] == []


def test_what_is_common_is_what_the_corpus_is_about(written):
    repeated = [*SOUND, *[SOUND[0]] * 4]
    assert (check(written(repeated)).findings[0].taken, check(written(repeated)).findings[0].kept) == (
        False,
        "too many for a mistake",
    )
    mistakes = [*SOUND, *[SOUND[0]] * 3]
    assert check(written(mistakes)).findings[0].taken
    copies = [f"{text}\t{text}" for text in (line.split("\t")[1] for line in SOUND)]
    assert check(written(copies)).findings[0].kept == "too many for a mistake"
    corrections = [f"the {a} is is here\tthe {a} is here" for a in "abcdefghijkl"]
    kept = check(written([*corrections, "this is already right\tthis is already right"])).findings[-1]
    assert kept.kept.startswith("may be right: 100 % of the targets' words")


def test_how_long_is_too_long_follows_from_what_nineteen_of_twenty_lines_are(written):
    short = [f"{i} cats\t{i} chats" for i in range(20)]
    texts = [f"{i} {'word ' * 100}\t{i} {'mots ' * 100}" for i in range(80)]
    longer, longest = (f"{count} {'word ' * count}\t{count} {'mots ' * count}" for count in (900, 1100))
    assert found(check(written([*short, *texts, longer, longest])))["long"] == [102]


def test_japanese_is_written_in_two_scripts(written):
    pairs = [f"line {i} of the text\tこれ は {'東京' * (i % 5)} です" for i in range(30)]
    pairs += [f"another line {i}\t東京 大学 です" for i in range(30)]
    assert "script" not in found(check(written([*pairs, "the sea\t海岸線"])))
    assert found(check(written([*pairs, "the sea\tthe sea is blue"])))["script"] == [61]


@pytest.mark.parametrize(
    ("character", "script"),
    [
        *(("a", "Latin"), ("ß", "Latin"), ("Ａ", "Latin"), ("ə", "Latin"), ("я", "Cyrillic"), ("α", "Greek")),
        *(
            ("漢", "Han"),
            ("々", "Han"),
            ("ひ", "Kana"),
            ("ｶ", "Kana"),
            ("ー", "Kana"),
            ("한", "Hangul"),
            ("ع", "Arabic"),
        ),
        *(("1", None), ("!", None), (" ", None), ("ª", None), ("𝐀", None), ("😀", None), ("ह", "Devanagari")),
    ],
)
def test_scripts(character, script):
    assert script_of(character) == script


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=9))
def test_words_and_lengths_are_counted_as_python_counts_them(written, pairs):
    features = measure(
        entries(written([json.dumps(dict(zip(("source", "target"), p, strict=True))) for p in pairs], "a.jsonl"))
    ).features
    for side in (0, 1):
        assert features.words[side].tolist() == [len(pair[side].split()) for pair in pairs]
        assert features.length[side].tolist() == [len(pair[side]) for pair in pairs]
        for one, a in enumerate(pairs):
            for two, b in enumerate(pairs):
                assert (features.exact[side, one] == features.exact[side, two]) == (a[side] == b[side])


def test_a_text_of_any_length_is_counted_whole(written):
    long = "word " * 60_000
    features = measure(entries(written([f"a b\t{long}x", f"a b\t{long}y", f"a  b\t{long}y"]))).features
    assert features.words.tolist() == [[2, 2, 2], [60_001] * 3]
    assert features.length[1].tolist() == [300_001] * 3
    assert len(set(features.folded[0].tolist())) == 1
    assert [value == features.folded[1, 1] for value in features.folded[1].tolist()] == [False, True, True]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.tuples(TEXT, TEXT).map("\t".join) | TEXT | st.sampled_from(SOUND), max_size=12),
    ending=st.sampled_from(["tsv", "jsonl"]),
)
def test_every_line_is_either_kept_or_in_the_file_of_dropped_ones(written, tmp_path, lines, ending):
    lines = [*SOUND, *lines]
    out = tmp_path / f"out.{ending}"
    cleaned = clean(written(lines), out)
    kept, dropped = ([*open_lines(str(path))] for path in (out, cleaned.dropped))
    assert len(kept) == cleaned.kept
    assert len(kept) + len(dropped) == len(lines)
    assert sum(cleaned.taken) == len(dropped)
    numbers = [json.loads(line)["line"] if ending == "jsonl" else int(line.split("\t")[1]) for line in dropped]
    expected = [line.split("\t") for n, line in enumerate(lines, start=1) if n not in numbers]
    expected[0][0] = expected[0][0].removeprefix("\ufeff")
    assert [[pair.source, pair.target] for pair in open_corpus([str(out)])] == expected


def test_of_repeated_lines_one_stays_also_if_the_first_is_wrong_otherwise(written, tmp_path):
    lines = ["The\x07 red cat sleeps\tle cat red dort bien", *SOUND]
    options = Options(drop=("control", "near-duplicate"))
    cleaned = clean(written(lines), tmp_path / "out.tsv", options=options)
    assert (tmp_path / "out.tsv").read_text().splitlines() == SOUND
    assert cleaned.taken == (1, 0)  # it repeats, too, but is counted once


def test_alignments_are_kept_and_a_side_is_turned(written, tmp_path):
    clean(written(["a b\tc\t0-0 1p0", "\td"]), tmp_path / "out.tsv", options=Options(reverse=True))
    assert (tmp_path / "out.tsv").read_text() == "c\ta b\t0-0 0p1\n"
    assert (tmp_path / "out.dropped.tsv").read_text() == "empty\t2\td\t\n"


def test_overlap_with_what_is_held_out(written):
    held_out = written(["the red cat sleeps\tle cat red dort bien", "THE old COW sleeps.\tx", "\tempty"], "valid.tsv")
    checked = check(written(SOUND), [held_out])
    rows = {finding.name: finding for finding in checked.findings}
    assert found(checked) == {"overlap": [1], "near-overlap": [11]}
    assert rows["overlap"].taken
    assert not rows["near-overlap"].taken
    assert rows["overlap"].broken.told == f"the source is held out in {held_out.name} (1 with its target)"
    assert rows["near-overlap"].broken.told.endswith("(0 with its target)")


def test_texts_have_one_side(written, tmp_path):
    texts = written(
        ["first text of all", "", "second text", "first text of all", "Привет мир"] + [f"text {a}" for a in "abcdefg"],
        "a.txt",
    )
    assert found(check(texts)) == {"script": [5], "duplicate": [4]}
    cleaned = clean(texts, tmp_path / "out.txt")
    assert cleaned.kept == 9
    assert (tmp_path / "out.dropped.txt").read_text() == "duplicate\t4\t\tfirst text of all\nscript\t5\t\tПривет мир\n"


def test_a_glance_is_one_line(written):
    assert quick_check(written(SOUND)) == ""
    corpus = written([*SOUND, SOUND[0], "\tvide", "good day\tдобрый день", "good night\tдобрый день"])
    name = corpus.name
    assert (
        quick_check(corpus)
        == f"3 pairs look wrong (1 empty, 2 in another script): regard data {name} --check shows them"
    )
    assert quick_check(written([*SOUND, "x\t"])) == f"1 pair looks wrong (1 empty): regard data {name} --check shows it"
    many = written(["x\t", *SOUND * 2000])
    assert quick_check(many).startswith("1 of the first 20,000 pairs looks wrong (1 empty)")


def test_refusals(written, tmp_path):
    corpus = written(["x\t", "\ty"])
    with pytest.raises(ConfigError, match=r"^--drop: no rule 'dupplicate'\. .* Did you mean 'duplicate'\?$"):
        Options(drop=("dupplicate",))
    with pytest.raises(ConfigError, match=r"^--drop: no rule 'several'"):
        Options(drop=("several",))
    with pytest.raises(
        DataError, match=r": every line looks wrong, so there is nothing to write\. --check shows why\.$"
    ):
        clean(corpus, tmp_path / "out.tsv")
    with pytest.raises(ConfigError, match=r"are written as \.tsv or \.jsonl or \.ndjson, chosen by the suffix\.$"):
        clean(corpus, tmp_path / "out.csv")
    with pytest.raises(ConfigError, match=r"a\.tsv: this file is also an input\. Give another file\.$"):
        clean(corpus, tmp_path / "a.tsv")
    with pytest.raises(DataError, match=r"^Cannot write .*: no such file or directory\.$"):
        clean(written(SOUND), tmp_path / "nowhere" / "out.tsv")
    with pytest.raises(
        DataError, match=r"pair 1: a tab or a line break, which TSV cannot hold\. Use --clean OUT\.jsonl\.$"
    ):
        clean(written([r'{"source": "a\tb", "target": "c d"}'], "a.jsonl"), tmp_path / "out.tsv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.tsv"]


def test_parallel_files_pair_or_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"one\n\ntwo\xff\nthree\n")
    (tmp_path / "b").write_text("un\ndeux\ndeux\ntrois\n")
    corpus = open_corpus([str(tmp_path / "a"), str(tmp_path / "b")])
    assert found(check(corpus)) == {"malformed": [3], "empty": [2]}
    (tmp_path / "b").write_text("un\n")
    with pytest.raises(DataError, match="the files must pair line by line"):
        check(corpus)


@pytest.mark.parametrize(
    "name", ["inflection-finnish", "inflection-german", "inflection-turkish", "scan-turn-left", "enja"]
)
def test_what_strangers_bring_survives(name):
    path = SHARED / "own-tasks" / f"{name}.train.tsv.xz"
    if not path.is_file():
        pytest.skip(f"no shared data: {path}")
    checked = check(open_corpus([str(path)]))
    assert {finding.name for finding in checked.findings if finding.taken} <= {"duplicate"}
    assert len(checked.taken) < 10
