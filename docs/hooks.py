"""What the site does beyond Markdown: generated pages, links out of `docs/`, equations, GitHub's anchors.

Pages in `docs/` are written for GitHub and must read well there. The hooks make a site of them that needs no network.
"""

import html
import os
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import generate

ROOT = Path(__file__).parents[1]
DOCS = "docs"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\(|^\[[^\]]+\]: )(?P<target>[^)\s]+)(?P<after>\)|$)", re.MULTILINE)
SPAN = re.compile(r"(?<![`\[])`(?P<code>[^`\n]+)`(?![`\]]|\{)")
FETCHES = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
HIGHLIGHT = {".py": "python", ".sh": "sh", ".toml": "toml", ".json": "json", ".cpp": "cpp"}

_origins: dict[str, str] = {}
"""Of each page made from a file elsewhere in the repository: where that file is."""
_places: dict[str, str] = {}
"""The other way round: of each such file, the page that shows it."""
_names: dict[str, str] = {}
"""Settings and commands, and where the reference has them."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set what YAML cannot say: functions, and parts of the navigation that follow from what there is."""
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": True}
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [{"name": "math", "class": "math", "format": equation}]
    }
    generated = generate.pages()
    config.extra["generated"] = generated
    config.nav = _expanded(config.nav, sorted({*generated, *_written()}), set(_named(config.nav)))
    for page in generated:
        if page.startswith("reference/commands/"):
            _names[f"regard {PurePosixPath(page).stem}"] = page
    for name in re.findall(r"\{ #([\w.]+) \}", generated["reference/settings.md"]):
        _names[name] = f"reference/settings.md#{name}"
    return config


def _written() -> list[str]:
    return [path.relative_to(ROOT / DOCS).as_posix() for path in (ROOT / DOCS).rglob("*.md")]


def _named(nav: Any) -> Iterator[str]:
    """Yield every page that the navigation names itself."""
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from [part] if isinstance(part, str) else _named(part)


def _expanded(nav: Any, pages: list[str], named: set[str]) -> Any:
    """Replace `folder/*` by the pages of that folder that are named nowhere."""
    if isinstance(nav, dict):
        return {title: _expanded(part, pages, named) for title, part in nav.items()}
    if not isinstance(nav, list):
        return nav
    found: list[Any] = []
    for part in nav:
        if isinstance(part, str) and part.endswith("/*"):
            found += [
                page for page in pages if str(PurePosixPath(page).parent) == (part[:-2] or ".") and page not in named
            ]
        else:
            found.append(_expanded(part, pages, named))
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and a page for every file elsewhere in the repository that a page links to."""
    for place, text in config.extra.pop("generated").items():
        files.append(File.generated(config, place, content=text))
    waiting = [(f"{DOCS}/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    seen: set[str] = set()
    while waiting:
        origin, text = waiting.pop()
        for match in LINK.finditer(FENCE.sub("", text)):
            target = _repository_path(origin, match["target"])
            if target is None or target in seen or target.startswith(f"{DOCS}/"):
                continue
            if not (ROOT / target).exists():
                raise PluginError(f"{origin} links to {match['target']}, which does not exist.")
            seen.add(target)
            place, shown = _shown(target)
            _origins[place], _places[target] = target, place
            files.append(File.generated(config, place, content=shown))
            if target.endswith(".md"):
                waiting.append((target, shown))
    return files


def _repository_path(origin: str, target: str) -> str | None:
    """Return where a link of a file leads in the repository; None for addresses and places on the same page."""
    path = target.partition("#")[0]
    if not path or re.match(r"\w+:", path):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(origin), path))


def _shown(target: str) -> tuple[str, str]:
    """Return the page for a file or folder that is not below `docs/`."""
    path = ROOT / target
    if target.endswith(".md"):
        name = target.lower().replace("/readme.md", ".md")
        return f"project/{name}", path.read_text(encoding="utf-8")
    if path.is_dir():
        names = "".join(f"- `{each.name}`\n" for each in sorted(path.iterdir()) if not each.name.startswith((".", "_")))
        return f"source/{target}/index.md", f"# {target}/\n\n{names}"
    language = HIGHLIGHT.get(path.suffix, "text")
    return f"source/{target}.md", f"# {target}\n\n````{language}\n{path.read_text(encoding='utf-8')}\n````\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to pages of the site, and names of settings and commands to the reference."""
    here = page.file.src_uri
    origin = _origins.get(here, f"{DOCS}/{here}")
    if here.startswith("source/"):
        return markdown

    def relink(match: re.Match[str]) -> str:
        target = _repository_path(origin, match["target"])
        if target is None:
            return match[0]
        place = _places.get(target, target.removeprefix(f"{DOCS}/"))
        if (ROOT / target).is_dir() and target not in _places:
            place += "/README.md"
        anchor = match["target"].partition("#")[1:]
        return f"{match['before']}{_relative(place, here)}{''.join(anchor)}{match['after']}"

    def name(match: re.Match[str]) -> str:
        place = _names.get(match["code"].partition("=")[0].strip() if "regard" not in match["code"] else match["code"])
        if place is None or place.partition("#")[0] == here:
            return match[0]
        return f"[{match[0]}]({_relative(place, here)})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    for number in range(0, len(parts), 2):
        text = LINK.sub(relink, parts[number])
        # Names in headings and within links stay as they are.
        lines = [line if line.startswith("#") else _outside_links(line, name) for line in text.split("\n")]
        parts[number] = "\n".join(lines)
    return "".join(parts)


def _outside_links(line: str, name: Any) -> str:
    pieces = re.split(r"(!?\[[^\]]*\]\([^)]*\))", line)
    return "".join(piece if place % 2 else SPAN.sub(name, piece) for place, piece in enumerate(pieces))


def _relative(place: str, here: str) -> str:
    return os.path.relpath(place, os.path.dirname(here) or ".").replace(os.sep, "/")


def slug(text: str, separator: str) -> str:
    """Name an anchor as GitHub does, so that one link serves both."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def equation(source: str, language: str, css_class: str, *rest: Any, **more: Any) -> str:
    """Write an equation as MathML, which browsers draw without a script."""
    from latex2mathml.converter import convert

    return f'<div class="{html.escape(css_class)}">{convert(source, display="block")}</div>'


class _Fetched(HTMLParser):
    """Collects what a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("canonical", "next", "prev"):
            return
        self.addresses += [value or "" for key, value in attrs if (tag, key) in FETCHES]


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site of which any page would fetch something from elsewhere."""
    for path in Path(config.site_dir).rglob("*.html"):
        fetched = _Fetched()
        fetched.feed(path.read_text(encoding="utf-8"))
        for address in fetched.addresses:
            if re.match(r"(?:https?:)?//", address):
                raise PluginError(f"{path.relative_to(config.site_dir)} would fetch {address}: the site works offline.")
    for path in Path(config.site_dir).rglob("*.css"):
        for address in re.findall(r"url\([\"']?((?:https?:)?//[^)\"']+)", path.read_text(encoding="utf-8")):
            raise PluginError(f"{path.relative_to(config.site_dir)} would fetch {address}: the site works offline.")
