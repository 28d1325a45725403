"""The state of an optimizer, by the names of parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.training.optimizers.moving_average import AVERAGE
from heedful.training.optimizers.muon import MuonWithAdamW

_MOMENTUM: Final = frozenset({"exp_avg", "momentum_buffer"})  # names by which PyTorch's optimizers know it
_COUNTER: Final = "step"  # one float32; all other state has the parameter's shape and type


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer state as `parameter name.state name`, such as `decoder.output.bias.exp_avg`."""
    names, state = _names_in_order(model, optimizer), optimizer.state_dict()["state"]
    return {
        f"{names[index]}.{part}": tensor.detach().cpu().contiguous()
        for index, tensors in state.items()
        for part, tensor in tensors.items()
    }


def forget_momentum(optimizer: torch.optim.Optimizer) -> None:
    """Set the mean of gradients of every weight to 0, in place: recorded steps read it at its address."""
    for tensors in optimizer.state_dict()["state"].values():
        for part in _MOMENTUM & tensors.keys():
            if tensors[part] is not None:
                tensors[part].zero_()


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
    parts = [
        (*_parts_of_group(optimizer, group), *((AVERAGE,) if AVERAGE in group else ()))
        for group in optimizer.param_groups
        for _ in group["params"]
    ]
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
