"""Score a question answerer for `regard compare`: accuracy, and the attention for a few example questions."""

from dataclasses import replace
from pathlib import Path

from regard.compare.scoring import Example, TaskScores
from regard.compare.training_run import Job
from regard.config import DecodingConfig
from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures
from regard.tasks.picture_task import numbers_in
from regard.tasks.visual_questions.evaluation import evaluate_answers
from regard.tasks.visual_questions.predictor import AnswerPredictor
from regard.viz.image_trace import ImageTrace


def compare(folder: Path, job: Job, pictures: Pictures, _: DecodingConfig) -> TaskScores:
    """Score a variant's model on the test pictures."""
    places = numbers_in(job.sentences, pictures)
    predictor = AnswerPredictor.load(folder, job.config.training.device)
    examples = [_answered(predictor, pictures, place) for place in places]
    answers = predictor.words.answers
    report = evaluate_answers(predictor, pictures)
    return TaskScores(report, 0.0, predictor.model, f"{len(answers):,} answers", " ".join(answers), examples)


def _answered(predictor: AnswerPredictor, pictures: Pictures, place: int) -> Example:
    """Return the answer to the first question about a picture, as an example."""
    asked, name = pictures.questions(place)[:1], pictures.called(place)
    if not asked:
        return Example(name, "", None)
    ((found,),) = predictor.answer(read_pictures(pictures, [place]), [[asked[0].question]], look=True)
    trace, shown = found.trace(), pictures.shown(place)
    text = f"{found.question}? {found.text}"
    if shown is None or not trace.weights.shape[0]:
        return Example(name, text, None)
    mean = replace(trace, weights=trace.look()[None, None])
    return Example(name, text, ImageTrace(mean, shown, found.grid), trace.caption())
