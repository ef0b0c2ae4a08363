"""Compile the decoder into wheels, once for each family of processors, so that installing them needs no compiler.

REGARD_NATIVE=0 makes a pure wheel, which compiles the decoder at first use; REGARD_NATIVE=1 fails where there is no
compiler. Unset, a wheel has the decoder if a C++20 compiler is there. An editable installation never has it: its
sources change.
"""

import os
import platform
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "REGARD_NATIVE"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls before it writes a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the variants for this machine's processors and add them to the wheel."""
        asked = os.environ.get(SWITCH, "")
        compiler = shutil.which(os.environ.get("CXX") or "c++")
        if version == "editable" or asked == "0" or not sys.platform.startswith("linux"):
            return
        if compiler is None:
            if asked == "1":
                raise RuntimeError(f"{SWITCH}=1 asks for the compiled decoder, and there is no C++ compiler.")
            return
        self._made = tempfile.mkdtemp()
        sources = Path(self.root) / "src" / "regard" / "native"
        known = runpy.run_path(str(sources / "variants.py"))
        for variant in known["VARIANTS"]:
            if variant.machine == platform.machine():
                path = Path(self._made) / variant.file
                command = known["command"](compiler, (*variant.options, "-Wl,--strip-all"), sources, path)
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    self._give_up(asked, f"{compiler} cannot compile the decoder:\n{done.stderr}")
                    return
                build_data["force_include"][str(path)] = f"regard/native/{variant.file}"
        if build_data["force_include"]:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled."""
        shutil.rmtree(getattr(self, "_made", ""), ignore_errors=True)

    def _give_up(self, asked: str, why: str) -> None:
        if asked == "1":
            raise RuntimeError(why)
        self.app.display_warning(why)
