"""The task of readers: questions about texts, whose answers are spans of the text."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.encoder_only import ReaderModel
from heedful.config.model.transformer import TransformerStack
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.batch_layout import CPU_MULTIPLE, StaticShape
from heedful.data.batches.questions import QuestionFeed
from heedful.data.corpora.questions.reading import read_questions
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.questions import prepare_questions
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import SpanReader
from heedful.tasks.answer.answer import Choice
from heedful.tasks.answer.evaluation import AnswerEvaluation, evaluate_reader
from heedful.tasks.answer.model import Reader, read_reader
from heedful.tasks.answer.rules import ANSWER
from heedful.tasks.answer.scoring import collator_of
from heedful.tasks.answer.validation import ReaderValidator
from heedful.tasks.shared.loaded_model import Placement
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, static_layout
from heedful.tasks.shared.task import Task
from heedful.training.objectives import AnswerEnds


class AnswerTask(Task):
    """Answers questions with spans of a text."""

    rules: TaskRules = ANSWER

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary is kept."""
        return prepare_questions(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> AnswerEnds:
        """Make the objective that training minimises."""
        return AnswerEnds(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> QuestionFeed:
        """Make the training batches. Which windows share a batch does not depend on the device."""
        data = recipe.data
        return QuestionFeed(
            prepared.train,
            prepared.weights,
            collator_of(recipe),
            recipe.train.seed,
            data.batch_tokens,
            max(1, data.batch_tokens // SHORTEST_TEXT),
            multiple=CPU_MULTIPLE,
        )

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        encoder = model_of(recipe, ReaderModel).encoder
        if not isinstance(encoder, TransformerStack):
            return None
        return static_layout(encoder, recipe.data, recipe.data.max_length, SHORTEST_TEXT, precision)

    def validator(self, bundle: Bundle[SpanReader], prepared: Prepared) -> ReaderValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return ReaderValidator(bundle)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens of an epoch, as the model reads them."""
        collator = collator_of(recipe)
        stores = zip(prepared.train, prepared.weights, strict=True)
        return float(sum(weight * collator.costs([store], np.arange(len(store)))[0].sum() for store, weight in stores))

    def load(self, folder: Path, placement: Placement, ensemble: Sequence[Path] = ()) -> Reader:
        """Load a bundle as a reader."""
        return Reader(read_reader(folder, placement, self.rules))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f'heedful answer {folder} --question "..." --text report.txt', 'answer("...", "...")'

    def evaluate(
        self,
        model: Reader,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> AnswerEvaluation:
        """Answer the questions of a corpus and compare with its answers."""
        questions = list(read_questions(corpus, folder))
        with show("answering", len(questions)) as progress:
            return evaluate_reader(model, questions, Choice(**(options or {})), name=corpus.title, progress=progress)
