"""Batches as dataclasses of tensors: copied to a device, to page-locked memory, or over another batch."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from heedful.base.packed import Images, Layout, Nested, Packed


class Movable:
    """What every batch can do, with any fields: tensors, packed values, layouts, and plain numbers."""

    def to(self, device: torch.device, non_blocking: bool = False) -> Self:
        """Copy to a device."""
        return _mapped(self, lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Copy to page-locked memory, from which a GPU fetches while it computes."""
        return _mapped(self, Tensor.pin_memory)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return a copy with every tensor changed."""
        return _mapped(self, change)

    def copy_(self, other: Self) -> None:
        """Take over the tensors of another batch of the same shape; plain numbers stay."""
        for mine, theirs in zip(_tensors(self), _tensors(other), strict=True):
            mine.copy_(theirs, non_blocking=True)
        self.forget()

    def forget(self) -> None:
        """Forget what was computed from the tensors, so that it is computed anew where it is needed next."""
        for layout in _layouts(self):
            layout.forget()


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    match value:
        case Tensor():
            return change(value)
        case Movable() | Packed() | Layout() | Nested() | Images():
            parts = {field.name: _mapped(getattr(value, field.name), change) for field in fields(value)}  # type: ignore[arg-type]
            return replace(value, **parts)  # type: ignore[type-var]
        case _:
            return value


def _tensors(value: Any) -> Iterator[Tensor]:
    match value:
        case Tensor():
            yield value
        case Movable() | Packed() | Layout() | Nested() | Images():
            for field in fields(value):  # type: ignore[arg-type]
                yield from _tensors(getattr(value, field.name))


def _layouts(value: Any) -> Iterator[Layout]:
    match value:
        case Layout():
            yield value
        case Movable() | Packed() | Nested() | Images():
            for field in fields(value):  # type: ignore[arg-type]
                yield from _layouts(getattr(value, field.name))
