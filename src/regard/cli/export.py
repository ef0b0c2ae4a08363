"""`regard export`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Model
from regard.errors import ConfigError


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.", show_default=False)],
    int8: Annotated[
        bool, typer.Option("--int8", help="Store weights as 8-bit integers: less than a third of the size.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the export in the folder.")] = False,
) -> None:
    """Write a model as ONNX files that run without regard.

    The folder also gets the vocabularies or labels, a manifest, a README and run.py: a program that runs the model, by
    beam search if it writes, with only onnxruntime and NumPy (plus Pillow for pictures, SentencePiece for subwords).
    The exported graphs are checked against the model on random inputs.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript
    except ImportError as error:
        raise ConfigError(f"regard export needs {error.name}: pip install 'regard[export]'.") from None
    del onnx, onnxruntime, onnxscript
    from regard.export.export_model import export_model

    done = export_model(model, out, overwrite=overwrite, int8=int8)
    sizes = ", ".join(f"{file} ({(out / file).stat().st_size / 1e6:.1f} MB)" for file in done.files)
    typer.echo(f"Wrote {sizes} to {out}.", err=True)
    typer.echo(f"On random inputs onnxruntime and torch differ by {done.difference:.1e} at most.", err=True)
    if done.rounding is not None:
        typer.echo(f"With weights in int8 they differ by {done.rounding:.1e}.", err=True)
    typer.echo(f"Try it with: python {out / 'run.py'} (see {out / 'README.md'})", err=True)
