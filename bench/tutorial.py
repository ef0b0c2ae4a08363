"""Run a tutorial: execute every command of its console blocks in order, and insert the real outputs.

`python bench/tutorial.py docs/vision.md` runs everything in one empty folder, as a reader would. `--sections Classes`
runs only a part, and `--folder` reuses a folder: a training command whose model exists is not run again, and its output
on the page is kept. Images come from the same run: the comment
`<!-- image: look.png images/look.png what it shows -->` is followed by that file of the folder. It takes as long as the
training runs; tests only check that the commands exist.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

BLOCK = re.compile(r"^```console\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (?P<name>.+)$", re.MULTILINE)
IMAGE = re.compile(r"<!-- image: (?P<file>\S+) (?P<path>\S+) (?P<shows>.+?) -->(\n!\[[^\]]*\]\([^)]+\))?")
PROGRESS = re.compile(r"step [\d,]+ .*left$")
"""Progress lines of training, of which only the first is kept."""
MODEL = re.compile(r"regard train .*--out (?P<folder>\S+)", re.DOTALL)
WIDTH = 96
"""The terminal width given to programs, in columns."""


def printed_by(command: str, folder: Path) -> str:
    """Run a command in a shell; return its output, including stderr."""
    here = Path(sys.executable).parent
    shell = f'export PATH="{here}:$PATH" COLUMNS={WIDTH}\n{command}'
    done = subprocess.run(
        ["bash", "-c", shell],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout}")
    return done.stdout


def shortened(output: str) -> str:
    """Drop most progress lines of training."""
    lines = output.splitlines()
    way = [place for place, line in enumerate(lines) if PROGRESS.match(line)]
    kept = [("…" if place in way[1:2] else line).rstrip() for place, line in enumerate(lines) if place not in way[2:]]
    return "".join(f"{line}\n" for line in kept)


def told(block: str) -> dict[str, str]:
    """Return the commands of a block with their outputs; a backslash continues a command on the next line."""
    found: list[tuple[str, str]] = []
    goes_on = False
    for line in block.splitlines(keepends=True):
        command, printed = found[-1] if found else ("", "")
        if goes_on:
            found[-1] = (f"{command}\n{line.rstrip()}", printed)
        elif line.startswith("$ "):
            found.append((line[2:].rstrip(), ""))
        elif found:
            found[-1] = (command, printed + line)
            continue
        goes_on = line.rstrip().endswith("\\")
    return dict(found)


def run(text: str, folder: Path, where: Path) -> str:
    """Run all blocks of a text; return it with new outputs and images."""

    def renew(match: re.Match[str]) -> str:
        shown = []
        for command, before in told(match["content"]).items():
            print(f"$ {command}", flush=True)
            trains = MODEL.match(command)
            there = before and trains is not None and (folder / trains["folder"]).is_dir()
            shown.append(f"$ {command}\n{before if there else shortened(printed_by(command, folder))}")
        return f"```console\n{''.join(shown)}```"

    def show(match: re.Match[str]) -> str:
        (where / match["path"]).write_bytes(smaller(folder / match["file"]))
        file, path, shows = match["file"], match["path"], match["shows"]
        return f"<!-- image: {file} {path} {shows} -->\n![{shows}]({path})"

    return IMAGE.sub(show, BLOCK.sub(renew, text))


def smaller(path: Path) -> bytes:
    """Return a picture reduced to a small palette and the size shown on a page."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder, Image.open(path) as image:
        small = image.convert("RGB")
        small.thumbnail((1000, 1000), Image.Resampling.LANCZOS)
        few = small.quantize(96, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
        few.save(Path(folder) / "small.png", optimize=True)
        return (Path(folder) / "small.png").read_bytes()


def main() -> None:
    """Renew a tutorial, or some of its sections."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("tutorial", type=Path)
    parser.add_argument("--sections", default="", help="names of sections, separated by commas; all if none is given")
    parser.add_argument("--folder", type=Path, help="where to run; an empty one if none is given")
    options = parser.parse_args()
    text = options.tutorial.read_text(encoding="utf-8")
    starts = [0, *(match.start() for match in SECTION.finditer(text)), len(text)]
    parts = [text[start:end] for start, end in pairwise(starts)]
    wanted = set(filter(None, options.sections.split(",")))
    with tempfile.TemporaryDirectory() as empty:
        folder = options.folder or Path(empty)
        folder.mkdir(parents=True, exist_ok=True)
        for place, part in enumerate(parts):
            name = SECTION.match(part)
            if not wanted or (name is not None and name["name"] in wanted):
                parts[place] = run(part, folder, options.tutorial.parent)
                options.tutorial.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
