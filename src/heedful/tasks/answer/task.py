"""The task of readers: questions about texts, whose answers are spans of the text."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from heedful.config.corpora.containers import AnyCorpus
from heedful.config.model.encoder_only import ReaderModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules, model_of
from heedful.data.collate import StaticShape
from heedful.data.corpora.questions import Question, read_questions
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import spread
from heedful.data.prepare.prepared import Prepared
from heedful.data.text_form import TextForm
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.rows import validation_scores
from heedful.models.bundle import Bundle
from heedful.models.networks import SpanReader
from heedful.tasks.answer.answer import Choice
from heedful.tasks.answer.baseline import MOST_QUESTIONS, OverlapReader
from heedful.tasks.answer.data import PiecedQuestion, piece_questions, prepare_questions
from heedful.tasks.answer.metrics import METRICS, score_answers
from heedful.tasks.answer.model import Reader
from heedful.tasks.answer.objective import AnswerEnds
from heedful.tasks.answer.rules import ANSWER
from heedful.tasks.answer.scoring import choose_answer, collator_of, compare_answers, read_windows
from heedful.tasks.answer.service import AnswerService
from heedful.tasks.shared.line import Line, sample_rows
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, static_layout
from heedful.tasks.shared.task import Task
from heedful.tasks.shared.validation import Asked, Validated, some_outputs


class AnswerTask(Task):
    """Answers questions with spans of a text."""

    rules: TaskRules = ANSWER
    model_type = Reader
    service_type = AnswerService
    doing = "answering"
    arguments = ('--question "..." --context report.txt', '"...", "..."')
    _validated: tuple[Prepared, Sequence[Question], Sequence[PiecedQuestion]] | None = None

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary is kept."""
        return prepare_questions(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> AnswerEnds:
        """Make the objective that training minimises."""
        return AnswerEnds(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches. Which windows share a batch does not depend on the device."""
        return RowFeed.of(recipe, prepared, collator_of(recipe), SHORTEST_TEXT)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        encoder = model_of(recipe, ReaderModel).encoder
        return static_layout(encoder, recipe.data, recipe.data.max_length, SHORTEST_TEXT, precision)

    def validate(self, bundle: Bundle[SpanReader], prepared: Prepared, asked: Asked) -> Validated:
        """Answer questions of the validation corpora, and compare with their answers."""
        questions, pieced = self._validation_rows(bundle, prepared, asked.most)
        choice, no_answer = Choice(), model_of(bundle.recipe, ReaderModel).no_answer
        with asked.show("validating", len(questions)) as advance:
            readings = read_windows(bundle, pieced, choice, advance)
        found = zip(readings, questions, pieced, strict=True)
        said = [choose_answer(*of_one, choice, no_answer).text for of_one in found]
        true = [list(question.answers) for question in questions]
        samples = some_outputs([one.question for one in questions], [" / ".join(answers) for answers in true], said)
        scores = validation_scores(METRICS, compare_answers(said, questions, readings))
        return Validated(scores, said, true, samples)

    def line(self, bundle: Bundle[SpanReader], prepared: Prepared, asked: Asked) -> Line:
        """Answer the same questions by overlap of words; see `baseline.py`."""
        data, form = bundle.recipe.data, TextForm.of(bundle.recipe.data)
        read = (question for corpus in data.train for question in read_questions(corpus, data.folder))
        fitting = [question for question in read if not form.too_long(question.text)]
        rows, sample = sample_rows(len(fitting), MOST_QUESTIONS, "question")
        reader = OverlapReader([fitting[row] for row in rows], model_of(bundle.recipe, ReaderModel).no_answer)
        questions, _ = self._validation_rows(bundle, prepared, asked.most)
        found = score_answers(list(map(reader.answer, questions)), [question.answers for question in questions])
        return Line({"f1": found.f1, "exact_match": found.exact_match}, sample)

    def _validation_rows(
        self, bundle: Bundle[SpanReader], prepared: Prepared, most: int | None
    ) -> tuple[Sequence[Question], Sequence[PiecedQuestion]]:
        """Return questions of the validation corpora, at most `most` of them at equal distances, and their pieces.

        They are kept for the next validation of the same run: stores have windows, not questions.
        """
        if self._validated is None or self._validated[0] is not prepared:
            data, form = bundle.recipe.data, TextForm.of(bundle.recipe.data)
            read = [question for corpus in data.valid for question in read_questions(corpus, data.folder)]
            fitting = [question for question in read if not form.too_long(question.text)]
            chosen = [fitting[row] for row in spread(most or len(fitting), len(fitting))]
            self._validated = prepared, chosen, piece_questions(chosen, bundle.vocabularies["text"], form)
        return self._validated[1:]

    def read_corpus(self, model: Reader, corpus: AnyCorpus, folder: str) -> Iterable[Question]:
        """Read questions with texts and answers."""
        return read_questions(corpus, folder)
