"""`regard export`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Model
from regard.errors import ConfigError, did_you_mean

FORMATS = {
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "ctranslate2": ("ctranslate2",),
    "argos": ("ctranslate2", "onnx"),
    "web": ("onnx", "onnxscript", "onnxruntime"),
}
"""The formats, and the packages that writing each one needs."""
IN_FLOAT32 = "CTranslate2 (in float32)"


def export(
    model: Model,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The folder (argos: the file) to write.", show_default=False)
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the export in the folder.")] = False,
    format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="onnx, ctranslate2, argos (a package), or web (a page).")
    ] = "onnx",
    quantization: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="How weights are stored: float32 or int8; ctranslate2 and argos also float16 and others.",
            show_default="float32, argos: int8",
        ),
    ] = "",
    from_language: Annotated[str, typer.Option(metavar="CODE", help="argos: the language read, such as en.")] = "",
    to_language: Annotated[str, typer.Option(metavar="CODE", help="argos: the language written, such as fr.")] = "",
    onnxruntime_web: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="web: the unpacked npm package onnxruntime-web.")
    ] = None,
) -> None:
    """Write a model in a form that runs without regard.

    By default as ONNX files: the folder also gets the vocabularies or labels, a manifest, a README and run.py: a
    program that runs the model, by beam search if it writes, with only onnxruntime and NumPy (plus Pillow for pictures,
    SentencePiece for subwords).
    Transformers that translate can be written for CTranslate2, and as a package of Argos Translate and LibreTranslate;
    translators of every kind as a web page that needs no server. What is written is checked against the model on
    random inputs.
    """
    _check_packages(format)
    _check_options(format, quantization, from_language, to_language, onnxruntime_web)
    if format == "ctranslate2":
        _to_ctranslate2(model, out, quantization or "float32", overwrite)
    elif format == "argos":
        _to_argos(model, out, (from_language, to_language), quantization or "int8", overwrite)
    elif format == "web":
        _to_web(model, out, onnxruntime_web, overwrite, int8=quantization == "int8")
    else:
        _to_onnx(model, out, overwrite, int8=quantization == "int8")


def _to_onnx(model: Path, out: Path, overwrite: bool, int8: bool) -> None:
    from regard.export.export_model import export_model

    done = export_model(model, out, overwrite=overwrite, int8=int8)
    sizes = ", ".join(f"{file} ({(out / file).stat().st_size / 1e6:.1f} MB)" for file in done.files)
    _tell(f"{sizes} to {out}", "onnxruntime", done.difference)
    if done.rounding is not None:
        typer.echo(f"With weights in int8 they differ by {done.rounding:.1e}.", err=True)
    typer.echo(f"Try it with: python {out / 'run.py'} (see {out / 'README.md'})", err=True)


def _to_ctranslate2(model: Path, out: Path, quantization: str, overwrite: bool) -> None:
    from regard.export.ctranslate2_model import export_ctranslate2

    written = export_ctranslate2(model, out, quantization=quantization, overwrite=overwrite)
    _tell(f"{out / 'model.bin'} ({written.size / 1e6:.1f} MB)", IN_FLOAT32, written.difference)
    typer.echo(f"How to use it: {out / 'README.md'}", err=True)


def _to_argos(model: Path, out: Path, codes: tuple[str, str], quantization: str, overwrite: bool) -> None:
    from regard.export.argos_package import export_argos, languages_of
    from regard.models.model_folder import open_folder

    languages = languages_of(open_folder(model), *codes)
    written = export_argos(model, out, languages, quantization=quantization, overwrite=overwrite)
    _tell(f"{written.folder} ({written.size / 1e6:.1f} MB)", IN_FLOAT32, written.difference)
    call = f"from argostranslate import package; package.install_from_path({str(written.folder)!r})"
    typer.echo(f'Install it with: python -c "{call}"', err=True)


def _to_web(model: Path, out: Path, onnxruntime_web: Path | None, overwrite: bool, int8: bool) -> None:
    from regard.export.web_page import export_web

    page = export_web(model, out, onnxruntime_web, overwrite=overwrite, int8=int8)
    parts = f"the model {page.model / 1e6:.1f} MB, onnxruntime-web {page.runtime / 1e6:.1f} MB"
    _tell(f"{out} ({parts})", "onnxruntime", page.difference)
    typer.echo(f"Try it with: python -m http.server --directory {out}", err=True)


def _tell(wrote: str, runtime: str, difference: float) -> None:
    typer.echo(f"Wrote {wrote}.", err=True)
    typer.echo(f"On random inputs {runtime} and torch differ by {difference:.1e} at most.", err=True)


def _check_packages(name: str) -> None:
    """Raise a ConfigError for an unknown format, or for a package that is not installed."""
    from importlib.util import find_spec
    from sys import modules

    if name not in FORMATS:
        raise ConfigError(f"--format must be one of {', '.join(FORMATS)}, got {name!r}.{did_you_mean(name, FORMATS)}")
    for package in FORMATS[name]:
        if (modules[package] is None) if package in modules else (find_spec(package) is None):
            raise ConfigError(f"regard export needs {package}: pip install 'regard[export]'.")


def _check_options(
    name: str, quantization: str, from_language: str, to_language: str, onnxruntime_web: Path | None
) -> None:
    """Refuse options that the format would ignore."""
    for option, given, formats in (
        ("--from-language", from_language, ("argos",)),
        ("--to-language", to_language, ("argos",)),
        ("--onnxruntime-web", onnxruntime_web, ("web",)),
    ):
        if given and name not in formats:
            raise ConfigError(f"{option} is for --format {' or '.join(formats)}, not for {name}.")
    if name in ("onnx", "web") and quantization not in ("", "float32", "int8"):
        raise ConfigError(f"--quantization is {quantization!r}; --format {name} has float32 and int8.")
