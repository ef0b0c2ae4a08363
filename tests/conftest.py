"""Shapes are checked while tests run: jaxtyping and beartype enforce the annotations of all code with tensors."""

import importlib.util
import os
import subprocess
import sys

import pytest

# The tests run on all cores already, one process each, and threads that wait for a core burn it (also in subprocesses).
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

CHECKED = (
    *("masks", "viz", "attention", "layers", "models", "vision"),
    *("data.batching", "data.cache", "decoding", "training"),
)

install_import_hook([f"regard.{name}" for name in CHECKED], "beartype.beartype")


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
