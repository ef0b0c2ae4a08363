"""The variants of the library that a wheel carries, each compiled for the processors that have its instructions.

Only Python's own modules are imported here: `hatch_build.py` reads this file where regard is not installed.
"""

import platform
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

OPTIONS = ("-std=c++20", "-O3", "-fPIC", "-shared", "-pthread", "-w")
"""How every library is compiled."""
ENTRY = "bindings.cpp"


class Variant(NamedTuple):
    """One way of compiling the sources."""

    name: str
    machine: str
    """The processor's family, as `platform.machine()` names it."""
    options: tuple[str, ...]
    needs: frozenset[str]
    """Flags of /proc/cpuinfo without which it would crash."""

    @property
    def file(self) -> str:
        """Its file name within the wheel."""
        return f"decoder-{self.name}.so"


_V2 = frozenset(["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"])
_V3 = _V2 | frozenset(["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"])
_V4 = _V3 | frozenset(["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"])

VARIANTS = (
    Variant(
        "x86-64-v4-bf16",
        "x86_64",
        ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"),
        _V4 | {"avx512_vnni", "avx512_bf16"},
    ),
    Variant("x86-64-v4-vnni", "x86_64", ("-march=x86-64-v4", "-mavx512vnni"), _V4 | {"avx512_vnni"}),
    Variant("x86-64-v4", "x86_64", ("-march=x86-64-v4",), _V4),
    Variant("x86-64-v3", "x86_64", ("-march=x86-64-v3",), _V3),
    Variant("x86-64-v2", "x86_64", ("-march=x86-64-v2",), _V2),
    Variant("aarch64", "aarch64", ("-march=armv8-a",), frozenset({"asimd"})),
)
"""Best first."""


def runs_on(variant: Variant, machine: str, flags: Collection[str]) -> bool:
    """Return whether a processor has all instructions of a variant."""
    return variant.machine == machine and variant.needs <= set(flags)


def command(compiler: str, options: tuple[str, ...], sources: Path, made: Path) -> list[str]:
    """Return the command line that compiles a library."""
    return [compiler, *OPTIONS, *options, str(sources / ENTRY), "-o", str(made)]


def cpu_flags() -> frozenset[str]:
    """Return the instruction sets of this processor that its kernel supports; none where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(found.partition(":")[2].split())


def machine() -> str:
    """Return the processor's family; a 32-bit Python on a 64-bit processor has none of these libraries."""
    return platform.machine() if sys.maxsize > 1 << 32 else ""
