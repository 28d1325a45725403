"""Forced decoding: how probable given targets are, token by token.

log P(y | x) = sum_t log P(y_t | y_<t, x),  for several models with their mean probability
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.batches.pairs import PairBatch
from heedful.models.protocols import NextTokenModel
from heedful.nn.losses.cross_entropy import label_log_probabilities


@torch.inference_mode()
def token_log_probabilities(
    models: Sequence[NextTokenModel[PairBatch]], batches: Iterable[PairBatch]
) -> Iterator[list[list[float]]]:
    """Yield for each batch the log probabilities of each target's tokens, `</s>` last. Put models into `eval` mode."""
    device = next(models[0].parameters()).device
    for batch in batches:
        placed = batch.to(device)
        each = torch.stack([_labels(model, placed) for model in models])
        mean_N = each.double().logsumexp(0) - math.log(len(models))
        yield [part.tolist() for part in mean_N.split(batch.target.layout.lengths.tolist())[: batch.sentences]]


def _labels(model: NextTokenModel[PairBatch], batch: PairBatch) -> Float[Tensor, "N"]:
    output = model.output
    return label_log_probabilities(model.next_token_states(batch), output.weight, output.bias, batch.labels)
