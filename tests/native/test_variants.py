"""The variants of the library that wheels carry."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regard.native import library as module
from regard.native.library import SOURCES, library
from regard.native.variants import VARIANTS, command, cpu_flags, machine, runs_on

ROOT = Path(__file__).parents[2]
HASWELL = [
    "fpu",
    "sse",
    "sse2",
    "ssse3",
    "sse4_1",
    "sse4_2",
    "popcnt",
    "cx16",
    "lahf_lm",
    "avx",
    "avx2",
    "fma",
    "bmi1",
    "bmi2",
    "f16c",
    "movbe",
    "abm",
]
SKYLAKE_SERVER = [*HASWELL, *["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]]
ICE_LAKE = [*SKYLAKE_SERVER, "avx512_vnni"]
SAPPHIRE_RAPIDS = [*ICE_LAKE, "avx512_bf16"]


@pytest.fixture(autouse=True)
def _forget():
    module._load.cache_clear()
    yield
    module._load.cache_clear()


@pytest.mark.parametrize(
    ("family", "flags", "best"),
    [
        ("x86_64", SAPPHIRE_RAPIDS, "x86-64-v4-bf16"),
        ("x86_64", ICE_LAKE, "x86-64-v4-vnni"),
        ("x86_64", SKYLAKE_SERVER, "x86-64-v4"),
        ("x86_64", HASWELL, "x86-64-v3"),
        ("x86_64", [flag for flag in HASWELL if flag != "fma"], "x86-64-v2"),
        ("x86_64", [flag for flag in SAPPHIRE_RAPIDS if flag != "avx512f"], "x86-64-v3"),
        ("x86_64", ["sse2"], None),
        ("aarch64", ["fp", "asimd"], "aarch64"),
        ("riscv64", SAPPHIRE_RAPIDS, None),
    ],
)
def test_a_processor_gets_the_best_that_it_runs(family, flags, best):
    assert next((variant.name for variant in VARIANTS if runs_on(variant, family, flags)), None) == best


def test_a_wheels_library_is_taken_before_any_compiler_is_looked_for(tmp_path, monkeypatch):
    shutil.copy(sys.executable, tmp_path / "other")
    able = [variant for variant in VARIANTS if runs_on(variant, machine(), cpu_flags())]
    if not able:
        pytest.skip("no variant for this processor")
    loaded = []
    monkeypatch.setattr(module.ctypes, "CDLL", lambda path: loaded.append(path))
    monkeypatch.setattr(module, "_declare", lambda calls: "calls")
    monkeypatch.setattr(module, "SHIPPED", tmp_path)
    monkeypatch.setenv("CXX", "c++-that-is-not-there")
    assert library().calls is None
    for variant in reversed(able):  # the best comes last
        (tmp_path / variant.file).write_bytes(b"")
        module._load.cache_clear()
        assert library().words == f"as compiled for {variant.name}, in {tmp_path / variant.file}"
        assert loaded.pop() == str(tmp_path / variant.file)


def test_the_source_tree_has_none():
    """An editable installation compiles what its sources say."""
    assert not [*SOURCES.glob("*.so")]


@pytest.fixture
def hook(tmp_path, monkeypatch):
    """The hook of the build, with a compiler that only writes a file."""
    pytest.importorskip("hatchling")
    compiler = tmp_path / "c++"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho made > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    kind = runpy.run_path(str(ROOT / "hatch_build.py"))["CustomBuildHook"]
    made = kind(str(ROOT), {}, None, None, str(tmp_path), "wheel")

    def build(version="standard"):
        data = {"force_include": {}, "pure_python": True}
        made.initialize(version, data)
        there = {Path(path).is_file() for path in data["force_include"]}
        made.finalize(version, data, "")
        assert not any(Path(path).exists() for path in data["force_include"])  # nothing is left behind
        assert there <= {True}
        return data

    return build


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wheels with the library are for Linux")


@linux
def test_a_wheel_has_all_variants_of_its_machine(hook):
    data = hook()
    wanted = {f"regard/native/{variant.file}" for variant in VARIANTS if variant.machine == machine()}
    assert {*data["force_include"].values()} == wanted
    assert data["tag"] == f"py3-none-linux_{machine()}"
    assert data["pure_python"] is False


@linux
@pytest.mark.parametrize(("asked", "version"), [("0", "standard"), ("", "editable")])
def test_a_pure_wheel_has_none(hook, monkeypatch, asked, version):
    monkeypatch.setenv("REGARD_NATIVE", asked)
    assert hook(version) == {"force_include": {}, "pure_python": True}


@linux
def test_without_a_compiler_it_is_pure_unless_that_is_refused(hook, monkeypatch):
    monkeypatch.setenv("CXX", "c++-that-is-not-there")
    assert hook() == {"force_include": {}, "pure_python": True}
    monkeypatch.setenv("REGARD_NATIVE", "1")
    with pytest.raises(RuntimeError, match=r"^REGARD_NATIVE=1 asks for the compiled decoder, and there is no C"):
        hook()


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_variant_keeps_the_laws(variant, tmp_path):
    """The tests of this folder, with the library of one variant."""
    compiler = shutil.which("c++")
    if compiler is None or not runs_on(variant, machine(), cpu_flags()):
        pytest.skip("not for this processor, or no compiler")
    subprocess.run(command(compiler, variant.options, SOURCES, tmp_path / variant.file), check=True)
    code = (
        "import sys, pytest; from pathlib import Path; from regard.native import library as module\n"
        "module.SHIPPED = Path(sys.argv[1])\n"
        "module.VARIANTS = tuple(one for one in module.VARIANTS if one.name == sys.argv[2])\n"
        "assert module.library().words.startswith(f'as compiled for {sys.argv[2]}')\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[3:]]))"
    )
    tests = [str(Path(__file__).with_name(name)) for name in ("test_decoder.py", "test_encoder.py")]
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), variant.name, *tests], cwd=ROOT, env=os.environ)
    assert done.returncode == 0
