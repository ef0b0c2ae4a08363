"""`regard serve`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.completion import devices
from regard.errors import ConfigError


def serve(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="MODEL", help="Model folders, of any task.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings in TOML; what is given here goes before them.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Address to listen on, by default 127.0.0.1; 0.0.0.0 is every address of this machine."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Port to listen on, by default 8000; 0 picks a free one.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes that serve the models, by default 1.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of texts or pictures in a batch, by default 64.")
    ] = None,
    wait: Annotated[
        int | None,
        typer.Option(metavar="MS", help="Milliseconds to wait for further requests to fill a batch, by default 5."),
    ] = None,
    api_keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with one API key a line; without it, anyone may ask.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="auto, cpu or cuda; by default auto.", autocompletion=devices),
    ] = None,
) -> None:
    """Serve models over HTTP: a web page and a JSON API.

    The page tries the models on your input and shows their attention. The API is documented at /docs. Concurrent
    requests are batched. SIGHUP reloads the model folders and the API keys without losing a request.
    """
    try:
        import babel
        import docx
        import fastapi
        import fastapi_offline
        import prometheus_client
        import py3langid.langid
        import python_multipart
        import sentencex
        import uvicorn
    except ImportError as error:
        raise ConfigError(f"regard serve needs {error.name}: pip install 'regard[serve]'.") from None
    del babel, docx, fastapi, fastapi_offline, prometheus_client, py3langid, python_multipart, sentencex, uvicorn
    from regard.serve.serve_config import ServeConfig, check_config, read_config

    given: dict[str, Any] = {
        "models": tuple(map(str, models or ())) or None,
        "api_keys": None if api_keys is None else str(api_keys),
        "host": host,
        "port": port,
        "workers": workers,
        "batch": batch,
        "wait": wait,
        "device": device,
    }
    settings = ServeConfig() if config is None else read_config(config)
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
    check_config(settings)
    if settings.workers > 1:
        from regard.serve.workers import run_workers

        run_workers(settings)
    else:
        from regard.serve.server import run_server

        run_server(settings)
