"""Translate with the page of `regard export --format web` in headless Chromium, and compare with regard.

    npm install --prefix ~/web onnxruntime-web@1.30.0 playwright-core
    regard export demo/model page --format web --onnxruntime-web ~/web/node_modules/onnxruntime-web
    python bench/web.py demo/model page --modules ~/web/node_modules --sentences 100

Prints how many of the phrasebook's test sentences come out the same, greedily and by beam search, the largest
difference of the attention, the sizes, and what the page fetched; ends with an error if something differs, if anything
was fetched from elsewhere, or if the browser reports an error. After loading, the browser is offline.
"""

import argparse
import base64
import functools
import http.server
import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


TYPES = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}


class Files(http.server.SimpleHTTPRequestHandler):
    """Static files, without a log."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.extensions_map = TYPES
        super().__init__(*given, **named)

    def log_message(self, format: str, *given: Any) -> None:
        """Print nothing."""


def drive(page: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Serve the page and drive it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(page)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    ran = subprocess.run(
        ["node", str(HERE / "web.mjs")],
        input=json.dumps({**asked, "address": address}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    server.shutdown()
    told: dict[str, Any] = json.loads(ran.stdout)
    told["elsewhere"] = [url for url in told["requests"] if not url.startswith((address, "data:"))]
    return told


def attention(view: dict[str, Any]) -> Any:
    """Return the weights that the page shows."""
    packed = np.frombuffer(base64.b64decode(view["weights"]), "<u2")
    return packed.reshape(view["shape"]).astype(np.float32) / 65_535 * view["peak"]


def main() -> None:
    """Translate and print."""
    import regard
    from regard.data.builtin_corpora import corpora

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--modules", type=Path, required=True, help="node_modules with playwright-core")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    parser.add_argument("--sentences", type=int, default=50)
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    given = parser.parse_args()
    lines = [pair.source for pair in corpora["phrasebook"]("test", given.sentences, 1)]
    translator = regard.load(str(given.model), device="cpu")
    beams = (1, 5)
    right = [one for beam in beams for one in translator.translate(lines, beam=beam)]
    asked = {
        "modules": str(given.modules.resolve()),
        "chromium": given.chromium,
        "texts": [{"text": line, "beam": beam} for beam in beams for line in lines],
        "pictures": given.pictures and str(given.pictures.resolve()),
    }
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    told = drive(given.page, asked)
    same = [found == one.text for found, one in zip(told["found"], right, strict=True)]
    apart = np.abs(attention(told["view"]) - right[-1].attention.weights).max()
    for number, beam in enumerate(beams):
        print(f"beam {beam}: {sum(same[number * len(lines) : (number + 1) * len(lines)])} of {len(lines)} the same")
    print(f"attention of the last: {apart:.1e} apart at most")
    for part in ("model", "onnxruntime"):
        print(f"{part}: {sum(path.stat().st_size for path in (given.page / part).iterdir()) / 1e6:.1f} MB")
    print(
        f"fetched: {len(told['requests'])} files, {len(told['elsewhere'])} from elsewhere; "
        f"pixels wider than the window: {told['overflow']}"
    )
    if told["errors"] or told["elsewhere"] or not all(same) or apart > 1e-4 or any(told["overflow"].values()):
        raise SystemExit(f"Something is wrong: {told['errors']} {told['elsewhere']}")


if __name__ == "__main__":
    main()
