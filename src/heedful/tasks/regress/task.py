"""The tasks of regressors: a number for a text, a pair of texts or an image."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from torch import Tensor

from heedful.base.columns import in_digits
from heedful.base.errors import UserError
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.model.pooled import ImageRegressorModel, RegressorModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules, model_of
from heedful.data.batches.texts import numbers_of
from heedful.data.corpora.images import LabelledImage, read_images
from heedful.data.corpora.texts import Text, read_texts
from heedful.data.epochs.plan import Indices
from heedful.data.prepare.images import image_store
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import NumberStream
from heedful.data.prepare.texts import TextKind, text_rows, texts_of
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Scale, Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import Regressor
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.regress.baseline import ridge_on_pixels
from heedful.tasks.regress.metrics import METRICS
from heedful.tasks.regress.model import ImageRegressor, TextRegressor
from heedful.tasks.regress.numbers import NumberResult
from heedful.tasks.regress.objective import NumberError
from heedful.tasks.regress.rules import REGRESS, REGRESS_IMAGES
from heedful.tasks.regress.service import RegressService
from heedful.tasks.shared.pooled.sparse_regression import SquaredLoss
from heedful.tasks.shared.pooled.tasks import PooledTask, PooledTextTask, SingleImageTask


class AnyRegressTask(PooledTask):
    """Predicts numbers; subclasses know of what."""

    metrics = METRICS
    doing = "predicting"

    def objective(self, recipe: Recipe, prepared: Prepared) -> NumberError:
        """Make the objective that training minimises."""
        augmentation = Augmentation(**recipe.train.augmentation.model_dump()) if recipe.rules.images else None
        return NumberError(_scale(prepared.vocabularies).deviation, _squared(recipe), augmentation)

    def compare(
        self, bundle: Bundle[Regressor], outputs_BC: Tensor, stores: Sequence[TokenStore], rows: Indices
    ) -> NumberResult:
        """Return the numbers predicted for rows of stores next to the true ones."""
        true = numbers_of(stores, rows, len(rows)).double().tolist()
        return NumberResult.of(outputs_BC[:, 0].tolist(), true, bundle.model.scale.deviation, _squared(bundle.recipe))

    def aims(self, vocabularies: Vocabularies, stores: Sequence[TokenStore], rows: Indices) -> Tensor:
        """Return the numbers of rows of stores, in units of the deviation from the mean of training."""
        mean, deviation = _scale(vocabularies)
        return ((numbers_of(stores, rows, len(rows)) - mean) / deviation)[:, None].float()

    def restored(self, vocabularies: Vocabularies, scores_BC: Tensor) -> Tensor:
        """Return the numbers that are so many deviations from the mean of training."""
        mean, deviation = _scale(vocabularies)
        return mean + deviation * scores_BC


def _squared(recipe: Recipe) -> bool:
    return bool(getattr(recipe.model, "loss", "squared") == "squared")


def _scale(vocabularies: Vocabularies) -> Scale:
    assert vocabularies.scale is not None, "a regressor without a scale"
    return vocabularies.scale


def _find_scale(given: Vocabularies | None, rows: Iterable[Text | LabelledImage], say: Callable[[str], None]) -> Scale:
    """Return the scale of training rows, unless one is given."""
    scale = given.scale if given is not None else None
    if scale is None:
        scale = scale_of([row.number for row in rows if row.number is not None], "`data.train`")
    say(f"numbers of mean {in_digits(scale.mean, 4)} and deviation {in_digits(scale.deviation, 4)}")
    return scale


def scale_of(numbers: Sequence[float], title: str) -> Scale:
    """Return the mean and the deviation of numbers; refuse numbers that are all the same."""
    found = np.asarray(numbers, np.float64)
    if not len(found) or not found.std() > 0:
        same = f"the number {found[0]:g} alone" if len(found) else "no number"
        raise UserError(f"{title} has {same}, but a regressor needs numbers that differ.")
    return Scale(float(found.mean()), float(found.std()))


class RegressTask(AnyRegressTask, PooledTextTask):
    """Predicts a number for a text or a pair of texts."""

    rules: TaskRules = REGRESS
    model_type = TextRegressor
    service_type = RegressService

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary and a given scale are kept."""
        model, work = model_of(recipe, RegressorModel), Preparation.of(recipe, say, given)
        data = recipe.data
        tokenizer = work.tokenizer(lambda corpus: texts_of(corpus, recipe))
        read = (text for corpus in data.train for text in read_texts(corpus, data.folder) if not text.blank)
        scale = _find_scale(given, read, say)
        kind = TextKind(documents=model.nested, letters=model.reads_letters)
        stream = NumberStream[Text](lambda text: text.number or 0.0)
        return work.prepared(
            Vocabularies({"text": tokenizer}, scale=scale),
            lambda corpus, training: text_rows(corpus, data, tokenizer, kind, training=training, further=[stream]),
        )

    def linear_loss(self, recipe: Recipe) -> SquaredLoss:
        """Return the loss of ridge regression."""
        return SquaredLoss()

    def read_corpus(self, model: TextRegressor, corpus: AnyCorpus, folder: str) -> Iterable[Text]:
        """Read texts with numbers."""
        return read_texts(corpus, folder)


class RegressImagesTask(AnyRegressTask, SingleImageTask):
    """Predicts a number for an image."""

    rules: TaskRules = REGRESS_IMAGES
    model_type = ImageRegressor
    service_type = RegressService

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data and decode the images; a given scale is kept."""
        model, work, data = model_of(recipe, ImageRegressorModel), Preparation.of(recipe, say, given), recipe.data
        listed = {corpus: [*read_images(corpus, data.folder)] for corpus in (*data.train, *data.valid)}
        scale = _find_scale(given, (image for corpus in data.train for image in listed[corpus]), say)
        stream = NumberStream[LabelledImage](lambda image: image.number or 0.0)
        prepared = work.prepared(
            Vocabularies({}, scale=scale),
            lambda corpus, training: image_store(work, corpus, listed[corpus], model.encoder.channels, [stream]),
        )
        self.check_sizes(recipe, prepared)
        return prepared

    def predict_by_line(self, bundle: Bundle[Regressor], prepared: Prepared, rows: Indices) -> tuple[Tensor, str]:
        """Return what ridge regression on pixels predicts for rows of the validation stores, and of what it is."""
        aims = partial(self.aims, bundle.vocabularies, prepared.train)
        return ridge_on_pixels(prepared.train, prepared.valid, rows, aims)

    def read_corpus(self, model: ImageRegressor, corpus: AnyCorpus, folder: str) -> Iterable[LabelledImage]:
        """Read images with numbers."""
        return read_images(corpus, folder)
