"""`regard attend` of a text classifier: the text, its words shaded by their attention."""

from pathlib import Path

from regard.cli.attention_output import AttendRequest, check_files, tell_written
from regard.errors import ConfigError, ModelError
from regard.tasks.text_classification.predictor import TextLabeller
from regard.viz.picture_files import write_output
from regard.viz.shaded_text import shaded_html, shaded_lines, shaded_svg
from regard.viz.word_stepper import page

FORMS = (".svg", ".html", ".json")


def attend(folder: Path, asked: AttendRequest) -> None:
    """Print and write the attention of a text's words."""
    look = asked.look
    if (look.layer, look.head, look.heads) != (None, None, False):
        raise ConfigError("--layer, --head and --heads are for models that write: here the mean of all heads is shown.")
    check_files(asked.out, FORMS)
    (found,) = TextLabeller.load(folder, asked.device).classify([asked.what], top=5)
    trace = found.attention
    if not trace.weights.shape[0]:
        raise ModelError(f"{folder} has no attention (model.attention is none), so there is nothing to show.")
    for path in asked.out:
        title = f"{found.label} {found.probability:.0%}"
        if path.suffix.lower() == ".svg":
            write_output(path, shaded_svg(trace, title=title, sentences=found.sentences).encode())
        elif path.suffix.lower() == ".html":
            part = shaded_html(trace, sentences=found.sentences)
            write_output(path, page(part, "trace_page", found.label, title).encode(errors="backslashreplace"))
        else:
            trace.save(path, quiet=True)
    for guess in found.guesses:
        print(f"{guess.probability:.4f}\t{guess.label}")
    print(shaded_lines(trace, width=look.columns, color=look.color, sentences=found.sentences), flush=True)
    for path in asked.out:
        tell_written(path, ())
