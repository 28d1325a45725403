"""The task of classifiers of images: images and their classes, accuracy and F1."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.base.errors import UserError
from heedful.base.packed import Run
from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.images import ImageClassifierModel, ImageTransformerTable
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.batch_layout import StaticShape
from heedful.data.images.batches import ImageFeed
from heedful.data.images.reading import read_images
from heedful.data.images.stores import prepare_images
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import Classifier
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.images.classify.evaluation import ImageEvaluation, evaluate_images
from heedful.tasks.images.classify.model import ImageClassifier, read_image_classifier
from heedful.tasks.images.classify.rules import CLASSIFY_IMAGES
from heedful.tasks.images.classify.scoring import collator_of
from heedful.tasks.images.classify.validation import ImageValidator
from heedful.tasks.shared.classes.class_weights import class_weights, listed_classes, weighted_stores
from heedful.tasks.shared.loaded_model import Placement
from heedful.tasks.shared.task import Task
from heedful.training.objectives import ImageClasses


class ClassifyImagesTask(Task):
    """Classifies images."""

    rules: TaskRules = CLASSIFY_IMAGES

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read and decode the images; given classes are kept."""
        prepared = prepare_images(recipe, say, given)
        _refuse_over_budget(recipe, prepared)
        say(listed_classes(prepared))
        return prepared

    def objective(self, recipe: Recipe, prepared: Prepared) -> ImageClasses:
        """Make the objective that training minimises."""
        augmentation = Augmentation(**recipe.train.augmentation.model_dump())
        several, classes = model_of(recipe, ImageClassifierModel).labels == "several", len(prepared.vocabularies.labels)
        weights = class_weights(recipe.train.class_weights, prepared, several, noun="image")
        return ImageClasses(recipe.label_smoothing, weights, augmentation, classes, several)

    def feed(self, recipe: Recipe, prepared: Prepared) -> ImageFeed:
        """Make the training batches. Which images share a batch does not depend on the device."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        return ImageFeed(prepared.train, prepared.weights, collator, recipe.train.seed, recipe.data.batch_tokens)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if all images have one size."""
        encoder, size = model_of(recipe, ImageClassifierModel).encoder, recipe.data.images.size
        if size is None or (isinstance(encoder, ImageTransformerTable) and not encoder.fused):
            return None
        return StaticShape.rows(recipe.data.batch_tokens, Run(1, *size).tokens(encoder.patch, encoder.class_token))

    def validator(self, bundle: Bundle[Classifier], prepared: Prepared) -> ImageValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return ImageValidator(bundle, prepared.valid)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the patches of an epoch, class tokens included."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        stores = weighted_stores(prepared)
        return float(sum(weight * collator.costs([store], np.arange(len(store)))[0].sum() for store, weight in stores))

    def load(self, folder: Path, placement: Placement, ensemble: Sequence[Path] = ()) -> ImageClassifier:
        """Load a bundle as a classifier of images."""
        return ImageClassifier(read_image_classifier(folder, placement, self.rules))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f"heedful classify {folder} photo.jpg", 'classify(["photo.jpg"])'

    def evaluate(
        self,
        model: ImageClassifier,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> ImageEvaluation:
        """Classify a corpus and compare with its labels."""
        images = list(read_images(corpus, folder, model.several))
        with show("classifying", len(images)) as progress:
            return evaluate_images(model, images, name=corpus.title, progress=progress)


def _refuse_over_budget(recipe: Recipe, prepared: Prepared) -> None:
    """Refuse images, of their own sizes, that have more patches than a batch may have."""
    collator, most = collator_of(recipe, len(prepared.vocabularies.labels)), recipe.data.batch_tokens
    largest = max(int(collator.costs([store], np.arange(len(store)))[0].max()) for store in prepared.train)
    if largest > most:
        raise UserError(
            f"`data.batch_tokens` is {most:,}, but an image in `data.train` has {largest:,} patches: raise it, or "
            "resize images by `data.images.height` and `data.images.width`."
        )
