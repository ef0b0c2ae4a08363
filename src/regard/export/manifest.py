"""Write the files that describe and run an exported model: export.json, README.md and run.py."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime
import torch

from regard import __version__, errors, folder_files, runtime, sentencepiece_file
from regard.export.onnx_graph import OPSET, OnnxGraph
from regard.runtime.graphs import FORMAT, MANIFEST

RUNTIME = "runtime"
"""The folder of an export that holds a copy of `regard.runtime`."""
REGIONS = """
It reads region features instead of image files: {rows} regions of {width} features per picture, computed by the same
network as those of its training data. Store them in an .npz file with the arrays `names` and `regions` (pictures ×
regions × {width}; integers are multiplied by `regions_scale`), and give the names of pictures after it. Or use .npy
files, regions × {width}, one per picture: `{alone}`.
"""
INT8 = """Weights are stored as 8-bit integers, each 32 with a scale, and run in float32; with them the outputs
differ by at most {:.0e}.
"""
STEPS = """
Run `encoder.onnx` once per source. Its outputs, `state.…`, are inputs of `step.onnx`, together with the previous token
(first the start token). A step returns the log-probabilities of the next token and `next.…`, which replace the
`state.…` of the same name in the next step; the other `state.…` stay the same. The axis `past` grows by one with each
step in models with a KV cache, so that a step never computes anything twice. For a beam search, reorder the rows of
every `state.…` that has a batch axis.
"""


class Usage(NamedTuple):
    """How to use an exported model."""

    program: Path
    """The program that becomes `run.py`."""
    does: str
    """What the model does, for the README: "translates"."""
    command: str
    """The command that runs `run.py`."""
    needs: tuple[str, ...]
    """Packages that it needs besides NumPy and onnxruntime."""


class Checked(NamedTuple):
    """The largest differences between onnxruntime and torch on random inputs."""

    difference: float
    """With weights in float32."""
    rounding: float | None
    """With weights stored as 8-bit integers; None if they are not."""


def write_manifest(
    out: Path, command: str, preset: str, graphs: Mapping[str, OnnxGraph], beside: Mapping[str, Any], checked: Checked
) -> None:
    """Write export.json, which has all that a program needs to run the graphs."""
    record = {
        "format": FORMAT,
        "made_by": f"regard {__version__}, torch {torch.__version__}",
        "task": command,
        "preset": preset or None,
        "opset": OPSET,
        "weights": "float32" if checked.rounding is None else "int8",
        "checked": {
            "with": f"onnxruntime {onnxruntime.__version__}",
            "largest_difference": checked.difference,
            **({} if checked.rounding is None else {"largest_difference_in_int8": checked.rounding}),
        },
        **beside,
        "graphs": {f"{name}.onnx": graph.described() for name, graph in graphs.items()},
    }
    (out / MANIFEST).write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def copy_programs(out: Path, program: Path) -> None:
    """Copy a task's program as run.py, and beside it the package that it imports: `regard.runtime`, as `runtime`."""
    needed = [Path(str(module.__file__)) for module in (errors, folder_files, sentencepiece_file)]
    files = {"run.py": program}
    files |= {f"{RUNTIME}/{path.name}": path for path in (*needed, *Path(runtime.__file__).parent.glob("*.py"))}
    (out / RUNTIME).mkdir()
    for name, path in files.items():
        text = path.read_text(encoding="utf-8")
        for module in needed:
            text = text.replace(f"regard.{module.stem}", f"{RUNTIME}.{module.stem}")
        (out / name).write_text(text.replace("regard.runtime", RUNTIME), encoding="utf-8")


def write_readme(
    out: Path, used: Usage, graphs: Mapping[str, OnnxGraph], beside: Mapping[str, Any], checked: Checked
) -> None:
    """Write the README, which explains how to use the folder."""
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
        "`run.py` runs the graphs with the package `runtime` beside it (text is decoded by beam search, with the "
        "settings of the model). `export.json` has all names, sizes, vocabularies and special tokens. On random inputs "
        f"the graphs differ from the original model by at most {checked.difference:.0e}.\n",
        *([] if checked.rounding is None else [INT8.format(checked.rounding)]),
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
