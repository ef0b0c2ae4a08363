"""`regard attend` of a model that answers questions: where it looks in a picture."""

from pathlib import Path

from regard.cli.attention_output import AttendRequest, check_files, show_trace
from regard.cli.image_inputs import read_shown
from regard.errors import ConfigError
from regard.tasks.visual_questions.predictor import AnswerPredictor
from regard.viz.image_trace import ImageTrace
from regard.viz.trace import FORMS


def attend(folder: Path, asked: AttendRequest) -> None:
    """Show where the words of a question look, and last all together: what the answer comes from."""
    if asked.question is None:
        raise ConfigError(f"{folder} answers questions: give one with --question.")
    check_files(asked.out, FORMS)
    predictor = AnswerPredictor.load(folder, asked.device)
    pictures, shown = read_shown(predictor.config, Path(asked.what))
    ((answered,),) = predictor.answer(pictures, [[asked.question]], look=True)
    trace = answered.trace()
    if not trace.weights.size:
        raise ConfigError(f"{folder} has no attention (model.attention=none), so there is nothing to look at.")
    text = f"{answered.text} ({answered.said.probability:.2f})"
    show_trace(text, ImageTrace(trace, shown, answered.grid), asked.out, asked.look)
