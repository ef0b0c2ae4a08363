"""Load the compiled library: built once per machine and source version, and kept in the user's cache folder."""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger("regard")

SOURCES = Path(__file__).parent
ENTRY = "bindings.cpp"
SWITCH = "REGARD_NATIVE"
"""Setting this environment variable to 0 switches the library off."""
COMPILERS = ("c++", "g++", "clang++")
OPTIONS = ("-std=c++20", "-O3", "-march=native", "-fPIC", "-shared", "-pthread", "-w")
PRECISIONS = ("float32", "bfloat16", "int8")
"""Precisions of matrix products, in the library's order."""


class Library(NamedTuple):
    """The library, or the reason why there is none."""

    calls: ctypes.CDLL | None
    words: str

    def offers(self, precision: str) -> bool:
        """Whether this machine supports a precision of matrix products."""
        return self.calls is not None and bool(self.calls.regard_offers(PRECISIONS.index(precision)))


def library() -> Library:
    """Load the library; the first time on a machine it is compiled, which takes a few seconds."""
    if os.environ.get(SWITCH) == "0":
        return Library(None, f"switched off by {SWITCH}=0")
    return _load(os.environ.get("CXX"), str(cache_folder()))


def cache_folder() -> Path:
    """Return the folder of compiled libraries."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


@functools.cache
def _load(asked: str | None, folder: str) -> Library:
    compiler = next((found for name in ([asked] if asked else COMPILERS) if (found := shutil.which(name))), None)
    if compiler is None:
        return Library(None, f"no C++ compiler ({asked or ', '.join(COMPILERS)}): decoding is slower")
    path = Path(folder) / f"decoder-{_key(compiler)}.so"
    try:
        if not path.is_file():
            _compile(compiler, path)
        return Library(_declare(ctypes.CDLL(str(path))), f"compiled by {compiler}, in {path}")
    except OSError as error:
        return Library(None, f"{error}: decoding is slower")
    except subprocess.CalledProcessError as error:
        logger.debug("%s", error.stderr)
        return Library(None, f"{compiler} cannot compile it (it needs C++20): decoding is slower")


def _key(compiler: str) -> str:
    """Return a hash of what a library depends on: source, options, compiler and the machine's instruction set."""
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".h", ".cpp"))
    parts = [path.read_bytes() for path in sources]
    compiled_by = Path(compiler).resolve()
    parts += [" ".join([*OPTIONS, str(compiled_by), str(compiled_by.stat().st_mtime_ns), platform.machine()]).encode()]
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        parts += [line.encode() for line in about if line.startswith(("flags", "Features"))][:1]
    except OSError:
        parts += [platform.processor().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _compile(compiler: str, path: Path) -> None:
    """Compile to a temporary file, then rename it: other processes may do the same at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [compiler, *OPTIONS, str(SOURCES / ENTRY), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        made.replace(path)


def _declare(calls: ctypes.CDLL) -> ctypes.CDLL:
    """Declare argument and result types for ctypes."""
    pointer, whole = ctypes.c_void_p, ctypes.c_int
    for name, gives, takes in (
        ("offers", whole, [whole]),
        ("model", pointer, [whole, pointer, pointer, whole]),
        ("forget_model", None, [pointer]),
        ("encoder", pointer, [whole, pointer, pointer, whole]),
        ("forget_encoder", None, [pointer]),
        ("read", whole, [pointer, pointer, pointer, whole, ctypes.c_int64, whole, pointer, pointer]),
        ("fingerprint", ctypes.c_uint64, [pointer, pointer, whole]),
        ("search", pointer, [pointer, pointer, pointer, pointer, whole, pointer, pointer, pointer, whole]),
        ("broken", ctypes.c_int64, [pointer]),
        ("error", ctypes.c_char_p, [pointer]),
        ("array", pointer, [pointer, whole, ctypes.POINTER(ctypes.c_int64)]),
        ("forget_result", None, [pointer]),
        ("product", None, [pointer, whole, pointer, pointer, whole, whole, whole, pointer]),
    ):
        call = getattr(calls, f"regard_{name}")
        call.restype, call.argtypes = gives, takes
    return calls
