"""Optimizers by name, with PyTorch's fused kernels where it has them."""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import torch
from torch import nn

from heedful.base.errors import UserError
from heedful.config.train.optimizers import Adagrad, Adam, AdamW, AnyOptimizer, Muon, RAdam, RmsProp, Sgd
from heedful.nn.layers.embedding import outer_parameters
from heedful.training.optimizers.moving_average import AVERAGE
from heedful.training.optimizers.muon import MuonWithAdamW

Scales = Mapping[nn.Parameter, float]  # factors of the schedule's learning rate; 1 for parameters that are not in it


def build_optimizer(
    config: AnyOptimizer, model: nn.Module, scales: Scales | None = None, average: float | None = None
) -> torch.optim.Optimizer:
    """Build the optimizer of a model. The trainer sets the learning rate before every update.

    Each group of parameters has its factor of that rate as `rate_scale`, and the decay of a moving average of its
    weights as `average`, if there is one: see `MovingAverage`.
    """
    optimizer = _build(config, model, scales)
    for group in optimizer.param_groups if average is not None else ():
        group[AVERAGE] = average
    return optimizer


def _build(config: AnyOptimizer, model: nn.Module, scales: Scales | None) -> torch.optim.Optimizer:
    rates = scales or {}
    everything = _groups(list(model.parameters()), rates)
    match config:
        case Adam():
            return torch.optim.Adam(everything, lr=0.0, **_adam(config), fused=True)
        case AdamW():
            groups = _decaying(model, rates, config.weight_decay, config.decay_embeddings)
            return torch.optim.AdamW(groups, lr=0.0, **_adam(config), fused=True)
        case RAdam():
            groups = _decaying(model, rates, config.weight_decay, config.decay_embeddings)
            return torch.optim.RAdam(groups, lr=0.0, **_adam(config), decoupled_weight_decay=True)
        case Sgd():
            groups = _decaying(model, rates, config.weight_decay, config.decay_embeddings)
            return torch.optim.SGD(groups, lr=0.0, momentum=config.momentum, nesterov=config.nesterov, fused=True)
        case Adagrad():
            return torch.optim.Adagrad(everything, lr=0.0, initial_accumulator_value=config.initial, eps=config.epsilon)
        case RmsProp():
            return torch.optim.RMSprop(
                everything, lr=0.0, alpha=config.decay, momentum=config.momentum, eps=config.epsilon
            )
        case Muon():
            return _muon(config, model, rates)
        case _:
            assert_never(config)


def scales_gradients(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the step itself divides by `grad_scale` and skips the update if `found_inf` is 1, on the device."""
    return bool(optimizer.defaults.get("fused"))


def _adam(config: Adam | AdamW | RAdam | Muon) -> dict[str, Any]:
    return {"betas": (config.beta1, config.beta2), "eps": config.epsilon}


def _muon(config: Muon, model: nn.Module, scales: Scales) -> MuonWithAdamW:
    outer = outer_parameters(model)
    hidden = [p for p in model.parameters() if p.ndim == 2 and p not in outer]
    others = _without(model.parameters(), hidden)
    if not hidden:
        raise UserError('`train.optimizer` is "muon", but this model has no hidden matrices: use "adamw".')
    return MuonWithAdamW(
        torch.optim.Muon(
            _groups(hidden, scales, weight_decay=config.weight_decay),
            lr=0.0,
            momentum=config.momentum,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(_groups(others, scales), lr=0.0, **_adam(config), weight_decay=0.0, fused=True),
    )


def _decaying(model: nn.Module, scales: Scales, decay: float, embeddings: bool) -> list[dict[str, Any]]:
    """Return the groups of what decays, matrices with or without embeddings, and then of what does not."""
    outer = set() if embeddings else outer_parameters(model)
    matrices = [p for p in model.parameters() if p.ndim > 1 and p not in outer]
    rest = _without(model.parameters(), matrices)
    return [*_groups(matrices, scales, weight_decay=decay), *_groups(rest, scales, weight_decay=0.0)]


def _without(parameters: Iterable[nn.Parameter], others: list[nn.Parameter]) -> list[nn.Parameter]:
    left_out = set(others)
    return [parameter for parameter in parameters if parameter not in left_out]


def _groups(parameters: list[nn.Parameter], scales: Scales, **options: float) -> list[dict[str, Any]]:
    """Return one group per factor of the learning rate, the largest first."""
    shares = sorted({scales.get(parameter, 1.0) for parameter in parameters}, reverse=True) or [1.0]
    return [
        {"params": [p for p in parameters if scales.get(p, 1.0) == share], "rate_scale": share, **options}
        for share in shares
    ]
