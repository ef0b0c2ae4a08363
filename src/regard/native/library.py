"""Load the compiled library: the wheel's, or one compiled on this machine and kept in the user's cache folder."""

import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from regard.native.private_folder import UnsafeError, keep, kept, load, private_folder
from regard.native.variants import OPTIONS, VARIANTS, command, cpu_flags, machine, runs_on

logger = logging.getLogger("regard")

SOURCES = Path(__file__).parent
SHIPPED = Path(__file__).parent
"""Where a wheel has its variants of the library: beside the sources."""
SWITCH = "REGARD_NATIVE"
"""Setting this environment variable to 0 switches the library off."""
COMPILERS = ("c++", "g++", "clang++")
LOCAL = ("-march=native",)
"""What a library compiled on this machine has beside the options of all."""
PRECISIONS = ("float32", "bfloat16", "int8")
"""Precisions of matrix products, in the library's order."""
SLOWER = (
    "Beam search runs in Python, which is slower: %s. regard doctor tells whether it is mended; %s=0 keeps this quiet."
)
ANOTHER_FOLDER = "set XDG_CACHE_HOME to a folder that is yours alone"


class Library(NamedTuple):
    """The library, or the reason why there is none."""

    calls: ctypes.CDLL | None
    words: str

    def offers(self, precision: str) -> bool:
        """Whether this machine supports a precision of matrix products."""
        return self.calls is not None and bool(self.calls.regard_offers(PRECISIONS.index(precision)))


def library() -> Library:
    """Load the library; the first time on a machine it is compiled (some seconds), unless a wheel brought it."""
    if os.environ.get(SWITCH) == "0":
        return Library(None, f"switched off by {SWITCH}=0")
    return _load(os.environ.get("CXX"), cache_folder())


def cache_folder() -> str:
    """Return the folder of compiled libraries; an empty text if this user has no home."""
    asked = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(asked):  # the XDG specification: others are to be ignored
        return os.path.join(asked, "regard")
    home = os.path.expanduser("~")
    return os.path.join(home, ".cache", "regard") if os.path.isabs(home) else ""


def tell_if_missing() -> None:
    """Say once in the life of this process what is slower without the library, and how to get it."""
    found = library()
    if found.calls is None and os.environ.get(SWITCH) != "0":
        _tell(found.words)


@functools.cache
def _tell(why: str) -> None:
    logger.warning(SLOWER, why, SWITCH)


@functools.cache
def _load(asked: str | None, folder: str) -> Library:
    try:
        return _shipped() or _compiled(asked, folder)
    except UnsafeError as error:
        return Library(None, f"{error}: {ANOTHER_FOLDER}")
    except OSError as error:
        return Library(None, str(error))
    except subprocess.CalledProcessError as error:
        logger.debug("%s", error.stderr)
        return Library(None, f"{error.cmd[0]} cannot compile it: it needs C++20, as g++ 10 and clang++ 12 have it")


def _shipped() -> Library | None:
    """Load the best variant of a wheel that this processor runs; None in an installation without them."""
    family, flags = machine(), cpu_flags()
    for variant in VARIANTS:
        path = SHIPPED / variant.file
        if runs_on(variant, family, flags) and path.is_file():
            return Library(_declare(ctypes.CDLL(str(path))), f"as compiled for {variant.name}, in {path}")
    return None


def _compiled(asked: str | None, folder: str) -> Library:
    """Load the library that was compiled on this machine; the first time, compile it."""
    compiler = next((found for name in ([asked] if asked else COMPILERS) if (found := shutil.which(name))), None)
    if compiler is None:
        tried = asked or ", ".join(COMPILERS)
        return Library(None, f"no C++ compiler ({tried}): install one, or a wheel of regard that has the library")
    if not folder:
        return Library(None, f"this user has no home to keep it in: {ANOTHER_FOLDER}")
    cache, name = private_folder(Path(folder)), f"decoder-{_key(compiler)}"
    for path in kept(cache, name):
        try:
            return Library(_declare(load(path)), f"compiled by {compiler}, in {path}")
        except (UnsafeError, FileNotFoundError) as error:
            logger.debug("%s: compiling it again", error)
            with contextlib.suppress(OSError):
                path.unlink()
    path = _compile(compiler, cache, name)
    return Library(_declare(load(path)), f"compiled by {compiler}, in {path}")


def _key(compiler: str) -> str:
    """Return a hash of what a library depends on: source, options, compiler and the machine's instruction set."""
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".h", ".cpp"))
    by = Path(compiler).resolve()
    about = [*OPTIONS, *LOCAL, str(by), str(by.stat().st_mtime_ns), machine(), *sorted(cpu_flags())]
    return hashlib.sha256(b"\0".join([*(path.read_bytes() for path in sources), " ".join(about).encode()])).hexdigest()[
        :16
    ]


def _compile(compiler: str, cache: Path, name: str) -> Path:
    """Compile within the private folder, the compiler's own temporary files too; other processes may do the same."""
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        made = Path(folder) / "decoder.so"
        environment = {**os.environ, "TMPDIR": folder}
        subprocess.run(
            command(compiler, LOCAL, SOURCES, made), check=True, capture_output=True, text=True, env=environment
        )
        return keep(cache, name, made)


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
