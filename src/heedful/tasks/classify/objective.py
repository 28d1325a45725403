"""Objectives of classifiers: one class or several, of texts and of images; a language model's loss besides it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.errors import UserError, suggestion
from heedful.base.packed import IGNORED, Packed
from heedful.data.batches.images import ImageBatch, ImageQuestionBatch
from heedful.data.batches.texts import TextBatch
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import counts_of
from heedful.data.tokenize.tokenizer import PAD
from heedful.models.networks import Classifier, LanguageEncoder
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.nn.losses.predictions import ClassPrediction, JointPrediction, PresencePrediction, TokenPrediction
from heedful.nn.per_sentence import ends_of_sentences
from heedful.training.objectives import PredictiveObjective, Sums, token_loss

Change = Callable[[Any], Any]  # of a batch


class OneLabel(PredictiveObjective[Any, Any]):
    """Label-smoothed cross-entropy of the class of each text, image or question; classes can have weights.

    `change` makes random changes to a batch before the network reads it: see `augment_images`.
    """

    def __init__(
        self, smoothing: float, weights_C: Float[Tensor, "C"] | None = None, change: Change = lambda batch: batch
    ) -> None:
        self.smoothing, self.weights_C, self.change = smoothing, weights_C, change

    def draw(self, batch: Any) -> Any:
        """Return the batch after random changes."""
        return self.change(batch)

    def predict(self, model: Any, batch: Any) -> ClassPrediction | PresencePrediction:
        """Predict the class of each row."""
        return self.of_classes(model(batch.inputs), batch.labels)

    def score(self, predicted: ClassPrediction | PresencePrediction, batch: Any) -> Sums:
        """Sum the loss over the rows of a micro-batch."""
        return self.of_scores(predicted.scores_BC, batch.labels)

    def of_classes(
        self, scores: Float[Tensor, "B C"], labels: Int[Tensor, "B"] | Float[Tensor, "B C"]
    ) -> ClassPrediction | PresencePrediction:
        """Return scores of the classes as a prediction; the labels of mixed images are shares of the classes."""
        return ClassPrediction(scores, labels != IGNORED if labels.ndim == 1 else labels.sum(1) > 0)

    def of_scores(self, scores: Float[Tensor, "B C"], labels: Int[Tensor, "B"] | Float[Tensor, "B C"]) -> Sums:
        """Sum the loss over texts with these scores of the classes."""
        scores_BC = scores.float()
        loss = F.cross_entropy(
            scores_BC,
            labels,
            self._weights_on(scores_BC.device),
            ignore_index=IGNORED,
            label_smoothing=self.smoothing,
            reduction="sum",
        )
        likelihood = F.cross_entropy(scores_BC.detach(), labels, ignore_index=IGNORED, reduction="sum")
        return Sums(loss, likelihood)

    def _weights_on(self, device: torch.device) -> Float[Tensor, "C"] | None:
        """Return the weights on a device, where they stay: a copy per step would wait, and could not be recorded."""
        if self.weights_C is not None:
            self.weights_C = self.weights_C.to(device)
        return self.weights_C


class SeveralLabels(OneLabel):
    """Binary cross-entropy of each class, present or absent, summed over the classes of a text

    With smoothing s, the target 1 becomes 1 - s/2, and 0 becomes s/2. The weight of a class multiplies the loss of the
    texts that have it.
    """

    def of_classes(
        self, scores: Float[Tensor, "B C"], labels: Int[Tensor, "B"] | Float[Tensor, "B C"]
    ) -> ClassPrediction | PresencePrediction:
        """Return scores of the classes as a prediction."""
        return PresencePrediction(scores, labels >= 0)

    def of_scores(self, scores: Float[Tensor, "B C"], labels: Int[Tensor, "B"] | Float[Tensor, "B C"]) -> Sums:
        """Sum the loss over the texts, and over their classes."""
        scores_BC, labels_BC = scores.float(), labels
        real_BC = (labels_BC >= 0).to(scores_BC.dtype)
        aims_BC = labels_BC.clamp(min=0)
        smoothed_BC = aims_BC * (1 - self.smoothing) + self.smoothing / 2
        weights_C = self._weights_on(scores_BC.device)
        loss = F.binary_cross_entropy_with_logits(
            scores_BC, smoothed_BC, real_BC, pos_weight=weights_C, reduction="sum"
        )
        likelihood = F.binary_cross_entropy_with_logits(scores_BC.detach(), aims_BC, real_BC, reduction="sum")
        return Sums(loss, likelihood)


def class_weights(
    said: Literal["balanced"] | Mapping[str, float] | None, prepared: Prepared, several: bool, noun: str = "text"
) -> Tensor | None:
    """Return the recipe's class weights, by default 1, or balanced ones.

    balanced: n / (C n_c), or with several labels (n - n_c) / n_c
    """
    labels = prepared.vocabularies.labels
    if said is None:
        return None
    if said == "balanced":
        weighted = [*zip(prepared.train, prepared.weights, strict=True)]
        shown = [weight * counts_of([store], len(labels)) for store, weight in weighted]
        counts = torch.from_numpy(np.sum(shown, axis=0)).float().clamp(min=1)
        rows = sum(weight * len(store) for store, weight in weighted)
        if several:
            return (rows - counts).clamp(min=1) / counts
        return rows / (len(labels) * counts)
    unknown = next((label for label in said if label not in labels), None)
    if unknown is not None:
        raise UserError(
            f"`train.class_weights` names `{unknown}`, but no training {noun} has that label."
            f"{suggestion(unknown, labels)}"
        )
    return torch.tensor([said.get(label, 1.0) for label in labels])


def augment_images(augmentation: Augmentation, classes: int) -> Change:
    """Return what changes the images of a batch at random, and their labels where images are mixed."""

    def change(batch: ImageBatch) -> ImageBatch:
        images, labels = augmentation(batch.inputs, batch.labels, classes)
        return replace(batch, inputs=images, labels=labels)

    return change


def move_asked_images(augmentation: Augmentation) -> Change:
    """Return what changes the images of a batch of questions at random; they are never mixed."""

    def change(batch: ImageQuestionBatch) -> ImageQuestionBatch:
        moved = augmentation.move(batch.inputs.images)
        return replace(batch, inputs=replace(batch.inputs, images=moved))

    return change


class WithLanguageLoss(PredictiveObjective[TextBatch, JointPrediction]):
    """L = L_classes + factor * L_language, for a classifier whose encoder is a language model

    Radford et al. 2018, 3.2. L_language is the mean cross-entropy of the next token, over all tokens of the texts of a
    micro-batch and the `</s>` after each of them.
    """

    def __init__(self, classes: OneLabel, factor: float) -> None:
        self.classes, self.factor = classes, factor

    def predict(self, model: Classifier, batch: TextBatch) -> JointPrediction:
        """Predict the class of each text, and its tokens."""
        assert isinstance(model.encoder, LanguageEncoder)
        assert isinstance(batch.inputs, Packed)
        encoded, labels_N = model.encoder(batch.inputs), next_tokens(batch.inputs)
        classes = self.classes.of_classes(model.scores(encoded), batch.labels)
        tokens = TokenPrediction(encoded.values, model.encoder.decoder.output, labels_N)
        texts, count = self._counts(batch, labels_N)
        return JointPrediction([(1.0, classes), (self.factor * texts / count, tokens)])

    def score(self, predicted: JointPrediction, batch: TextBatch) -> Sums:
        """Sum the loss over the texts of a micro-batch."""
        (_, of_classes), (_, tokens) = predicted.parts
        classes, language = self.classes.score(of_classes, batch), token_loss(tokens, 0.0).loss
        texts, count = self._counts(batch, tokens.labels_N)
        return Sums(classes.loss + self.factor * language * texts / count, classes.likelihood)

    def _counts(self, batch: TextBatch, labels_N: Int[Tensor, "N"]) -> tuple[Tensor, Tensor]:
        """Count texts and tokens on the device: a graph that was captured with one batch is replayed with others."""
        texts = (batch.labels.reshape(len(batch.labels), -1)[:, 0] != IGNORED).sum()
        return texts, (labels_N != IGNORED).sum().clamp(min=1)


def next_tokens(text: Packed) -> Int[Tensor, "N"]:
    """Return the token after each token of a text; IGNORED after the last one, and for what fills up a batch."""
    next_N = text.values.roll(-1)
    return next_N.masked_fill(ends_of_sentences(text.layout) | (next_N == PAD), IGNORED)
