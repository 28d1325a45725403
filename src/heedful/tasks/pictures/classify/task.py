"""The task of classifiers of pictures: pictures and their classes, accuracy and F1."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.pictures import PictureTransformerTable
from heedful.config.recipe import Recipe
from heedful.config.rules.classify_pictures import CLASSIFY_PICTURES, picture_model
from heedful.config.rules.task_rules import TaskRules
from heedful.data.batch_layout import StaticShape
from heedful.data.pictures.batches import PictureFeed
from heedful.data.pictures.reading import read_pictures
from heedful.data.pictures.stores import prepare_pictures
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.errors import UserError
from heedful.models.bundle import Bundle
from heedful.models.networks import Classifier
from heedful.nn.layers.pictures.augmentation import Augmentation
from heedful.packed import Run
from heedful.tasks.pictures.classify.evaluation import PictureEvaluation, evaluate_pictures
from heedful.tasks.pictures.classify.model import PictureClassifier, read_picture_classifier
from heedful.tasks.pictures.classify.scoring import collator_of
from heedful.tasks.pictures.classify.validation import PictureValidator
from heedful.tasks.shared.classes.class_weights import class_weights, listed_classes, weighted_stores
from heedful.tasks.shared.placement import Placement
from heedful.tasks.shared.progress import ShowProgress, show_nothing
from heedful.training.objectives import PictureClasses


class ClassifyPicturesTask:
    """Classifies pictures."""

    rules: TaskRules = CLASSIFY_PICTURES

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read and decode the pictures; given classes are kept."""
        prepared = prepare_pictures(recipe, say, given)
        _refuse_over_budget(recipe, prepared)
        say(listed_classes(prepared))
        return prepared

    def objective(self, recipe: Recipe, prepared: Prepared) -> PictureClasses:
        """Make the objective that training minimises."""
        augmentation = Augmentation(**recipe.train.augmentation.model_dump())
        several, classes = picture_model(recipe).labels == "several", len(prepared.vocabularies.labels)
        weights = class_weights(recipe.train.class_weights, prepared, several, noun="picture")
        return PictureClasses(recipe.label_smoothing, weights, augmentation, classes, several)

    def feed(self, recipe: Recipe, prepared: Prepared) -> PictureFeed:
        """Make the training batches. Which pictures share a batch does not depend on the device."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        return PictureFeed(prepared.train, prepared.weights, collator, recipe.train.seed, recipe.data.batch_tokens)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if all pictures have one size."""
        encoder, size = picture_model(recipe).encoder, recipe.data.pictures.size
        if size is None or (isinstance(encoder, PictureTransformerTable) and not encoder.fused):
            return None
        return StaticShape.rows(recipe.data.batch_tokens, Run(1, *size).tokens(encoder.patch, encoder.class_token))

    def validator(self, bundle: Bundle[Classifier], prepared: Prepared) -> PictureValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return PictureValidator(bundle, prepared.valid)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the patches of an epoch, class tokens included."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        stores = weighted_stores(prepared)
        return float(sum(weight * collator.costs([store], np.arange(len(store)))[0].sum() for store, weight in stores))

    def load(self, folder: Path, placement: Placement, ensemble: Sequence[Path] = ()) -> PictureClassifier:
        """Load a bundle as a classifier of pictures."""
        return PictureClassifier(read_picture_classifier(folder, placement, self.rules))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f"heedful classify {folder} photo.jpg", 'classify(["photo.jpg"])'

    def evaluate(
        self,
        model: PictureClassifier,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> PictureEvaluation:
        """Classify a corpus and compare with its labels."""
        pictures = list(read_pictures(corpus, folder, model.several))
        with show("classifying", len(pictures)) as progress:
            return evaluate_pictures(model, pictures, name=corpus.title, progress=progress)


def _refuse_over_budget(recipe: Recipe, prepared: Prepared) -> None:
    """Refuse pictures, of their own sizes, that have more patches than a batch may have."""
    collator, most = collator_of(recipe, len(prepared.vocabularies.labels)), recipe.data.batch_tokens
    largest = max(int(collator.costs([store], np.arange(len(store)))[0].max()) for store in prepared.train)
    if largest > most:
        raise UserError(
            f"`data.batch_tokens` is {most:,}, but a picture in `data.train` has {largest:,} patches: raise it, or "
            "resize pictures by `data.pictures.height` and `data.pictures.width`."
        )
