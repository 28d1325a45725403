"""The task of models that answer questions about images: accuracy, also by kind of question."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.base.errors import UserError
from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.corpora.any import AnyCorpus
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.batch_layout import StaticShape
from heedful.data.images.questions.batches import ImageQuestionFeed
from heedful.data.images.questions.reading import read_asked_images
from heedful.data.images.questions.stores import prepare_image_questions
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.images import ImageAnswerer as Network
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.images.answer.evaluation import ImageAnswerEvaluation, evaluate_answers
from heedful.tasks.images.answer.model import ImageAnswerer, read_answerer
from heedful.tasks.images.answer.objective import ImageAnswers
from heedful.tasks.images.answer.rules import ANSWER_IMAGES
from heedful.tasks.images.answer.scoring import collator_of
from heedful.tasks.images.answer.validation import ImageAnswerValidator
from heedful.tasks.shared.classes.class_weights import listed_classes, weighted_stores
from heedful.tasks.shared.loaded_model import Placement
from heedful.tasks.shared.task import Task


class AnswerImagesTask(Task):
    """Answers questions about images with one of the answers of the training data."""

    rules: TaskRules = ANSWER_IMAGES

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the questions and decode the images; a given vocabulary and given answers are kept."""
        prepared = prepare_image_questions(recipe, say, given)
        self._refuse_over_budget(recipe, prepared)
        say(listed_classes(prepared).replace("classes", "answers", 1))
        return prepared

    def objective(self, recipe: Recipe, prepared: Prepared) -> ImageAnswers:
        """Make the objective that training minimises."""
        return ImageAnswers(recipe.label_smoothing, Augmentation(**recipe.train.augmentation.model_dump()))

    def feed(self, recipe: Recipe, prepared: Prepared) -> ImageQuestionFeed:
        """Make the training batches. Which images share a batch does not depend on the device."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        return ImageQuestionFeed(
            prepared.train, prepared.weights, collator, recipe.train.seed, recipe.data.batch_tokens
        )

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return None: the number of questions differs from image to image."""
        return None

    def validator(self, bundle: Bundle[Network], prepared: Prepared) -> ImageAnswerValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return ImageAnswerValidator(bundle, prepared.valid)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the patches and words of an epoch."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        stores = weighted_stores(prepared)
        return float(sum(weight * collator.costs([store], np.arange(len(store)))[0].sum() for store, weight in stores))

    def load(self, folder: Path, placement: Placement, ensemble: Sequence[Path] = ()) -> ImageAnswerer:
        """Load a bundle as a model that answers questions about images."""
        return ImageAnswerer(read_answerer(folder, placement, self.rules))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f'heedful answer {folder} --question "..." --image photo.jpg', 'answer("...", "photo.jpg")'

    def evaluate(
        self,
        model: ImageAnswerer,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> ImageAnswerEvaluation:
        """Answer the questions of a corpus and compare with its answers."""
        asked = list(read_asked_images(corpus, folder))
        with show("answering", sum(len(each.questions) for each in asked)) as progress:
            return evaluate_answers(model, asked, name=corpus.title, progress=progress)

    def _refuse_over_budget(self, recipe: Recipe, prepared: Prepared) -> None:
        """Refuse images that have more patches and words than a batch may have."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        most = recipe.data.batch_tokens
        largest = max(int(collator.costs([store], np.arange(len(store)))[0].max()) for store in prepared.train)
        if largest > most:
            raise UserError(
                f"`data.batch_tokens` is {most:,}, but an image in `data.train` has {largest:,} patches and words of "
                "questions: raise it, or resize images by `data.images.height` and `data.images.width`."
            )
