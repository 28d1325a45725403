"""Linear maps on a GPU, with gradients that read and write memory as little as possible.

    y = x W^T + b           dx = dy W      dW = dy^T x      db = sum over rows dy
    y = max(0, x W^T + b)   the same with dh instead of dy,  dh = dy where y > 0, else 0
    y = gelu(h) W_2^T + b_2,  h = x W_1^T + b_1,   both as above, with dh = (dy W_2) gelu'(h)

The gradient of float32 weights is returned in float32 directly from the product of 16-bit values: the product adds in
float32 anyway, so that nothing is rounded and widened again. The gradient of a bias is a custom kernel, which also
applies the gradient of the activation. In the forward pass, bias and ReLU are fused with the product; so is the GELU in
its form with a tanh, where there will be no backward pass, which needs its input.
"""

from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.nn.kernels.column_sums import (
    column_sums,
    gelu_gradient_and_column_sums,
    relu_gradient_and_column_sums,
)

_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def supports(x: Float[Tensor, "*any E"]) -> bool:
    """Return whether the maps support values of this dtype."""
    return x.dtype in _TYPES


def linear(
    x_NE: Float[Tensor, "N E"], weight_FE: Float[Tensor, "F E"], bias_F: Float[Tensor, "F"] | None
) -> Float[Tensor, "N F"]:
    """Return x W^T + b in the dtype of x."""
    if _needs_gradients(x_NE, weight_FE, bias_F):
        return _Linear.apply(x_NE, weight_FE, bias_F)  # type: ignore[no-untyped-call]
    return _product(x_NE, weight_FE.to(x_NE.dtype), bias_F)


def linear_relu(
    x_NE: Float[Tensor, "N E"], weight_FE: Float[Tensor, "F E"], bias_F: Float[Tensor, "F"]
) -> Float[Tensor, "N F"]:
    """Return max(0, x W^T + b) in the dtype of x."""
    if _needs_gradients(x_NE, weight_FE, bias_F):
        return _LinearReLU.apply(x_NE, weight_FE, bias_F)  # type: ignore[no-untyped-call]
    return _product_relu(x_NE, weight_FE.to(x_NE.dtype), bias_F)


def gelu_network(
    x_NE: Float[Tensor, "N E"],
    into_FE: Float[Tensor, "F E"],
    into_bias_F: Float[Tensor, "F"],
    out_EF: Float[Tensor, "E F"],
    out_bias_E: Float[Tensor, "E"],
    tanh: bool,
) -> Float[Tensor, "N E"]:
    """Return gelu(x W_1^T + b_1) W_2^T + b_2 in the dtype of x; `tanh` approximates the GELU.

    The backward pass computes gelu(h) again from h, which it reads anyway: the larger half of a network's values is
    not kept.
    """
    if _needs_gradients(x_NE, into_FE, into_bias_F, out_EF, out_bias_E):
        return _GELUNetwork.apply(x_NE, into_FE, into_bias_F, out_EF, out_bias_E, tanh)  # type: ignore[no-untyped-call]
    into = into_FE.to(x_NE.dtype)
    if tanh and x_NE.is_cuda:  # see `_product_relu`; on a CPU the same call computes the exact form
        inner = torch._addmm_activation(into_bias_F.to(x_NE.dtype), x_NE, into.T, use_gelu=True)
    else:
        inner = _gelu(_product(x_NE, into, into_bias_F), tanh)
    return _product(inner, out_EF.to(x_NE.dtype), out_bias_E)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        cast = weight.to(x.dtype)
        _save(ctx, x, weight, cast, bias)
        return _product(x, cast, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Gradients:
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()  # once, for all its uses
        db = column_sums(dy).to(ctx.bias_type) if ctx.needs_input_grad[2] else None
        return *_product_gradients(dy, x, weight, ctx.weight_type), db


class _LinearReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        cast = weight.to(x.dtype)
        y = _product_relu(x, cast, bias)
        _save(ctx, x, weight, cast, bias, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Gradients:
        x, weight, y = ctx.saved_tensors
        dh, db = relu_gradient_and_column_sums(dy, y)
        dx, dW = _product_gradients(dh, x, weight, ctx.weight_type)
        return dx, dW, db.to(ctx.bias_type) if ctx.needs_input_grad[2] else None


class _GELUNetwork(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, into: Tensor, into_bias: Tensor, out: Tensor, out_bias: Tensor, tanh: bool
    ) -> Tensor:
        into_cast, out_cast = into.to(x.dtype), out.to(x.dtype)
        h = _product(x, into_cast, into_bias)
        ctx.save_for_backward(x, h, into_cast, out_cast)
        ctx.tanh, ctx.types = tanh, (into.dtype, into_bias.dtype, out.dtype, out_bias.dtype)
        return _product(_gelu(h, tanh), out_cast, out_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, h, into, out = ctx.saved_tensors
        dy = dy.contiguous()
        dh, into_sums, inner = gelu_gradient_and_column_sums(dy @ out, h, ctx.tanh)
        wanted, (into_type, into_bias_type, out_type, out_bias_type) = ctx.needs_input_grad, ctx.types
        return (
            dh @ into if wanted[0] else None,
            _product_in(into_type, dh.T, x) if wanted[1] else None,
            into_sums.to(into_bias_type) if wanted[2] else None,
            _product_in(out_type, dy.T, inner) if wanted[3] else None,
            column_sums(dy).to(out_bias_type) if wanted[4] else None,
            None,
        )


def _save(ctx: Any, x: Tensor, weight: Tensor, cast: Tensor, bias: Tensor | None, *outputs: Tensor) -> None:
    """Save only what the backward pass needs: x for dW, the weight in the dtype of x for dx."""
    wants_dx, wants_dW, _ = ctx.needs_input_grad
    ctx.save_for_backward(x if wants_dW else None, cast if wants_dx else None, *outputs)
    ctx.weight_type, ctx.bias_type = weight.dtype, None if bias is None else bias.dtype


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight, None if bias is None else bias.to(x.dtype))


def _product_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    # Private, but the only call by which cuBLASLt adds the bias and applies the ReLU before it writes the product;
    # public functions write the product first, and read and write it again for the ReLU. The result is the same.
    return torch._addmm_activation(bias.to(x.dtype), x, weight.T, use_gelu=False)


def _gelu(h: Tensor, tanh: bool) -> Tensor:
    return F.gelu(h, approximate="tanh" if tanh else "none")


def _product_gradients(
    dy: Tensor, x: Tensor | None, weight: Tensor | None, weight_type: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Return dx = dy W and dW = dy^T x, or None for one whose input was not saved."""
    dx = None if weight is None else dy @ weight
    return dx, None if x is None else _product_in(weight_type, dy.T, x)


def _product_in(dtype: torch.dtype, left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right in this dtype, without rounding to a narrower one in between."""
    if left.is_cuda and dtype == torch.float32 != left.dtype:
        return torch.mm(left, right, out_dtype=dtype)  # not implemented on CPUs
    wide = torch.promote_types(dtype, left.dtype)
    return torch.mm(left.to(wide), right.to(wide)).to(dtype)


def _needs_gradients(*inputs: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
