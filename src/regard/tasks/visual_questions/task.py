"""Answering questions about pictures: a picture and a question in, answers out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Config, DecodingConfig, ModelConfig
from regard.data.pictures import Pictures
from regard.data.question_vocabulary import QuestionVocabulary
from regard.evaluation.report import Report
from regard.models.model_folder import open_folder
from regard.task import EvaluationRequest, Say, TrainingData
from regard.task_table import BY_NAME
from regard.tasks.picture_task import PictureTask


class VisualQuestions(PictureTask):
    """From pictures and questions to answers."""

    entry = BY_NAME["visual_questions"]
    metrics = ("accuracy",)
    unread = ("r_drop", "teacher_forcing", "coverage_loss", "flip", "shift", "doubly_stochastic")
    scoring_options = frozenset(("--layer", "--head", "--translations"))
    attend_options = frozenset(("--question",))
    served_as = "answer"
    path = "ask"
    does = "answers questions about pictures"

    def try_it(self, config: Config, folder: Path) -> str:
        """Say how to ask."""
        return f'{super().try_it(config, folder)} "a question of yours"'

    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Make an image encoder and what answers over it."""
        from regard.vision.questions.build import make_answerer

        return make_answerer(config, source_size, target_size)

    def draw(self, model: Any) -> None:
        """Draw first weights as the model itself does."""
        model.draw()

    def read_vocabulary(self, folder: Path) -> QuestionVocabulary:
        """Read the words of questions, and the answers."""
        return QuestionVocabulary.load(folder)

    def sizes(self, vocabulary: QuestionVocabulary) -> tuple[int, int]:
        """Return how many words and answers there are."""
        return len(vocabulary.words), len(vocabulary.answers)

    def open_data(
        self, config: Config, folder: Path, sources: Any, say: Say, few_shapes: bool
    ) -> tuple[QuestionVocabulary, TrainingData]:
        """Make vocabulary and caches in a model folder, or take those that are there."""
        from regard.tasks.visual_questions.training import open_data

        return open_data(config, folder, sources, say)

    def load(self, folder: Path, device: str) -> Any:
        """Open a model that is ready to be used."""
        from regard.tasks.visual_questions.predictor import AnswerPredictor

        return AnswerPredictor.load(folder, device)

    def score(self, reader: Any, pictures: Pictures, asked: EvaluationRequest) -> Report:
        """Score answers by kind, and where the model looked."""
        from regard.tasks.visual_questions.evaluation import evaluate_answers

        return evaluate_answers(reader, pictures, batch_size=asked.batch_size, reading=asked.reading)

    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Score a variant's model on the test pictures."""
        from regard.tasks.visual_questions.comparison import compare

        return compare(folder, job, self.open_test(job.test, open_folder(folder)), options)

    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Return `POST /api/…`."""
        from regard.tasks.visual_questions.http import routes

        return routes(models, queue, limits, uploads)

    def attend(self, folder: Path, asked: Any) -> None:
        """Show where the model looks in a picture."""
        from regard.tasks.visual_questions.attend import attend

        attend(folder, asked)

    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return what ONNX graphs are made of."""
        from regard.tasks.visual_questions.export import exportable

        return exportable(folder, config)


TASK = VisualQuestions()
