"""`regard export`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Model
from regard.errors import ConfigError


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the export in the folder.")] = False,
) -> None:
    """Write a model as ONNX files that run without regard.

    The folder also gets the vocabularies or labels, a manifest, a README and run.py: a short program that runs the
    model with only onnxruntime and NumPy (plus Pillow for pictures, SentencePiece for subwords). The exported graphs
    are checked against the model on random inputs.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript
    except ImportError as error:
        raise ConfigError(f"regard export needs {error.name}: pip install 'regard[export]'.") from None
    del onnx, onnxruntime, onnxscript
    from regard.export.export_model import export_model

    done = export_model(model, out, overwrite=overwrite)
    sizes = ", ".join(f"{file} ({(out / file).stat().st_size / 1e6:.1f} MB)" for file in done.files)
    typer.echo(f"Wrote {sizes} to {out}.", err=True)
    typer.echo(f"On random inputs onnxruntime and torch differ by {done.difference:.1e} at most.", err=True)
    typer.echo(f"Try it with: python {out / 'run.py'} (see {out / 'README.md'})", err=True)
