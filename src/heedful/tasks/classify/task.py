"""The tasks of classifiers: of texts, of images, and of questions about images by their answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful.config.corpora.containers import AlignedFiles, AnyCorpus
from heedful.config.model.pooled import ClassifierModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules, model_of
from heedful.data.collate import gather, lengths_of
from heedful.data.corpora.formats.rows import labels_of
from heedful.data.corpora.images import AskedImage, LabelledImage, read_asked_images, read_images
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.texts import Text, read_texts, text_of_line
from heedful.data.epochs.plan import Indices
from heedful.data.prepare.images import prepare_image_questions, prepare_images
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import listed_classes, prepare_texts
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.classification import ClassificationResult, mark_classes
from heedful.models.bundle import Bundle
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.classify.baseline import logistic_on_pixels, usual_answers
from heedful.tasks.classify.classification import ClassLoss, compare_classes
from heedful.tasks.classify.image_models import ImageAnswerer, ImageClassifier
from heedful.tasks.classify.metrics import METRICS
from heedful.tasks.classify.model import TextClassifier
from heedful.tasks.classify.objective import (
    OneLabel,
    SeveralLabels,
    WithLanguageLoss,
    augment_images,
    class_weights,
    move_asked_images,
)
from heedful.tasks.classify.rules import ANSWER_IMAGES, CLASSIFY, CLASSIFY_IMAGES
from heedful.tasks.classify.service import AnswerImagesService, ClassifyService
from heedful.tasks.shared.pooled.tasks import PooledImageTask, PooledTask, PooledTextTask, SingleImageTask


class AnyClassifyTask(PooledTask):
    """Chooses classes; subclasses know of what."""

    metrics = METRICS
    doing = "classifying"
    noun = "text"  # what has classes
    called = "classes"  # what they are called

    def compare(
        self, bundle: Bundle[Any], outputs_BC: Tensor, stores: Sequence[TokenStore], rows: Indices
    ) -> ClassificationResult:
        """Return the classes of rows of stores by their scores, next to the true ones."""
        labels = bundle.vocabularies.labels
        classes = self.classes(stores, rows, len(labels))
        return compare_classes(outputs_BC, classes, labels, _several(bundle.recipe), self.noun)

    def classes(self, stores: Sequence[TokenStore], rows: Indices, known: int) -> list[list[int]]:
        """Return the true classes of rows of stores; `known` is the number of all classes."""
        values, lengths = gather(stores, "label", rows)
        return [part.tolist() for part in np.split(values, np.cumsum(lengths)[:-1])]

    def aims(self, vocabularies: Vocabularies, stores: Sequence[TokenStore], rows: Indices) -> Tensor:
        """Mark the true classes of rows of stores."""
        classes = len(vocabularies.labels)
        return torch.from_numpy(mark_classes(self.classes(stores, rows, classes), classes)).float()


def _several(recipe: Recipe) -> bool:
    return bool(getattr(recipe.model, "labels", "one") == "several")


class ClassifyTask(AnyClassifyTask, PooledTextTask):
    """Classifies texts."""

    rules: TaskRules = CLASSIFY
    model_type = TextClassifier
    service_type = ClassifyService

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary and given classes are kept."""
        model = model_of(recipe, ClassifierModel)
        prepared = prepare_texts(
            recipe,
            say,
            given,
            labelled=model.labels,
            documents=model.nested,
            letters=model.reads_letters,
        )
        say(listed_classes(prepared, self.called))
        return prepared

    def objective(self, recipe: Recipe, prepared: Prepared) -> OneLabel | WithLanguageLoss:
        """Make the objective that training minimises."""
        several = _several(recipe)
        weights = class_weights(recipe.train.class_weights, prepared, several)
        classes = (SeveralLabels if several else OneLabel)(recipe.label_smoothing, weights)
        return WithLanguageLoss(classes, recipe.train.auxiliary) if recipe.train.auxiliary else classes

    def linear_loss(self, recipe: Recipe) -> ClassLoss:
        """Return the loss of logistic regression."""
        return ClassLoss(_several(recipe))

    def read_corpus(self, model: TextClassifier, corpus: AnyCorpus, folder: str) -> Iterable[Text]:
        """Read texts with labels, or texts from one file and labels from another."""
        if isinstance(corpus, AlignedFiles):
            return _texts_of_files(model, corpus)
        return read_texts(corpus, folder, several=model.several)


def _texts_of_files(classifier: TextClassifier, corpus: AlignedFiles) -> Iterator[Text]:
    """Read texts from one file, single or in tab-separated pairs, and labels from another, separated by commas."""
    for number, (line, said) in enumerate(read_pairs(corpus), start=1):
        text = text_of_line(line, classifier.paired, f"{corpus.source}, line {number:,}")
        labels = () if text.blank else labels_of(said, classifier.several, f"{corpus.target}, line {number:,}")
        yield replace(text, labels=labels, line=number)


class AnyImageTask(AnyClassifyTask, PooledImageTask):
    """Chooses classes for what is seen."""

    prepare_data: ClassVar[Callable[[Recipe, Callable[[str], None], Vocabularies | None], Prepared]]

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data and decode the images; a given vocabulary and given classes are kept."""
        prepared = type(self).prepare_data(recipe, say, given)
        self.check_sizes(recipe, prepared)
        say(listed_classes(prepared, self.called))
        return prepared


class ClassifyImagesTask(AnyImageTask, SingleImageTask):
    """Classifies images."""

    rules: TaskRules = CLASSIFY_IMAGES
    model_type = ImageClassifier
    service_type = ClassifyService
    noun, prepare_data = "image", prepare_images

    def objective(self, recipe: Recipe, prepared: Prepared) -> OneLabel:
        """Make the objective that training minimises."""
        several, classes = _several(recipe), len(prepared.vocabularies.labels)
        weights = class_weights(recipe.train.class_weights, prepared, several, noun="image")
        change = augment_images(Augmentation(**recipe.train.augmentation.model_dump()), classes)
        return (SeveralLabels if several else OneLabel)(recipe.label_smoothing, weights, change)

    def predict_by_line(self, bundle: Bundle[Any], prepared: Prepared, rows: Indices) -> tuple[Tensor, str]:
        """Return what logistic regression on pixels predicts for rows of the validation stores; see `baseline.py`."""
        aims, loss = partial(self.aims, bundle.vocabularies, prepared.train), ClassLoss(_several(bundle.recipe))
        return logistic_on_pixels(prepared.train, prepared.valid, rows, aims, loss)

    def read_corpus(self, model: ImageClassifier, corpus: AnyCorpus, folder: str) -> Iterable[LabelledImage]:
        """Read images with labels."""
        return read_images(corpus, folder, model.several)


class AnswerImagesTask(AnyImageTask):
    """Answers questions about images with one of the answers of the training data.

    A row of a store is an image with all questions about it, so batches stay ragged.
    """

    rules: TaskRules = ANSWER_IMAGES
    model_type = ImageAnswerer
    service_type = AnswerImagesService
    arguments = ('--question "..." --image photo.jpg', '"...", "photo.jpg"')
    doing, noun, called, counted = "answering", "question", "answers", "patches and words of questions"
    prepare_data = prepare_image_questions

    def objective(self, recipe: Recipe, prepared: Prepared) -> OneLabel:
        """Make the objective that training minimises."""
        change = move_asked_images(Augmentation(**recipe.train.augmentation.model_dump()))
        return OneLabel(recipe.label_smoothing, change=change)

    def classes(self, stores: Sequence[TokenStore], rows: Indices, known: int) -> list[list[int]]:
        """Return the class of the answer to each question; none for one that training never has."""
        answers, _ = gather(stores, "label", rows)
        return [[answer] if answer < known else [] for answer in answers.tolist()]

    def counts(self, stores: Sequence[TokenStore], rows: Indices) -> Indices:
        """Return the number of questions about each image."""
        return lengths_of(stores, "lengths", rows)

    def predict_by_line(self, bundle: Bundle[Any], prepared: Prepared, rows: Indices) -> tuple[Tensor, str]:
        """Return the usual answers to questions of rows of the validation stores; see `baseline.py`."""
        return usual_answers(prepared.train, prepared.valid, rows, len(bundle.vocabularies.labels))

    def read_corpus(self, model: ImageAnswerer, corpus: AnyCorpus, folder: str) -> Iterable[AskedImage]:
        """Read images with questions and answers."""
        return read_asked_images(corpus, folder)

    def count(self, rows: Sequence[AskedImage]) -> int:
        """Return the number of questions."""
        return sum(len(each.questions) for each in rows)
