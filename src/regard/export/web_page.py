"""Write a translator as a folder of static files: a page that runs its ONNX graphs by onnxruntime-web.

Whatever serves files can serve it. The page fetches only what lies beside it, and texts do not leave the browser.
"""

import json
import os
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from regard.atomic_files import folder_anew
from regard.config import Config
from regard.data.tokenizers import Tagged, Tokenizer, Tokenizers
from regard.data.tokenizers.characters_and_words import Plain
from regard.data.tokenizers.subwords import Subwords
from regard.errors import ConfigError, ModelError
from regard.export.export_model import check_target, export_model
from regard.models.model_folder import open_folder
from regard.runtime.graphs import MANIFEST
from regard.task import task_of

VERSION = "1.30.0"
"""The release of onnxruntime-web that the page was tested with."""
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
"""What the page needs of onnxruntime-web's folder `dist`."""
FOUND = Path("node_modules") / "onnxruntime-web"
OWN = ("index.html", "page.mjs", "attention_view.mjs", "beam_search.mjs", "tokenizer.mjs", "translator.mjs")
STYLES = (("viz", "word_stepper.css"), ("viz", "trace_page.css"), ("serve", "page.css"), ("export.web", "page.css"))
SCRIPTS = (("viz", "word_stepper.js"), ("viz", "trace_page.js"))
GRAPHS = ("encoder.onnx", "step.onnx")
SEARCH = ("beam", "length_penalty", "coverage_penalty", "patience")
"""The decoding settings that the page's search follows."""
README = """# A page that translates

Serve this folder by anything that serves files, and open it:

```sh
python -m http.server
```

The model runs in the browser (WebAssembly). The page fetches nothing but the files beside it. A server should send
`.wasm` as `application/wasm` and `.mjs` as `text/javascript`.

`onnxruntime/` is [onnxruntime-web](https://www.npmjs.com/package/onnxruntime-web), by Microsoft, under the MIT licence.
"""


class WebPage(NamedTuple):
    """The result of an export."""

    folder: Path
    model: int
    """Bytes of the model: graphs, vocabularies and settings."""
    runtime: int
    """Bytes of onnxruntime-web."""
    difference: float
    """The largest difference between onnxruntime and torch on random inputs."""


def export_web(
    folder: Path, out: Path, onnxruntime_web: Path | None = None, *, overwrite: bool = False, int8: bool = False
) -> WebPage:
    """Write a model folder's translator as a page; on failure nothing is left behind."""
    config = open_folder(folder)
    if task_of(config.model).entry.command != "translate":
        raise ConfigError(f"--format web is for models that translate, but {folder} does not. Export it to ONNX.")
    check_target(out, overwrite)
    runtime = _find_runtime(onnxruntime_web)
    with folder_anew(out.absolute()) as building:
        difference = _write_model(folder, config, building, int8)
        _write_page(building)
        (building / "onnxruntime").mkdir()
        for name in RUNTIME:
            shutil.copyfile(runtime / name, building / "onnxruntime" / name)
        model, size = (
            sum(path.stat().st_size for path in (building / part).iterdir()) for part in ("model", "onnxruntime")
        )
    return WebPage(out, model, size, difference)


def _find_runtime(given: Path | None) -> Path:
    """Return onnxruntime-web's folder of built files."""
    package = given or FOUND
    for place in (package / "dist", package):
        if all((place / name).is_file() for name in RUNTIME):
            return place
    get = f"Get it by npm install onnxruntime-web@{VERSION}, and give its folder by --onnxruntime-web {FOUND}."
    if given is None:
        raise ConfigError(f"The page needs onnxruntime-web, which is not in {FOUND}. {get}")
    missing = next(name for name in RUNTIME if not (package / "dist" / name).is_file())
    raise ConfigError(f"{given} is not the npm package onnxruntime-web: it has no dist{os.sep}{missing}. {get}")


def _write_model(folder: Path, config: Config, out: Path, int8: bool) -> float:
    """Write the graphs, and model.json with the vocabularies; return the largest difference on random inputs."""
    exported = export_model(folder, out / "onnx", int8=int8)
    model = out / "model"
    model.mkdir()
    for name in GRAPHS:
        (out / "onnx" / name).rename(model / name)
    record = json.loads((out / "onnx" / MANIFEST).read_text(encoding="utf-8"))
    shutil.rmtree(out / "onnx")
    (out / MANIFEST).write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    tokenizers = Tokenizers.load(folder)
    joint = tokenizers.joint and not tokenizers.tags
    about = {
        **{name: record[name] for name in ("preset", "marks", "search", "graphs")},
        "source": vocabulary(tokenizers.source),
        "target": None if joint else vocabulary(tokenizers.target),
        "decoding": {name: getattr(config.decoding, name) for name in SEARCH},
        "examples": _examples(folder, config),
    }
    if config.decoding.method != "beam":
        about["decoding"]["beam"] = 1
    (model / "model.json").write_text(json.dumps(about, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    return exported.difference


def _examples(folder: Path, config: Config) -> list[str]:
    task = task_of(config.model)
    return list(task.about(task.load(folder, "cpu"), config).get("examples", ()))


def vocabulary(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return what the page's tokenizer needs."""
    plain = tokenizer.plain if isinstance(tokenizer, Tagged) else tokenizer
    tags = list(tokenizer.tags) if isinstance(tokenizer, Tagged) else []
    told: dict[str, Any] = {"kind": plain.kind, "size": tokenizer.size, "tags": tags}
    if isinstance(plain, Subwords):
        if not plain.keeps_texts:
            raise ModelError("The SentencePiece model normalises texts, which the page's tokenizer does not.")
        scores = [float(score) for score in plain.inventory.scores]
        return {**told, "pieces": plain.raw_pieces, "scores": scores, "bytes": min(plain.byte_ids)}
    assert isinstance(plain, Plain)
    return {**told, "units": json.loads(plain.to_bytes())}


def _write_page(out: Path) -> None:
    for name in OWN:
        (out / name).write_text(_read("export.web", name), encoding="utf-8")
    (out / "page.css").write_text("".join(_read(*part) for part in STYLES), encoding="utf-8")
    (out / "stepper.js").write_text("".join(_read(*part) for part in SCRIPTS), encoding="utf-8")
    (out / "README.md").write_text(README, encoding="utf-8")


def _read(package: str, name: str) -> str:
    return files(f"regard.{package}").joinpath(name).read_text(encoding="utf-8")
