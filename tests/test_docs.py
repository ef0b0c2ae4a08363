"""The documents say what is so: the map, the commands, the links, the settings, and every output of the walkthrough.

`python tests/test_docs.py` writes the outputs of the walkthrough and of `regard data`, messages and settings anew.
"""

import contextlib
import gzip
import importlib
import io
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

# Click's exceptions, wherever this release of typer has them: in a package of their own, or among its own modules.
usage = importlib.import_module(typer.BadParameter.__module__)

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
WALKTHROUGH, TRAINING, DATA = (ROOT / "docs" / name for name in ("walkthrough.md", "training.md", "data.md"))

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img[^>]*src=\"([^\"]+)\"")
RUN = re.compile(r"^```python\n(?P<code>.*?)^```\n```text\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
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
        if anchor:
            assert anchor in anchors(read(target)), f"{link} in {name_of(path)}"


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
    except usage.MissingParameter:
        assert not command.whole, f"not a whole command: regard {' '.join(command.words)}"


@every_document
def test_commands_exist_with_their_options(path: Path):
    for command in commands(read(path)):
        try:
            parse(command)
        except usage.UsageError as error:
            pytest.fail(f"{name_of(path)}: regard {' '.join(command.words)}: {error.format_message()}")


def test_commands_are_found_and_wrong_ones_noticed():
    text = "```sh\nregard attend m 'a b' \\\n  --out x.png > y  # so\necho a | regard translate m\n```\n"
    found = list(commands(text))
    assert [command.words for command in found] == [("attend", "m", "a b", "--out", "x.png"), ("translate", "m")]
    with pytest.raises(usage.NoSuchOption):
        parse(Command(("attend", "m", "a", "--no-such"), True))
    with pytest.raises(AssertionError, match="not a whole command"):
        parse(Command(("train", "--preset", "x"), True))


# -- what regard data prints ------------------------------------------------------------------------------------------

TRANSCRIPT = re.compile(
    r"^\$ (?P<command>regard data (?!.*--out)[^>|\n]*)\n(?P<output>.*?)(?=^\$ |^```)", re.MULTILINE | re.DOTALL
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


# -- the walkthrough --------------------------------------------------------------------------------------------------


def walk(text: str) -> Iterator[tuple[str, str, str]]:
    """Run all blocks in order, in one namespace; yield the code, the output shown, and the output it has."""
    import torch

    namespace: dict[str, Any] = {}
    with torch.random.fork_rng(devices=[]):
        for match in RUN.finditer(text):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(match["code"], name_of(WALKTHROUGH), "exec"), namespace)
            yield match["code"], match["output"], printed.getvalue()


def test_the_walkthrough_prints_what_it_shows():
    text = read(WALKTHROUGH)
    assert len(RUN.findall(text)) == len(re.findall(r"^```python$", text, re.MULTILINE)), "a block without its output"
    for code, shown, printed in walk(text):
        assert printed == shown, f"after:\n{code}"


def test_a_wrong_output_of_the_walkthrough_would_be_noticed():
    [(_, shown, printed)] = walk("```python\nprint(1 + 1)\n```\n```text\n3\n```\n")
    assert (shown, printed) == ("3\n", "2\n")


def _write_anew() -> None:
    def run(match: re.Match[str]) -> str:
        return f"$ {match['command']}\n{printed_by(match['command'])}"

    for path in DOCUMENTS:
        path.write_text(TRANSCRIPT.sub(run, read(path)), encoding="utf-8")
    outputs = iter([printed for _, _, printed in walk(read(WALKTHROUGH))])
    renewed = RUN.sub(lambda match: f"```python\n{match['code']}```\n```text\n{next(outputs)}```", read(WALKTHROUGH))
    WALKTHROUGH.write_text(renewed, encoding="utf-8")
    TRAINING.write_text(TABLE.sub(lambda _: settings_table(), read(TRAINING)), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        before, _, _ = read(DATA).rpartition("```text\n")
        DATA.write_text(before + "```text\n" + "\n".join(messages(Path(folder))) + "\n```\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    _write_anew()
