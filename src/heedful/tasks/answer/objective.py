"""The objective of readers: where an answer starts, and where it ends."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from heedful.base.packed import IGNORED
from heedful.data.batches.questions import QuestionBatch
from heedful.models.networks import SpanReader
from heedful.nn.decoding.spans import log_ends, possible_of_rows
from heedful.nn.losses.predictions import ClassPrediction, JointPrediction
from heedful.training.objectives import PredictiveObjective, Sums


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
