"""The sum of a skip connection and the layer norm after it, in one pass over memory (Triton, CUDA).

    z = x + m f / (1 - p),   m ~ Bernoulli(1 - p)                      Srivastava et al. 2014
    y = (z - mean(z)) r w + b,   r = 1 / sqrt(variance(z) + epsilon)   Ba et al. 2016

A program holds whole rows in registers, so that the forward pass reads x and f once and writes y once, and z if there
will be a backward pass. The backward pass reads dy and z once and writes dx and df once:

    n = (z - mean(z)) r                  g = w dy
    dz = r (g - mean(g) - n mean(g n))   dx = dz   df = m dz / (1 - p)   dw = sum over rows dy n   db = sum over rows dy

Arithmetic is in float32 whatever the dtype of the values; z is rounded to the dtype of x before it is normalised, so
that both passes see the same z. Sums over rows do not use atomics: each of a fixed number of programs adds its rows in
a fixed order, so that runs are reproducible bit by bit.

The dropout mask is that of `kernels.residual_sum`.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.nn.kernels.residual_sum import draw_seed, dropping, kept, places, tile_of
from heedful.nn.kernels.sizes import count_multiprocessors

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_WIDEST = 8192  # a row has to fit in the registers of one program
_PROGRAMS = 4  # per multiprocessor in the backward pass: as many as registers allow with 16 values per thread


def supports(x: Float[Tensor, "*any E"]) -> bool:
    """Return whether the kernels support values of this dtype and width."""
    return x.dtype in _TYPES and x.shape[-1] <= _WIDEST


def norm_of_sum(
    x_NE: Float[Tensor, "N E"],
    f_NE: Float[Tensor, "N E"],
    weight_E: Float[Tensor, "E"],
    bias_E: Float[Tensor, "E"] | None,
    epsilon: float,
    share: float,
) -> Float[Tensor, "N E"]:
    """Return the layer norm of x + f, with dropout of f."""
    return _norm(x_NE, f_NE.to(x_NE.dtype), weight_E, bias_E, epsilon, share)


def layer_norm(
    x_NE: Float[Tensor, "N E"], weight_E: Float[Tensor, "E"], bias_E: Float[Tensor, "E"] | None, epsilon: float
) -> Float[Tensor, "N E"]:
    """Return the layer norm of x."""
    return _norm(x_NE, None, weight_E, bias_E, epsilon, 0.0)


def norm_and_skip(
    x_NE: Float[Tensor, "N E"], weight_E: Float[Tensor, "E"], bias_E: Float[Tensor, "E"] | None, epsilon: float
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N E"]]:
    """Return the layer norm of x, and x for the skip connection around it: its two gradients are added in one pass."""
    if torch.is_grad_enabled() and x_NE.requires_grad and not torch.compiler.is_compiling():
        both: tuple[Tensor, Tensor] = _NormAndSkip.apply(x_NE, weight_E, bias_E, epsilon)
        return both
    return layer_norm(x_NE, weight_E, bias_E, epsilon), x_NE


# --- Triton kernels ---------------------------------------------------------------------------------------------------


@triton.jit
def _forward(
    x, f, weight, bias, seed, y, z, means, inverses, count, dropped, scale, epsilon,
    ADDS: tl.constexpr, DROPS: tl.constexpr, SAVES: tl.constexpr,
    WIDTH: tl.constexpr, ROOM: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row, place, there = places(tl.program_id(0), count, WIDTH, ROOM, ROWS)
    column = tl.arange(0, ROOM)
    values = tl.load(x + place, there, 0.0).to(tl.float32)
    if ADDS:
        added = tl.load(f + place, there, 0.0).to(tl.float32)
        if DROPS:
            added = tl.where(kept(tl.load(seed), row, dropped, ROOM, ROWS), added * scale, 0.0)
        rounded = (values + added).to(y.dtype.element_ty)
        values = rounded.to(tl.float32)
        if SAVES:
            tl.store(z + place, rounded, there)
    mean = tl.sum(values, 1) / WIDTH
    centred = tl.where(column[None, :] < WIDTH, values - mean[:, None], 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / WIDTH + epsilon)
    weights = tl.load(weight + column, column < WIDTH, 0.0).to(tl.float32)
    biases = tl.load(bias + column, column < WIDTH, 0.0).to(tl.float32)
    result = centred * inverse[:, None] * weights[None, :] + biases[None, :]
    tl.store(y + place, result.to(y.dtype.element_ty), there)
    if SAVES:
        tl.store(means + row, mean, row < count)
        tl.store(inverses + row, inverse, row < count)


@triton.jit
def _backward(
    dy, z, means, inverses, weight, seed, skip, dz, df, partial_sums, count, dropped, scale,
    DROPS: tl.constexpr, SKIPS: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.arange(0, ROOM)
    weights = tl.load(weight + column, column < WIDTH, 0.0).to(tl.float32)
    drawn = tl.load(seed) if DROPS else 0
    dweight = tl.zeros((ROWS, ROOM), tl.float32)  # rows are added once, after the loop
    dbias = tl.zeros((ROWS, ROOM), tl.float32)
    for block in range(program, tl.cdiv(count, ROWS), programs):
        row, place, there = places(block, count, WIDTH, ROOM, ROWS)
        slope = tl.load(dy + place, there, 0.0).to(tl.float32)  # 0 outside the matrix
        values = tl.load(z + place, there, 0.0).to(tl.float32)
        mean = tl.load(means + row, row < count, 0.0)
        inverse = tl.load(inverses + row, row < count, 0.0)
        normal = (values - mean[:, None]) * inverse[:, None]
        dweight += slope * normal
        dbias += slope
        weighted = slope * weights[None, :]
        along = tl.sum(weighted * normal, 1) / WIDTH
        level = tl.sum(weighted, 1) / WIDTH
        result = (weighted - level[:, None] - normal * along[:, None]) * inverse[:, None]
        if SKIPS:
            result += tl.load(skip + place, there, 0.0).to(tl.float32)
        tl.store(dz + place, result.to(dz.dtype.element_ty), there)
        if DROPS:
            slope_of_f = tl.where(kept(drawn, row, dropped, ROOM, ROWS), result * scale, 0.0)
            tl.store(df + place, slope_of_f.to(df.dtype.element_ty), there)
    tl.store(partial_sums + program * WIDTH + column, tl.sum(dweight, 0), column < WIDTH)
    tl.store(partial_sums + (programs + program) * WIDTH + column, tl.sum(dbias, 0), column < WIDTH)


# --- operators for autograd, compilers and CUDA graphs ----------------------------------------------------------------


def _launch_norm(
    x_NE: Tensor,
    f_NE: Tensor | None,
    weight_E: Tensor,
    bias_E: Tensor,
    seed: Tensor | None,
    epsilon: float,
    share: float,
    saves: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return y and, if `saves` is set, z (unless it is x) and the mean and 1 / standard deviation of each row.

    `seed` is one int64 on the device; without it nothing is dropped. Results that are not needed are empty.
    """
    y, z, means, inverses = _norm_shapes(x_NE, f_NE, weight_E, bias_E, seed, epsilon, share, saves)
    rows, tile = x_NE.shape[0], tile_of(x_NE.shape[1])
    _forward[(triton.cdiv(rows, tile["ROWS"]),)](
        x_NE.contiguous(), None if f_NE is None else f_NE.contiguous(), weight_E.contiguous(), bias_E.contiguous(),
        seed, y, z, means, inverses, rows, *dropping(share), epsilon,
        ADDS=f_NE is not None, DROPS=seed is not None, SAVES=saves, **tile,
    )  # fmt: skip
    return y, z, means, inverses


residual_norm = torch.library.custom_op("heedful::residual_norm", _launch_norm, mutates_args=())


@residual_norm.register_fake
def _norm_shapes(
    x_NE: Tensor,
    f_NE: Tensor | None,
    weight_E: Tensor,
    bias_E: Tensor,
    seed: Tensor | None,
    epsilon: float,
    share: float,
    saves: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = x_NE.shape
    rows = shape[0] if saves else 0
    return (
        x_NE.new_empty(shape),
        x_NE.new_empty(shape if saves and f_NE is not None else (0,)),
        x_NE.new_empty(rows, dtype=torch.float32),
        x_NE.new_empty(rows, dtype=torch.float32),
    )


@torch.library.custom_op("heedful::residual_norm_backward", mutates_args=())
def residual_norm_backward(
    dy_NE: Tensor,
    z_NE: Tensor,
    means_N: Tensor,
    inverses_N: Tensor,
    weight_E: Tensor,
    seed: Tensor | None,
    share: float,
    skip_NE: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dz, df (empty without dropout, when it equals dz), and the float32 dweight and dbias as two rows.

    `skip` is the gradient of z from elsewhere, which is added to dz.
    """
    dz, df, _ = _gradient_shapes(dy_NE, z_NE, means_N, inverses_N, weight_E, seed, share)
    (rows, width), tile = z_NE.shape, tile_of(z_NE.shape[1])
    programs = min(triton.cdiv(rows, tile["ROWS"]), _PROGRAMS * count_multiprocessors(z_NE.device))
    partial_sums = torch.empty((2, programs, width), dtype=torch.float32, device=z_NE.device)
    _backward[(programs,)](
        dy_NE.contiguous(), z_NE.contiguous(), means_N, inverses_N, weight_E.contiguous(), seed,
        None if skip_NE is None else skip_NE.contiguous(), dz, df, partial_sums, rows, *dropping(share),
        DROPS=seed is not None, SKIPS=skip_NE is not None, **tile,
    )  # fmt: skip
    return dz, df, partial_sums.sum(1)


@residual_norm_backward.register_fake
def _gradient_shapes(
    dy_NE: Tensor,
    z_NE: Tensor,
    means_N: Tensor,
    inverses_N: Tensor,
    weight_E: Tensor,
    seed: Tensor | None,
    share: float,
    skip_NE: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        z_NE.new_empty(z_NE.shape),
        z_NE.new_empty((0,) if seed is None else z_NE.shape),
        z_NE.new_empty((2, z_NE.shape[1]), dtype=torch.float32),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    x, f, weight, bias, seed, _, share, _ = inputs
    _, z, means, inverses = output
    ctx.save_for_backward(x if f is None else z, means, inverses, weight, seed)
    ctx.adds, ctx.share, ctx.bias_type = f is not None, share, bias.dtype
    ctx.set_materialize_grads(False)  # otherwise zeros would be written as the unused gradient of z


def _differentiate(ctx: Any, dy: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    z, means, inverses, weight, seed = ctx.saved_tensors
    dz, df, (dweight, dbias) = residual_norm_backward(dy, z, means, inverses, weight, seed, ctx.share)
    df = None if not ctx.adds else dz if seed is None else df
    return dz, df, dweight.to(weight.dtype), dbias.to(ctx.bias_type), None, None, None, None


residual_norm.register_autograd(_differentiate, setup_context=_save)


class _NormAndSkip(torch.autograd.Function):
    """Returns x itself besides its norm, so that one kernel adds both gradients of x."""

    @staticmethod
    def forward(
        ctx: Any, x_NE: Tensor, weight_E: Tensor, bias_E: Tensor | None, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        bias = torch.zeros_like(weight_E) if bias_E is None else bias_E
        y_NE, _, means, inverses = _launch_norm(x_NE, None, weight_E, bias, None, epsilon, 0.0, True)
        ctx.save_for_backward(x_NE, means, inverses, weight_E)
        ctx.bias_type = None if bias_E is None else bias_E.dtype
        ctx.set_materialize_grads(False)
        return y_NE, x_NE

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor | None, skip: Tensor | None) -> tuple[Tensor | None, ...]:
        if dy is None:
            return skip, None, None, None
        x, means, inverses, weight = ctx.saved_tensors
        dx, _, (dweight, dbias) = residual_norm_backward(dy, x, means, inverses, weight, None, 0.0, skip)
        return dx, dweight.to(weight.dtype), None if ctx.bias_type is None else dbias.to(ctx.bias_type), None


# --- launching --------------------------------------------------------------------------------------------------------


def _norm(
    x_NE: Tensor, f_NE: Tensor | None, weight_E: Tensor, bias_E: Tensor | None, epsilon: float, share: float
) -> Tensor:
    """Normalise, and save what a backward pass needs, if there can be one; no bias is a bias of 0."""
    bias_E = torch.zeros_like(weight_E) if bias_E is None else bias_E
    inputs = (x_NE, weight_E, bias_E) if f_NE is None else (x_NE, f_NE, weight_E, bias_E)
    saves = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    # An operator takes about 20 microseconds per call: in a decoding step, more than the kernel itself.
    norm = residual_norm if saves or torch.compiler.is_compiling() else _launch_norm
    return norm(x_NE, f_NE, weight_E, bias_E, draw_seed(x_NE, share), epsilon, share, saves)[0]
