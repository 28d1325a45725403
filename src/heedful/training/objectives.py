"""Training objectives: a loss summed over countable units, which the trainer divides by the units of a whole update."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import IGNORED
from heedful.data.batches.masked import MaskedBatch
from heedful.data.batches.questions import QuestionBatch
from heedful.data.batches.tagged import TaggedBatch
from heedful.data.batches.texts import TextBatch
from heedful.data.images.batches import ImageBatch
from heedful.models.networks import Classifier, MaskedModel, SpanReader, WordClassifier
from heedful.models.protocols import NextTokenModel
from heedful.nn.decoding.spans import log_ends, possible_of_rows
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.nn.losses.predictions import (
    ClassPrediction,
    JointPrediction,
    Prediction,
    PresencePrediction,
    TokenPrediction,
)

BatchType = TypeVar("BatchType", contravariant=True)
Inputs = TypeVar("Inputs")
Predicted = TypeVar("Predicted", bound=Prediction)


@dataclass(frozen=True, eq=False)
class Sums:
    """The loss, which has gradients, and the negative log-likelihood, for perplexity, summed over one micro-batch."""

    loss: Float[Tensor, ""]
    likelihood: Float[Tensor, ""]


class Objective(Protocol[BatchType]):
    """Computes the loss of a model on a micro-batch.

    One that carries a state from batch to batch is a `StatefulObjective` too.
    """

    def __call__(self, model: Any, batch: BatchType) -> Sums:
        """Return the summed loss. An objective knows which models it is for; the training loop does not."""
        ...

    def units(self, batch: BatchType) -> int:
        """Return the number of units in the sums, without waiting for the device."""
        ...

    def tokens(self, batch: BatchType) -> int:
        """Return the number of tokens by which speed is measured."""
        ...


@runtime_checkable
class StatefulObjective(Protocol):
    """An objective that carries a state from one batch to the next, which checkpoints store."""

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the state as tensors by name; empty if there is none."""
        ...

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore a state that `state_dict` returned."""
        ...


class PredictiveObjective(ABC, Generic[Inputs, Predicted]):
    """An objective in two steps, what the network predicts and its loss, so that predictions can be compared."""

    def draw(self, batch: Inputs) -> Inputs:
        """Return the batch after the random changes that all predictions to compare have in common."""
        return batch

    @abstractmethod
    def predict(self, model: Any, batch: Inputs) -> Predicted:
        """Run the network."""

    @abstractmethod
    def score(self, predicted: Predicted, batch: Inputs) -> Sums:
        """Sum the loss over the units of a micro-batch."""

    @abstractmethod
    def units(self, batch: Inputs) -> int:
        """Return the number of units in the sums, without waiting for the device."""

    @abstractmethod
    def tokens(self, batch: Inputs) -> int:
        """Return the number of tokens by which speed is measured."""

    def __call__(self, model: Any, batch: Inputs) -> Sums:
        """Sum the loss over the units of a micro-batch."""
        drawn = self.draw(batch)
        return self.score(self.predict(model, drawn), drawn)


class LabelledBatch(Protocol):
    """A batch with a label for each target token."""

    @property
    def labels(self) -> Int[Tensor, "N"]:
        """The tokens to predict; IGNORED where a batch is filled up."""
        ...

    @property
    def target_tokens(self) -> int:
        """The number of labels that count."""
        ...


class NextToken(PredictiveObjective[LabelledBatch, TokenPrediction]):
    """Label-smoothed cross-entropy of each target token, given the tokens before it and the source, if there is one."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def predict(self, model: NextTokenModel[Any], batch: LabelledBatch) -> TokenPrediction:
        """Predict every target token."""
        return TokenPrediction(model.next_token_states(batch), model.output, batch.labels)

    def score(self, predicted: TokenPrediction, batch: LabelledBatch) -> Sums:
        """Sum over the target tokens of a micro-batch."""
        return token_loss(predicted, self.smoothing)

    def units(self, batch: LabelledBatch) -> int:
        """The target tokens, end markers included."""
        return batch.target_tokens

    def tokens(self, batch: LabelledBatch) -> int:
        """The target tokens, end markers included."""
        return batch.target_tokens


def token_loss(predicted: TokenPrediction, smoothing: float) -> Sums:
    """Return the label-smoothed cross-entropy of predicted tokens."""
    output = predicted.output
    return Sums(*smoothed_cross_entropy(predicted.states_NE, output.weight, output.bias, predicted.labels_N, smoothing))


class OneLabel(PredictiveObjective[TextBatch, Any]):
    """Label-smoothed cross-entropy of the class of each text; classes can have weights."""

    def __init__(self, smoothing: float, weights_C: Float[Tensor, "C"] | None = None) -> None:
        self.smoothing, self.weights_C = smoothing, weights_C

    def predict(self, model: Classifier, batch: TextBatch) -> Any:
        """Predict the class of each text."""
        return self.of_classes(model(batch.text), batch.labels)

    def score(self, predicted: Any, batch: TextBatch) -> Sums:
        """Sum the loss over the texts of a micro-batch."""
        return self.of_scores(predicted.scores_BC, batch.labels)

    def of_classes(
        self, scores: Float[Tensor, "B C"], labels: Int[Tensor, "B"] | Float[Tensor, "B C"]
    ) -> ClassPrediction | PresencePrediction:
        """Return scores of the classes as a prediction."""
        return ClassPrediction(scores, labels != IGNORED)

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

    def units(self, batch: TextBatch) -> int:
        """Return the number of texts."""
        return batch.sentences

    def tokens(self, batch: TextBatch) -> int:
        """Return the number of tokens in the texts, including markers."""
        return batch.tokens

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


class ImageClasses(PredictiveObjective[ImageBatch, ClassPrediction | PresencePrediction]):
    """Label-smoothed cross-entropy of the class of each image, or of several, after random changes of the images.

    With `several`, each class is present or absent: see `SeveralLabels`.
    """

    def __init__(
        self,
        smoothing: float,
        weights_C: Float[Tensor, "C"] | None,
        augmentation: Augmentation,
        classes: int,
        several: bool = False,
    ) -> None:
        self.of_classes = (SeveralLabels if several else OneLabel)(smoothing, weights_C)
        self.augmentation, self.classes, self.several = augmentation, classes, several

    def draw(self, batch: ImageBatch) -> ImageBatch:
        """Change the images, and their labels where images are mixed."""
        images, labels = self.augmentation(batch.images, batch.labels, self.classes)
        return replace(batch, images=images, labels=labels)

    def predict(self, model: Classifier, batch: ImageBatch) -> ClassPrediction | PresencePrediction:
        """Predict the classes of each image."""
        labels = batch.labels
        if self.several:
            return self.of_classes.of_classes(model(batch.images), labels)
        real_B = labels != IGNORED if labels.ndim == 1 else labels.sum(1) > 0  # shares of classes, of mixed images
        return ClassPrediction(model(batch.images), real_B)

    def score(self, predicted: ClassPrediction | PresencePrediction, batch: ImageBatch) -> Sums:
        """Sum the loss over the images of a micro-batch."""
        return self.of_classes.of_scores(predicted.scores_BC, batch.labels)

    def units(self, batch: ImageBatch) -> int:
        """Return the number of images."""
        return batch.sentences

    def tokens(self, batch: ImageBatch) -> int:
        """Return the number of patches, including class tokens."""
        return batch.tokens


class Captions(NextToken):
    """Label-smoothed cross-entropy of each token of a caption, after random changes of the images."""

    def __init__(self, smoothing: float, augmentation: Augmentation) -> None:
        super().__init__(smoothing)
        self.augmentation = augmentation

    def draw(self, batch: Any) -> Any:
        """Change the images."""
        return replace(batch, images=self.augmentation.move(batch.images))


class WordLabels(PredictiveObjective[TaggedBatch, ClassPrediction]):
    """Label-smoothed cross-entropy of the label of each word."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def predict(self, model: WordClassifier, batch: TaggedBatch) -> ClassPrediction:
        """Predict the label of each word."""
        return ClassPrediction(model(batch), batch.labels != IGNORED)

    def score(self, predicted: ClassPrediction, batch: TaggedBatch) -> Sums:
        """Sum the loss over the words of a micro-batch."""
        scores_WC = predicted.scores_BC.float()
        loss = F.cross_entropy(
            scores_WC, batch.labels, ignore_index=IGNORED, label_smoothing=self.smoothing, reduction="sum"
        )
        likelihood = F.cross_entropy(scores_WC.detach(), batch.labels, ignore_index=IGNORED, reduction="sum")
        return Sums(loss, likelihood)

    def units(self, batch: TaggedBatch) -> int:
        """Return the number of words."""
        return batch.real_words

    def tokens(self, batch: TaggedBatch) -> int:
        """Return the number of tokens in the sentences, including markers."""
        return batch.tokens


class LabelSequences:
    """-log P of the labels of a sentence, by the linear-chain CRF of a tagger      Lample et al. 2016, 2.2"""

    def __call__(self, model: WordClassifier, batch: TaggedBatch) -> Sums:
        """Sum the loss over the sentences of a micro-batch."""
        assert model.chain is not None, "a tagger without a CRF"
        loss = model.chain.loss(model(batch), batch.labels, batch.words)
        return Sums(loss, loss.detach())

    def units(self, batch: TaggedBatch) -> int:
        """Return the number of words."""
        return batch.real_words

    def tokens(self, batch: TaggedBatch) -> int:
        """Return the number of tokens in the sentences, including markers."""
        return batch.tokens


class AnswerEnds(PredictiveObjective[QuestionBatch, JointPrediction]):
    """Cross-entropy of the first and of the last token of an answer, their mean for each window

    Devlin et al. 2019, 4.2. With smoothing s, a share s of the target is spread over all possible tokens.
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def predict(self, model: SpanReader, batch: QuestionBatch) -> JointPrediction:
        """Predict the two ends of each answer."""
        logs = log_ends(model(batch.text), batch.possible, batch.text.layout)
        return JointPrediction([(0.5, ClassPrediction(logs_BL, batch.starts != IGNORED)) for logs_BL in logs])

    def score(self, predicted: JointPrediction, batch: QuestionBatch) -> Sums:
        """Sum the loss over the windows of a micro-batch."""
        loss, likelihood = [], []
        for (_, end), places_B in zip(predicted.parts, (batch.starts, batch.ends), strict=True):
            logs_BL = end.scores_BC
            exact = F.nll_loss(logs_BL, places_B, ignore_index=IGNORED, reduction="sum")
            loss.append(exact + self.smoothing * (self._spread(logs_BL, batch) - exact) if self.smoothing else exact)
            likelihood.append(exact.detach())
        return Sums((loss[0] + loss[1]) / 2, (likelihood[0] + likelihood[1]) / 2)

    def _spread(self, logs_BL: Float[Tensor, "B L"], batch: QuestionBatch) -> Float[Tensor, ""]:
        """Sum over windows the mean of -log P over their possible tokens."""
        possible_BL = possible_of_rows(batch.possible, batch.text.layout)
        shares_BL = possible_BL / possible_BL.sum(1, keepdim=True).clamp(min=1)
        return -(logs_BL.masked_fill(~possible_BL, 0) * shares_BL).sum()

    def units(self, batch: QuestionBatch) -> int:
        """Return the number of windows."""
        return batch.sentences

    def tokens(self, batch: QuestionBatch) -> int:
        """Return the number of tokens, including markers."""
        return batch.tokens


class MaskedTokens(PredictiveObjective[MaskedBatch, JointPrediction]):
    """Cross-entropy of each masked token, and of whether the second text follows the first      Devlin et al. 2019, A.2

    loss = mean over masked tokens + mean over pairs, both scaled to a sum over masked tokens, which the trainer divides
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def predict(self, model: MaskedModel, batch: MaskedBatch) -> JointPrediction:
        """Predict the masked tokens, and whether texts follow each other."""
        encoded = model(batch.text)
        tokens = TokenPrediction(model.masked(encoded, batch.places), model.head.output, batch.labels)
        if model.follows is None:
            return JointPrediction([(1.0, tokens)])
        pairs = ClassPrediction(model.following(encoded), batch.next != IGNORED)
        return JointPrediction([(1.0, tokens), (batch.balance, pairs)])

    def score(self, predicted: JointPrediction, batch: MaskedBatch) -> Sums:
        """Sum the loss over the masked tokens of a micro-batch."""
        (_, tokens), *others = predicted.parts
        sums = token_loss(tokens, self.smoothing)
        for balance, pairs in others:
            scores_B2 = pairs.scores_BC.float()
            of_pairs = F.cross_entropy(scores_B2, batch.next, ignore_index=IGNORED, reduction="sum")
            sums = Sums(sums.loss + balance * of_pairs, sums.likelihood)
        return sums

    def units(self, batch: MaskedBatch) -> int:
        """Return the number of masked tokens."""
        return batch.masked

    def tokens(self, batch: MaskedBatch) -> int:
        """Return the number of tokens, including markers but not padding."""
        return batch.tokens
