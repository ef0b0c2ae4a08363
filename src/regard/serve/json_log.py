"""Logs without anything that clients sent: as lines of JSON, or as text."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

KINDS = ("text", "json")


class WithoutTexts(logging.Filter):
    """Replaces the texts in a record: models warn of long sentences, and quote them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record in place, and let it pass."""
        if record.args and isinstance(record.args, tuple):
            record.args = tuple("…" if isinstance(each, str) else each for each in record.args)
        return True


class JsonLines(logging.Formatter):
    """A record as one line of JSON; of an exception its type and place, since its message may quote a text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage().strip(),
            **getattr(record, "request", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            frames = traceback.extract_tb(error.__traceback__)
            line["error"] = type(error).__name__
            line["frames"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line, ensure_ascii=False)


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out what uvicorn says of an answer that was cut off because its client was too slow."""
    return not str(record.msg).startswith("ASGI callable returned without")


def set_up_logs(kind: str) -> None:
    """Log to stderr: with `json` every request, and everything as JSON; with `text` warnings and errors alone."""
    logging.getLogger("regard").addFilter(WithoutTexts())
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    if kind == "text":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("regard", "uvicorn.error"):
        own = logging.getLogger(name)
        own.handlers, own.propagate = [handler], False
    logging.getLogger("regard").setLevel(logging.INFO)
