"""Tensors of a file by name: each is taken once and checked, and what nobody takes is refused in the end."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from heedful.errors import UserError


class CheckedWeights:
    """Tensors to take, as float32."""

    def __init__(self, where: Path, tensors: dict[str, Tensor]) -> None:
        self._where, self._left = where, dict(tensors)

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor of this shape; refuses a file that has none."""
        return self.take_one([name], *shape)

    def take_one(self, names: Sequence[str], *shape: int) -> Tensor:
        """The tensor that has all these names, of which a file may keep any."""
        found = [self._left.pop(name) for name in names if name in self._left]
        if not found:
            raise UserError(f"{self._where} lacks `{names[0]}`, which {self._config} asks for: copy the model again.")
        return self._checked(names[0], found[0], shape)

    def take_or(self, default: Tensor, name: str) -> Tensor:
        """A tensor of the default's shape, or the default where the file has none."""
        if name not in self._left:
            return default
        return self._checked(name, self._left.pop(name), tuple(default.shape))

    def refuse_rest(self) -> None:
        """Refuse a file with tensors that nobody took."""
        for name in sorted(self._left):
            raise UserError(
                f"{self._where} has `{name}`, which has no place in the model that {self._config} describes."
            )

    @property
    def _config(self) -> Path:
        return self._where.with_name("config.json")

    def _checked(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        if tuple(tensor.shape) != shape:
            raise UserError(
                f"{self._where}: `{name}` is {tuple(tensor.shape)}, but must be {shape}, as {self._config} says."
            )
        if not tensor.isfinite().all():
            raise UserError(f"{self._where}: `{name}` has values that are not finite: copy the model again.")
        return tensor.float()
