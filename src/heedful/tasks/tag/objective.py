"""Objectives of taggers: the label of each word, or the labels of a whole sentence by a CRF."""

import torch.nn.functional as F

from heedful.base.packed import IGNORED
from heedful.data.batches.tagged import TaggedBatch
from heedful.models.networks import WordClassifier
from heedful.nn.losses.predictions import ClassPrediction
from heedful.training.objectives import Objective, PredictiveObjective, Sums


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


class LabelSequences(Objective[TaggedBatch]):
    """-log P of the labels of a sentence, by the linear-chain CRF of a tagger      Lample et al. 2016, 2.2"""

    def __call__(self, model: WordClassifier, batch: TaggedBatch) -> Sums:
        """Sum the loss over the sentences of a micro-batch."""
        assert model.chain is not None, "a tagger without a CRF"
        loss = model.chain.loss(model(batch), batch.labels, batch.words)
        return Sums(loss, loss.detach())

    def units(self, batch: TaggedBatch) -> int:
        """Return the number of words."""
        return batch.real_words
