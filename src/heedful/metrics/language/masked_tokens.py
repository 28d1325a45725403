"""Scores of a masked language model: its predictions of masked tokens and of next sentences."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from heedful.base.packed import IGNORED
from heedful.data.batches.masked import MaskedBatch
from heedful.metrics.language.perplexity import Likelihood
from heedful.models.networks import MaskedModel
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy


@dataclass(frozen=True)
class MaskedPredictions:
    """Sums over masked tokens and over pairs of texts."""

    likelihood: Likelihood
    right: int  # masked tokens whose most likely prediction is correct
    pairs: int
    right_pairs: int

    @property
    def accuracy(self) -> float:
        """The fraction of masked tokens that were predicted correctly."""
        return self.right / max(1, self.likelihood.tokens)

    @property
    def next_accuracy(self) -> float | None:
        """The fraction of correct next-sentence predictions; None if there were none."""
        return self.right_pairs / self.pairs if self.pairs else None


@torch.inference_mode()
def predict_masked(model: MaskedModel, batches: Iterable[MaskedBatch]) -> MaskedPredictions:
    """Evaluate the predictions on all batches. The model must be in `eval` mode."""
    device, output = next(model.parameters()).device, model.head.output
    total = torch.zeros((), dtype=torch.float64, device=device)
    right, right_pairs = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))
    masked = pairs = 0
    for batch in batches:
        placed = batch.to(device)
        encoded = model(placed.text)
        states_PE = model.masked(encoded, placed.places)
        _, summed = smoothed_cross_entropy(states_PE, output.weight, output.bias, placed.labels, smoothing=0.0)
        total += summed
        right += (output(states_PE).argmax(dim=1) == placed.labels).sum()
        masked += batch.masked
        if model.follows is not None:
            asked = placed.next != IGNORED
            right_pairs += ((model.following(encoded).argmax(dim=1) == placed.next) & asked).sum()
            pairs += batch.sentences
    return MaskedPredictions(Likelihood(float(total), masked), int(right), pairs, int(right_pairs))
