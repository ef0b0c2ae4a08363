"""Lines are answered as they come, in order, and none is lost, joined or split."""

import io
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.line_reader import CHUNK, as_they_come
from regard.errors import DataError

law = settings(deadline=None, max_examples=100)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=7)


def read(content, most=1024):
    return [text for lines in as_they_come(io.BytesIO(content), most) for text in lines.texts]


def plain(texts):
    """What must come back: all but a byte order mark at the start and a carriage return at each end."""
    kept = [text.removesuffix("\r") for text in texts]
    return [text.removeprefix("\ufeff") if i == 0 else text for i, text in enumerate(kept)]


@law
@given(st.lists(TEXTS), st.integers(1, 5), st.booleans())
def test_line_i_is_line_i(texts, most, ended):
    """A last line without a newline counts, unless it is empty: then it is none."""
    content = "\n".join(texts).encode() + (b"\n" if ended and texts else b"")
    expected = texts if ended or not texts or texts[-1] else texts[:-1]
    assert read(content, most) == plain(expected)


@law
@given(st.lists(TEXTS, max_size=20), st.integers(1, 5))
def test_batches_are_numbered_and_no_larger_than_asked(texts, most):
    content = "".join(f"{text}\n" for text in texts).encode()
    at = 1
    for lines in as_they_come(io.BytesIO(content), most):
        assert lines.first == at
        assert 1 <= len(lines.texts) <= most
        at += len(lines.texts)
    assert at == 1 + len(texts)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"\n\n", ["", ""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        ("\ufeffa\n\ufeffb\n".encode(), ["a", "\ufeffb"]),
        ("a\u2028b\u0085c\x0bd\x0ce\x1cf\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce\x1cf"]),
        (b"x" * (3 * CHUNK + 1) + b"\ny", ["x" * (3 * CHUNK + 1), "y"]),
    ],
)
def test_what_a_line_is(content, lines):
    assert read(content) == lines


def test_a_character_may_fall_between_two_chunks():
    text = "a" + "é" * CHUNK
    assert read(f"{text}\n{text}".encode()) == [text, text]


@pytest.mark.parametrize("most", [1, 1024])
def test_what_is_not_utf8_is_told_after_the_lines_before_it(most):
    stream = as_they_come(io.BytesIO(b"a\nb\nc\xff\nd\n"), most)
    got = []
    with pytest.raises(DataError) as caught:
        got.extend(lines.texts for lines in stream)
    assert [text for texts in got for text in texts] == ["a", "b"]
    assert str(caught.value) == (
        "Line 3 of the input is not valid UTF-8 (byte 2): convert it, for example with iconv -f latin1 -t utf-8."
    )


def test_a_slow_writer_is_answered_line_by_line_and_a_fast_one_at_once():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        lines = as_they_come(stream)
        os.write(writing, b"one\n")
        assert next(lines) == (1, ["one"])
        os.write(writing, b"two\nthr")
        assert next(lines) == (2, ["two"])
        os.write(writing, b"ee\nfour\n")
        assert next(lines) == (3, ["three", "four"])
        os.write(writing, b"five")
        os.close(writing)
        assert next(lines) == (5, ["five"])
        assert next(lines, None) is None


def test_a_file_is_read_to_its_end(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d\n" % i for i in range(30_000)))
    with path.open("rb") as stream:
        batches = [*as_they_come(stream, 1024)]
    assert [text for lines in batches for text in lines.texts] == [str(i) for i in range(30_000)]
    assert len(batches) == 30
