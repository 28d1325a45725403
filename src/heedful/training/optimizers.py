"""Optimizers by name, with PyTorch's fused kernels."""

from collections.abc import Mapping
from typing import Any, assert_never

import torch
from torch import nn

from heedful.config.train import Adam, AdamW, AnyOptimizer

Scales = Mapping[nn.Parameter, float]  # factors of the schedule's learning rate; 1 for parameters that are not in it


def build_optimizer(config: AnyOptimizer, model: nn.Module, scales: Scales | None = None) -> torch.optim.Optimizer:
    """Build the optimizer of a model. The trainer sets the learning rate before every update.

    Each group of parameters has its factor of that rate as `rate_scale`.
    """
    betas = (config.beta1, config.beta2)
    match config:
        case Adam():
            groups = _groups(list(model.parameters()), scales or {})
            return torch.optim.Adam(groups, lr=0.0, betas=betas, eps=config.epsilon, fused=True)
        case AdamW():
            matrices = [p for p in model.parameters() if p.ndim > 1]
            vectors = [p for p in model.parameters() if p.ndim <= 1]
            groups = [
                *_groups(matrices, scales or {}, weight_decay=config.weight_decay),
                *_groups(vectors, scales or {}, weight_decay=0.0),
            ]
            return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=config.epsilon, fused=True)
        case _:
            assert_never(config)


def _groups(parameters: list[nn.Parameter], scales: Scales, **options: float) -> list[dict[str, Any]]:
    """Return one group per factor of the learning rate, the largest first."""
    shares = sorted({scales.get(parameter, 1.0) for parameter in parameters}, reverse=True) or [1.0]
    return [
        {"params": [p for p in parameters if scales.get(p, 1.0) == share], "rate_scale": share, **options}
        for share in shares
    ]
