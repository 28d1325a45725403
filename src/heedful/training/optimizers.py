"""Optimizers by name, with PyTorch's fused kernels, and their state by the names of parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, assert_never, cast

import torch
from torch import Tensor, nn

from heedful.config.train.optimizers import Adam, AdamW, AnyOptimizer
from heedful.errors import UserError

_MOMENTS: Final = ("exp_avg", "exp_avg_sq")  # of the parameter's shape and type
_COUNTER: Final = "step"  # one float32

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
    counter = _described(torch.zeros(()))
    expected = {
        f"{owner}.{part}": counter if part == _COUNTER else _described(parameters[indices[owner]])
        for owner in owners
        for part in (*_MOMENTS, _COUNTER)
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


def _described(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"
