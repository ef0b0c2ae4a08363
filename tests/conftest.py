"""Shapes are checked while tests run: jaxtyping and beartype enforce the annotations of all code with tensors."""

import os

# The tests run on all cores already, one process each, and threads that wait for a core burn it (also in subprocesses).
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

CHECKED = (
    *("masks", "viz", "attention", "layers", "models", "vision"),
    *("data.batching", "data.cache", "decoding", "training"),
)

install_import_hook([f"regard.{name}" for name in CHECKED], "beartype.beartype")
