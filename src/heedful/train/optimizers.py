"""Optimizers by name, with the fused kernels of PyTorch."""

from typing import assert_never

import torch
from torch import nn

from heedful.config.schema import Adam, AdamW, AnyOptimizer


def build_optimizer(config: AnyOptimizer, model: nn.Module) -> torch.optim.Optimizer:
    """Make the optimizer of a model. The learning rate is set before every update by the trainer."""
    betas = (config.beta1, config.beta2)
    match config:
        case Adam():
            parameters = [{"params": list(model.parameters())}]
            return torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=config.epsilon, fused=True)
        case AdamW():
            groups = [
                {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": config.weight_decay},
                {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
            ]
            return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=config.epsilon, fused=True)
        case _:
            assert_never(config)
