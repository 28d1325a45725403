"""The objective of masked language models: masked tokens, and whether the second text follows the first."""

import torch.nn.functional as F

from heedful.base.packed import IGNORED
from heedful.data.batches.masked import MaskedBatch
from heedful.models.networks import MaskedModel
from heedful.nn.losses.predictions import ClassPrediction, JointPrediction, TokenPrediction
from heedful.training.objectives import PredictiveObjective, Sums, token_loss


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
