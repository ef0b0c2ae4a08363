"""Translate with Argos Translate and LibreTranslate, as installed from PyPI, by a package that regard exported.

    regard export models/transformer en-fr --format argos --from-language en --to-language fr
    python bench/argos.py en-fr.argosmodel --text "the red dress is old" --text "He sleeps. The cat is here."

Makes a virtual environment for both under --cache, once; installs the package into a home folder of its own; and
translates by `argostranslate.translate` and by a running server on the loopback interface, with no other network.
Prints what came out, and ends with an error if the two say different things or a text was not translated.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

from peers import CONSTRAINTS, run, say

PACKAGES = ("argostranslate==1.11.0", "libretranslate==1.9.6")
TRANSLATE = """
import json, sys
from argostranslate import package, translate
asked = json.load(sys.stdin)
package.install_from_path(asked["package"])
found = translate.get_translation_from_codes(asked["source"], asked["target"])
print(json.dumps([found.translate(text) for text in asked["texts"]]))
"""
PATIENCE = 180
"""Seconds until the server has to answer."""


def environment(cache: Path) -> Path:
    """Make the virtual environment once; return its folder of programs."""
    folder = cache / "env-argos"
    stamp = folder / "recipe.txt"
    recipe = "\n".join(PACKAGES)
    if not stamp.is_file() or stamp.read_text() != recipe:
        say(f"Installing {', '.join(PACKAGES)} in {folder} (once)")
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        install = [str(folder / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check"]
        run([*install, "--constraint", str(CONSTRAINTS), "torch", *PACKAGES])
        stamp.write_text(recipe)
    return folder / "bin"


def by_argos(programs: Path, home: dict[str, str], asked: dict[str, Any]) -> list[str]:
    """Install the package and translate by the library."""
    ran = subprocess.run(
        [str(programs / "python"), "-W", "ignore", "-c", TRANSLATE],
        input=json.dumps(asked),
        env=home,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(ran.stdout)
    return found


def by_libretranslate(programs: Path, home: dict[str, str], asked: dict[str, Any]) -> list[str]:
    """Translate by a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pair = f"{asked['source']},{asked['target']}"
    command = [str(programs / "libretranslate"), "--host", "127.0.0.1", "--port", str(port), "--load-only", pair]
    with open(Path(home["HOME"]) / "server.txt", "w", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=home, stdout=log, stderr=log)
    try:
        wait_for(server, f"http://127.0.0.1:{port}/languages")
        return [translated(port, asked, text) for text in asked["texts"]]
    finally:
        server.terminate()
        server.wait(30)


def wait_for(server: subprocess.Popen[bytes], address: str) -> None:
    """Wait until a server answers."""
    for _ in range(PATIENCE):
        if server.poll() is not None:
            raise SystemExit(f"LibreTranslate ended with {server.returncode}.")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise SystemExit(f"LibreTranslate did not answer within {PATIENCE} s.")


def translated(port: int, asked: dict[str, Any], text: str) -> str:
    """Return the server's translation of a text."""
    form = urllib.parse.urlencode({"q": text, "source": asked["source"], "target": asked["target"]}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/translate", form, timeout=60) as answer:
        return str(json.load(answer)["translatedText"])


def main() -> None:
    """Translate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("--text", action="append", default=[], help="a text; repeatable")
    default = Path(os.environ.get("REGARD_BENCH_CACHE", Path.home() / ".cache/regard-bench"))
    parser.add_argument("--cache", type=Path, default=default)
    given = parser.parse_args()
    with zipfile.ZipFile(given.package) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("metadata.json"))
        metadata = json.loads(archive.read(name))
    programs, home = environment(given.cache.resolve()), given.cache.resolve() / "argos-home"
    data = home / ".local/share/argos-translate"
    data.mkdir(parents=True, exist_ok=True)
    (data / "index.json").write_text("[]")  # what can be downloaded: nothing
    texts = given.text or ["the cat sleeps"]
    asked = {"package": str(given.package.resolve()), "texts": texts}
    asked |= {"source": metadata["from_code"], "target": metadata["to_code"]}
    environ = {**os.environ, "HOME": str(home), "PYTHONWARNINGS": "ignore"}
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "PYTHONPATH"):
        environ.pop(variable, None)
    found = by_argos(programs, environ, asked)
    served = by_libretranslate(programs, environ, asked)
    for text, one, other in zip(texts, found, served, strict=True):
        print(f"{text}\n  Argos Translate: {one}\n  LibreTranslate:  {other}")
    # LibreTranslate fits capitals and the last full stop to those of the source.
    same = [
        one.casefold().rstrip(".!? ") == other.casefold().rstrip(".!? ")
        for one, other in zip(found, served, strict=True)
    ]
    if not (all(same) and all(found)):
        raise SystemExit("The two say different things, or nothing.")


if __name__ == "__main__":
    main()
