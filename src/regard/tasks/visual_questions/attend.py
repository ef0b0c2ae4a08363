"""`regard attend` for visual question answering: the attention over the picture."""

from pathlib import Path

from regard.cli.attention_output import AttendRequest, check_files, show_trace
from regard.cli.image_inputs import read_shown
from regard.errors import ConfigError
from regard.tasks.visual_questions.predictor import AnswerPredictor
from regard.viz.image_trace import ImageTrace
from regard.viz.trace import FORMS


def attend(folder: Path, asked: AttendRequest) -> None:
    """Print and save the attention of each word of the question and, last, their mean, which the answer is based on."""
    if asked.question is None:
        raise ConfigError(f"{folder} answers questions: give one with --question.")
    check_files(asked.out, FORMS)
    predictor = AnswerPredictor.load(folder, asked.device)
    pictures, shown = read_shown(predictor.config, Path(asked.what))
    ((answered,),) = predictor.answer(pictures, [[asked.question]], look=True)
    trace = answered.trace()
    if not trace.weights.size:
        raise ConfigError(f"{folder} has no attention (model.attention=none), so there is nothing to show.")
    text = f"{answered.text} ({answered.said.probability:.2f})"
    show_trace(text, ImageTrace(trace, shown, answered.grid), asked.out, asked.look)
