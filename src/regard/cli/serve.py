"""`regard serve`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device, check_at_least
from regard.errors import ConfigError

_HIGHEST = 65_535


def serve(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL", help="Model folders, of any kinds.", show_default=False)
    ],
    host: Annotated[
        str, typer.Option(metavar="NAME", help="Where to listen; 0.0.0.0 is every address of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="0 takes one that is free.")] = 8000,
    batch: Annotated[int, typer.Option(metavar="N", help="Texts or pictures that are worked on at once.")] = 64,
    wait: Annotated[
        int, typer.Option(metavar="MS", help="Milliseconds to wait for others to come, to work on all at once.")
    ] = 5,
    device: Device = "auto",
) -> None:
    """Serve models over HTTP: a page and an API.

    The page is to try models and to see where they look. What they read decides what it shows: texts to translate,
    pictures to describe, to classify, to ask about or to find things in. The API is documented at /docs. Whoever
    reaches the address can ask: there are no passwords.
    """
    check_at_least(1, batch=batch)
    check_at_least(0, port=port, wait=wait)
    if port > _HIGHEST:
        raise ConfigError(f"--port is {port}; it must be at most {_HIGHEST}.")
    try:
        import fastapi
        import fastapi_offline
        import uvicorn
    except ImportError as error:
        raise ConfigError(f"regard serve needs {error.name}: pip install 'regard[serve]'.") from None
    del fastapi, fastapi_offline, uvicorn
    from regard.serve.server import run_server

    run_server(models, host, port, device, batch=batch, wait=wait / 1_000)
