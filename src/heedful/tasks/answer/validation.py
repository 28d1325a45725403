"""Scores of a reader during training: loss, exact match and F1 on the validation corpora."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.model.encoder_only import ReaderModel
from heedful.config.tables import model_of
from heedful.data.corpora.questions.question import Question
from heedful.data.corpora.questions.reading import read_questions
from heedful.data.epochs.plan import spread
from heedful.data.prepare.question_windows import PiecedQuestion, piece_questions
from heedful.data.text_form import TextForm
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle
from heedful.models.networks import SpanReader
from heedful.tasks.answer.answer import Choice
from heedful.tasks.answer.metrics import score_answers
from heedful.tasks.answer.scoring import choose_answer, read_windows
from heedful.tasks.shared.validation import metric_first, some_outputs


class ReaderValidator:
    """Scores a reader during training; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[SpanReader]) -> None:
        self._bundle = bundle
        self._settings = bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self.metrics: Metrics = {}
        self.samples: Sequence[tuple[str, str, str]] = ()

    @cached_property
    def _questions(self) -> list[tuple[Question, PiecedQuestion]]:
        """The questions of the validation corpora, of which at most `max_sentences` at equal distances, as pieces."""
        data, form = self._bundle.recipe.data, TextForm.of(self._bundle.recipe.data)
        read = [question for corpus in data.valid for question in read_questions(corpus, data.folder)]
        fitting = [question for question in read if not form.too_long(question.text)]
        chosen = [fitting[row] for row in spread(self._settings.max_sentences or len(fitting), len(fitting))]
        return list(zip(chosen, piece_questions(chosen, self._bundle.vocabularies["text"], form), strict=True))

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if not self._bundle.recipe.data.valid:
            return {}
        questions, pieced = zip(*self._questions, strict=True)
        choice, no_answer = Choice(), model_of(self._bundle.recipe, ReaderModel).no_answer
        with self.show("validating", len(questions)) as advance:
            readings = read_windows(self._bundle, pieced, choice, advance)
        said = [
            choose_answer(reading, question, pieces, choice, no_answer).text
            for reading, (question, pieces) in zip(readings, self._questions, strict=True)
        ]
        true = [list(question.answers) for question in questions]
        asked = [question.question for question in questions]
        self.samples = some_outputs(asked, [" / ".join(answers) for answers in true], said)
        result = score_answers(said, true)
        loss = sum(reading.loss for reading in readings) / sum(reading.windows for reading in readings)
        own = score_outputs(self.metrics, said, true) if self.metrics else {}
        scores = {"loss": loss, "exact_match": result.exact_match, "f1": result.f1, **own}
        return metric_first(scores, self._settings.metric)
