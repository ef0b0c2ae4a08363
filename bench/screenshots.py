"""Make the pictures of docs/microscope.md: the page of `regard serve`, in headless Chromium.

    python bench/screenshots.py demo/model
    python bench/screenshots.py demo/model demo/transformer --out docs/images

The first model translates from English to French, as the demo's does; with a Transformer as the second, there is a
picture of its heads.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from browser import chromium, served
from playwright.sync_api import Browser, Page

TEXT = "the red cat sees the old house"
WIDE = {"width": 880, "height": 900}
MOVED = [{"kind": "keep", "tokens": ["▁le"]}, {"kind": "weights", "step": 1, "weights": {"6": 0.9}}]


def open_page(
    browser: Browser,
    address: str,
    model: str,
    step: int,
    panels: tuple[str, ...],
    edits: Sequence[object],
    **options: object,
) -> Page:
    """Open the page at a text, with edits and some panels."""
    link = {"text": TEXT, "model": model, "step": step, **({"edits": json.dumps(edits)} if edits else {})}
    wanted: dict[str, Any] = {"viewport": WIDE, "device_scale_factor": 1.5, **options}
    page = browser.new_context(**wanted).new_page()
    page.goto(f"{address}#{urlencode(link)}")
    page.wait_for_selector(".microscope:not([hidden])")
    if edits:
        page.wait_for_selector(".changed:not([hidden])")
    for panel in panels:
        page.click(f"details[data-panel={panel}] summary")
        page.wait_for_selector(f"details[data-panel={panel}] .panel:not([aria-busy=true]) > *")
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(300)
    return page


def between(page: Page, first: str, last: str, path: Path) -> None:
    """Write the part of the page from one element to another."""
    page.evaluate("scrollTo(0, 0)")
    above, below = (page.locator(name).first.bounding_box() for name in (first, last))
    assert above is not None
    assert below is not None
    top, bottom = above["y"] - 5, below["y"] + below["height"] + 5
    page.screenshot(path=path, clip={"x": 0, "y": top, "width": WIDE["width"], "height": bottom - top}, full_page=True)
    print(path)


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    given = parser.parse_args()
    out = given.out
    names = [Path(folder).resolve().name for folder in given.models]
    with served(given.models) as address, chromium() as browser:
        page = open_page(browser, address, names[0], 1, ("edit",), MOVED)
        between(page, ".view", "details[data-panel=edit]", out / "microscope-edit.png")
        page = open_page(browser, address, names[0], 1, ("steps",), [])
        between(page, "details[data-panel=steps]", "details[data-panel=steps]", out / "microscope-steps.png")
        page = open_page(browser, address, names[0], 1, ("tree",), [])
        between(page, "details[data-panel=tree]", "details[data-panel=tree]", out / "microscope-tree.png")
        page = open_page(browser, address, names[0], 1, ("right",), [], color_scheme="dark")
        between(page, "details[data-panel=right]", "details[data-panel=right]", out / "microscope-right.png")
        if len(names) > 1:
            page = open_page(browser, address, names[1], 4, ("heads",), [])
            page.click(".many button:nth-child(2)")
            page.wait_for_timeout(300)
            between(page, "details[data-panel=heads]", "details[data-panel=heads]", out / "microscope-heads.png")


if __name__ == "__main__":
    main()
