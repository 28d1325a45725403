"""Splits a projection into queries, keys and values per head."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class OwnKeys:
    """Each of H heads has its own queries, keys and values, all of one width      Vaswani et al. 2017, 3.2.2"""

    heads: int

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


@dataclass(frozen=True)
class UnequalWidths:
    """Queries and keys of width D, values of another width U, in G heads that H heads of queries share evenly."""

    heads: int
    groups: int
    key_width: int

    def split_all(self, projected: Float[Tensor, "N F"]) -> tuple[Tensor, ...]:
        """Return queries and keys, [N, H, D] each, and values, [N, H, U]."""
        queries = self.heads * self.key_width
        return projected[:, :queries].unflatten(1, (self.heads, -1)), *self.split_memory(projected[:, queries:])

    def split_memory(self, projected: Float[Tensor, "N F"]) -> tuple[Tensor, ...]:
        """Return keys, [N, H, D], and values, [N, H, U]."""
        keys = self.groups * self.key_width
        parts = (part.unflatten(1, (self.groups, -1)) for part in (projected[:, :keys], projected[:, keys:]))
        return tuple(part.repeat_interleave(self.heads // self.groups, dim=1) for part in parts)


@dataclass(frozen=True)
class Heads:
    """The number of heads and their widths: H heads of queries, G of keys and values.

    D, the width of queries and keys, and U, that of values, are free of the width of the model: table 3, rows B, of
    Vaswani et al. 2017. Caches hold keys and values of the greater width, filled with zeros.
    """

    heads: int
    groups: int
    key_width: int
    value_width: int

    @classmethod
    def of(
        cls,
        width: int,
        heads: int,
        key_value_heads: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
    ) -> "Heads":
        """Return the heads of a model; by default each has its own keys and values, and an even share of the width."""
        groups = heads if key_value_heads is None else key_value_heads
        if heads % groups:
            raise ValueError(f"{heads} heads cannot share {groups} heads of keys and values evenly")
        return cls(heads, groups, key_width or width // heads, value_width or width // heads)

    @property
    def rows(self) -> tuple[int, int, int]:
        """The number of rows that project queries, keys and values."""
        return self.heads * self.key_width, self.groups * self.key_width, self.groups * self.value_width

    @property
    def outputs(self) -> int:
        """The width of what all heads read."""
        return self.heads * self.value_width

    @property
    def cached_width(self) -> int:
        """The width of a head's keys and values in a cache, which holds both."""
        return max(self.key_width, self.value_width)

    def split(self) -> OwnKeys | SharedKeys | UnequalWidths:
        """Return how a projection is split into heads."""
        if self.key_width != self.value_width:
            return UnequalWidths(self.heads, self.groups, self.key_width)
        return OwnKeys(self.heads) if self.groups == self.heads else SharedKeys(self.heads, self.groups)

    def cached(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Return keys and values as a cache holds them."""
        return tuple(widen(part, self.cached_width) for part in parts)

    def narrowed(self, cache_2BHSC: Float[Tensor, "2 B H S C"]) -> tuple[Tensor, Tensor]:
        """Return views of the keys and of the values in a cache, without the columns that fill it."""
        return narrow(cache_2BHSC[0], self.key_width), narrow(cache_2BHSC[1], self.value_width)

    def stretched(self, q_RHD: Float[Tensor, "R H D"]) -> Float[Tensor, "R H C"]:
        """Return queries for kernels over cached keys, which divide scores by the root of a cached key's width."""
        return stretch(q_RHD, self.cached_width)


def widen(x: Float[Tensor, "*rows D"], width: int) -> Float[Tensor, "*rows W"]:
    """Append columns of zeros up to this width: they change no product with another vector widened so."""
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def narrow(x: Float[Tensor, "*rows D"], width: int) -> Float[Tensor, "*rows W"]:
    """Return the first columns, as a view."""
    return x if x.shape[-1] == width else x[..., :width]


def stretch(q_NHD: Float[Tensor, "N H D"], width: int) -> Float[Tensor, "N H W"]:
    """Return queries of this width whose products with widened keys, over its root, are the scaled dot products."""
    own = q_NHD.shape[-1]
    return q_NHD if own == width else widen(q_NHD * math.sqrt(width / own), width)


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
