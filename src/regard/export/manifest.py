"""The files that tell what an exported model is and how to run it: export.json, README.md and run.py."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime
import torch

from regard import __version__
from regard.export.onnx_graph import OPSET, Graph

MANIFEST = "export.json"
FORMAT = 1
"""Of export.json; raised when a program for the old form would not do."""
PACKAGE = "regard.export.programs."
PROGRAMS = Path(__file__).parent / "programs"
REGIONS = """
It reads features of regions of pictures, {rows} of {width} for each, as the network made them whose features it learned
from, and no image files. They are in an .npz file, whose pictures are then named: `names`, and `regions` (pictures ×
regions × {width}; integers are multiplied by `regions_scale`). Or they are .npy files, regions × {width}, one for each
picture: `{alone}`.
"""
STEPS = """
`encoder.onnx` reads a source once. What it yields, `state.…`, is all that `step.onnx` has to be given with each token,
the start mark first. A step yields log-probabilities of the next token and `next.…`, which take the place of the
`state.…` of the same name for the step after; the other `state.…` stay as they are. The axis `past` grows by one with
each step where a model looks at what it has written (a Transformer keeps the keys and values of all its steps), so a
step never computes anything twice. For a beam search, pick rows of every `state.…` that has a batch.
"""


class Usage(NamedTuple):
    """How an exported model is used."""

    program: Path
    """What becomes `run.py`."""
    does: str
    """What the model does, in words."""
    command: str
    """How `run.py` is called."""
    needs: tuple[str, ...]
    """What that needs beside NumPy and onnxruntime."""


def write_manifest(
    out: Path, command: str, preset: str, graphs: Mapping[str, Graph], beside: Mapping[str, Any], difference: float
) -> None:
    """Write all that a program needs to know of the graphs and of what stands beside them."""
    record = {
        "format": FORMAT,
        "made_by": f"regard {__version__}, torch {torch.__version__}",
        "task": command,
        "preset": preset or None,
        "opset": OPSET,
        "checked": {"with": f"onnxruntime {onnxruntime.__version__}", "largest_difference": difference},
        **beside,
        "graphs": {f"{name}.onnx": graph.described() for name, graph in graphs.items()},
    }
    (out / MANIFEST).write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def copy_programs(out: Path, program: Path) -> None:
    """Copy the program of a task as run.py, and all that it imports; there, they stand beside each other."""
    todo, done = {"run.py": program}, set[str]()
    while todo:
        file, path = todo.popitem()
        text = path.read_text(encoding="utf-8")
        done.add(file)
        (out / file).write_text(text.replace(f"from {PACKAGE}", "from "), encoding="utf-8")
        for line in text.splitlines():
            if line.startswith(f"from {PACKAGE}"):
                name = line.split()[1].removeprefix(PACKAGE)
                if f"{name}.py" not in done:
                    todo[f"{name}.py"] = PROGRAMS / f"{name}.py"


def write_readme(
    out: Path, used: Usage, graphs: Mapping[str, Graph], beside: Mapping[str, Any], difference: float
) -> None:
    """Write how the folder is used."""
    _, does, usage, needs = used
    image, reads = beside.get("image", {}), ""
    if image.get("kind") == "regions":
        alone = usage.replace("picture.png", "picture.npy")
        reads = REGIONS.strip().format(rows=image["cells"] or "any number", width=image["channels"], alone=alone) + "\n"
        usage = alone if beside.get("words") else usage.replace("picture.png", "features.npz picture.jpg")
        needs = tuple(name for name in needs if name != "pillow")
    parts = [
        f"# A model that {does}, as ONNX\n",
        f"```sh\npip install onnxruntime numpy {' '.join(needs)}\n{usage}\n```\n",
        *([reads] if reads else []),
        "`run.py` is short and shows how the graphs are run, greedily where they write. All names, sizes, vocabularies "
        "and marks are in `export.json`. On random inputs the graphs differ from the model they were made of by "
        f"{difference:.0e} at most.\n",
    ]
    parts += [STEPS.strip() + "\n"] if "step" in graphs else []
    for name, graph in graphs.items():
        rows = [(port, way) for way, ports in (("in", graph.inputs), ("out", graph.outputs)) for port in ports]
        lines = ["| | name | shape | type | |", "|---|---|---|---|---|"]
        for port, way in rows:
            told = port.described()
            shape = " × ".join(map(str, port.axes)) or "one number"
            lines.append(f"| {way} | `{port.name}` | {shape} | {told['type']} | {port.about} |")
        parts.append(f"## {name}.onnx\n\n" + "\n".join(lines) + "\n")
    (out / "README.md").write_text("\n".join(parts), encoding="utf-8")
