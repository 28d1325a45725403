"""What training a masked language model minimises."""

import torch.nn.functional as F

from heedful.data.masked_feed import MaskedBatch
from heedful.models.families import MaskedModel
from heedful.nn.loss import smoothed_cross_entropy
from heedful.packed import IGNORED
from heedful.train.objectives import Tally


class MaskedTokens:
    """Cross-entropy of each masked token, and of whether the second text follows the first      Devlin et al. 2019, A.2

    loss = mean over masked tokens + mean over pairs, as a sum over masked tokens that the trainer divides.
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def __call__(self, model: MaskedModel, batch: MaskedBatch) -> Tally:
        """Sum over the masked tokens of a micro-batch."""
        encoded, output = model(batch.text), model.head.output
        states_PE = model.masked(encoded, batch.places)
        loss, likelihood = smoothed_cross_entropy(states_PE, output.weight, output.bias, batch.labels, self.smoothing)
        if model.follows is not None:
            scores_B2 = model.following(encoded).float()
            of_pairs = F.cross_entropy(scores_B2, batch.next, ignore_index=IGNORED, reduction="sum")
            loss = loss + batch.balance * of_pairs
        return Tally(loss, likelihood)

    def units(self, batch: MaskedBatch) -> int:
        """The masked tokens."""
        return batch.masked

    def tokens(self, batch: MaskedBatch) -> int:
        """All real tokens, markers included."""
        return batch.tokens
