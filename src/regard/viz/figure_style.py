"""What all figures share: a style, no change to matplotlib's global state, deterministic bytes."""

import io
import re
import threading
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import DisplayError
from regard.viz import fonts
from regard.viz.picture_files import check_suffix, write_output
from regard.viz.trace import PICTURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, FAINT, LINES = "#22223a", "#8a8a9c", "#e3e3ea"
"""Text, secondary text, and thin lines."""

_DOTS = 200
_STYLE: dict[Any, Any] = {
    # Text stays text, so that it can be searched, copied and read aloud; the browser chooses fonts and shapes Arabic.
    "svg.fonttype": "none",
    "svg.hashsalt": "regard",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINES,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": "regard"},
    ".pdf": {"CreationDate": None, "Creator": "regard", "Producer": None},
}
_GLYPH = re.compile(r"Glyph (\d+) \(.*\) missing")
_UNSHAPED = re.compile(r"Matplotlib currently does not support \w+ natively")
# matplotlib's settings are global to the process: figures are drawn one at a time.
_DRAWING = threading.Lock()


def save_figure(path: Path, texts: Iterable[str], draw: Callable[["Figure"], None]) -> list[str]:
    """Call `draw` on an empty figure and write the file atomically.

    `texts` are all words in the figure that come from the user: fonts are found for them. Returns notes for the user.
    """
    suffix = check_suffix(path, PICTURES)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise DisplayError("Pictures need matplotlib: pip install 'regard[plot]'.") from None
    words = list(texts)
    buffer = io.BytesIO()
    with _DRAWING, matplotlib.rc_context(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        matplotlib.rcdefaults()
        choice = fonts.choose_fonts(words)
        matplotlib.rcParams.update(_STYLE)
        matplotlib.rcParams["font.family"] = [*choice.families, "sans-serif"]  # the last is for viewers of an .svg
        matplotlib.rcParams["font.sans-serif"] = [fonts.FIRST]
        # Type 42 embeds whole TrueType fonts; for other fonts matplotlib needs type 3, which confuses some emoji.
        matplotlib.rcParams["pdf.fonttype"] = 42 if fonts.are_truetype(choice.families) else 3
        figure = Figure()
        draw(figure)
        figure.savefig(
            buffer, format=suffix[1:], dpi=_DOTS, bbox_inches="tight", pad_inches=0.15, metadata=_METADATA[suffix]
        )
    missing = set(choice.missing)
    for warning in caught:
        if glyph := _GLYPH.search(str(warning.message)):
            missing.add(chr(int(glyph[1])))
        elif not _UNSHAPED.match(str(warning.message)):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    write_output(path, buffer.getvalue())
    return fonts.notes(words, missing, suffix)
