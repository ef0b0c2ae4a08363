"""What pyproject.toml says is so: the version, the command, and every package that is imported."""

import ast
import importlib
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import regard

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = Path(regard.__file__).parent
CHECKED_ONLY = {"jaxtyping", "triton"}
"""Imported where it is installed, done without where it is not."""
EXTRAS = ("export", "plot", "serve", "tensorboard", "vision")
IMPORTED_AS = {"pillow": "PIL", "fastapi-offline": "fastapi_offline", "onnx-ir": "onnx_ir"}
IMPORTED_AS |= {"python-docx": "docx", "python-multipart": "python_multipart"}


def names(requirements):
    found = {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}
    return {IMPORTED_AS.get(name, name) for name in found}


def third_party(path, *, at_import):
    """Find what a file imports that is neither ours nor Python's; at import, or anywhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if at_import else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name.split(".")[0] for name in found} - {"regard", *sys.stdlib_module_names}


def test_the_version_is_one():
    assert PROJECT["version"] == regard.__version__


def test_the_command_is_there():
    module, _, function = PROJECT["scripts"]["regard"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_all_that_is_imported_is_required_and_all_that_is_required_is_imported():
    files = [*SOURCE.rglob("*.py")]
    used = set().union(*(third_party(path, at_import=False) for path in files)) - CHECKED_ONLY
    extras = set().union(*(names(PROJECT["optional-dependencies"][extra]) for extra in EXTRAS))
    assert used <= names(PROJECT["dependencies"]) | extras
    assert names(PROJECT["dependencies"]) | extras <= used | {"tensorboard"}  # torch.utils.tensorboard needs it


def test_extras_are_imported_only_where_they_are_needed():
    extras = set().union(*(names(PROJECT["optional-dependencies"][extra]) for extra in EXTRAS))
    of_tasks = [*SOURCE.glob("tasks/*/http.py"), *SOURCE.glob("tasks/*/export.py"), *SOURCE.glob("tasks/*/program.py")]
    nothing_without = {*(SOURCE / "serve").iterdir(), *(SOURCE / "export").iterdir(), *of_tasks}
    for path in set(SOURCE.rglob("*.py")) - nothing_without:
        assert not third_party(path, at_import=True) & extras, path


def test_types_are_shipped():
    assert (SOURCE / "py.typed").is_file()


def test_torch_is_pinned_for_the_makefile_and_free_for_everyone_else():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()
    (torch,) = [requirement for requirement in PROJECT["dependencies"] if requirement.startswith("torch")]
    assert torch == "torch>=2.9"


def test_the_source_is_of_python_3_11():
    """No syntax of a later Python: the oldest that is supported must parse every file."""
    for path in SOURCE.rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 11))
