"""Optimizers by name, with PyTorch's fused kernels where it has them, and their state by the names of parameters."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, assert_never, cast

import torch
from torch import Tensor, nn

from heedful.config.train.optimizers import Adagrad, Adam, AdamW, AnyOptimizer, Muon, RAdam, RmsProp, Sgd
from heedful.errors import UserError
from heedful.nn.layers.embedding import outer_parameters
from heedful.training.muon import MuonWithAdamW

_COUNTER: Final = "step"  # one float32; all other state has the parameter's shape and type

Scales = Mapping[nn.Parameter, float]  # factors of the schedule's learning rate; 1 for parameters that are not in it


def build_optimizer(config: AnyOptimizer, model: nn.Module, scales: Scales | None = None) -> torch.optim.Optimizer:
    """Build the optimizer of a model. The trainer sets the learning rate before every update.

    Each group of parameters has its factor of that rate as `rate_scale`.
    """
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


# --- state, by parameter name -----------------------------------------------------------------------------------------


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer state as `parameter name.state name`, such as `decoder.output.bias.exp_avg`."""
    names, state = _names_in_order(model, optimizer), optimizer.state_dict()["state"]
    return {
        f"{names[index]}.{part}": tensor.detach().cpu().contiguous()
        for index, tensors in state.items()
        for part, tensor in tensors.items()
    }


def check_optimizer_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], file: Path, way_out: str
) -> None:
    """Refuse the state of other parameters, or state of other parts, shapes or types than the optimizer keeps."""
    indices = _indices(model, optimizer, tensors)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    owners = {key.rpartition(".")[0] for key in tensors}
    if unknown := owners - indices.keys():
        raise UserError(
            f"{file} has the state of `{min(unknown)}`, which is not a parameter of this model: resume with the recipe "
            "and the version of Heedful that wrote it."
        )
    parts = _parts_of_state(optimizer)
    counter = _described(torch.zeros(()))
    expected = {
        f"{owner}.{part}": counter if part == _COUNTER else _described(parameters[indices[owner]])
        for owner in owners
        for part in parts[indices[owner]]
    }
    found = {key: _described(tensor) for key, tensor in tensors.items()}
    for key in sorted(expected.keys() | found.keys()):
        here, must = found.get(key, "missing"), expected.get(key, "absent")
        if here != must:
            raise UserError(f"{file}: `{key}` is {here}, but must be {must}: {way_out}")


def load_optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load optimizer state that `check_optimizer_state` accepts."""
    indices = _indices(model, optimizer, tensors)
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        owner, _, part = key.rpartition(".")
        state.setdefault(indices[owner], {})[part] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _indices(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the number of each parameter by name, or by number for files that earlier versions wrote.

    Those number the parameters in the order of the optimizer's groups.
    """
    indices = {name: index for index, name in enumerate(_names_in_order(model, optimizer))}
    owners = {key.rpartition(".")[0] for key in tensors}
    if all(owner.isdecimal() and owner not in indices for owner in owners):
        return {str(index): index for index in range(len(indices))}
    return indices


def _names_in_order(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Return the name of each parameter in the order in which the optimizer numbers them."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [names[cast(nn.Parameter, parameter)] for group in optimizer.param_groups for parameter in group["params"]]


def _parts_of_state(optimizer: torch.optim.Optimizer) -> list[tuple[str, ...]]:
    """Return the names of what is kept for each parameter, in the order of numbers."""
    return [_parts_of_group(optimizer, group) for group in optimizer.param_groups for _ in group["params"]]


def _parts_of_group(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> tuple[str, ...]:
    momentum = ("momentum_buffer",) if group.get("momentum") else ()
    match optimizer:
        case torch.optim.Adagrad():
            return ("sum", _COUNTER)
        case torch.optim.RMSprop():
            return ("square_avg", *momentum, _COUNTER)
        case torch.optim.SGD():
            return momentum
        case MuonWithAdamW() if "betas" not in group:
            return ("momentum_buffer",)
        case _:
            return ("exp_avg", "exp_avg_sq", _COUNTER)


def _described(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"
