"""The tasks of regressors: a number for a text, a pair of texts or an image."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from heedful.base.errors import UserError
from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.pooled import ImageRegressorModel, RegressorModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.batch_layout import StaticShape
from heedful.data.batches.labelled import LabelledBatch, numbers_of
from heedful.data.corpora.images import LabelledImage, read_images
from heedful.data.corpora.texts import Text, read_texts
from heedful.data.epochs.loader import Collator, RowFeed
from heedful.data.epochs.plan import Indices, spread
from heedful.data.prepare.images import image_store
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.streams import NumberStream
from heedful.data.prepare.texts import TextKind, text_rows, texts_of
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Scale, Vocabularies
from heedful.metrics.rows import validation_scores
from heedful.models.bundle import Bundle
from heedful.models.networks import Regressor
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.nn.layers.ngrams import NgramBag
from heedful.tasks.regress.baseline import line_of_pixels, line_of_texts
from heedful.tasks.regress.metrics import METRICS
from heedful.tasks.regress.model import ImageRegressor, TextRegressor
from heedful.tasks.regress.numbers import NumberResult
from heedful.tasks.regress.objective import NumberError
from heedful.tasks.regress.rules import REGRESS, REGRESS_IMAGES
from heedful.tasks.shared.inputs import image_collator, outputs_of_rows, text_collator
from heedful.tasks.shared.linear.first_weights import set_first_weights
from heedful.tasks.shared.linear.regression import SquaredLoss
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, pooled_shape
from heedful.tasks.shared.task import Task
from heedful.tasks.shared.validation import Asked, Validated


@dataclass(frozen=True)
class NumberCollator:
    """Makes the batches of another collator with the numbers of rows in the place of labels."""

    noun: ClassVar[str] = "row"

    inputs: Collator[Any]

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> Any:
        """Return the tokens of some rows."""
        return self.inputs.costs(stores, indices)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> LabelledBatch[Any]:
        """Make the batch of these rows."""
        made: LabelledBatch[Any] = self.inputs.batch(stores, indices, static, multiple)
        return replace(made, labels=numbers_of(stores, indices, len(made.labels)))


def true_numbers(stores: Sequence[TokenStore], rows: Indices) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the numbers of rows of stores."""
    return numbers_of(stores, rows, len(rows)).double().numpy()


class AnyRegressTask(Task):
    """Predicts numbers; subclasses know of what."""

    doing = "predicting"
    _line: tuple[Any, Mapping[str, float]] | None = None  # the training stores, and the scores of their line to beat

    def collator(self, recipe: Recipe) -> Collator[Any]:
        """Return the collator that makes the model's input."""
        raise NotImplementedError

    def objective(self, recipe: Recipe, prepared: Prepared) -> NumberError:
        """Make the objective that training minimises."""
        assert prepared.vocabularies.scale is not None
        augmentation = Augmentation(**recipe.train.augmentation.model_dump()) if recipe.rules.images else None
        return NumberError(prepared.vocabularies.scale.deviation, _squared(recipe), augmentation)

    def validate(self, bundle: Bundle[Regressor], prepared: Prepared, asked: Asked) -> Validated:
        """Predict the numbers of rows of the validation corpora, and compare with the true ones."""
        count = sum(map(len, prepared.valid))
        rows = spread(asked.most or count, count)
        with asked.show("validating", len(rows)) as advance:
            found = outputs_of_rows(
                bundle.model,
                self.collator(bundle.recipe),
                prepared.valid,
                rows,
                bundle.recipe.data.batch_tokens,
                advance=advance,
            )
        result = _compared(found[:, 0].tolist(), true_numbers(prepared.valid, rows), bundle)
        return Validated(validation_scores(METRICS, result), result.predicted.tolist(), result.true.tolist())

    def baseline(
        self, bundle: Bundle[Regressor], prepared: Prepared, asked: Asked, say: Callable[[str], None]
    ) -> Mapping[str, float]:
        """Return the scores of ridge regression on n-grams or pixels of the training rows, Spearman's rho first."""
        if not prepared.train:
            return {}
        if self._line is None or self._line[0] is not prepared.train:
            count = sum(map(len, prepared.valid))
            rows = spread(asked.most or count, count)
            line = line_of_pixels if self.rules.images else line_of_texts
            assert bundle.vocabularies.scale is not None
            with torch.inference_mode(False):
                predicted, words = line(prepared.train, prepared.valid, rows, bundle.vocabularies.scale)
            scores = validation_scores(METRICS, _compared(predicted, true_numbers(prepared.valid, rows), bundle))
            names = [name for name in dict.fromkeys((asked.metric, "spearman")) if name in scores]
            say(f"the line to beat: {', '.join(f'{name} {scores[name]:.4g}' for name in names)}, of {words}")
            self._line = prepared.train, scores
        return {"spearman": self._line[1]["spearman"], **self._line[1]}


def _squared(recipe: Recipe) -> bool:
    return bool(getattr(recipe.model, "loss", "squared") == "squared")


def _compared(predicted: Sequence[float], true: Any, bundle: Bundle[Regressor]) -> NumberResult:
    return NumberResult.of(predicted, true, bundle.model.scale.deviation, _squared(bundle.recipe))


def scale_of(numbers: Sequence[float], title: str) -> Scale:
    """Return the mean and the deviation of numbers; refuse numbers that are all the same."""
    found = np.asarray(numbers, np.float64)
    if not len(found) or not found.std() > 0:
        same = f"the number {found[0]:g} alone" if len(found) else "no number"
        raise UserError(f"{title} has {same}, but a regressor needs numbers that differ.")
    return Scale(float(found.mean()), float(found.std()))


class RegressTask(AnyRegressTask):
    """Predicts a number for a text or a pair of texts."""

    rules: TaskRules = REGRESS
    model_type = TextRegressor

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary and a given scale are kept."""
        model, work = model_of(recipe, RegressorModel), Preparation.of(recipe, say, given)
        data = recipe.data
        tokenizer = work.tokenizer(lambda corpus: texts_of(corpus, recipe))
        scale = given.scale if given is not None else None
        if scale is None:
            numbers = [
                text.number
                for corpus in data.train
                for text in read_texts(corpus, data.folder)
                if text.number is not None and not text.blank
            ]
            scale = scale_of(numbers, "`data.train`")
        kind = TextKind(documents=model.nested, letters=model.reads_letters)
        stream = NumberStream[Text](lambda text: text.number or 0.0)
        say(f"numbers of mean {scale.mean:.4g} and deviation {scale.deviation:.4g}")
        return work.prepared(
            Vocabularies({"text": tokenizer}, scale=scale),
            lambda corpus, training: text_rows(corpus, data, tokenizer, kind, training=training, further=[stream]),
        )

    def set_weights(self, network: nn.Module, recipe: Recipe, prepared: Prepared) -> None:
        """Begin a bag of n-grams with rarities and the solution of ridge regression, if the recipe sets that."""
        encoder = getattr(network, "encoder", None)
        if isinstance(network, Regressor) and isinstance(encoder, NgramBag) and encoder.weights is not None:
            mean, deviation = network.scale

            def aims(batch: LabelledBatch[Any]) -> torch.Tensor:
                return (batch.labels[: batch.sentences, None].float() - mean) / deviation

            set_first_weights(network, encoder, self.collator(recipe), prepared.train, SquaredLoss(), aims)

    def collator(self, recipe: Recipe) -> NumberCollator:
        """Return the collator that makes the model's input from the recipe's texts."""
        return NumberCollator(text_collator(model_of(recipe, RegressorModel), recipe.data))

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches. Which texts share a batch does not depend on the device."""
        return RowFeed.of(recipe, prepared, self.collator(recipe), SHORTEST_TEXT)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        return pooled_shape(model_of(recipe, RegressorModel), recipe.data, precision)

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        name, argument = ("pairs.tsv", ', ["..."]') if recipe.data.paired else ("texts.txt", "")
        return f"heedful regress {folder} < {name}", f'regress(["..."]{argument})'

    def read_corpus(self, model: TextRegressor, corpus: AnyCorpus, folder: str) -> Iterable[Text]:
        """Read texts with numbers."""
        return read_texts(corpus, folder)


class RegressImagesTask(AnyRegressTask):
    """Predicts a number for an image."""

    rules: TaskRules = REGRESS_IMAGES
    model_type = ImageRegressor

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data and decode the images; a given scale is kept."""
        model, work, data = model_of(recipe, ImageRegressorModel), Preparation.of(recipe, say, given), recipe.data
        listed = {corpus: [*read_images(corpus, data.folder)] for corpus in (*data.train, *data.valid)}
        scale = given.scale if given is not None else None
        if scale is None:
            numbers = [image.number for corpus in data.train for image in listed[corpus] if image.number is not None]
            scale = scale_of(numbers, "`data.train`")
        stream = NumberStream[LabelledImage](lambda image: image.number or 0.0)
        say(f"numbers of mean {scale.mean:.4g} and deviation {scale.deviation:.4g}")
        return work.prepared(
            Vocabularies({}, scale=scale),
            lambda corpus, training: image_store(work, corpus, listed[corpus], model.encoder.channels, [stream]),
        )

    def collator(self, recipe: Recipe) -> NumberCollator:
        """Return the collator that makes the model's input."""
        return NumberCollator(image_collator(model_of(recipe, ImageRegressorModel).encoder))

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches."""
        return RowFeed.of(recipe, prepared, self.collator(recipe))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f"heedful regress {folder} photo.jpg", 'regress(["photo.jpg"])'

    def read_corpus(self, model: ImageRegressor, corpus: AnyCorpus, folder: str) -> Iterable[LabelledImage]:
        """Read images with numbers."""
        return read_images(corpus, folder)
