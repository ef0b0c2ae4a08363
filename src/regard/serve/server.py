"""Run a server until it is stopped; on SIGHUP it reloads its models and API keys."""

import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from regard.errors import ConfigError
from regard.serve.api_keys import ApiKeys
from regard.serve.app import make_app
from regard.serve.connections import ConnectionServer, limited_connection
from regard.serve.json_log import set_up_logs
from regard.serve.serve_config import ServeConfig
from regard.serve.served_models import Served, ServedModels, open_models

PATIENCE = 10
"""Seconds to finish pending requests at shutdown."""
BACKLOG = 2_048
_SWITCH = 0.0005
"""Seconds after which a thread lets another one run."""

Say = Callable[[str], None]


def run_server(config: ServeConfig) -> None:
    """Serve models until SIGINT or SIGTERM; pending requests are answered before it exits."""
    with open_socket(config.host, config.port) as own:  # before loading the models: a port in use shows at once
        serve(config, own, config.device, partial(_announce, own))


def serve(config: ServeConfig, own: socket.socket, device: str, ready: Callable[[Sequence[Served]], None]) -> None:
    """Load the models, call `ready` with them, and answer requests that arrive at a listening socket."""
    set_up_logs(config.log)
    # The thread that runs the models would else keep the interpreter for 5 ms whenever a connection was read.
    sys.setswitchinterval(_SWITCH)
    hangup = threading.Event()
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: hangup.set())
    models = open_models([Path(model) for model in config.models], device)
    keys = ApiKeys(Path(config.api_keys)) if config.api_keys else None
    limits = config.limits
    app = make_app(models, limits, batch=config.batch, wait=config.wait / 1_000, keys=keys, origins=config.origins)
    options: dict[str, Any] = {"log_config": None, "log_level": "error", "access_log": False, "server_header": False}
    if config.proxies:
        options["forwarded_allow_ips"] = list(config.proxies)
    settings = uvicorn.Config(
        app,
        http=limited_connection(limits.connections),
        ws="none",
        backlog=BACKLOG,
        proxy_headers=bool(config.proxies),
        timeout_graceful_shutdown=PATIENCE,
        **options,
    )
    server = ConnectionServer(settings, app.state, limits.idle)
    threading.Thread(target=_reload, args=(hangup, models, keys), name="regard-reload", daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn handles both signals and raises them again for the previous handler at exit: ignore them there.
        signal.signal(number, lambda *_: None)
    ready(models)
    server.run(sockets=[own])


def _reload(hangup: threading.Event, models: ServedModels, keys: ApiKeys | None) -> None:
    """Reload after each SIGHUP, while requests are answered; several that come meanwhile are one more reload."""
    while hangup.wait():
        hangup.clear()
        whole = [models.reload(), keys is None or keys.reload()]
        gc.collect()  # the old models
        print("Reloaded." if all(whole) else "Reloaded in part: see the log.", flush=True)


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
        own.listen(BACKLOG)
    except OSError as error:
        own.close()
        why = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"Cannot serve at {host}, port {port}: {why}. Give another --port; 0 picks a free one."
        ) from None
    return own


def _announce(own: socket.socket, models: Sequence[Served]) -> None:
    print(*model_lines(models), address_line(own), sep="\n", flush=True)


def model_lines(models: Sequence[Served]) -> list[str]:
    """Return lines that list the models."""
    width = max(len(model.name) for model in models)
    return [f"{model.name:{width}}  {model.task.does}{_languages(model)} (/api/{model.task.path})" for model in models]


def _languages(model: Served) -> str:
    """Return ` from en, de to fr`; nothing for a model that does not say its languages."""
    sources, targets = model.entry["from_languages"], model.entry["to_languages"]
    return f" from {', '.join(sources)} to {', '.join(targets)}" if sources else ""


def address_line(own: socket.socket) -> str:
    """Return a line with the address of the server."""
    host, port = own.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"Serving at http://{shown}:{port} (Ctrl-C to stop)."
