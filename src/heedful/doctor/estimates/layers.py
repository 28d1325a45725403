"""What a layer costs, counted while it runs: the columns of table 1 in Vaswani et al. 2017.

    cost         multiplications of one layer, over a sequence of n vectors of width d
    in sequence  matrix products, attention among them, on the longest chain from the layer's input: each waits for the
                 one before it
    path         layers until the last output depends on the first input; of a recurrence, steps of one layer

Nothing here is a formula of n and d. Operations are those that torch dispatches for a forward pass on a CPU; restricted
attention, which runs in blocks of tokens there, counts whole blocks. Dependence is tried out: other values in some
positions change the output in others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from heedful.base.packed import Layout
from heedful.nn.attention.backends import PackedHeads, automatic
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.attention.restricted import Restricted
from heedful.nn.layers.convolutions.centred import Convolution, SeparableConvolution
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.stack import CellKind, RecurrentStack

_HEAD: Final = 64  # width of a head
_NARROW: Final = 4  # width of the layers whose dependences are tried out: it does not matter for them


class Layer(Protocol):
    """A layer over packed sequences."""

    def __call__(self, x_NE: Tensor, layout: Layout, /) -> Any:
        """Return the outputs of all tokens; a recurrent layer returns its last states too."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of layers."""

    width: int
    kernel: int = 7
    radius: int = 64


@dataclass(frozen=True)
class LayerKind:
    """A row of the table."""

    name: str
    order: str  # of its cost, in the table's letters
    make: Callable[[Sizes, int], Layer]  # by the index of the layer in a stack
    cell: CellKind | None = None  # of a recurrence


class _AttentionAlone(nn.Module):
    """Attention whose queries, keys and values are its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = _heads(width)

    def forward(self, x_NE: Tensor, layout: Layout) -> Tensor:
        x_NHD = x_NE.unflatten(1, (self.heads, -1))
        return automatic(PackedHeads(x_NHD, x_NHD, x_NHD, layout, layout), False, 0.0).flatten(1)


def _heads(width: int) -> int:
    return width // _HEAD if width % _HEAD == 0 else 1


def _recurrent(name: str, cell: CellKind) -> LayerKind:
    return LayerKind(name, "n d^2", lambda sizes, _: RecurrentStack(cell, sizes.width, sizes.width), cell)


KINDS: Final[Mapping[str, LayerKind]] = {
    "attention_alone": LayerKind("attention alone", "n^2 d", lambda sizes, _: _AttentionAlone(sizes.width)),
    "self_attention": LayerKind(
        "self-attention", "n^2 d + n d^2", lambda sizes, _: SelfAttention(sizes.width, _heads(sizes.width))
    ),
    "restricted": LayerKind(
        "restricted self-attention",
        "r n d + n d^2",
        lambda sizes, _: SelfAttention(sizes.width, _heads(sizes.width), backend=Restricted(sizes.radius)),
    ),
    "rnn_tanh": _recurrent("recurrence (tanh)", "rnn_tanh"),
    "lstm": _recurrent("LSTM", "lstm"),
    "gru": _recurrent("GRU", "gru"),
    "convolution": LayerKind("convolution", "k n d^2", lambda sizes, _: Convolution(sizes.width, sizes.kernel)),
    "dilated": LayerKind(
        "dilated convolution",
        "k n d^2",
        lambda sizes, layer: Convolution(sizes.width, sizes.kernel, dilation=((sizes.kernel + 1) // 2) ** layer),
    ),
    "separable": LayerKind(
        "separable convolution", "k n d + n d^2", lambda sizes, _: SeparableConvolution(sizes.width, sizes.kernel)
    ),
}


# --- cost, and operations in sequence ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """What one forward pass of a layer takes."""

    cost: int
    in_sequence: int


def count_layer(kind: LayerKind, sizes: Sizes, length: int) -> Counts:
    """Run one layer over one sequence, and count."""
    layer = _made(kind, sizes)
    layout = Layout.of([length])
    x = _values(length, sizes.width)
    with torch.no_grad(), _Counter(x) as counter:
        layer(x, layout)
    return Counts(counter.cost, counter.in_sequence)


class _Counter(TorchDispatchMode):
    """Counts what is dispatched while it is entered, and chains of products that begin at an input."""

    def __init__(self, source: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cost, self.in_sequence = 0, 0
        self._depths = {_storage(source): 0}
        self._alive: list[Tensor] = []  # a storage that is freed would lend its number to another one

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        matrix, elements = _products(func, args, made)
        self.cost += matrix + elements
        depth = max((self._depths.get(_storage(one), -1) for one in _tensors(args)), default=-1)
        if depth >= 0:
            depth += matrix > 0
            self.in_sequence = max(self.in_sequence, depth)
            for one in _tensors(made):
                self._alive.append(one)
                self._depths[_storage(one)] = max(depth, self._depths.get(_storage(one), 0))
        return made


def _products(func: Any, args: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Return the multiplications of an operation, in products of matrices and in those of elements."""
    packet, name = func._overloadpacket, func._overloadpacket.__name__
    if name.startswith("_scaled_dot_product"):  # torch has no formula for the kernel of CPUs
        q_BHQD, k_BHKD, v_BHKU = args[:3]
        return q_BHQD.numel() * k_BHKD.shape[2] + q_BHQD.shape[:3].numel() * v_BHKU.shape[2:].numel(), 0
    if packet in flop_registry:
        return flop_registry[packet](*args, out_val=made) // 2, 0
    return 0, made.numel() if name in ("mul", "mul_", "addcmul", "addcmul_") else 0


def _tensors(values: Any) -> Iterator[Tensor]:
    """Yield tensors among arguments or results: by themselves, or in a list of them."""
    for one in (values,) if isinstance(values, Tensor) else values if isinstance(values, list | tuple) else ():
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, list | tuple):
            yield from _tensors(one)


def _storage(values: Tensor) -> int:
    return values.untyped_storage()._cdata


# --- paths ------------------------------------------------------------------------------------------------------------


def path_length(kind: LayerKind, sizes: Sizes, length: int) -> int:
    """Return the number of layers, or of steps of a recurrence, until the last output depends on the first input."""
    narrow = Sizes(_NARROW, sizes.kernel, sizes.radius)
    with torch.no_grad():
        if kind.cell is not None:
            return _steps(cast(RecurrentStack, _made(kind, narrow)), length)
        reached, layers, layout = torch.arange(length) == 0, 0, Layout.of([length])
        while not reached[-1] or not layers:
            layer, x = _made(kind, narrow, layers), _values(length, _NARROW)
            # Values are new in every layer: a change that has passed through many would be lost in rounding.
            other = torch.where(reached.unsqueeze(1), _values(length, _NARROW), x)
            reached = (layer(x, layout) != layer(other, layout)).any(1)
            layers += 1
        return layers


def _steps(stack: RecurrentStack, length: int) -> int:
    """Return the number of steps from the first token to the state of the last one; two rows differ in that token."""
    steps, x_RE = 0, _values(2, _NARROW)
    state = RecurrentState.zeros(x_RE, 1, 2, _NARROW, cell=stack.kind == "lstm")
    for _ in range(length):
        h_RE, state = stack.step(x_RE, state)
        assert not torch.equal(h_RE[0], h_RE[1]), "a state does not depend on the state before it"
        state = RecurrentState.of([torch.randn_like(part) for part in state.parts])
        x_RE, steps = _values(1, _NARROW).expand(2, -1), steps + 1
    return steps


def _made(kind: LayerKind, sizes: Sizes, layer: int = 0) -> Layer:
    return cast(
        Layer, cast(nn.Module, kind.make(sizes, layer)).double().eval()
    )  # torch runs an LSTM in float64 op by op


def _values(length: int, width: int) -> Tensor:
    return torch.randn(length, width, dtype=torch.float64)
