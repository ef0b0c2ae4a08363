"""The page's microscope in a real browser: headless Chromium, driven by Playwright."""

import itertools
import json
import re
import shutil
import time
from urllib.parse import parse_qs

import pytest

from regard.config import Config
from regard.config_io import override
from regard.data.tokenizers import Tokenizers, Words
from regard.presets import preset
from regard.serve.served_models import open_models

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install 'regard[browser]'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "'\"><script>alert(2)</script>",
    "javascript:alert(3)",
    "{{7*7}}",
    "\u202e\u2066x",
    "</textarea>",
    "&lt;b&gt;",
    "<b>bold</b>",
]
TEXT = "the red dress is old"
SOURCE = Words([*TEXT.split(), "a", "cat", *HOSTILE])
TARGET = Words(["la", "robe", "rouge", "est", "vieille", "un", "chat", "<i>le</i>", "أحمر"])


@pytest.fixture(scope="module")
def server(make_folder, tmp_path_factory, run_server):
    """The port of a server of a recurrent model and a Transformer."""
    place, words = tmp_path_factory.mktemp("models"), Tokenizers(SOURCE, TARGET)
    recurrent = override(Config(), ["model.embedding=11", "model.encoder.width=7", "model.decoder.width=13",
                                    "model.decoder.readout_width=5", "model.attention.width=3"])  # fmt: skip
    transformer = override(preset("transformer2017-small"), [
        "model.embedding=8", "model.encoder.width=8", "model.decoder.width=8", "model.encoder.layers=2",
        "model.decoder.layers=2", "model.attention.heads=2", "model.tie=output"])  # fmt: skip
    folders = [make_folder(place / name, config, words) for name, config in [("one", recurrent), ("two", transformer)]]
    with run_server(open_models(folders)) as (_, port):
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, server):
    """Open the page; whatever it complains about, or fetches from elsewhere, fails the test."""
    opened, wrong = [], []

    def go(hash="", complains=False, **options):
        context = chromium.new_context(**{"viewport": {"width": 1000, "height": 900}, **options})
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        if not complains:
            page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
        page.on("dialog", lambda dialog: (wrong.append(f"a script ran: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda asked: asked.url.startswith((server, "data:", "blob:")) or wrong.append(asked.url))
        page.goto(server + hash)
        opened.append(context)
        return page

    yield go
    for context in opened:
        context.close()
    assert not wrong


def until(page, expression, arg=None):
    """Wait for an expression; `wait_for_function` would need the `eval` that the page's policy forbids."""
    end = time.monotonic() + 10
    while not page.evaluate(f"(arg) => Boolean({expression})", arg):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(20)


def translated(page, text=TEXT):
    page.fill("#given", text)
    page.press("#given", "Enter")
    page.wait_for_selector(".microscope:not([hidden])")
    return page


def panel(page, name):
    page.click(f"details[data-panel={name}] summary")
    page.wait_for_selector(f"details[data-panel={name}] .panel:not([aria-busy=true]) > *")
    return page.locator(f"details[data-panel={name}] .panel")


def output(page):
    return page.locator(".view .words button").all_inner_texts()


def edited(page, count=1):
    until(page, "document.querySelectorAll('.edits li').length === arg && "
          "document.querySelector('.microscope').getAttribute('aria-busy') === 'false'", count)  # fmt: skip


def edits_of(page):
    return json.loads(parse_qs(page.url.partition("#")[2]).get("edits", ["[]"])[0])


def test_an_edit_changes_the_output_and_its_link_shows_the_same(open_page):
    page = translated(open_page())
    plain = output(page)
    panel(page, "edit").locator(".others button").first.click()  # another first word
    edited(page)
    changed = output(page)
    assert changed != plain
    assert page.locator(".changed ins").count()
    page.locator(".view .words button").nth(1).click()
    page.locator(".view .read span").nth(2).click()  # and attention to the third source word
    edited(page, 2)
    assert re.search(r"0\.9", page.locator(".told").inner_text())
    keep, weights = edits_of(page)[-2:]
    assert keep == {"kind": "keep", "tokens": changed[:1]}  # the words before the edited one stay
    assert output(page)[0] == changed[0]
    assert (weights["kind"], weights["step"], weights["weights"]) == ("weights", 1, {"2": 0.9})
    final, told = output(page), page.locator(".changed").inner_text()
    for again in (open_page("#" + page.url.partition("#")[2]), page):
        if again is page:
            page.reload()
        again.wait_for_selector(".changed:not([hidden])")
        edited(again, 2)
        assert output(again) == final
        assert again.locator(".changed").inner_text() == told
    page.click(".undo")
    edited(page)
    assert output(page) == changed
    page.click(".undo")
    edited(page, 0)
    assert (output(page), edits_of(page)) == (plain, [])
    page.click(".redo")
    edited(page)
    assert output(page) == changed


def test_a_weight_is_dragged_and_a_word_hidden(open_page):
    page = translated(open_page())
    place = panel(page, "edit")
    slider = place.locator("input[type=range]").nth(1)
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2, steps=4)
    numbers = [float(text) for text in place.locator("output").all_inner_texts()]
    assert sum(numbers) == pytest.approx(1, abs=0.04)  # the others share the rest, already while it is dragged
    page.mouse.up()
    edited(page)
    (edit,) = edits_of(page)
    assert edit["weights"]["1"] == pytest.approx(0.5, abs=0.1)
    place.get_by_label("Hide old from the decoder").click()
    edited(page, 2)
    assert edits_of(page)[-1] == {"kind": "drop", "position": 4}
    place.get_by_text("Silence", exact=True).click()
    edited(page, 3)
    page.get_by_label("Undo edit 2").click()
    edited(page, 2)
    assert [edit["kind"] for edit in edits_of(page)] == ["weights", "ablate"]


def test_by_keyboard_alone(open_page):
    page = open_page()
    page.focus("#given")
    page.keyboard.type(TEXT)
    page.keyboard.press("Enter")
    page.wait_for_selector(".microscope:not([hidden])")
    while not page.evaluate("document.activeElement.matches('.words button')"):
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert "most attention from" in page.locator(".told").inner_text()
    page.keyboard.press("Enter")
    edited(page)
    assert edits_of(page)[-1]["step"] == 1
    assert page.evaluate("document.activeElement.matches('.words [aria-pressed=true]')")  # and goes on from there
    tree = page.locator("details[data-panel=tree] summary")
    tree.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".tree .node")
    page.focus(".tree [tabindex='0']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    edited(page, 2)
    assert edits_of(page)[-1]["kind"] == "prefix"


def test_a_pruned_branch_is_continued(open_page):
    page = translated(open_page())
    tree = panel(page, "tree")
    statuses = {name: tree.locator(f".node.{name}").count() for name in ("kept", "pruned", "finished")}
    assert all(statuses.values())
    node = tree.locator(".node.pruned").nth(1)
    word = node.locator(".word").text_content()
    node.click()
    edited(page)
    (edit,) = edits_of(page)
    assert edit["kind"] == "prefix"
    assert output(page)[: len(edit["tokens"])] == edit["tokens"]
    assert word.rstrip("…") in edit["tokens"][-1]


def test_the_five_steps_are_the_models_numbers(open_page):
    page = translated(open_page())
    steps = panel(page, "steps")
    weights = [
        float(row.locator("td").nth(2).inner_text()) for row in steps.locator("table").first.locator("tbody tr").all()
    ]
    assert len(weights) == len(TEXT.split()) + 1
    assert sum(weights) == pytest.approx(1, abs=0.01)
    assert steps.locator("tr.on th").inner_text() == output(page)[0]
    page.locator(".view .words button").nth(2).click()
    until(page, "document.querySelector('[data-panel=steps] tr.on th')?.innerText === arg", output(page)[2])


def test_heads_and_two_models(open_page):
    page = open_page("#text=the+red+dress+is+old&model=two")
    page.wait_for_selector(".microscope:not([hidden])")
    heads = panel(page, "heads")
    assert heads.locator(".many button").count() == 4
    heads.locator(".many button").nth(3).click()
    until(page, "document.querySelector('.view .layer').value === '1'")
    heads.locator("select.sides").select_option("encoder")
    heads.locator("select.kinds").select_option("rollout")
    assert heads.locator(".flow .from").count() == len(TEXT.split()) + 1
    heads.locator("select.sides").select_option("decoder")
    heads.locator("text.down").nth(1).click()
    until(page, "document.querySelectorAll('.view .words button')[1].getAttribute('aria-pressed') === 'true'")
    until(page, "document.querySelector('[data-panel=heads] .panel').getAttribute('aria-busy') === 'false'")
    page.wait_for_timeout(200)
    heads.locator("text.across").nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")  # the decoder's own attention, edited
    edited(page)
    weights = edits_of(page)[-1]
    assert (weights["attention"], weights["step"], weights["weights"]) == ("own", 1, {"1": 0.9})
    right = panel(page, "right")
    assert right.locator(".findings li").count() >= 2
    both = panel(page, "models")
    assert both.locator("figcaption").all_inner_texts() == ["two, with your edits", "one"]
    said = both.locator("p.diff").all_inner_texts()
    marked = both.locator("mark, ins").count()
    assert bool(marked) == (said[0] != said[1])


@pytest.mark.parametrize("kind", ["svg", "png", "json"])
def test_downloads(open_page, kind):
    page = translated(open_page())
    with page.expect_download() as waiting:
        page.click(f".files [value={kind}]")
    content = waiting.value.path().read_bytes()
    assert waiting.value.suggested_filename == f"attention.{kind}"
    begins = {"svg": b"<svg", "png": b"\x89PNG", "json": b'{"format"'}[kind]
    assert content.startswith(begins)
    if kind == "svg":
        assert content.count(b"<rect") == 1 + len(output(page)) * (len(TEXT.split()) + 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(open_page, scheme):
    page = open_page(
        "#text=the+red+dress+is+old&model=two", viewport={"width": 360, "height": 740}, color_scheme=scheme
    )
    page.wait_for_selector(".microscope:not([hidden])")
    for name in ("edit", "steps", "tree", "heads", "right", "models"):
        panel(page, name)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == (scheme == "dark")
    unnamed = page.evaluate("""[...document.querySelectorAll('.microscope :is(button, input, select)')]
        .filter((one) => !one.textContent.trim() && !one.getAttribute('aria-label') && !one.labels?.length).length""")
    assert unnamed == 0


def test_hostile_texts_are_shown_as_texts(open_page):
    page = open_page()
    for text in HOSTILE:
        translated(page, text)
    text = " ".join(word for word in HOSTILE if " " not in word)
    translated(page, text)
    until(page, "document.querySelectorAll('.view .read span').length === arg", len(text.split()) + 1)
    for name in ("edit", "steps", "tree", "heads", "right", "models"):
        panel(page, name)
    page.locator("[data-panel=edit] .weights button").first.click()
    edited(page)
    assert page.evaluate("document.querySelectorAll('.microscope img, .microscope script, .view img').length") == 0
    assert "<b>bold</b>" in page.locator("[data-panel=steps] table").first.inner_text()


PARTS = ["<img src=x onerror=alert(1)>", "<script>", "</style>", '"', "'", "&amp;", "`${1}`", "\u202e", "\x00", "]]>"]


def test_a_thousand_hostile_tokens_are_texts_wherever_they_are_drawn(open_page):
    tokens = ["".join(parts) for parts in itertools.product(PARTS, repeat=3)]
    page = translated(open_page())
    drawn = page.evaluate(
        """(tokens) => {
            const weights = tokens.map(() => [1]), change = {kind: "replaced", old: tokens, new: []};
            const old = tokens.map((token) => ({token, log_prob: -1, edited: -2, change: -1}));
            const now = {
              text: tokens[0], tokens, labels: {source: [tokens[0]], target: tokens}, attention: {weights: [[weights]]},
              comparison: {changes: [change], old, new: []},
            };
            const picture = matrix(now, {layer: -1, head: -1}), lines = flow(weights, tokens, [tokens[0]], -1);
            const place = make("div", {}, ...difference(now), lines, picture);
            document.body.append(place);
            const told = [...place.querySelectorAll("del bdi")].map((one) => one.textContent);
            const text = new XMLSerializer().serializeToString(picture);
            const written = new DOMParser().parseFromString(text, "image/svg+xml");
            if (written.querySelector("parsererror")) told.push("not XML");
            const tags = new Set([...place.querySelectorAll("*")].map((one) => one.localName));
            place.remove();
            return {told, tags: [...tags].sort()};
        }""",
        tokens,
    )
    assert drawn["told"] == tokens
    assert drawn["tags"] == sorted(
        ["b", "bdi", "del", "div", "g", "i", "p", "path", "rect", "span", "svg", "text", "title"]
    )


def test_right_to_left_words_are_laid_out_so(open_page):
    page = translated(open_page())
    tree = panel(page, "tree")
    tree.locator("select").select_option("8")
    until(page, "[...document.querySelectorAll('.tree .word')].some((one) => one.textContent === 'أحمر')")
    tree.locator(".node", has_text="أحمر").first.click()
    edited(page)
    words = page.locator(".changed bdi")
    found = [place for place in range(words.count()) if words.nth(place).inner_text() == "أحمر"]
    assert found
    assert words.nth(found[0]).evaluate("one => getComputedStyle(one).direction") == "rtl"


@pytest.mark.parametrize("edits", ["{", "[3]", "3"])
def test_a_broken_link_is_told_and_leaves_the_translation(open_page, edits):
    page = open_page(f"#text=a+cat&model=nothing&step=9999&edits={edits}")
    page.wait_for_selector(".wrong[role]:not([hidden])")
    assert "left out" in page.locator(".wrong[role]").inner_text()
    page.wait_for_selector(".microscope:not([hidden])")
    assert output(page)


@pytest.mark.parametrize("kind", ["<img src=x onerror=alert(1)>", "drop"])
def test_edits_that_the_server_refuses_are_told_and_taken_back(open_page, kind):
    page = open_page(complains=True)
    page.goto(f'{page.url}#text=a+cat&edits=[{{"kind":"{kind}","position":99}}]')
    page.wait_for_selector(".wrong[role]:not([hidden])")
    assert re.search("edits.0|There is no source position 99", page.locator(".wrong[role]").inner_text())
    assert output(page)
    assert edits_of(page) == []
