"""Run the server until it is stopped."""

import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from regard.errors import ConfigError
from regard.serve.app import make_app
from regard.serve.served_models import Served, open_models

PATIENCE = 10
"""Seconds to finish pending requests at shutdown."""


def run_server(
    folders: Sequence[Path], host: str, port: int, device: str, *, batch: int = 64, wait: float = 0.005
) -> None:
    """Serve models until SIGINT or SIGTERM; pending requests are answered before it exits."""
    with open_socket(host, port) as own:  # before loading the models, so that a port in use is reported at once
        models = open_models(folders, device)
        app = make_app(models, batch=batch, wait=wait)
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=PATIENCE)
        )
        print("\n".join(_served(models, *own.getsockname()[:2])), flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            # uvicorn handles both signals and raises them again for the previous handler at exit: ignore them there.
            signal.signal(number, lambda *_: None)
        server.run(sockets=[own])


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise a ConfigError if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"There is no host {host!r}: use 127.0.0.1 for this machine, 0.0.0.0 for all.") from None
    # asyncio sets TCP_NODELAY only on sockets with an explicit TCP protocol; without it, responses take 40 ms longer.
    own = socket.socket(family, kind, protocol)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind(address)
        own.listen(2_048)
    except OSError as error:
        own.close()
        why = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"Cannot serve at {host}, port {port}: {why}. Give another --port; 0 picks a free one."
        ) from None
    return own


def _served(models: Sequence[Served], host: str, port: int) -> list[str]:
    """Return lines that list the models and the address."""
    width = max(len(model.name) for model in models)
    shown = f"[{host}]" if ":" in host else host
    return [
        *(f"{model.name:{width}}  {model.task.does} (/api/{model.task.path})" for model in models),
        f"Serving at http://{shown}:{port} (Ctrl-C to stop).",
    ]
