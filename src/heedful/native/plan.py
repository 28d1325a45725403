"""The blocks of Transformers as lists of operations that the kernels run in one call.

Buffers of rows:

    X      the vectors between sublayers, in place     WIDE   queries, keys and values; the inner layer of a network
    H      what a norm before a sublayer returns       READ   what attention read
    GATED  the inner layer of a gated network          OUT    logits
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.models.transformer.blocks import EncoderBlock
from heedful.native.int8 import padded
from heedful.native.library import ACTIVATIONS, ATTEND, GATE, NORM, PACKED, ROTATE, STEP, STORE, Op
from heedful.native.weights import NotNativeError, Packed, Weights, weights_of
from heedful.nn.attention.backends import automatic, explicit
from heedful.nn.attention.heads import Heads
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.attention.relative_positions import PositionScheme, Rotary
from heedful.nn.attention.restricted import Restricted
from heedful.nn.layers.feedforward import FeedForward, SwiGLU
from heedful.nn.layers.linear import LayerNorm, RMSNorm
from heedful.nn.layers.residual import Residual

X, H, WIDE, READ, GATED, OUT = range(6)
_VECTOR: Final = 16  # widths of heads are multiples of it
_APART: Final = 16  # between rows: those whose distance is a power of two are in each other's way in a cache


class Shape:
    """Heads, with the widths that kernels use."""

    def __init__(self, heads: Heads) -> None:
        self.of = heads
        self.key, self.value = (-(-width // _VECTOR) * _VECTOR for width in (heads.key_width, heads.value_width))
        self.keys, self.values = heads.groups * self.key, heads.groups * self.value  # numbers of one row of a memory

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes as an operation has them."""
        return {"heads": self.of.heads, "groups": self.of.groups, "key": self.key, "value": self.value}

    def widen(self, project: nn.Module, queries: bool, memory: bool) -> Packed:
        """Give each head's rows of a projection their padded width: zeros."""
        weights = weights_of(project)
        if (self.key, self.value) == (self.of.key_width, self.of.value_width):
            return weights.packed()
        parts = [(self.of.heads, self.of.key_width, self.key)] if queries else []
        if memory:
            parts += [(self.of.groups, self.of.key_width, self.key), (self.of.groups, self.of.value_width, self.value)]
        sizes = [count * width for count, width, _ in parts]

        def each(x: Tensor) -> Tensor:
            wide = [
                F.pad(part.unflatten(0, (count, width)).movedim(1, -1), (0, more - width)).movedim(-1, 1).flatten(0, 1)
                for part, (count, width, more) in zip(x.split(sizes), parts, strict=True)
            ]
            return torch.cat(wide)

        return weights.rows(each).packed()

    def widen_read(self, w_NK: Tensor) -> Tensor:
        """Give each head's columns of an output map their padded width."""
        w_NHU = w_NK.unflatten(1, (self.of.heads, self.of.value_width))
        return F.pad(w_NHU, (0, self.value - self.of.value_width)).flatten(1)


_LAYOUT: Final = ("kind", "in_", "out", "n", "k", "mode", "heads", "groups", "key", "value")  # of an operation


class Plan:
    """Operations in order, and the tensors whose addresses they hold."""

    def __init__(self, width: int) -> None:
        self.width = width  # of the vectors between sublayers, unpadded
        self.ops: list[Op] = []
        self.widths = [padded(width), padded(width), 0, 0, 0, 0]
        self.product = padded(width)  # the widest input of a product
        self.rotary: Rotary | None = None  # positions in queries and keys, of all layers the same
        self._frozen: Any = None
        self._kept: list[Tensor | Packed] = []

    def stride(self, buffer: int) -> int:
        """The numbers between two rows of a buffer."""
        return self.widths[buffer] and self.widths[buffer] + _APART

    def array(self) -> Any:
        """Return a copy of the operations as C reads them, for one call: threads may share a plan."""
        if self._frozen is None:
            self._frozen = (Op * len(self.ops))(*self.ops)
        return (Op * len(self.ops)).from_buffer_copy(self._frozen)

    @cached_property
    def layout(self) -> tuple[int, ...]:
        """What tells which columns of its buffers are written: plans with the same may use the same buffers.

        Columns that fill up a width are read as zeros, and another plan may have written to them.
        """
        sizes = (getattr(op, name) for op in self.ops for name in _LAYOUT)
        return (*self.widths, self.product, *sizes)

    def give_waves(self, ops: Any, bound: int) -> Tensor | None:
        """Put sines and cosines of all positions below a bound into operations; they must live until these ran."""
        if self.rotary is None:
            return None
        table: Tensor = self.rotary.waves(torch.arange(bound), bound).float().contiguous()
        for op in ops:
            if op.kind == ROTATE:
                op.waves = table.data_ptr()
        return table

    def linear(
        self, source: int, target: int, packed: Packed, act: str = "none", skip: int = -1, factor: float = 1.0
    ) -> None:
        """Add a product."""
        self._kept.append(packed)
        n, k = packed.sizes
        self.widths[target] = max(self.widths[target], n)
        self.widths[source] = max(self.widths[source], padded(k))
        self.product = max(self.product, padded(k))
        self.ops.append(packed.op(source, target, ACTIVATIONS[act], skip, factor))

    def norm(self, source: int, target: int, norm: nn.Module) -> None:
        """Add a norm over the width of the model; nothing where there is none and nothing moves."""
        if isinstance(norm, nn.Identity):
            return
        if not isinstance(norm, LayerNorm | RMSNorm):
            raise NotNativeError(f"{type(norm).__name__} is not among their norms")
        stride = padded(self.width)
        weight = torch.ones(self.width) if norm.weight is None else norm.weight.detach().float()
        bias = getattr(norm, "bias", None)
        added = torch.zeros(self.width) if bias is None else bias.detach().float()
        gain, added = (F.pad(x, (0, stride - self.width)).contiguous() for x in (weight, added))
        self._kept += [gain, added]
        eps = norm.eps if norm.eps is not None else torch.finfo(torch.float32).eps
        squares = isinstance(norm, RMSNorm)
        op = Op(kind=NORM, in_=source, out=target, n=self.width, k=stride, mode=squares, eps=eps)
        op.scale, op.bias = gain.data_ptr(), added.data_ptr()
        self.ops.append(op)

    def residual(self, residual: Residual, sublayer: Callable[[int, "Ending"], None]) -> None:
        """Add a sublayer inside its residual: `sublayer(source, ending)` ends with a product that `ending` adds."""
        source = X
        if not isinstance(residual.before, nn.Identity):
            self.norm(X, H, residual.before)
            source = H
        sublayer(source, Ending(self, residual))
        self.norm(X, X, residual.after)

    def attention(self, shape: Shape, mode: int, **own: Any) -> Op:
        """Add attention from WIDE to READ, and return it."""
        of = shape.of
        width = padded(of.heads * shape.value)
        if self.widths[READ] not in (0, width):  # its last columns must stay 0
            raise NotNativeError("its kinds of attention have different widths")
        self.widths[READ] = width
        op = Op(kind=ATTEND, in_=WIDE, out=READ, mode=mode, radius=-1, **shape.sizes, **own)
        op.factor = 1 / math.sqrt(of.key_width)
        self.ops.append(op)
        return op

    def self_attention(self, attention: SelfAttention, source: int, mode: int, stores: bool = False) -> list[Op]:
        """Add the projection of a self-attention, its positions and itself; return what needs a cache."""
        check_attention(attention)
        shape = Shape(attention.shape)
        self.linear(source, WIDE, shape.widen(attention.project, queries=True, memory=True))
        if isinstance(attention.positions, Rotary):
            self.rotary = attention.positions
            self.ops.append(Op(kind=ROTATE, in_=WIDE, mode=mode, rotated=attention.shape.key_width, **shape.sizes))
        caches = []
        if stores:
            self.ops.append(Op(kind=STORE, in_=WIDE, **shape.sizes))
            caches.append(self.ops[-1])
        op = self.attention(shape, mode, causal=attention.causal)
        op.radius = -1 if attention.radius is None else attention.radius
        if mode == STEP:
            caches.append(op)
        for cached in caches:
            cached.key_row, cached.value_row = shape.keys, shape.values
        return caches

    def network(self, network: nn.Module, source: int, ending: "Ending") -> None:
        """Add a position-wise network."""
        if type(network) is FeedForward:
            self.linear(source, WIDE, weights_of(network.into).packed(), network.name)
            ending.add(WIDE, weights_of(network.out))
        elif type(network) is SwiGLU:
            inner = network.into.out_features // 2

            def apart(x: Tensor) -> Tensor:
                more = *((0, 0) * (x.dim() - 1)), 0, padded(inner) - inner
                return torch.cat([F.pad(half, more) for half in x.chunk(2)])

            self.linear(source, WIDE, weights_of(network.into).rows(apart).packed())
            self.widths[GATED] = max(self.widths[GATED], padded(inner))
            self.ops.append(Op(kind=GATE, in_=WIDE, out=GATED, n=padded(inner), act=ACTIVATIONS["silu"]))
            ending.add(GATED, weights_of(network.out))
        else:
            raise NotNativeError(f"{type(network).__name__} is not among their networks")

    def finish(self) -> "Plan":
        """Tell packed attention how far rows of queries, keys and values are apart."""
        for op in self.ops:
            if op.kind == ATTEND and op.mode == PACKED:
                op.key_row = op.value_row = self.stride(WIDE)
        return self


class Ending:
    """The last product of a sublayer, which adds what the residual skips."""

    def __init__(self, plan: Plan, residual: Residual) -> None:
        self._plan, self._residual = plan, residual

    def add(self, source: int, weights: Weights) -> None:
        """X = s X + a (source W^T + b)"""
        weight = self._residual.weight
        factor = 1.0 if weight is None else float(weight.detach())
        self._plan.linear(source, X, weights.packed(factor), skip=X, factor=float(self._residual.skip))


def encoder_block(block: EncoderBlock, width: int) -> Plan:
    """Return the plan of a block over packed sentences, or raise `NotNativeError`."""
    plan = Plan(width)
    attention = block.attention
    if not isinstance(attention, SelfAttention):
        raise NotNativeError(f"{type(attention).__name__} is not among their kinds of attention")

    def attend(source: int, ending: Ending) -> None:
        plan.self_attention(attention, source, PACKED)
        read_attention(ending, attention)

    plan.residual(block.around_attention, attend)
    plan.residual(block.around_network, lambda source, ending: plan.network(block.network, source, ending))
    return plan.finish()


def check_attention(attention: nn.Module) -> None:
    """Refuse what is not the scaled dot product and a softmax, with positions in queries and keys."""
    if type(attention) not in (SelfAttention, CrossAttention):
        raise NotNativeError(f"{type(attention).__name__} is not among their kinds of attention")
    assert isinstance(attention, SelfAttention | CrossAttention)
    backend = attention._backend
    restricted = isinstance(backend, Restricted) and not backend.as_written
    if not (backend is automatic or backend is explicit or restricted):
        raise NotNativeError("this attention has a backend of its own")
    if isinstance(attention, SelfAttention) and type(attention.positions) not in (PositionScheme, Rotary):
        raise NotNativeError("its attention adds to scores by position")


def read_attention(ending: Ending, attention: SelfAttention | CrossAttention) -> None:
    """Add the output map of an attention."""
    output, shape = weights_of(attention.output), Shape(attention.shape)
    ending.add(READ, output if shape.value == attention.shape.value_width else output.columns(shape.widen_read))
