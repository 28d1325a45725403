"""Tasks with one output for each text, pair of texts or image: batches, first weights, validation, the line to beat."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.base.packed import Run
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.pooled import ImageModel, TextModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.data.collate import StaticShape
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import Indices, spread
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.rows import Rows, score_names, validation_scores
from heedful.models.bundle import Bundle
from heedful.models.networks import PooledNetwork
from heedful.nn.layers.ngrams import NgramBag
from heedful.tasks.shared.line import Line
from heedful.tasks.shared.pooled.first_weights import set_first_weights
from heedful.tasks.shared.pooled.network_outputs import collator_of, outputs_of_rows
from heedful.tasks.shared.pooled.ngrams import fit_stores, ngrams_of_rows
from heedful.tasks.shared.pooled.sparse_regression import Loss
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, pooled_shape
from heedful.tasks.shared.task import Task
from heedful.tasks.shared.validation import Asked, Validated


class PooledTask(Task):
    """Predicts classes or a number for each row; subclasses know of what."""

    metrics: ClassVar[Rows]
    arguments = ("photo.jpg", '["photo.jpg"]')

    @abstractmethod
    def compare(self, bundle: Bundle[Any], outputs_BC: Tensor, stores: Sequence[TokenStore], rows: Indices) -> Any:
        """Return the network's outputs for rows of stores next to what is true of them."""

    def counts(self, stores: Sequence[TokenStore], rows: Indices) -> Indices | None:
        """Return the number of outputs of each row; None where each has one."""
        return None

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches. Which rows share a batch does not depend on the device."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        return RowFeed.of(recipe, prepared, collator, None if self.rules.images else SHORTEST_TEXT)

    def validate(self, bundle: Bundle[Any], prepared: Prepared, asked: Asked) -> Validated:
        """Predict for rows of the validation corpora, and compare with what is true of them."""
        result = self.evaluate_stores(bundle, prepared.valid, asked)
        return Validated(validation_scores(self.metrics, result), *(result.outputs() if asked.outputs else ((), ())))

    def evaluate_stores(
        self,
        bundle: Bundle[Any],
        stores: Sequence[TokenStore],
        asked: Asked = Asked(),  # noqa: B008 - it never changes
    ) -> Any:
        """Return a model's predictions for rows of stores next to what is true of them.

        Of more rows than asked for, that number at equal distances is evaluated: a file may be sorted by its labels.
        """
        rows = _asked_rows(stores, asked)
        counts, tokens = self.counts(stores, rows), bundle.recipe.data.batch_tokens
        collator = collator_of(bundle.recipe, len(bundle.vocabularies.labels))
        with asked.show("validating", len(rows) if counts is None else int(counts.sum())) as advance:
            outputs_BC = outputs_of_rows(bundle.model, collator, stores, rows, tokens, counts, advance)
        return self.compare(bundle, outputs_BC, stores, rows)

    def line(self, bundle: Bundle[Any], prepared: Prepared, asked: Asked) -> Line:
        """Compare what the line to beat predicts with what is true of rows of the validation corpora."""
        rows = _asked_rows(prepared.valid, asked)
        scores_BC, learned_from = self.predict_by_line(bundle, prepared, rows)
        outputs_BC = self.restored(bundle.vocabularies, scores_BC)
        scores = validation_scores(self.metrics, self.compare(bundle, outputs_BC, prepared.valid, rows))
        usual = score_names(self.metrics)[0]
        return Line({usual: scores[usual], **scores}, learned_from)

    def predict_by_line(self, bundle: Bundle[Any], prepared: Prepared, rows: Indices) -> tuple[Tensor, str]:
        """Return what the line to beat predicts for rows of the validation stores, and what it was learned from."""
        raise NotImplementedError

    def restored(self, vocabularies: Vocabularies, scores_BC: Tensor) -> Tensor:
        """Return what a network would put out in the place of the scores of a linear model."""
        return scores_BC


class PooledImageTask(PooledTask):
    """Predicts classes or a number for what is seen; which images share a batch does not depend on the device."""

    counted: ClassVar[str] = "patches"  # what a batch has a number of, in words

    def check_sizes(self, recipe: Recipe, prepared: Prepared) -> None:
        """Refuse images of their own sizes that do not fit into a batch; the rules refuse those whose size is known."""
        costs, most = self.feed(recipe, prepared).collator.costs, recipe.data.batch_tokens
        largest = max(int(costs([store], np.arange(len(store)))[0].max()) for store in prepared.train)
        if largest > most:
            raise UserError(
                f"`data.batch_tokens` is {most:,}, but an image in `data.train` has {largest:,} {self.counted}: raise "
                "it, or resize images by `data.images.height` and `data.images.width`."
            )


class SingleImageTask(PooledImageTask):
    """Predicts classes or a number for each image."""

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if all images have one size."""
        encoder, size = model_of(recipe, ImageModel).encoder, recipe.data.images.size
        if size is None or (isinstance(encoder, ImageTransformerTable) and not encoder.fused):
            return None
        return StaticShape.rows(recipe.data.batch_tokens, Run(1, *size).tokens(encoder.patch, encoder.class_token))


class PooledTextTask(PooledTask):
    """Predicts classes or a number for a text or a pair of texts."""

    arguments = ("< texts.txt", '["..."]')

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model, with second texts if it reads pairs."""
        command, call = super().usage(recipe, folder)
        pairs = command.replace("texts.txt", "pairs.tsv"), call.replace('["..."]', '["..."], ["..."]')
        return pairs if recipe.data.paired else (command, call)

    @abstractmethod
    def linear_loss(self, recipe: Recipe) -> Loss:
        """Return what a linear model of the task minimises."""

    @abstractmethod
    def aims(self, vocabularies: Vocabularies, stores: Sequence[TokenStore], rows: Indices) -> Tensor:
        """Return what a linear model should predict for rows of stores: rows x scores."""

    def set_weights(self, network: nn.Module, recipe: Recipe, prepared: Prepared) -> None:
        """Begin a bag of n-grams with rarities and the solution of a regression, if the recipe sets that."""
        encoder, found = getattr(network, "encoder", None), prepared.vocabularies
        if isinstance(network, PooledNetwork) and isinstance(encoder, NgramBag) and encoder.weights is not None:
            collator, train = collator_of(recipe, len(found.labels)), prepared.train
            loss = self.linear_loss(recipe)
            set_first_weights(network, encoder, collator, train, loss, lambda rows: self.aims(found, train, rows))

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        assert isinstance(recipe.model, TextModel)
        return pooled_shape(recipe.model, recipe.data, precision)

    def predict_by_line(self, bundle: Bundle[Any], prepared: Prepared, rows: Indices) -> tuple[Tensor, str]:
        """Return what a linear model on n-grams predicts for rows of the validation stores, and of what it is."""
        found, train = bundle.vocabularies, prepared.train
        loss = self.linear_loss(bundle.recipe)
        model, sample = fit_stores(train, lambda known: self.aims(found, train, known), loss)
        return model.scores(ngrams_of_rows(prepared.valid, rows)), sample


def _asked_rows(stores: Sequence[TokenStore], asked: Asked) -> Indices:
    count = sum(map(len, stores))
    return spread(asked.most or count, count)
