"""What scripts that drive the page of `regard serve` share: a server of models, and headless Chromium.

Needs Playwright (`pip install 'regard[browser,serve]'`) and a Chromium of the system (`apt-get install chromium`).
"""

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from playwright.sync_api import Browser, sync_playwright

from regard.serve.app import make_app
from regard.serve.request_limits import Limits
from regard.serve.served_models import open_models
from regard.serve.server import open_socket

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@contextmanager
def served(folders: Sequence[str]) -> Iterator[str]:
    """Serve model folders at a free port of this machine; yield the address of the page."""
    app = make_app(open_models([Path(folder) for folder in folders]), Limits())
    own = open_socket("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [own]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{own.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(30)
        own.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium, without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("There is no Chromium here: apt-get install chromium.")
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()
