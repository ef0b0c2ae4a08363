"""Export a model folder to a folder of ONNX files that run without this package."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.atomic_files import folder_anew
from regard.config import Config
from regard.errors import ConfigError
from regard.export.graph_inputs import GraphInputs
from regard.export.manifest import Checked, Usage, copy_programs, write_manifest, write_readme
from regard.export.onnx_graph import OnnxGraph
from regard.export.single_graph import export_whole
from regard.export.step_graphs import export_seq2seq
from regard.export.verification import FINITE, check_whole, check_writer
from regard.models.model_folder import open_folder
from regard.models.seq2seq import Seq2Seq
from regard.runtime.graphs import MANIFEST
from regard.task import task_of


class Exported(NamedTuple):
    """The result of an export."""

    folder: Path
    command: str
    """The command that its program corresponds to: translate, caption, classify, ask, detect."""
    files: tuple[str, ...]
    """The graphs."""
    difference: float
    """The largest difference between onnxruntime and torch on random inputs, in float32."""
    rounding: float | None
    """The same with weights stored as 8-bit integers; None if they are not."""


def export_model(folder: Path, out: Path, *, overwrite: bool = False, int8: bool = False) -> Exported:
    """Write a model as ONNX files, with all they need to run, and verify them; on failure nothing is left behind.

    With `int8`, weights are stored as 8-bit integers, after the graphs were verified in float32.
    """
    config = open_folder(folder)
    check_target(out, overwrite)
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    try:
        with folder_anew(out.absolute()) as building:
            return _export(folder, config, building, int8)._replace(folder=out)
    except OSError as error:
        error.filename = error.filename or str(out)  # the error of a full disk has no file name
        raise
    finally:
        torch.random.set_rng_state(state)


class Exportable(NamedTuple):
    """A model to export."""

    model: Any
    """A `Seq2Seq`, which decodes step by step, or a `Whole`, which takes one forward pass."""
    source: GraphInputs
    beside: dict[str, Any]
    """The entries of `export.json` besides the graphs."""
    usage: Usage


def _export(folder: Path, config: Config, out: Path, int8: bool) -> Exported:
    task = task_of(config.model)
    model, source, beside, usage = task.export(folder, config, out)
    if isinstance(model, Seq2Seq):
        graphs = export_seq2seq(model, source)
        check = partial(check_writer, model, source, out, beside["marks"]["start"])
    else:
        model.eval()
        graphs = export_whole(model, source)
        check = partial(check_whole, model, source, out)
    _save(graphs, out)
    difference, rounding = check(), None
    if int8:
        for graph in graphs.values():
            graph.store_in_int8()
        _save(graphs, out)
        rounding = check(allowed=FINITE)
    command = task.entry.command
    checked = Checked(difference, rounding)
    write_manifest(out, command, config.preset, graphs, beside, checked)
    copy_programs(out, usage.program)
    write_readme(out, usage, graphs, beside, checked)
    return Exported(out, command, tuple(f"{name}.onnx" for name in graphs), *checked)


def _save(graphs: Mapping[str, OnnxGraph], out: Path) -> None:
    for name, graph in graphs.items():
        graph.save(out / f"{name}.onnx")


def check_target(out: Path, overwrite: bool) -> None:
    """Raise a ConfigError if the export would overwrite something else, or an export without `overwrite`."""
    if not os.path.lexists(out) or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir():
        raise ConfigError(f"{out} is a file; an export is a folder: give another name.")
    if not (out / MANIFEST).is_file():
        raise ConfigError(f"{out} exists and is not an export: give the name of a new folder.")
    if not overwrite:
        raise ConfigError(f"{out} already holds an export. Replace it with --overwrite, or give another name.")
