"""Running the server until it is told to stop."""

import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from regard.errors import ConfigError
from regard.serve.app import make_app
from regard.serve.served_models import Served, open_models

PATIENCE = 10
"""Seconds that requests get to be answered after the server was told to stop."""


def run_server(
    folders: Sequence[Path], host: str, port: int, device: str, *, batch: int = 64, wait: float = 0.005
) -> None:
    """Serve models until SIGINT or SIGTERM; what was asked before is answered first."""
    with open_socket(host, port) as own:  # before the models are opened: a port in use is told at once
        models = open_models(folders, device)
        app = make_app(models, batch=batch, wait=wait)
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=PATIENCE)
        )
        print("\n".join(_served(models, *own.getsockname()[:2])), flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            # The server handles both and then raises what it got once more, to whoever handled it before: nobody.
            signal.signal(number, lambda *_: None)
        server.run(sockets=[own])


def open_socket(host: str, port: int) -> socket.socket:
    """Take an address; raise a ConfigError where it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"There is no host {host!r}: use 127.0.0.1 for this machine, 0.0.0.0 for all.") from None
    # asyncio sends without delay where a socket says that it is TCP's; otherwise an answer waits 40 ms for an echo.
    own = socket.socket(family, kind, protocol)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind(address)
        own.listen(2_048)
    except OSError as error:
        own.close()
        why = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"Cannot serve at {host}, port {port}: {why}. Give another --port; 0 takes one that is free."
        ) from None
    return own


def _served(models: Sequence[Served], host: str, port: int) -> list[str]:
    """Say what is served, and where."""
    width = max(len(model.name) for model in models)
    shown = f"[{host}]" if ":" in host else host
    return [
        *(f"{model.name:{width}}  {model.task.does} (/api/{model.task.path})" for model in models),
        f"http://{shown}:{port} is open; Ctrl-C closes it.",
    ]
