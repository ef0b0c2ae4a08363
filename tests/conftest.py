"""Shapes are checked while tests run: jaxtyping and beartype enforce the annotations of all code with tensors."""

import fcntl
import gc
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

# They start more than a hundred processes: none is to compile again what another has compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The tests run on all cores already, one process each, and threads that wait for a core burn it (also in subprocesses).
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from hypothesis import settings

import shape_checks

sys.dont_write_bytecode = False
CHECKED = (
    *("masks", "viz", "attention", "layers", "models", "vision"),
    *("data.batching", "data.cache", "decoding", "training"),
)

shape_checks.install([f"regard.{name}" for name in CHECKED])

# How long an example takes says something of the machine alone.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# Nothing that tests write is to outlive a power cut; what must be synced is told from the calls.
os.fsync = lambda descriptor: None

if not torch.accelerator.is_available():
    # Else every seed would keep the stack it was set from, for each kind of device that is not there.
    torch.manual_seed = torch.default_generator.manual_seed

# To ask whether a tensor is distributed, assert_close would import all that knows of such.
torch.testing._comparison._HAS_DTENSOR = False

if os.environ.get("TRITON_INTERPRET") == "1":
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set()
    numpy_type, numpy_types = interpreter._get_np_dtype, {}

    def patch_once(function):
        """Replace the language for a module's kernels once: at every call it would take a third of the time."""
        if function.__module__ not in patched:
            patched.add(function.__module__)
            patch(function)
        return interpreter._LangPatchScope()

    def numpy_type_of(kind):
        """Look NumPy's type up by name: a table of all of them is made at every call otherwise."""
        name = str(kind.scalar)
        if name not in numpy_types:
            numpy_types[name] = numpy_type(kind)
        return numpy_types[name]

    interpreter._patch_lang = patch_once
    # Whether a sum of places overflows, which it cannot in tests so small, took another quarter.
    interpreter.interpreter_builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)
    interpreter._get_np_dtype = numpy_type_of


def pytest_collection_finish():
    """Let Python's collector pass over the tests themselves from now on: there are thousands."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def interpret():
    """Run the laws of a file that are marked `gpu` in Triton's interpreter; in a process of its own: it asks once."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("this is the interpreter")
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: pip install triton")

    def run(path):
        found = subprocess.run(
            [sys.executable, "-m", "pytest", "-m", "gpu", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", path],
            env={**os.environ, "TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stdout
        assert "passed" in found.stdout

    return run


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Make a folder once for all processes that test at the same time; it is not to be changed."""
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "shared"
    place.mkdir(exist_ok=True)

    def made(name, make):
        folder, done = place / name, place / f"{name}.done"
        with (place / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # what a test that failed has left
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def make_folder():
    """Write the folder of a model that knows nothing, and is sure of it; a writer comes to an end all the same."""
    from tiny_models import write_folder

    return write_folder
