"""Linear maps with int8 weights.

    y = (q_x . q_w) s_x s_w + b      q = round(x / s),  s = max |x| / 127: one s per row of x and per output of W

Products and sums of q are whole numbers, so that the kernels and PyTorch find the same. Vectors are quantized row by
row: a row does not depend on its neighbours. Weights are stored as kernels read them: in blocks of 32 outputs, four
inputs at a time, 128 added, and filled up with zeros to multiples of 64.
"""

import ctypes
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int8, UInt8
from torch import Tensor, nn

from heedful.native.large_pages import move_to_large_pages
from heedful.native.library import LINEAR, Frame, Library, Op, library
from heedful.nn.layers.embedding import Embedding, MixedEmbedding, Output
from heedful.nn.layers.linear import Linear

GRANULE: Final = 64  # widths of buffers and of stored weights are multiples of it
APART: Final = 64  # between rows of what is quantized, as `kernels.c` has it
_BLOCK: Final = 32  # outputs of a block
_AT_ONCE: Final = 4  # inputs that an instruction multiplies and adds
_EXACT: Final = 8  # low bits of a scale that are 0, so that 127 times it is exact


class Quantized(NamedTuple):
    """A matrix in int8, with one scale per row: row n is q[n] * scale[n]."""

    q_NK: Int8[Tensor, "N K"]
    scale_N: Float[Tensor, "N"]

    def floats(self) -> Float[Tensor, "N K"]:
        """Return the matrix in float32."""
        return self.q_NK.float() * self.scale_N.unsqueeze(1)


def quantize(matrix_NK: Float[Tensor, "N K"]) -> Quantized:
    """Quantize the rows of a matrix. Quantizing what was quantized changes nothing."""
    greatest_N = matrix_NK.detach().float().abs().amax(1) / 127
    # Rounded up to 16 significant bits: 127 scales are then a float32, from which the same scale follows.
    mask = (1 << _EXACT) - 1
    scale_N = ((greatest_N.view(torch.int32) + mask) & ~mask).view(torch.float32)
    q_NK = (matrix_NK.detach().float() / scale_N.where(scale_N > 0, 1).unsqueeze(1)).round_().clamp_(-127, 127)
    return Quantized(q_NK.to(torch.int8), scale_N)


def padded(size: int) -> int:
    """Return the width of a buffer that holds so many numbers."""
    return -(-size // GRANULE) * GRANULE


class Packed8(NamedTuple):
    """A linear map as kernels read it."""

    w: UInt8[Tensor, "blocks quads 32 4"]
    scale: Float[Tensor, "n"]
    bias: Float[Tensor, "n"]

    @classmethod
    def of(cls, quantized: Quantized, bias: Float[Tensor, "N"] | None, factor: float = 1.0) -> "Packed8":
        """Pack a matrix and its bias, both multiplied by a factor."""
        rows, columns = quantized.q_NK.shape
        more = padded(rows) - rows
        q = F.pad(quantized.q_NK, (0, padded(columns) - columns, 0, more)).to(torch.int16) + 128
        w = q.to(torch.uint8).unflatten(0, (-1, _BLOCK)).unflatten(2, (-1, _AT_ONCE)).transpose(1, 2).contiguous()
        zeros = quantized.scale_N.new_zeros(rows)
        b = zeros if bias is None else bias.detach().float()
        return cls(w, F.pad(quantized.scale_N * factor, (0, more)), F.pad(b * factor, (0, more)))

    @property
    def sizes(self) -> tuple[int, int]:
        """The padded numbers of outputs and of inputs."""
        return self.w.shape[0] * _BLOCK, self.w.shape[1] * _AT_ONCE

    def unpacked(self, rows: int, columns: int) -> Int8[Tensor, "N K"]:
        """Return the weights without their padding."""
        q_NK = self.w.transpose(1, 2).reshape(self.sizes).to(torch.int16) - 128
        return q_NK[:rows, :columns].to(torch.int8)

    def select(self, outputs_U: Int[Tensor, "U"]) -> "Packed8":
        """Return the map to some of the outputs, in their order."""
        quads_BQ32 = self.w.view(torch.int32).squeeze(3)
        more = padded(len(outputs_U)) - len(outputs_U)
        wanted = F.pad(outputs_U, (0, more))  # what fills up is output 0, which no one reads
        chosen_UQ = quads_BQ32[wanted // _BLOCK, :, wanted % _BLOCK]
        chosen_BQ32 = chosen_UQ.unflatten(0, (-1, _BLOCK)).transpose(1, 2).contiguous()
        return Packed8(chosen_BQ32.unsqueeze(3).view(torch.uint8), self.scale[wanted], self.bias[wanted])

    def op(self, source: int, target: int, act: int = 0, skip: int = -1, factor: float = 1.0) -> Op:
        """Return the product from one buffer to another."""
        n, k = self.sizes
        return Op(
            kind=LINEAR, in_=source, out=target, skip=skip, n=n, k=k, act=act, factor=factor,
            w=self.w.data_ptr(), scale=self.scale.data_ptr(), bias=self.bias.data_ptr(),
        )  # fmt: skip

    def product(self, kernels: Library, x_MK: Float[Tensor, "M K"]) -> Float[Tensor, "M n"]:
        """Return the padded product with some vectors."""
        rows, (n, k) = len(x_MK), self.sizes
        x = F.pad(x_MK.float(), (0, k - x_MK.shape[1])).contiguous()
        y, memory, frame = torch.empty(rows, n), Rows(rows, k), Frame(rows=rows, beams=1)
        memory.give_to(frame)
        frame.buffer[0], frame.stride[0], frame.buffer[1], frame.stride[1] = x.data_ptr(), k, y.data_ptr(), n
        kernels.run((Op * 1)(self.op(0, 1)), frame)
        return y


class Rows:
    """Memory in which kernels quantize rows."""

    def __init__(self, rows: int, width: int) -> None:
        self.q = torch.empty(-(-rows // 32) * 32, width + APART, dtype=torch.int8)  # tiles read 32 rows at a time
        self.scale, self.sum = torch.empty(rows), torch.empty(rows, dtype=torch.int32)

    def give_to(self, frame: Frame) -> None:
        """Put the addresses into a frame."""
        frame.q, frame.row_scale, frame.row_sum = self.q.data_ptr(), self.scale.data_ptr(), self.sum.data_ptr()


class Int8Linear(nn.Module):
    """y = x W^T + b with W in int8. Values are float32."""

    def __init__(self, weight: Float[Tensor, "N K"], bias: Float[Tensor, "N"] | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.packed = Packed8.of(quantize(weight), bias)
        self.bias = None if bias is None else nn.Parameter(bias.detach().float(), requires_grad=False)

    @property
    def quantized(self) -> Quantized:
        """The weights."""
        return Quantized(
            self.packed.unpacked(self.out_features, self.in_features), self.packed.scale[: self.out_features]
        )

    def select(self, outputs_U: Int[Tensor, "U"]) -> "Int8Linear":
        """Return the map to some of the outputs, in their order: for these, the same numbers."""
        made = Int8Linear.__new__(Int8Linear)
        nn.Module.__init__(made)
        made.out_features, made.in_features = len(outputs_U), self.in_features
        made.packed = self.packed.select(outputs_U)
        made.bias = None if self.bias is None else nn.Parameter(self.bias[outputs_U], requires_grad=False)
        return made

    @property
    def weight(self) -> Float[Tensor, "N K"]:
        """The matrix in float32, made anew, for what reads it without applying the map."""
        return self.quantized.floats()

    @property
    def size(self) -> int:
        """The number of weights in int8."""
        return self.out_features * self.in_features

    def forward(self, x: Float[Tensor, "*any K"]) -> Float[Tensor, "*any N"]:
        """Apply the map."""
        if torch.is_grad_enabled() and x.requires_grad:
            through: Tensor = _StraightThrough.apply(x, self)  # type: ignore[no-untyped-call]
            return through
        return self.apply_to(x)

    def apply_to(self, x: Float[Tensor, "*any K"]) -> Float[Tensor, "*any N"]:
        """Apply the map, without a gradient."""
        x_MK = x.detach().reshape(-1, self.in_features).float()
        kernels = library()
        y_MN = self._by_equation(x_MK) if kernels is None else self._by_kernels(kernels, x_MK)
        return y_MN.reshape(*x.shape[:-1], self.out_features).to(x.dtype)

    def _by_kernels(self, kernels: Library, x_MK: Float[Tensor, "M K"]) -> Float[Tensor, "M N"]:
        return self.packed.product(kernels, x_MK)[:, : self.out_features]

    def _by_equation(self, x_MK: Float[Tensor, "M K"]) -> Float[Tensor, "M N"]:
        """Compute the same in PyTorch: sums of at most 2^53 are exact in float64."""
        greatest_M1 = x_MK.abs().amax(1, keepdim=True)
        # Not `127 / greatest`, which PyTorch computes as 127 times a rounded reciprocal.
        rate_M1 = torch.full_like(greatest_M1, 127).div(greatest_M1).where(greatest_M1 > 0, 0)
        q_MK = (x_MK * rate_M1).round()
        q_NK, scale_N = self.quantized
        products_MN = (q_MK.double() @ q_NK.T.double()).float()
        y_MN = products_MN * (greatest_M1 / 127 * scale_N)
        return y_MN if self.bias is None else y_MN + self.bias


class _StraightThrough(torch.autograd.Function):
    """dL/dx = dL/dy W: the gradient of the map as if nothing were rounded      Bengio et al. 2013"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, linear: Int8Linear) -> Tensor:
        """Apply the map."""
        ctx.linear = linear
        return linear.apply_to(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        """Return the gradient of the input."""
        return gradients[0] @ ctx.linear.weight.to(gradients[0].dtype), None


class Int8Output(Output):
    """logits = x W^T + b with W in int8. `weight` stays in float32 for embeddings that share it, and for losses."""

    def __init__(self, output: Output, linear: Int8Linear | None = None) -> None:
        super().__init__(output.weight, output.bias)
        self.map = linear or Int8Linear(output.weight, output.bias)

    def forward(self, x_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N V"]:
        """Score every word of the vocabulary."""
        logits_NV: Tensor = self.map(x_NE)
        return logits_NV

    def select(self, words_U: Int[Tensor, "U"]) -> "Int8Output":
        """Return an output layer that scores these words only, in their order."""
        return _Selected(self.map.select(words_U))


class _Selected(Int8Output):
    """Some words of an output layer. What looks for their floats, which a search does not, waits for them."""

    def __init__(self, linear: Int8Linear) -> None:
        nn.Module.__init__(self)
        self.map, self.bias = linear, linear.bias

    @property
    def weight(self) -> Float[Tensor, "U E"]:  # type: ignore[override]
        """The matrix in float32, made anew."""
        return self.map.weight


def int8_weights(network: nn.Module) -> dict[str, nn.Parameter]:
    """Return the matrices that `to_int8` rounds by name: of linear maps, outputs, embeddings and recurrent cells."""
    chosen = {id(matrix) for module in network.modules() for matrix in _matrices(module)}
    return {name: weight for name, weight in network.named_parameters() if id(weight) in chosen}


def _matrices(module: nn.Module) -> Iterator[Tensor]:
    if type(module) is Linear or isinstance(module, Output | Embedding):
        yield module.weight
    if isinstance(module, MixedEmbedding):
        yield from module.others
    if isinstance(module, nn.RNNBase):
        yield from (weight for weight in module.parameters(recurse=False) if weight.dim() == 2)  # not biases


def to_int8(network: nn.Module) -> None:
    """Replace all linear maps and output layers of a network on a CPU, in place.

    Embeddings and recurrent cells compute in float32, with the values that their matrices have when they are quantized:
    a network is the same whether it was quantized on disk or when it was loaded.
    """
    rounded: set[int] = set()
    for module in list(network.modules()):
        for matrix in () if type(module) is Linear or isinstance(module, Int8Output) else _matrices(module):
            if id(matrix) not in rounded:
                matrix.data = quantize(matrix).floats()
                rounded.add(id(matrix))
    made: dict[nn.Module, nn.Module] = {}  # what several modules share, they still share
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is Linear:
                made[child] = made.get(child) or Int8Linear(child.weight, child.bias)
            elif type(child) is Output:
                made[child] = made.get(child) or Int8Output(child)
            if child in made:
                setattr(parent, name, made[child].train(child.training))
    maps = dict.fromkeys(module for module in network.modules() if isinstance(module, Int8Linear))
    move_to_large_pages([linear.packed.w for linear in maps])  # in the order in which a step reads them


def count_parameters(network: nn.Module) -> int:
    """Return the number of a network's parameters, whatever they are stored in."""
    count = sum(parameter.numel() for parameter in network.parameters())
    for module in network.modules():
        if isinstance(module, Int8Linear):
            count += module.size
        elif isinstance(module, Int8Output):  # its map has a copy of its weights
            count -= module.map.size + (0 if module.map.bias is None else module.map.bias.numel())
    return count


def is_int8(network: nn.Module) -> bool:
    """Whether a network has linear maps in int8."""
    return any(isinstance(module, Int8Linear) for module in network.modules())


assert ctypes.sizeof(Op) % 8 == 0  # arrays of them are laid out as in C
