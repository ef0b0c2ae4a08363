"""Measure what the page of `regard serve` computes for a step, at a pointer move, and how long an edit takes.

    python bench/page_frames.py demo/model
    python bench/page_frames.py demo/model --tokens 200 --steps 40

A text of as many tokens as asked is translated, then headless Chromium steps through the words and moves the pointer
over the matrix, traced. The longest task of the page's main thread (script, style and layout, as the CPU time that
Chromium's tracing has for it) must stay below 16 ms for a smooth page. Wall-clock milliseconds of an edit are from the
click to the new output, of a text of eight tokens.
"""

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from browser import chromium, served
from playwright.sync_api import Browser, Page

WORDS = ["the", "red", "cat", "sees", "the", "old", "house", "and"]


def traced(browser: Browser, page: Page, acts: Sequence[Callable[[], object]]) -> list[float]:
    """Return the CPU milliseconds of the page's main thread for each act."""
    spent = []
    for act in acts:
        browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
        act()
        page.wait_for_timeout(60)
        events = json.loads(browser.stop_tracing())["traceEvents"]
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
        own = [e for e in events if names.get((e["pid"], e["tid"])) == "CrRendererMain" and e["ph"] == "X"]
        frames = [e["tdur"] for e in own if e["name"] in ("RunTask", "ThreadControllerImpl::RunTask") and "tdur" in e]
        spent.append(max(frames, default=0) / 1000)
    return spent


def line(name: str, values: list[float]) -> str:
    """Return the median and the largest of some values."""
    return f"{name:46}{len(values):5}{statistics.median(values):10.1f}{max(values):10.1f}"


def main() -> None:
    """Run the measurements and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    text = " ".join(WORDS[place % len(WORDS)] for place in range(given.tokens - 1))
    with served([given.model]) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(f"{address}#text={text.replace(' ', '+')}&model={Path(given.model).resolve().name}")
        page.wait_for_selector(".microscope:not([hidden])", timeout=60_000)
        size = page.evaluate(
            "[...document.querySelector('.matrix canvas').attributes].map((one) => one.value).join(' × ')"
        )
        box = page.locator(".matrix canvas").bounding_box()
        assert box is not None
        page.locator(".words button").first.click()
        stepping = [lambda: page.keyboard.press("ArrowRight") for _ in range(given.steps)]
        points = [(box["x"] + 30 + 7 * at % (box["width"] - 40), box["y"] + 30 + 3 * at) for at in range(given.steps)]
        hovering = [partial(page.mouse.move, x, y) for x, y in points]
        print(f"{given.model}: a matrix of {size} tokens")
        print(f"{'':46}{'n':>5}{'median':>10}{'most':>10}")
        print(line("step: longest task, CPU ms", traced(browser, page, stepping)))
        print(line("pointer over the matrix: longest task, CPU ms", traced(browser, page, hovering)))
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(f"{address}#text={'+'.join(WORDS[:7])}&model={Path(given.model).resolve().name}")
        page.wait_for_selector(".microscope:not([hidden])")
        took = []
        for count in range(1, 7):
            before = time.perf_counter()
            page.locator(".read span").nth(count).click()
            page.wait_for_url(re.compile(f"%22{count}%22%3A0.9"))
            took.append(1000 * (time.perf_counter() - before))
        print(line("edit, from click to output: wall ms", took[1:]))


if __name__ == "__main__":
    main()
