import html.parser
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from types import SimpleNamespace

import pytest

from regard.compare import report_tables
from regard.compare.report_document import Cell, Code, Column, Document, Picture, ReportSentence, Shown, Table, plain
from regard.compare.report_markdown import code, escape, to_markdown
from regard.compare.report_page import inline, to_html
from regard.config import Config, EncoderConfig, ModelConfig
from regard.viz.trace import AttentionTrace

VOID = {"meta", "br", "img", "link", "input", "hr"}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


class Page(html.parser.HTMLParser):
    """Reads a page: every element that is opened must be closed, in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.attributes, self.text, self.ids = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, *pair) for pair in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, *pair) for pair in attrs]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_stands_alone_and_names_every_variant(made):
    text = made.page.read_text()
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    assert not re.search(r"https?:|//\w|@import|url\((?!#)", text)
    for tag, name, value in page.attributes:
        assert name not in ("src", "srcset", "data", "action")
        assert tag not in ("link", "iframe", "object", "embed", "base")
        if name == "href":
            assert value.startswith("#")
            assert value[1:] in page.ids
    assert len(page.ids) == len(set(page.ids))
    shown = "".join(page.text)
    for word in ("look", "blind", "look (baseline)", "BLEU", "chrF", "AER", "tokens/s", "na ba ti", "no attention"):
        assert word in shown
    assert text.count("<svg") >= 4  # two plots, two sentences of the one that has attention
    assert "bs:1000|seed:12345" in shown
    assert "paired bootstrap" in shown


def test_the_pages_pictures_are_well_formed_and_in_the_pages_colours(made):
    for number, drawn in enumerate(re.findall(r"<svg.*?</svg>", made.page.read_text(), re.DOTALL)):
        ElementTree.fromstring(drawn)
        if number < 2:
            assert "var(--ink)" in drawn
            assert "#22223a" not in drawn


def test_the_markdown_links_to_what_is_there(made):
    text = made.markdown.read_text()
    links = LINK.findall(text)
    assert {"images/learning.png", "images/speed.png", "images/attention-1.png", "images/attention-2.png"} <= set(links)
    for link in links:
        assert (made.folder / link).is_file()
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    assert "| look (baseline) |" in text
    assert "- blind: " in text


def test_the_results_have_all_numbers(made):
    results = json.loads(made.results.read_text())
    assert results["format"] == "regard-comparison-1"
    assert results["test"] == {"name": "reverse:test:12", "parts": ["reverse:12"], "split": "test", "sentences": 12}
    assert results["baseline"] == "look"
    assert results["command"] == "regard compare --presets …"
    assert results["significance"]["signature"].startswith("nrefs:1|bs:1000|seed:12345")
    assert "torch" in results["machine"]
    look, blind = results["variants"]
    assert look["measures"]["bleu"] == {"mean": made["look"].stat("bleu").mean, "spread": None, "runs": 1}
    (run,) = blind["runs"]
    assert run["measures"]["p"] == made["blind"].stat("p").mean
    assert run["scores"]["chrF"]["made_by"].startswith("nrefs:1|")
    assert run["training"]["steps"] == 6
    assert run["config"]["training"]["steps"] == 6
    assert run["seed"] == 7


def test_the_table_has_a_line_for_each_and_columns_that_line_up(made):
    head, *lines = str(made).splitlines()
    assert len(lines) == 2
    end = head.index("parameters") + len("parameters")
    assert [line[:end].split()[-1] for line in lines] == [
        f"{made[name].stat('parameters').mean:,.0f}" for name in ("look", "blind")
    ]
    assert head.split()[:3] == ["variant", "parameters", "steps"]


def test_without_matplotlib_there_is_a_report_that_says_so(make, made, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    folder = shutil.copytree(made.folder, tmp_path / "copy")
    found, _ = make.run(folder, make.variant("look"), make.plain("blind"), pictures=True)
    assert "Pictures need matplotlib: pip install 'regard[plot]'." in found.notes
    text, page = found.markdown.read_text(), found.page.read_text()
    assert "## Plots\n\nThere are no plots because matplotlib is missing" in text
    assert "images/" not in text
    assert page.count('<svg class="look"') == 2  # the page draws attention by itself
    assert list((folder / "images").iterdir()) == []


def test_notes_tell_what_cannot_be_compared(make, tmp_path):
    other = make.variant("other", steps=1, batch_tokens=150)
    words = replace(other.config, tokenizer=replace(other.config.tokenizer, kind="characters"))
    found, _ = make.run(tmp_path, make.variant("look", steps=1), replace(other, config=words))
    assert found.notes[:2] == (
        "The variants had different budgets: steps, epochs, patience or tokens per batch differ (see the settings "
        "below).",
        "The variants do not have the same vocabulary, so their losses cannot be compared.",
    )


# -- what users write -------------------------------------------------------------------------------------------------

NASTY = '<script>alert("a")</script> & | `*_[x](http://y.z) \n$1'


def nasty():
    import numpy as np

    trace = AttentionTrace((NASTY, "</s>"), (NASTY,), np.full((1, 1, 1, 2), 0.5, np.float32), (-0.1,), -1.0)
    document = Document(NASTY)
    document.say(NASTY, Code(NASTY))
    document.add(Table((Column(NASTY, NASTY, False), Column("n")), ((Cell(NASTY), Cell("1", 1.0, True)),)))
    document.add(ReportSentence("s", NASTY, (Shown(NASTY, NASTY, trace), Shown("b", "", None)), False))
    return document


def test_what_users_write_means_nothing_in_a_page(tmp_path):
    page = Page(to_html(nasty(), tmp_path))
    assert page.attributes.count(("script", "src", None)) == 0
    assert sum(tag == "script" for tag, *_ in page.attributes) == 0
    assert "".join(page.text).count("alert(") >= 5


def test_what_users_write_means_nothing_in_markdown():
    text = to_markdown(nasty())
    assert "<script" not in re.sub(r"`.*?`", "", text).replace(r"\<script", "")
    assert not LINK.search(re.sub(r"\\.", "", re.sub(r"``.*?``", "", text, flags=re.DOTALL)))
    row = next(line for line in text.splitlines() if "| **1** |" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 3


@pytest.mark.parametrize(("text", "shown"), [("a", "`a`"), ("a`b", "``a`b``"), ("`a", "`` `a ``")])
def test_code_is_set_in_enough_backticks(text, shown):
    assert code(text) == shown


def test_a_text_stays_on_its_line():
    assert escape("a\n  b_c") == r"a b\_c"


def test_a_table_in_a_terminal_is_set_in_columns():
    table = Table((Column("name", numbers=False), Column("n")), ((Cell("a"), Cell("10")), (Cell("long"), Cell("9"))))
    assert plain(table) == "name   n\na     10\nlong   9"


def test_an_svg_becomes_part_of_a_page():
    svg = (
        '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "x" "http://x.y/z.dtd"><svg xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink"><metadata>http://a</metadata><g id="a" style="fill: #22223a"/>'
        '<use xlink:href="#a" clip-path="url(#a)" style="stroke: #abcdef"/></svg>'
    )
    assert inline(svg, "p1-") == (
        '<svg><g id="p1-a" style="fill: var(--ink)"/><use href="#p1-a" clip-path="url(#p1-a)" '
        'style="stroke: #abcdef"/></svg>'
    )


def test_a_picture_is_one_of_the_documents_blocks(tmp_path):
    (tmp_path / "x.svg").write_text('<svg><g id="a"/></svg>')
    document = Document("t", [Picture("x", "A <thing>")])
    assert "![A \\<thing\\>](images/x.png)" in to_markdown(document)
    assert "<figcaption>A &lt;thing&gt;</figcaption>" in to_html(document, tmp_path)


@pytest.mark.parametrize(("best_step", "shown"), [(4, True), (6, False), (None, False)])
def test_the_step_that_validated_best_is_told_where_it_is_not_the_last(made, best_step, shown):
    """Runs that end with their best weights need no column for it."""

    def with_best(row):
        runs = [
            replace(run, record=replace(run.record, result={**run.record.result, "best_step": best_step}))
            for run in row.runs
        ]
        return replace(row, runs=tuple(runs))

    titles = [
        column.title
        for column in report_tables.main_table([with_best(made[name]) for name in ("look", "blind")]).columns
    ]
    assert ("best at" in titles) == shown


@pytest.mark.parametrize(("second", "best"), [(30.0, [True, False]), (40.004, [True, True]), (39.996, [True, True])])
def test_what_reads_the_same_is_as_good(second, best):
    """Two scores that are written alike are both the best, or neither is if there are no others."""
    column = next(column for column in report_tables.COLUMNS if column.measure == "bleu")
    rows = [_scored(value) for value in (40.0, second, 20.0)]
    top = report_tables._best(column, rows)
    assert [report_tables._cell(column, row, top).best for row in rows] == [*best, False]
    assert report_tables._best(column, [_scored(40.0), _scored(40.004)]) is None


def _scored(bleu):
    stat, run = SimpleNamespace(mean=bleu, spread=None), SimpleNamespace(evaluation=None)
    return SimpleNamespace(runs=(), finished=(run,), stat=lambda name: stat if name == "bleu" else None)


def test_the_loss_of_a_language_model_is_not_compared_with_that_of_translators():
    def row(kind, loss, bleu):
        config = replace(Config(), model=replace(ModelConfig(), encoder=EncoderConfig(kind=kind)))
        run = SimpleNamespace(record=SimpleNamespace(job=SimpleNamespace(config=config)))
        stats = {"loss": loss, "bleu": bleu}
        return SimpleNamespace(runs=(run,), stat=lambda name: stats[name] and SimpleNamespace(mean=stats[name]))

    by_name = {column.measure: column for column in report_tables.COLUMNS}
    writer, first, second = row("none", 1.0, None), row("recurrent", 2.0, 30.0), row("transformer", 3.0, 40.0)
    assert report_tables._best(by_name["loss"], [writer, first, second]) == 2.0
    assert report_tables._best(by_name["bleu"], [writer, first, second]) == 40.0
    assert report_tables._best(by_name["loss"], [writer, row("none", 1.5, None)]) == 1.0
    assert report_tables._best(by_name["loss"], [writer, first]) is None
