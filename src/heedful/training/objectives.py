"""Training objectives: a loss summed over countable units, which the trainer divides by the units of a whole update."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.batches.masked import MaskedBatch
from heedful.data.batches.questions import QuestionBatch
from heedful.data.batches.tagged import TaggedBatch
from heedful.data.batches.texts import TextBatch
from heedful.data.pictures.batches import PictureBatch
from heedful.data.tokenize.tokenizer import PAD
from heedful.models.networks import Classifier, LanguageEncoder, MaskedModel, SpanReader, WordClassifier
from heedful.models.protocols import NextTokenModel
from heedful.nn.cross_entropy import smoothed_cross_entropy
from heedful.nn.decoding.spans import log_ends, possible_of_rows
from heedful.nn.layers.pictures.augmentation import Augmentation
from heedful.nn.per_sentence import ends_of_sentences
from heedful.packed import IGNORED, Packed

BatchType = TypeVar("BatchType", contravariant=True)


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


class NextToken:
    """Label-smoothed cross-entropy of each target token, given the tokens before it and the source, if there is one."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: NextTokenModel[Any], batch: LabelledBatch) -> Sums:
        """Sum over the target tokens of a micro-batch."""
        states, output = model.next_token_states(batch), model.output
        return Sums(*smoothed_cross_entropy(states, output.weight, output.bias, batch.labels, self.smoothing))

    def units(self, batch: LabelledBatch) -> int:
        """The target tokens, end markers included."""
        return batch.target_tokens

    def tokens(self, batch: LabelledBatch) -> int:
        """The target tokens, end markers included."""
        return batch.target_tokens


class OneLabel:
    """Label-smoothed cross-entropy of the class of each text; classes can have weights."""

    def __init__(self, smoothing: float, weights_C: Float[Tensor, "C"] | None = None) -> None:
        self.smoothing, self.weights_C = smoothing, weights_C

    def __call__(self, model: Classifier, batch: TextBatch) -> Sums:
        """Sum the loss over the texts of a micro-batch."""
        return self.of_scores(model(batch.text), batch.labels)

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


class PictureClasses:
    """Label-smoothed cross-entropy of the class of each picture, after random changes of the pictures."""

    def __init__(
        self, smoothing: float, weights_C: Float[Tensor, "C"] | None, augmentation: Augmentation, classes: int
    ) -> None:
        self.of_classes, self.augmentation, self.classes = OneLabel(smoothing, weights_C), augmentation, classes

    def __call__(self, model: Classifier, batch: PictureBatch) -> Sums:
        """Sum the loss over the pictures of a micro-batch."""
        pictures, labels = self.augmentation(batch.pictures, batch.labels, self.classes)
        return self.of_classes.of_scores(model(pictures), labels)

    def units(self, batch: PictureBatch) -> int:
        """Return the number of pictures."""
        return batch.sentences

    def tokens(self, batch: PictureBatch) -> int:
        """Return the number of patches, including class tokens."""
        return batch.tokens


class WithLanguageLoss:
    """L = L_classes + factor * L_language, for a classifier whose encoder is a language model

    Radford et al. 2018, 3.2. L_language is the mean cross-entropy of the next token, over all tokens of the texts of a
    micro-batch and the `</s>` after each of them.
    """

    def __init__(self, classes: OneLabel, factor: float) -> None:
        self.classes, self.factor = classes, factor
        self.units, self.tokens = classes.units, classes.tokens

    def __call__(self, model: Classifier, batch: TextBatch) -> Sums:
        """Sum the loss over the texts of a micro-batch."""
        assert isinstance(model.encoder, LanguageEncoder)
        assert isinstance(batch.text, Packed)
        encoded, output = model.encoder(batch.text), model.encoder.decoder.output
        classes = self.classes.of_scores(model.scores(encoded), batch.labels)
        labels_N = next_tokens(batch.text)
        language, _ = smoothed_cross_entropy(encoded.values, output.weight, output.bias, labels_N, 0.0)
        # Counted on the device, as a graph that was captured with one batch is replayed with others.
        texts = (batch.labels.reshape(len(batch.labels), -1)[:, 0] != IGNORED).sum()
        tokens = (labels_N != IGNORED).sum().clamp(min=1)
        return Sums(classes.loss + self.factor * language * texts / tokens, classes.likelihood)


def next_tokens(text: Packed) -> Int[Tensor, "N"]:
    """Return the token after each token of a text; IGNORED after the last one, and for what fills up a batch."""
    next_N = text.values.roll(-1)
    return next_N.masked_fill(ends_of_sentences(text.layout) | (next_N == PAD), IGNORED)


class WordLabels:
    """Label-smoothed cross-entropy of the label of each word."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: WordClassifier, batch: TaggedBatch) -> Sums:
        """Sum the loss over the words of a micro-batch."""
        scores_WC = model(batch).float()
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


class LabelSequences(WordLabels):
    """-log P of the labels of a sentence, by the linear-chain CRF of a tagger      Lample et al. 2016, 2.2"""

    def __init__(self) -> None:
        super().__init__(0.0)

    def __call__(self, model: WordClassifier, batch: TaggedBatch) -> Sums:
        """Sum the loss over the sentences of a micro-batch."""
        assert model.chain is not None, "a tagger without a CRF"
        loss = model.chain.loss(model(batch), batch.labels, batch.words)
        return Sums(loss, loss.detach())


class AnswerEnds:
    """Cross-entropy of the first and of the last token of an answer, their mean for each window

    Devlin et al. 2019, 4.2. With smoothing s, a share s of the target is spread over all possible tokens.
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def __call__(self, model: SpanReader, batch: QuestionBatch) -> Sums:
        """Sum the loss over the windows of a micro-batch."""
        layout, loss, likelihood = batch.text.layout, [], []
        ends = log_ends(model(batch.text), batch.possible, layout)
        for logs_BL, places_B in zip(ends, (batch.starts, batch.ends), strict=True):
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


class MaskedTokens:
    """Cross-entropy of each masked token, and of whether the second text follows the first      Devlin et al. 2019, A.2

    loss = mean over masked tokens + mean over pairs, both scaled to a sum over masked tokens, which the trainer divides
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def __call__(self, model: MaskedModel, batch: MaskedBatch) -> Sums:
        """Sum the loss over the masked tokens of a micro-batch."""
        encoded, output = model(batch.text), model.head.output
        states_PE = model.masked(encoded, batch.places)
        loss, likelihood = smoothed_cross_entropy(states_PE, output.weight, output.bias, batch.labels, self.smoothing)
        if model.follows is not None:
            scores_B2 = model.following(encoded).float()
            of_pairs = F.cross_entropy(scores_B2, batch.next, ignore_index=IGNORED, reduction="sum")
            loss = loss + batch.balance * of_pairs
        return Sums(loss, likelihood)

    def units(self, batch: MaskedBatch) -> int:
        """Return the number of masked tokens."""
        return batch.masked

    def tokens(self, batch: MaskedBatch) -> int:
        """Return the number of tokens, including markers but not padding."""
        return batch.tokens
