"""The documents say what is so: links, commands, settings, the generated reference, and every output of Python blocks.

`python tests/test_docs.py` writes the outputs of Python blocks and of `regard data`, messages and settings anew.
"""

import ast
import contextlib
import gzip
import importlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

# Click's exceptions, wherever this release of typer has them: in a package of their own, or among its own modules.
usage = importlib.import_module(typer.BadParameter.__module__)

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("recipes/*.md"), *ROOT.glob("bench/*.md")])
WALKTHROUGH, TRAINING, DATA = (DOCS / name for name in ("walkthrough.md", "training.md", "data.md"))

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img[^>]*src=\"([^\"]+)\"")
RUN = re.compile(
    r"(?P<kept><!-- not run: [^>]*-->\n)?^```python\n(?P<code>(?:(?!```)[^\n]*\n)*)^```\n```text\n(?P<output>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
"""A block with its output. What needs a trained model is told by a comment before it, and only compiled."""
TABLE = re.compile(r"(?<=<!-- settings -->\n).*(?=<!-- end of settings -->)", re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)


# -- links ------------------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_document
def test_links_lead_somewhere(path: Path):
    text = FENCE.sub("", read(path))
    for link in (first or second for first, second in LINK.findall(text)):
        if re.match(r"\w+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{link} in {name_of(path)}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(read(target)), f"{link} in {name_of(path)}"


def test_anchors_are_those_of_github():
    assert anchors("# What `state/` holds\n## GNMT, the LSTMN – and more …\n") == {
        "what-state-holds",
        "gnmt-the-lstmn--and-more-",
    }


# -- commands ---------------------------------------------------------------------------------------------------------


class Command(NamedTuple):
    words: tuple[str, ...]
    whole: bool
    """Whether it is to be run as it stands, not only talked about."""


def commands(text: str) -> Iterator[Command]:
    """Find all command lines of regard: in shell blocks and between backticks."""
    for match in FENCE.finditer(text):
        if match["language"] in ("sh", "console"):
            lines = match["content"].replace("\\\n", " ").splitlines()
            shown = [line.removeprefix("$ ") for line in lines if match["language"] == "sh" or line.startswith("$ ")]
            for line in shown:
                yield from (Command(words, True) for words in calls(line))
    for span in SPAN.findall(FENCE.sub("", text)):
        yield from (Command(words, False) for words in calls(span))


def calls(line: str) -> Iterator[tuple[str, ...]]:
    """Take the calls of regard out of a shell line: pipes, redirections and comments fall away."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    words = iter(lexer)
    for word in words:
        if word in ("<", ">", ">>"):
            next(words, None)
        elif set(word) <= set("|;&"):
            parts.append([])
        else:
            parts[-1].append(word)
    for part in parts:
        if part and part[0] == "regard":
            yield tuple(word for word in part[1:] if word != "…")


def parse(command: Command) -> None:
    """Let typer read a command line without running it."""
    from regard.cli.main import app

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    if not command.words or command.words[0].startswith("-"):
        return
    name, *rest = command.words
    assert name in known, f"regard has no command {name!r}"
    try:
        known[name].make_context(name, list(rest))
    except typer.Exit:
        pass
    except (usage.MissingParameter, usage.BadOptionUsage):
        assert not command.whole, f"not a whole command: regard {' '.join(command.words)}"


def check_commands(text: str, where: str) -> None:
    """See that every command of a text exists with its options, and every setting with such a value."""
    for command in commands(text):
        try:
            parse(command)
        except usage.UsageError as error:
            pytest.fail(f"{where}: regard {' '.join(command.words)}: {error.format_message()}")
        if command.whole and command.words[0] in ("train", "compare", "translate", "evaluate", "attend"):
            set_all([value for flag, value in pairwise(command.words) if flag == "--set"], text, where)


def set_all(assignments: list[str], text: str, where: str) -> None:
    """Set what a command sets; a page may show what a wrong setting says."""
    from regard.config import Config
    from regard.config_io import override
    from regard.errors import ConfigError

    try:
        override(Config(), assignments)
    except ConfigError as error:
        if f"regard: {error}" not in text:
            pytest.fail(f"{where}: {error}")


@every_document
def test_commands_exist_with_their_options(path: Path):
    check_commands(read(path), name_of(path))


def test_commands_are_found_and_wrong_ones_noticed():
    text = "```sh\nregard attend m 'a b' \\\n  --out x.png > y  # so\necho a | regard translate m\n```\n"
    found = list(commands(text))
    assert [command.words for command in found] == [("attend", "m", "a b", "--out", "x.png"), ("translate", "m")]
    with pytest.raises(usage.NoSuchOption):
        parse(Command(("attend", "m", "a", "--no-such"), True))
    with pytest.raises(AssertionError, match="not a whole command"):
        parse(Command(("train", "--preset", "x"), True))
    with pytest.raises(pytest.fail.Exception, match=r"Unknown setting 'model\.droput'"):
        check_commands("```sh\nregard train --data a.tsv --out m --set model.droput=1\n```\n", "a page")


# -- what regard data prints ------------------------------------------------------------------------------------------

TRANSCRIPT = re.compile(
    r"^\$ (?P<command>regard data (?:phrasebook|dates|reverse|copy|scenes)(?=[: \n])(?![^\n]*--out)[^>|\n]*)\n"
    r"(?P<output>.*?)(?=^\$ |^```)",
    re.MULTILINE | re.DOTALL,
)


def printed_by(command: str) -> str:
    program = [sys.executable, "-m", "regard", *shlex.split(command)[1:]]
    return subprocess.run(program, capture_output=True, check=True, encoding="utf-8").stdout


@every_document
def test_transcripts_of_regard_data_are_current(path: Path):
    for match in TRANSCRIPT.finditer(read(path)):
        assert match["output"] == printed_by(match["command"]), "run python tests/test_docs.py"


# -- messages ---------------------------------------------------------------------------------------------------------

BAD_FILES = {
    "train.en": b"a\nb\nc\n",
    "train.de": b"x\ny\n",
    "gap.de": b"x\n\nz\n",
    "one.de": b"x\n",
    "latin.en": b"caf\xe9\n",
    "nul.en": b"a\0b\n",
    "wide.en": "\ufeffa\n".encode("utf-16-le"),
    "empty.tsv": b"",
    "untabbed.tsv": b"a b\n",
    "half.tsv": b"a\tb\nc\t\n",
    "links.tsv": b"a b\tc d\t0-0 1-5\n",
    "cut.tsv.gz": gzip.compress(b"a\tb\n" * 100)[:-9],
    "keys.jsonl": b'{"src": "a", "tgt": "b"}\n',
    "broken.jsonl": b'{"source": "a"\n',
    "text.en": b"hello\n",
    "links.talp": b"0-1\n",
}
BAD_CORPORA = (
    "train.en train.de", "train.en gap.de", "latin.en one.de", "wide.en one.de", "nul.en one.de", "train.en train.en",
    "empty.tsv", "untabbed.tsv", "half.tsv", "links.tsv", "text.en one.de links.talp",
    "cut.tsv.gz", "keys.jsonl", "broken.jsonl", "text.en",
    "trian.en train.de", "train.en -", "frasebook", "phrasebook:many",
)  # fmt: skip


def messages(folder: Path) -> list[str]:
    """Return what is said about each bad corpus."""
    from regard.data.corpus import open_corpus
    from regard.errors import DataError

    for name, content in BAD_FILES.items():
        (folder / name).write_bytes(content)
    said = []
    with contextlib.chdir(folder):
        for parts in BAD_CORPORA:
            with pytest.raises(DataError) as caught:
                list(open_corpus(parts.split()))
            said.append(str(caught.value))
    return said


def test_the_messages_shown_are_those_given(tmp_path: Path):
    shown = [match["content"] for match in FENCE.finditer(read(DATA)) if match["language"] == "text"]
    assert shown[-1].splitlines() == messages(tmp_path), "run python tests/test_docs.py"


# -- settings ---------------------------------------------------------------------------------------------------------


def settings_table() -> str:
    """Write the table of all settings, as docs/training.md has it."""
    from regard.config_io import describe

    rows = "".join(f"| `{setting.name}` | {_shown(setting.default)} | {setting.help} |\n" for setting in describe())
    return f"| setting | default | what it does |\n|---|---|---|\n{rows}"


def _shown(default: Any) -> str:
    if default in ("", ()):
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_the_table_of_settings_is_current():
    assert TABLE.findall(read(TRAINING)) == [settings_table()], "run python tests/test_docs.py"


# -- Python blocks ----------------------------------------------------------------------------------------------------


def walk(text: str, name: str = "a page") -> Iterator[tuple[str, str, str]]:
    """Run all blocks in order, in one namespace and one folder; yield the code, the output shown, and the true one."""
    import torch

    namespace: dict[str, Any] = {}
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        for match in RUN.finditer(text):
            if match["kept"]:
                yield match["code"], match["output"], match["output"]
                continue
            printed = io.StringIO()
            with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
                exec(compile(match["code"], name, "exec"), namespace)
            yield match["code"], match["output"], printed.getvalue()


NEED_A_MODEL = {DOCS / "export.md"}
"""Pages whose blocks need an exported model."""
WALKED = [path for path in DOCUMENTS if path not in NEED_A_MODEL and RUN.search(read(path))]


@pytest.mark.parametrize("path", WALKED, ids=name_of)
def test_python_blocks_print_what_is_shown(path: Path):
    for code, shown, printed in walk(read(path), name_of(path)):
        assert printed == shown, f"after:\n{code}\nrun python tests/test_docs.py"


def test_every_block_of_the_walkthrough_has_its_output():
    text = read(WALKTHROUGH)
    assert len(RUN.findall(text)) == len(re.findall(r"^```python$", text, re.MULTILINE)), "a block without its output"
    assert "<!-- not run" not in text


def test_a_wrong_output_would_be_noticed_and_a_block_that_is_not_run_is_let_be():
    [(_, shown, printed)] = walk("```python\nprint(1 + 1)\n```\n```text\n3\n```\n")
    assert (shown, printed) == ("3\n", "2\n")
    [(_, shown, printed)] = walk("<!-- not run: needs a model -->\n```python\nraise SystemExit\n```\n```text\n3\n```\n")
    assert (shown, printed) == ("3\n", "3\n")


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if "\n```python\n" in read(path)], ids=name_of)
def test_what_python_blocks_import_is_there(path: Path):
    """Blocks without an output are not run, but they must be Python, and what they import of ours must be there."""
    for match in FENCE.finditer(read(path)):
        if match["language"] != "python":
            continue
        for node in ast.walk(ast.parse(match["content"])):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "regard":
                module = importlib.import_module(str(node.module))
                missing = [
                    alias.name
                    for alias in node.names
                    if not hasattr(module, alias.name) and not submodule(module, alias.name)
                ]
                assert not missing, f"{name_of(path)}: {node.module} has no {', '.join(missing)}"


def submodule(module: Any, name: str) -> bool:
    return importlib.util.find_spec(f"{module.__name__}.{name}") is not None


# -- the site ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def test_the_reference_has_every_command_with_every_option(generated):
    from regard.cli.main import app

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    pages = {Path(name).stem: text for name, text in generated.items() if "/commands/" in name}
    assert set(pages) == set(known)
    for name, command in known.items():
        assert pages[name].startswith(f"# regard {name}\n")
        for parameter in command.params:
            shown = [parameter.metavar] if parameter.param_type_name == "argument" else parameter.opts
            assert all(f"`{one}`" in pages[name] for one in shown), (name, shown)
            assert "`None`" not in pages[name]


def test_the_reference_has_every_setting_preset_and_part(generated):
    from regard.cli.list import KINDS
    from regard.config_io import describe

    for setting in describe():
        row = rf"^\| `{re.escape(setting.name)}`\{{ #{re.escape(setting.name)} \}} \|"
        assert re.search(row, generated["reference/settings.md"], re.MULTILINE), setting.name
    for kind, place in KINDS.items():
        page = generated["reference/presets.md" if kind in ("presets", "visions") else "reference/parts.md"]
        module, _, name = place.partition(":")
        assert all(f"| `{part}` |" in page for part in getattr(importlib.import_module(module), name)), kind


def test_the_reference_has_the_public_interface_and_every_http_path(generated):
    import regard
    from regard.serve.app import make_app

    python = generated["reference/python.md"]
    modules = {"attention", "runtime"}
    assert set(re.findall(r"^::: regard\.(\w+)$", python, re.MULTILINE)) == {*regard.__all__} - modules
    assert set(re.findall(r"^::: regard\.runtime\.(\w+)$", python, re.MULTILINE)) == {*regard.runtime.__all__}
    listed = set(re.findall(r"^::: regard\.attention\.(\w+)$", python, re.MULTILINE))
    assert all(name in listed or f"`{name}`" in python for name in regard.attention.__all__)
    for path, methods in make_app([]).openapi()["paths"].items():
        assert all(f"## {method.upper()} {path}\n" in generated["reference/http.md"] for method in methods)


def test_commands_in_the_reference_are_right(generated):
    for name, text in generated.items():
        check_commands(text, name)


def test_no_page_links_to_one_that_is_generated(generated):
    """Those are on the site alone, and pages are read on GitHub too. (The site links names of settings by itself.)"""
    for path in DOCUMENTS:
        for link in (first or second for first, second in LINK.findall(FENCE.sub("", read(path)))):
            target = (path.parent / link.partition("#")[0]).resolve()
            assert not target.is_relative_to(DOCS) or target.relative_to(DOCS).as_posix() not in generated


def test_the_readme_is_read_in_one_sitting():
    assert len(read(ROOT / "README.md").splitlines()) <= 200


def test_how_tos_are_short_and_all_listed():
    listed = read(DOCS / "how-to" / "index.md")
    for path in (DOCS / "how-to").glob("*.md"):
        assert path.name == "index.md" or f"]({path.name})" in listed
        assert len(read(path).splitlines()) <= 60, name_of(path)


def _write_anew() -> None:
    def run(match: re.Match[str]) -> str:
        return f"$ {match['command']}\n{printed_by(match['command'])}"

    for path in DOCUMENTS:
        path.write_text(TRANSCRIPT.sub(run, read(path)), encoding="utf-8")
    for path in WALKED:
        outputs = iter([printed for _, _, printed in walk(read(path))])

        def renewed(match: re.Match[str], outputs: Iterator[str] = outputs) -> str:
            return f"{match['kept'] or ''}```python\n{match['code']}```\n```text\n{next(outputs)}```"

        path.write_text(RUN.sub(renewed, read(path)), encoding="utf-8")
    TRAINING.write_text(TABLE.sub(lambda _: settings_table(), read(TRAINING)), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        before, _, _ = read(DATA).rpartition("```text\n")
        DATA.write_text(before + "```text\n" + "\n".join(messages(Path(folder))) + "\n```\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    _write_anew()
