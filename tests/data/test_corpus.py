"""Corpora: every form reads the same pairs; every wrong input says what is wrong, where, and what to do."""

import gzip
import io
import json
import lzma
import os
import sys
import threading
import types
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import line_files
from regard.data.alignments import parse_alignment
from regard.data.corpus import for_model, open_corpus
from regard.data.pair import Alignment, Pair
from regard.errors import DataError

PAIRS = [
    Pair("the red dress", "la robe rouge", Alignment(frozenset({(0, 0), (1, 2)}), frozenset({(2, 1)}))),
    Pair("two  spaces, an emoji 😀 ", "Größe 日本", Alignment(frozenset(), frozenset())),
]
SOURCES = [pair.source for pair in PAIRS]
TARGETS = [pair.target for pair in PAIRS]
LINKS = [str(pair.alignment) for pair in PAIRS]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, content):
    content = content if isinstance(content, bytes) else content.encode()
    if name.endswith(".gz"):
        content = gzip.compress(content)
    if name.endswith(".xz"):
        content = lzma.compress(content)
    Path(name).write_bytes(content)
    return name


def lined(texts, end="\n"):
    return "".join(text + end for text in texts)


def table():
    return lined("\t".join(columns) for columns in zip(SOURCES, TARGETS, LINKS, strict=True))


def records():
    keys = ("source", "target", "alignment")
    return lined(json.dumps(dict(zip(keys, row, strict=True))) for row in zip(SOURCES, TARGETS, LINKS, strict=True))


def send(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))


def read(*parts):
    return list(open_corpus(parts))


def message(*parts):
    with pytest.raises(DataError) as caught:
        read(*parts)
    return str(caught.value)


def same(pairs):
    return pairs == PAIRS and [pair.alignment for pair in pairs] == [pair.alignment for pair in PAIRS]


class TestForms:
    @pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
    def test_parallel_files(self, packed):
        parts = [
            write("a.en" + packed, lined(SOURCES)),
            write("a.fr" + packed, lined(TARGETS)),
            write("a.align" + packed, lined(LINKS)),
        ]
        assert same(read(*parts))
        assert read(*parts[:2]) == PAIRS
        assert all(pair.alignment is None for pair in read(*parts[:2]))

    @pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
    @pytest.mark.parametrize(
        ("name", "content"), [("a.tsv", table), ("a.jsonl", records), ("a", table), ("b", records)]
    )
    def test_one_file(self, name, content, packed):
        assert same(read(write(name + packed, content())))

    @pytest.mark.parametrize("content", [table, records])
    @pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
    def test_standard_input_can_be_read_again(self, monkeypatch, content, pack):
        send(monkeypatch, pack(content().encode()))
        corpus = open_corpus(("-",))
        assert same(list(corpus))
        assert same(list(corpus))
        assert [first == second for first, second in zip(corpus, corpus, strict=True)] == [True, True]

    def test_passes_over_standard_input_do_not_disturb_each_other(self, monkeypatch):
        rows = [f"{i} word\t{i} mot" for i in range(5_000)]
        send(monkeypatch, lined(rows).encode())
        corpus = open_corpus(("-",))
        begun = iter(corpus)
        assert next(begun).source == "0 word"
        assert [f"{pair.source}\t{pair.target}" for pair in corpus] == rows
        assert [f"{pair.source}\t{pair.target}" for pair in begun] == rows[1:]

    def test_a_pipe_can_be_read_again(self):
        os.mkfifo("pipe.tsv")
        writer = threading.Thread(target=Path("pipe.tsv").write_text, args=(table(),))
        writer.start()
        corpus = open_corpus(("pipe.tsv",))
        writer.join()
        assert same(list(corpus))
        assert same(list(corpus))

    def test_compression_is_told_by_content(self):
        Path("a.tsv").write_bytes(gzip.compress(table().encode()))
        assert same(read("a.tsv"))

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("start", ["", "\ufeff"])
    @pytest.mark.parametrize("last", ["", "end"])
    def test_byte_order_marks_and_line_ends(self, start, end, last):
        def content(texts):
            text = start + lined(texts, end)
            return text if last else text.removesuffix(end)

        assert read(write("a.en", content(SOURCES)), write("a.fr", content(TARGETS))) == PAIRS
        assert same(read(write("a.tsv", content(table().splitlines()))))
        assert same(read(write("a.jsonl", content(records().splitlines()))))

    def test_only_line_feeds_end_lines(self):
        odd = "a\u2028b\x0bc\x0cd\x1ce\x85f\rg"
        assert read(write("a.en", odd + "\n"), write("a.fr", "x\n")) == [Pair(odd, "x")]

    def test_a_mark_inside_is_text(self):
        assert read(write("a.en", "a\ufeff\n\ufeffb\n"), write("a.fr", "x\ny\n"))[1].source == "\ufeffb"

    def test_nothing_is_read_ahead(self, monkeypatch):
        """A corpus is a stream: of a large file, the first pairs cost no more than of a small one."""
        write("a.tsv", "a\tb\n" * 100_000)
        opened = []
        whole = line_files.LineFile._raw_lines

        def counting(self):
            for line in whole(self):
                opened.append(line)
                yield line

        monkeypatch.setattr(line_files.LineFile, "_raw_lines", counting)
        assert len(list(islice(open_corpus(("a.tsv",)), 5))) == 5
        assert len(opened) == 5

    def test_identity_follows_content(self, monkeypatch):
        parts = (write("a.tsv", "a\tb\n"),)
        before = open_corpus(parts).identity()
        assert before == open_corpus(parts).identity()
        write("a.tsv", "a\tbc\n")
        assert before != open_corpus(parts).identity()
        send(monkeypatch, b"a\tb\n")
        first = open_corpus(("-",)).identity()
        send(monkeypatch, b"a\tc\n")
        assert first != open_corpus(("-",)).identity()


class TestPlainText:
    @pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz", "A.TXT"])
    def test_one_text_a_line(self, name):
        corpus = open_corpus((write(name, "one text\n\n  \nanother\ttext, with a tab\r\n"),))
        assert not corpus.paired
        assert list(corpus) == [Pair("", "one text"), Pair("", "another\ttext, with a tab")] == list(corpus)

    @pytest.mark.parametrize("content", [table, records])
    def test_pairs_are_pairs_whatever_the_ending(self, content):
        assert same(read(write("a.txt", content())))
        assert open_corpus(("a.txt",)).paired

    def test_without_text(self):
        assert message(write("a.txt", " \n\n")) == "a.txt is empty: there is nothing to learn from."

    def test_a_language_model_takes_targets_alone(self):
        pairs = open_corpus((write("a.tsv", table()),))
        targets = for_model(pairs, reads=False)
        assert list(targets) == [Pair("", target) for target in TARGETS] == list(targets)
        assert all(pair.alignment is None for pair in targets)
        assert (targets.name, targets.paired) == ("a.tsv", False)
        assert targets.identity() != pairs.identity()
        assert for_model(pairs, reads=True) is pairs
        texts = open_corpus((write("b.txt", "x\n"),))
        assert for_model(texts, reads=False) is texts

    def test_a_model_that_reads_needs_pairs(self):
        texts = open_corpus((write("a.txt", "x\n"),))
        with pytest.raises(DataError) as caught:
            for_model(texts, reads=True)
        assert str(caught.value) == (
            "a.txt has one text a line, but this model needs pairs of source and target: give two parallel files, or "
            "one .tsv or .jsonl file. Plain text is for language models (model.encoder.kind=none)."
        )


class TestEmbedded:
    def test_size_and_split(self):
        assert len(read("reverse:7")) == 7
        assert read("reverse:valid:7") == list(open_corpus(("reverse:7",), split="valid"))
        assert read("reverse:valid:7") != read("reverse:test:7")
        assert sum(1 for _ in open_corpus(("copy",), split="valid")) == 500

    def test_seed(self):
        assert list(open_corpus(("copy:9",), seed=1)) == list(open_corpus(("copy:9",), seed=1))
        assert list(open_corpus(("copy:9",), seed=1)) != list(open_corpus(("copy:9",), seed=2))
        assert open_corpus(("copy:9",), seed=1).identity() != open_corpus(("copy:9",), seed=2).identity()

    def test_a_file_of_the_same_name_needs_a_path(self):
        write("copy", "a\tb\n")
        assert read("./copy") == [Pair("a", "b")]
        assert len(read("copy:3")) == 3

    def test_lengths(self):
        assert {len(pair.source.split()) for pair in read("phrasebook:31-33:20")} <= {31, 32, 33}
        assert message("copy:31-33") == "No split named '31-33' in copy. It has train, valid, test."

    def test_bad_size(self):
        assert message("copy:many") == (
            "'many' in 'copy:many' is neither a number of pairs nor a split (train, valid, test). "
            "Write for instance copy:20000."
        )


class TestWrong:
    """What `regard` says; each message is tested word for word."""

    def test_no_parts(self):
        assert message() == (
            "No corpus given. Give two parallel files, one .tsv or .jsonl file, - for standard input, "
            "or an embedded name (phrasebook, reverse, copy, dates)."
        )

    def test_too_many_parts(self):
        assert message(*"abcd") == (
            "A corpus of 4 files: a, b, c, d. Give two parallel files, one .tsv or .jsonl file, - for standard input, "
            "or an embedded name."
        )

    def test_unequal_counts(self):
        parts = write("train.en", "a\n" * 28_999), write("train.de", "b\n" * 29_000)
        wanted = "train.de has 29,000 lines but train.en has 28,999: the files must pair line by line."
        assert message(*parts) == wanted
        assert message(*parts[::-1]) == wanted

    def test_very_unequal_counts(self):
        parts = write("a.en", "a\n" * 3), write("a.de", "b\n" * 1_200)
        assert message(*parts) == "a.de has 1,200 lines but a.en has 3: the files must pair line by line."

    def test_unequal_counts_of_alignments(self):
        parts = write("a.en", "a\nb\n"), write("a.de", "c\nd\n"), write("a.align", "0-0\n")
        assert message(*parts) == "a.en has 2 lines but a.align has 1: the files must pair line by line."

    def test_not_utf8(self):
        parts = write("a.en", "a\nb\n"), write("a.fr", b"x\n\xe9t\xe9\n")
        assert message(*parts) == (
            "a.fr, line 2: not UTF-8 (byte 0xe9 at position 1). "
            "Convert the file, for instance: iconv -f LATIN1 -t UTF-8 a.fr"
        )

    def test_utf16(self):
        assert message(write("a.tsv", "a\tb\n".encode("utf-16"))) == (
            "a.tsv is UTF-16, not UTF-8. Convert it: iconv -f UTF-16 -t UTF-8 a.tsv"
        )

    def test_nul(self):
        assert message(write("a.tsv", "a\tb\na\0\tb\n")) == (
            "a.tsv, line 2: a NUL byte. Is this a text file? Remove the byte if it is."
        )

    def test_empty(self):
        assert (
            message(write("a.en", ""), write("a.de", "")) == "a.en and a.de are empty: there is nothing to learn from."
        )
        for name in ("a.tsv", "a.jsonl", "a.txt", "a.tsv.gz", "a.tsv.xz"):
            assert message(write(name, "")) == f"{name} is empty: there is nothing to learn from."
        Path("b.tsv.gz").touch()
        assert message("b.tsv.gz") == "b.tsv.gz is empty: there is nothing to learn from."

    def test_empty_standard_input(self, monkeypatch):
        send(monkeypatch, b"")
        assert message("-") == "standard input is empty: there is nothing to learn from."

    def test_one_empty_line(self):
        parts = write("a.en", "a\n \nc\n"), write("a.de", "d\ne\nf\n")
        wanted = "a.en, line 2: empty, but a.de, line 2 is not. Fill it in, or remove the line from both files."
        assert message(*parts) == wanted
        assert message(*parts[::-1]) == wanted

    def test_two_empty_lines(self):
        parts = write("a.en", "a\n\nc\n"), write("a.de", "d\n\nf\n")
        assert message(*parts) == ("a.en, line 2: empty, and so is a.de, line 2. Remove the line from both files.")

    @pytest.mark.parametrize(("line", "side"), [("\tb", "source"), ("a\t ", "target"), ("\t", "source and the target")])
    def test_empty_columns(self, line, side):
        verb = "are" if " and " in side else "is"
        assert message(write("a.tsv", f"a\tb\n{line}\n")) == (
            f"a.tsv, line 2: the {side} {verb} empty. Fill in what is missing, or remove the line."
        )

    def test_the_same_file(self):
        write("a.en", "a\n")
        Path("link.en").symlink_to("a.en")
        os.link("a.en", "hard.en")
        assert message("a.en", "a.en") == "a.en is given twice: source and target must be two files."
        for other in ("link.en", "hard.en", "./a.en"):
            assert message("a.en", other) == (
                f"a.en and {other} are the same file: source and target must be two files."
            )

    def test_missing(self):
        write("train.en", "a\n")
        assert message("trian.en", "train.en") == "No file 'trian.en'. Did you mean 'train.en'?"
        assert message("none.xyz", "train.en") == "No file 'none.xyz'."
        assert message("no/train.en", "train.en") == "No file 'no/train.en'. There is no folder 'no' either."
        assert message("./trian.en", "train.en") == "No file './trian.en'. Did you mean 'train.en'?"
        assert message("x.tsv") == "No file 'x.tsv'."

    def test_neither_file_nor_name(self):
        assert message("phrasbook") == (
            "No corpus 'phrasbook': neither a file nor one of copy, dates, fashion-mnist, phrasebook, reverse, scenes. "
            "Did you mean 'phrasebook'?"
        )
        assert message("revrse:200").endswith("Did you mean 'reverse'?")

    @pytest.mark.parametrize("given", ["scenes", "scenes:5", "fashion-mnist"])
    def test_pictures(self, given):
        assert message(given) == (
            f"{given} has pictures, and texts are read here: give files or one of copy, dates, phrasebook, reverse, or "
            "use a model that reads pictures (regard list visions)."
        )

    def test_a_folder(self):
        Path("data").mkdir()
        assert message("data", "data") == "data is a folder, not a file. Give the files in it."
        write("data/train.en", "a\n")
        write("data/train.de", "a\n")
        assert message("data") == "data is a folder, not a file. Give the files in it: train.de, train.en"

    def test_a_broken_link(self):
        Path("a.tsv").symlink_to("gone.tsv")
        assert message("a.tsv") == "No file 'a.tsv': it is a link to 'gone.tsv', which does not exist."

    def test_no_permission(self, monkeypatch):
        write("a.tsv", "a\tb\n")

        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)  # chmod does not stop root
        assert message("a.tsv") == "Cannot read a.tsv: permission denied."

    @pytest.mark.parametrize(("line", "got"), [("ab", "no tab"), ("a\tb\tc\td", "3 tabs")])
    def test_tabs(self, line, got):
        assert message(write("a.tsv", f"a\tb\n{line}\n")) == (
            f"a.tsv, line 2: {got}. A line is source TAB target, or source TAB target TAB alignment."
        )

    def test_a_third_column_that_is_no_alignment(self):
        assert message(write("a.tsv", "Go.\tVa !\tCC-BY 2.0\n")) == (
            "a.tsv, line 1: 'CC-BY' is not a link of an alignment such as 0-0 1-2 2p3 (i-j sure, ipj possible)."
        )

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            ('{"source": "a", ', "not JSON (Expecting property name enclosed in double quotes, column 17)."),
            ("[1, 2]", 'not an object. A line is {"source": "…", "target": "…"}.'),
            ("", "empty. Remove the line."),
            ('{"source": "a"}', 'no "target" among its keys ("source"). A line is {"source": "…", "target": "…"}.'),
            (
                '{"source": "a", "traget": "b"}',
                'no "target" among its keys ("source", "traget"). A line is {"source": "…", "target": "…"}.',
            ),
            ('{"source": "a", "target": 5}', '"target" is 5, not a string.'),
            ('{"source": null, "target": "b"}', '"source" is null, not a string.'),
            ('{"source": "a", "target": "b", "alignment": [1]}', '"alignment" is [1], not a string.'),
            ('{"source": "a\\u0000", "target": "b"}', '"source" holds a NUL character (\\u0000). Remove it.'),
            (
                '{"source": "a", "target": "\\ud83d"}',
                '"target" has an unpaired surrogate (\\ud83d). Write the whole character.',
            ),
            ('{"source": " ", "target": "b"}', "the source is empty. Fill in what is missing, or remove the line."),
            ("[" * 100_000, "not JSON that can be read."),
            ('{"source": ' + "1" * 10_000 + "}", "not JSON that can be read."),
        ],
    )
    def test_records(self, line, wanted):
        assert (
            message(write("a.jsonl", '{"source": "a", "target": "b"}\n' + line + "\n")) == f"a.jsonl, line 2: {wanted}"
        )

    def test_a_sentence_may_begin_with_a_brace(self):
        write("a.any", "{x} is a set\t{x} ist eine Menge\n")
        assert [pair.target for pair in open_corpus(["a.any"])] == ["{x} ist eine Menge"]
        broken = "a.odd, line 1: not JSON (Invalid control character at, column 14)."
        assert message(write("a.odd", '{"source": "a\tb"}\n')) == broken

    def test_a_text_alone(self):
        assert message(write("a.en", "a\nb\n")) == (
            "a.en is neither TSV (source TAB target) nor JSONL by its first line. For parallel text, give two files: "
            "the source and the target. Plain text for a language model ends in .txt."
        )

    def test_standard_input_among_others(self):
        assert message("-", "a.de") == (
            "Standard input (-) must be the only file: send TSV or JSONL, with source and target per line."
        )

    @pytest.mark.parametrize("name", ["a.tsv.gz", "a.tsv.xz"])
    def test_cut_short(self, name):
        write(name, "".join(f"{i}\t{i * 7919}\n" for i in range(5000)))
        whole = Path(name).read_bytes()
        Path(name).write_bytes(whole[: len(whole) // 2])
        assert message(name) == (
            f"{name} is truncated or damaged (Compressed file ended before the end-of-stream marker was reached). "
            "Fetch or compress it again."
        )

    @pytest.mark.parametrize("name", ["a.tsv.gz", "a.tsv.xz"])
    def test_damaged(self, name):
        write(name, "".join(f"{i}\t{i * 7919}\n" for i in range(5000)))
        content = bytearray(Path(name).read_bytes())
        content[-6] ^= 0xFF  # in the checksum: all lines before it read well
        Path(name).write_bytes(content)
        assert message(name).startswith(f"{name} is truncated or damaged (")

    @pytest.mark.parametrize("between", [b"", bytes(8)])
    def test_one_stream_after_the_other(self, between):
        first, second = (lzma.compress(f"{text}\t{text}\n".encode() * 9) for text in "ab")
        Path("a.tsv.xz").write_bytes(first + between + second + between)
        assert [pair.source for pair in open_corpus(["a.tsv.xz"])] == [*"aaaaaaaaabbbbbbbbb"]
        Path("a.tsv.xz").write_bytes(first + between + b"x" + second[1:])
        assert message("a.tsv.xz").startswith("a.tsv.xz is truncated or damaged (")

    def test_other_compression(self):
        assert message(write("a.tsv.bz2", b"BZh91AY&SY")) == (
            "a.tsv.bz2 is bzip2 data. Only text, .gz and .xz can be read: decompress it first."
        )
        Path("b.tsv.gz").write_text("a\tb\n")
        assert message("b.tsv.gz") == ("b.tsv.gz is not gzip data. If it is plain text, rename it without .gz.")

    def test_no_room_for_standard_input(self, monkeypatch):
        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=types.SimpleNamespace(read=full)))
        assert message("-") == (
            "Cannot keep standard input for a second pass: no space left on device. Set TMPDIR to a folder with room."
        )

    def test_an_endless_line(self, monkeypatch):
        monkeypatch.setattr(line_files, "LONGEST_LINE", 1 << 20)
        assert message(write("a.tsv", "a\tb\n" + "x" * (1 << 21))) == (
            "a.tsv, line 2: longer than 1 MB. Is this a text file?"
        )


links = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 6)))


class TestAlignments:
    @given(links, links)
    def test_written_and_read_again(self, sure, possible):
        gold = Alignment(frozenset(sure), frozenset(possible))
        assert parse_alignment(str(gold), "a b c d e", "a b c d e f g", "here") == gold

    @pytest.mark.parametrize(
        ("written", "wanted"),
        [
            ("0-0 3-0", "x, line 1: link 3-0 goes past the 3 words of the source (words count from 0)."),
            ("2p1", "x, line 1: link 2p1 goes past the 1 word of the target (words count from 0)."),
            ("0-", "x, line 1: '0-' is not a link of an alignment such as 0-0 1-2 2p3 (i-j sure, ipj possible)."),
            ("-1-0", "x, line 1: '-1-0' is not a link of an alignment such as 0-0 1-2 2p3 (i-j sure, ipj possible)."),
            ("٣-0", "x, line 1: '٣-0' is not a link of an alignment such as 0-0 1-2 2p3 (i-j sure, ipj possible)."),
        ],
    )
    def test_wrong(self, written, wanted):
        with pytest.raises(DataError) as caught:
            parse_alignment(written, "a b c", "d", "x, line 1")
        assert str(caught.value) == wanted

    GOLD = Alignment(frozenset({(0, 0), (1, 2)}), frozenset({(2, 1)}))
    COUNTED = ("0-0 1-2 2p1\n", "1-1 2-3 3p2\n")

    @pytest.mark.parametrize(
        ("name", "given_as", "first"),
        [
            ("links", "links", 0),
            ("links", "pharaoh:links", 0),
            ("links", "talp:links", 1),
            ("links.talp", "links.talp", 1),
            ("links.talp.gz", "links.talp.gz", 1),
            ("links.talp", "pharaoh:links.talp", 0),
            ("C:links", "C:links", 0),
        ],
    )
    def test_where_a_file_starts_to_count(self, name, given_as, first):
        write("a.en", "the red dress\n")
        write("a.fr", "la robe rouge\n")
        write(name, self.COUNTED[first])
        (pair,) = read("a.en", "a.fr", given_as)
        assert pair.alignment == self.GOLD

    def test_counting_is_part_of_the_identity(self):
        for name in ("a.en", "a.fr", "links"):
            write(name, "x\n")
        zero, one = (open_corpus(("a.en", "a.fr", f"{how}:links")).identity() for how in ("pharaoh", "talp"))
        assert zero != one

    def test_a_file_that_counts_otherwise(self):
        write("a.en", "the red dress\n")
        write("a.fr", "la robe rouge\n")
        write("links", self.COUNTED[1])
        assert message("a.en", "a.fr", "links") == (
            "links, line 1: link 2-3 goes past the 3 words of the target (words count from 0). "
            "If the file counts from 1, give it as talp:links."
        )
        write("links.talp", self.COUNTED[0])
        assert message("a.en", "a.fr", "links.talp") == (
            "links.talp, line 1: link 0-0 goes before the first word of the source (words count from 1). "
            "If the file counts from 0, give it as pharaoh:links.talp."
        )
        assert message("a.en", "a.fr", "talp:a.en") == "a.en is given twice: source and target must be two files."
