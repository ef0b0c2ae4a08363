"""`regard serve`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device, check_at_least
from regard.errors import ConfigError

_HIGHEST = 65_535


def serve(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL", help="Model folders, of any task.", show_default=False)
    ],
    host: Annotated[
        str, typer.Option(metavar="NAME", help="Address to listen on; 0.0.0.0 is every address of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on; 0 picks a free one.")] = 8000,
    batch: Annotated[int, typer.Option(metavar="N", help="Maximum number of texts or pictures in a batch.")] = 64,
    wait: Annotated[
        int, typer.Option(metavar="MS", help="Milliseconds to wait for further requests to fill a batch.")
    ] = 5,
    device: Device = "auto",
) -> None:
    """Serve models over HTTP: a web page and a JSON API.

    The page tries the models on your input and shows their attention. The API is documented at /docs. Concurrent
    requests are batched. There is no authentication: anyone who can reach the address can use the models.
    """
    check_at_least(1, batch=batch)
    check_at_least(0, port=port, wait=wait)
    if port > _HIGHEST:
        raise ConfigError(f"--port is {port}; it must be at most {_HIGHEST}.")
    try:
        import babel
        import docx
        import fastapi
        import fastapi_offline
        import py3langid.langid
        import python_multipart
        import sentencex
        import uvicorn
    except ImportError as error:
        raise ConfigError(f"regard serve needs {error.name}: pip install 'regard[serve]'.") from None
    del babel, docx, fastapi, fastapi_offline, py3langid, python_multipart, sentencex, uvicorn
    from regard.serve.server import run_server

    run_server(models, host, port, device, batch=batch, wait=wait / 1_000)
