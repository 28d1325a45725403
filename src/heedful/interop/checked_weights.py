"""Tensors of a file by name: each is taken once and checked, and a file with tensors left over is refused."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from heedful.base.errors import UserError


class CheckedWeights:
    """The tensors of a file that were not taken yet; `take` returns them as float32."""

    def __init__(self, where: Path, tensors: dict[str, Tensor]) -> None:
        self._where, self._left = where, dict(tensors)

    def take(self, name: str, *shape: int) -> Tensor:
        """Take a tensor of this shape, or refuse a file without it."""
        return self.take_one([name], *shape)

    def take_one(self, names: Sequence[str], *shape: int) -> Tensor:
        """Take a tensor that a file may store under any of these names."""
        found = [self._left.pop(name) for name in names if name in self._left]
        if not found:
            raise UserError(f"{self._where} lacks `{names[0]}`, which {self._config} requires: copy the model again.")
        return self._checked(names[0], found[0], shape)

    def take_or(self, default: Tensor, name: str) -> Tensor:
        """Take a tensor of the default's shape, or return the default if the file does not have it."""
        if name not in self._left:
            return default
        return self._checked(name, self._left.pop(name), tuple(default.shape))

    def refuse_rest(self) -> None:
        """Refuse a file with tensors that were not taken."""
        for name in sorted(self._left):
            raise UserError(
                f"{self._where} has `{name}`, which does not belong to the model that {self._config} describes."
            )

    @property
    def _config(self) -> Path:
        return self._where.with_name("config.json")

    def _checked(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        if tuple(tensor.shape) != shape:
            raise UserError(
                f"{self._where}: `{name}` has shape {tuple(tensor.shape)}, but {self._config} requires {shape}."
            )
        if not tensor.isfinite().all():
            raise UserError(f"{self._where}: `{name}` has values that are not finite: copy the model again.")
        return tensor.float()
