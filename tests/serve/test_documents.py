"""Documents that are translated by the identity are what they were, byte for byte; markup follows its words."""

import codecs
import io
from collections import Counter

import docx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.errors import DataError
from regard.serve import sentences, word_documents
from regard.serve.file_formats import open_document
from regard.serve.html_documents import HtmlDocument, _tokens
from regard.serve.sentence_translation import Rendering
from regard.serve.sentences import segments
from regard.serve.subtitles import Subtitles
from regard.serve.text_documents import TextDocument
from regard.serve.word_documents import WordDocument

LONG = 1_000
TAGS = ["<b>", "</b>", "<i>", "</i>", "<p>", "</p>", "<br>", "<a href='x>y'>", "</a>", "<!-- c -->", "<img src=1>"]
TAGS += ["<code>x y</code>", "<script>a<b</script>", "<span translate=no>", "</span>", "<b/>", "<!doctype html>"]
WORDS = ["&amp;", "&nbsp;", "&eacute;", "&#233;", "&copy", "&notit;", "&#0;", " ", "  ", "word", "Hello.", "Red dress"]
WORDS += ["\n", "\r\n", "\n\n", " is old. ", "日本。語", "é", "- Hi", "- ", "—", "«", "\x85", ">", "&", "1. ", "* x"]
ODD = [
    "<",
    "<![CDATA[",
    "<![",
    "<a ",
    "<?pi",
    "<textarea>",
    "1\n00:00:01,000 --> 00:00:02,000\n",
    "12:30",
    "\u2028",
    "\x00",
]
anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
documents = st.lists(st.sampled_from(TAGS + WORDS + ODD), max_size=20).map("".join) | anything


def identity(texts):
    return {each: [Rendering(each, tuple(range(len(each.split()))))] for each in texts}


def translated(document, **known):
    """Translate with what is known, and leave the rest as it is."""
    found = document.split("en", LONG)
    assert known.keys() <= {*found}, found
    return document.join({**identity(found), **{source: [own] for source, own in known.items()}})


@settings(max_examples=300)
@given(documents, st.sampled_from(["en", "fr", "zh-Hant", "qqq"]), st.sampled_from([3, 20, LONG]))
def test_segments_are_the_text_and_sentences_are_not_too_long(text, language, longest):
    found = list(segments(text, language, longest))
    assert "".join(each.text for each in found) == text
    for each in found:
        if each.is_sentence:
            assert each.text == each.text.strip()
            assert len(each.text) <= longest


@settings(max_examples=400)
@given(documents, st.sampled_from([TextDocument, HtmlDocument, Subtitles]), st.sampled_from([7, LONG]))
@example("<b>", HtmlDocument, LONG)
@example("<i></i><b>x</b><img src=1><u>y</u>", HtmlDocument, LONG)
@example("<i>a<b>b</i>c</b>", HtmlDocument, LONG)
@example("wo<b>r</b>d H<sub>2</sub>O&nbsp;&nbsp;x", HtmlDocument, LONG)
def test_the_identity_changes_no_byte(source, kind, longest):
    document = kind(source)
    assert document.join(identity(document.split("en", longest))) == source


@settings(max_examples=300)
@given(st.lists(st.sampled_from(TAGS + WORDS), max_size=20).map("".join), st.randoms(use_true_random=False))
def test_whatever_a_translation_is_each_tag_is_there_once(source, random):
    document, made = HtmlDocument(source), {}
    for sentence in document.split("en", LONG):
        words = sentence.split()
        count = random.randint(0, 6)
        written = " ".join(random.choice([*words, "new", "X&Y", "<new>"]) for _ in range(count))
        made[sentence] = [Rendering(written, tuple(random.randrange(len(words)) for _ in range(count)))]

    def tags(html):
        return Counter(text for token, text in _tokens(html) if text and token.kind != "text")

    assert tags(document.join(made)) == tags(source)


def test_a_text_is_split_where_sentences_end_and_keeps_its_layout():
    text = "  1. Mr. Smith left.  He slept.\r\n\r\n - 12:30\n\n> # Yes!\n"
    found = list(segments(text, "en", LONG))
    assert [each.text for each in found if each.is_sentence] == ["Mr. Smith left.", "He slept.", "Yes!"]
    made = translated(TextDocument(text), **{"He slept.": Rendering("Il dormait.", ())})
    assert made == "  1. Mr. Smith left.  Il dormait.\r\n\r\n - 12:30\n\n> # Yes!\n"


def test_a_long_line_is_split_as_its_parts_are():
    text = "Mr. Smith left at 5 p.m. today, e.g. by bus.  He slept! " * 600
    assert len(text) > 3 * sentences._STRETCH
    found = [each.text for each in segments(text, "en", LONG) if each.is_sentence]
    assert found == ["Mr. Smith left at 5 p.m. today, e.g. by bus.", "He slept!"] * 600


def test_a_sentence_that_is_too_long_is_cut_between_words():
    found = [each.text for each in segments("word " * 9 + "x" * 25, "en", 20) if each.is_sentence]
    assert found == ["word word word word", "word word word word", "word", "x" * 20, "x" * 5]


@pytest.mark.parametrize(
    ("source", "sentence", "made", "links", "expected"),
    [
        ("the <b>red</b> dress", "the red dress", "la robe rouge", (0, 2, 1), "la robe <b>rouge</b>"),
        ("<i>the <b>red</b> dress</i>.", "the red dress.", "la robe rouge.", (0, 2, 1), "<i>la robe <b>rouge</b></i>."),
        ("a <a href=x>very old</a>.", "a very old.", "très vieille.", (1, 2), "<a href=x>très vieille</a>."),
        ("AT&amp;T is <br/>old", "AT&T is", "AT&T est", (0, 1), "AT&amp;T est <br/>old"),
        ("it <img src=1>is", "it is", "c'est < là", (0, 1, 1), "c'est<img src=1> &lt; là"),
        ("red\n <!-- c -->  cat", "red cat", "chat rouge", (1, 0), "chat rouge<!-- c -->"),
        ("press <code>a b</code> now", "press now", "appuyez ici", (0, 1), "appuyez <code>a b</code> ici"),
    ],
)
def test_markup_goes_around_the_words_that_came_from_it(source, sentence, made, links, expected):
    assert translated(HtmlDocument(source), **{sentence: Rendering(made, links)}) == expected


def test_blocks_are_apart_and_scripts_are_kept():
    source = "<p>A cat</p><script>var a = 'A cat';</script><pre>A\ncat</pre><p translate='no'>A cat</p><li>A cat"
    document = HtmlDocument(source)
    assert document.split("en", LONG) == ["A cat", "A cat"]
    made = document.join({"A cat": [Rendering("Un chat", (0, 1))]})
    assert made == source.replace("<p>A cat", "<p>Un chat").replace("<li>A cat", "<li>Un chat")


def test_a_subtitle_keeps_its_lines_and_its_speakers():
    times = "00:00:01,000 --> 00:00:02,500 X1:5\r\n"
    source = f"\ufeff7\r\n{times}The <i>red</i> dress\r\nis old.\r\n\r\n8\r\n{times}- He sleeps.\r\n- Why?\r\n"
    document = Subtitles(source)
    assert document.split("en", LONG) == ["The red dress is old.", "He sleeps.", "Why?"]
    made = document.join(
        {
            "The red dress is old.": [Rendering("La robe rouge est vieille.", (0, 2, 1, 3, 4))],
            "He sleeps.": [Rendering("Il dort.", (0, 1))],
            "Why?": [Rendering("Pourquoi ?", (0, 0))],
        }
    )
    first = "La robe\r\n<i>rouge</i> est vieille."
    assert made == f"\ufeff7\r\n{times}{first}\r\n\r\n8\r\n{times}- Il dort.\r\n- Pourquoi ?\r\n"


# -- Word documents ---------------------------------------------------------------------------------------------------


def word_file(*runs):
    document = docx.Document()
    paragraph = document.add_paragraph()
    for text, bold in runs:
        paragraph.add_run(text).bold = bold
    document.add_table(1, 1).cell(0, 0).text = "A cat."
    document.sections[0].header.paragraphs[0].text = "A cat."
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def read(content):
    document = docx.Document(io.BytesIO(content))
    runs = [(run.text, run.bold) for run in document.paragraphs[0].runs]
    return runs, document.tables[0].cell(0, 0).text, document.sections[0].header.paragraphs[0].text


runs = st.lists(
    st.tuples(st.text("aB. \t\n1é&<", max_size=8), st.sampled_from([None, True, False])), min_size=1, max_size=5
)


@settings(max_examples=25)
@given(runs)
def test_a_word_document_that_is_translated_by_the_identity_is_what_it_was(parts):
    content = word_file(*parts)
    assert read(translated(WordDocument(content))) == read(content)


def test_runs_of_a_word_document_follow_their_words():
    known = {
        "The red dress is old.": Rendering("La robe rouge est vieille.", (0, 2, 1, 3, 4)),
        "A cat.": Rendering("Un chat.", (0, 1)),
    }
    content = word_file(("The ", None), ("red", True), (" dress is old.", None))
    found, cell, header = read(translated(WordDocument(content), **known))
    assert "".join(text for text, _ in found) == "La robe rouge est vieille."
    assert [text.strip() for text, bold in found if bold] == ["rouge"]
    assert (cell, header) == ("Un chat.", "Un chat.")


def test_runs_of_a_word_document_change_places_with_their_words():
    content = word_file(("red", True), (" dress", None))
    found, _, _ = read(translated(WordDocument(content), **{"red dress": Rendering("robe rouge", (1, 0))}))
    assert [(text.strip(), bold) for text, bold in found] == [("robe", None), ("rouge", True)]


def test_what_is_no_word_document_is_refused(monkeypatch):
    content = word_file(("A cat.", None))
    for bad in (b"", b"x" * 99, content[:999], content[:-30], b"PK\x05\x06" + b"\x00" * 18):
        with pytest.raises(DataError, match=r"^The file is not a Word document \(.docx\), or it is damaged.$"):
            WordDocument(bad)
    monkeypatch.setattr(word_documents, "MOST_BYTES", 1_000)
    with pytest.raises(DataError, match=r"^The file unpacks to 1 MB; at most 0 MB are read.$"):
        WordDocument(content)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "encoding"), [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le")]
)
def test_the_encoding_of_a_file_stays(mark, encoding):
    content = mark + "Été.\r\n".encode(encoding)
    document = open_document("a.TXT", content)
    assert document.text() == "Été.\r\n"
    assert translated(document) == content


def test_other_files_are_refused():
    with pytest.raises(DataError, match=r"'.pdf' is not supported: send one of .txt, .srt, .html, .htm, .docx\.$"):
        open_document("a.pdf", b"")
    with pytest.raises(DataError, match=r"'README' is not supported"):
        open_document("README", b"")
    with pytest.raises(DataError, match=r"^The file is not in UTF-8 \(byte 1\): save it in this encoding.$"):
        open_document("a.txt", b"a\xe9t")
