"""The sum of a skip connection with dropout, in one pass over memory (Triton, CUDA).

    z = x + m f / (1 - p),   m ~ Bernoulli(1 - p)      Srivastava et al. 2014

The dropout mask is a function of (seed, row, column) and is never stored: the backward pass draws it again. One Philox
call (Salmon et al. 2011) gives eight draws of 16 bits, for eight adjacent columns.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from heedful.nn.kernels.sizes import next_power_of_two

_VALUES = 2048  # per program: 16 per thread with four warps, enough bytes in flight to hide the latency of memory


def dropped_sum(x_NE: Float[Tensor, "N E"], f_NE: Float[Tensor, "N E"], share: float) -> Float[Tensor, "N E"]:
    """Return x + f, with dropout of f."""
    seed = draw_seed(x_NE, share)
    return x_NE + f_NE if seed is None else residual_sum(x_NE, f_NE.to(x_NE.dtype), seed, share)


# --- Triton kernels ---------------------------------------------------------------------------------------------------


@triton.jit
def kept(seed, row, dropped, ROOM: tl.constexpr, ROWS: tl.constexpr):
    """Return True where a value is kept: where its 16-bit draw is at least `dropped`."""
    place = tl.zeros((ROWS, ROOM // 8), tl.int32)
    group = place + tl.arange(0, ROOM // 8)[None, :]
    # Seven is the smallest number of rounds that passes all tests of BigCrush (Salmon et al. 2011, table 2).
    first, second, third, fourth = tl.philox(seed, group, place + row[:, None], place, place, 7)
    draws = tl.interleave(tl.interleave(first, third), tl.interleave(second, fourth))
    return tl.interleave((draws & 0xFFFF).to(tl.int32), (draws >> 16).to(tl.int32)) >= dropped


@triton.jit
def places(block, count, WIDTH: tl.constexpr, ROOM: tl.constexpr, ROWS: tl.constexpr):
    """Return the rows of a block, the addresses of their values, and whether these are inside the matrix."""
    row, column = block * ROWS + tl.arange(0, ROWS), tl.arange(0, ROOM)
    there = (row[:, None] < count) & (column[None, :] < WIDTH)
    return row, row[:, None].to(tl.int64) * WIDTH + column[None, :], there


@triton.jit
def _sum(
    x, f, seed, z, count, dropped, scale,
    ADDS: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row, place, there = places(tl.program_id(0), count, WIDTH, ROOM, ROWS)
    added = tl.load(f + place, there, 0.0).to(tl.float32)
    total = tl.where(kept(tl.load(seed), row, dropped, ROOM, ROWS), added * scale, 0.0)
    if ADDS:
        total += tl.load(x + place, there, 0.0).to(tl.float32)
    tl.store(z + place, total.to(z.dtype.element_ty), there)


# --- the operator, for autograd, compilers and CUDA graphs ------------------------------------------------------------


@torch.library.custom_op("heedful::residual_sum", mutates_args=())
def residual_sum(x_NE: Tensor | None, f_NE: Tensor, seed: Tensor, share: float) -> Tensor:
    """Return x + m f / (1 - share), or only the second term without x; `seed` is one int64 on the device."""
    z = _sum_shape(x_NE, f_NE, seed, share)
    rows, tile = f_NE.shape[0], tile_of(f_NE.shape[1])
    _sum[(triton.cdiv(rows, tile["ROWS"]),)](
        None if x_NE is None else x_NE.contiguous(), f_NE.contiguous(), seed, z, rows, *dropping(share),
        ADDS=x_NE is not None, **tile,
    )  # fmt: skip
    return z


@residual_sum.register_fake
def _sum_shape(x_NE: Tensor | None, f_NE: Tensor, seed: Tensor, share: float) -> Tensor:
    return f_NE.new_empty(f_NE.shape)


def _save_seed(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, _, seed, ctx.share = inputs
    ctx.save_for_backward(seed)
    ctx.adds = x is not None


def _differentiate_sum(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
    (seed,) = ctx.saved_tensors
    return dz if ctx.adds else None, residual_sum(None, dz, seed, ctx.share), None, None


residual_sum.register_autograd(_differentiate_sum, setup_context=_save_seed)


# --- launching --------------------------------------------------------------------------------------------------------


def draw_seed(like: Tensor, share: float) -> Tensor | None:
    """Draw the seed of one call from the generator of the device, which works in CUDA graphs too."""
    return torch.randint(2**62, (1,), device=like.device) if share > 0 else None


def dropping(share: float) -> tuple[int, float]:
    """Return how many of 65536 possible draws drop a value, and the factor of values that are kept."""
    return min(round(share * 65536), 65535), 1 / (1 - share)


def tile_of(width: int) -> dict[str, int]:
    """Return the sizes of one program: several rows if they are short, more warps if they are long."""
    room = next_power_of_two(width, 16)
    warps = max(4, room // 512)
    return {"WIDTH": width, "ROOM": room, "ROWS": max(1, _VALUES // room), "num_warps": warps}
