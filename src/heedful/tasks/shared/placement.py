"""The device and the precision of a loaded model."""

import re
from dataclasses import dataclass

import torch
from torch import nn

from heedful.base.devices import PRECISIONS, choose_device, has_bfloat16
from heedful.base.errors import UserError
from heedful.models.networks import set_precision, store_in


@dataclass(frozen=True)
class Placement:
    """A device, and the data type of weights and activations on it."""

    device: torch.device
    precision: torch.dtype

    @classmethod
    def of(cls, device: str, precision: str) -> "Placement":
        """Parse a user's choice. `auto` is a GPU where there is one, in bfloat16, or a CPU in float32."""
        if not (isinstance(device, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?", device)):
            raise UserError(f"`{device}` is not a device: use `auto`, `cpu`, `cuda` or `cuda:1`.")
        if precision not in ("auto", *PRECISIONS):
            raise UserError(f"`{precision}` is not a precision: use `auto`, `float32` or `bfloat16`.")
        place = choose_device(device)
        if precision != "auto":
            return cls(place, PRECISIONS[precision])
        return cls(place, torch.bfloat16 if place.type == "cuda" and has_bfloat16(place) else torch.float32)

    def put(self, network: nn.Module) -> None:
        """Move a network to the device, in the precision."""
        network.to(self.device)
        store_in(network, self.precision)
        set_precision(network, self.precision)
