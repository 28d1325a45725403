"""Splits a projection into queries, keys and values per head."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class OwnKeys:
    """Each of H heads has its own queries, keys and values      Vaswani et al. 2017, 3.2.2"""

    heads: int

    def rows(self, width: int) -> tuple[int, int, int]:
        """Return the number of rows that project queries, keys and values to heads of a total width."""
        return width, width, width

    def split_all(self, projected: Float[Tensor, "N F"]) -> tuple[Tensor, ...]:
        """Return queries, keys and values, [N, H, D] each, as views."""
        return split_heads(projected, 3, self.heads)

    def split_memory(self, projected: Float[Tensor, "N F"]) -> tuple[Tensor, ...]:
        """Return keys and values, [N, H, D] each, as views."""
        return split_heads(projected, 2, self.heads)


@dataclass(frozen=True)
class SharedKeys:
    """H heads of queries share G heads of keys and values, H / G each      Ainslie et al. 2023; G = 1: Shazeer 2019

    Keys and values are repeated for all heads right after the projection: kernels, caches and slots are those of H
    heads. The model has fewer weights, but its cache is not smaller.
    """

    heads: int
    groups: int

    def rows(self, width: int) -> tuple[int, int, int]:
        """Return the number of rows that project queries, keys and values to heads of a total width."""
        shared = width // self.heads * self.groups
        return width, shared, shared

    def split_all(self, projected: Float[Tensor, "N F"]) -> tuple[Tensor, ...]:
        """Return queries, keys and values, [N, H, D] each."""
        heads_NXD = projected.unflatten(1, (self.heads + 2 * self.groups, -1))
        queries, memory = heads_NXD.split([self.heads, 2 * self.groups], dim=1)
        return queries, *self._repeat(memory)

    def split_memory(self, projected: Float[Tensor, "N F"]) -> tuple[Tensor, ...]:
        """Return keys and values, [N, H, D] each."""
        return self._repeat(projected.unflatten(1, (2 * self.groups, -1)))

    def _repeat(self, memory_NXD: Float[Tensor, "N X D"]) -> tuple[Tensor, ...]:
        repeated = memory_NXD.repeat_interleave(self.heads // self.groups, dim=1)
        return repeated.unflatten(1, (2, self.heads)).unbind(1)


def head_split(heads: int, key_value_heads: int | None) -> OwnKeys | SharedKeys:
    """Return how a projection is split into heads; without a number of key and value heads, each head has its own."""
    if key_value_heads is None or key_value_heads == heads:
        return OwnKeys(heads)
    if heads % key_value_heads:
        raise ValueError(f"{heads} heads cannot share {key_value_heads} heads of keys and values evenly")
    return SharedKeys(heads, key_value_heads)


def split_heads(projected: Float[Tensor, "N PHD"], parts: int, heads: int) -> tuple[Tensor, ...]:
    """Return the parts of a projection, [N, H, D] each."""
    if projected.requires_grad and projected.is_cuda and not torch.compiler.is_compiling():
        split: tuple[Tensor, ...] = _Split.apply(projected, parts, heads)  # type: ignore[no-untyped-call]
        return split
    return projected.unflatten(1, (parts, heads, -1)).unbind(1)


class _Split(torch.autograd.Function):
    """Splits without a copy, and joins the gradients without one if a kernel wrote them next to each other."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
        return projected.unflatten(1, (parts, heads, -1)).unbind(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        first = gradients[0]
        tokens, heads, width = first.shape
        step = heads * width
        steps = (len(gradients) * step, width, 1)
        if all(
            gradient.stride() == steps
            and gradient.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
            and gradient.storage_offset() == first.storage_offset() + place * step
            for place, gradient in enumerate(gradients)
        ):
            return first.as_strided((tokens, len(gradients) * step), (len(gradients) * step, 1)), None, None
        return torch.stack(gradients, dim=1).flatten(1), None, None
