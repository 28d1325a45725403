"""The mean of several models' weights: one model, often better than each      Vaswani et al. 2017, 6.1"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


def mean_weights(models: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean, weight by weight, in the weights' own type; sums are float64, and one model is in memory at a time."""
    sums: dict[str, Tensor] = {}
    types: dict[str, torch.dtype] = {}
    count = 0
    for weights in models:
        count += 1
        for name, tensor in weights.items():
            types[name] = tensor.dtype
            sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
    return {name: (total / count).to(types[name]) for name, total in sums.items()}
