"""Linear maps and norms that keep float32 weights and compute in the type of what flows through them.

A model's precision is the type its embeddings put out: every module after them follows the values. So bfloat16
training keeps float32 master weights, without autocast and without a second copy of the model.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.kernels import use_kernels


class Linear(nn.Linear):
    """y = x W^T + b, computed in the type of x."""

    def forward(self, input: Float[Tensor, "*any in"]) -> Float[Tensor, "*any out"]:
        """Apply the map; its gradient by kernels of our own where there are some."""
        if use_kernels(input):
            from heedful.nn.layers import linear_gpu  # not before: a CPU has no use for Triton

            if linear_gpu.supports(input):
                y_NF = linear_gpu.linear(input.reshape(-1, self.in_features), self.weight, self.bias)
                return y_NF.view(*input.shape[:-1], self.out_features)
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return F.linear(input, self.weight.to(input.dtype), bias)


class LayerNorm(nn.LayerNorm):
    """y = (x - mean) / sqrt(variance + epsilon) * w + b over the last axis      Ba et al. 2016

    Statistics and weights are float32 (or wider) whatever the type of x.
    """

    def forward(self, input: Float[Tensor, "*any E"]) -> Float[Tensor, "*any E"]:
        """Normalise, by a kernel that reads and writes memory once where there is one."""
        if use_kernels(input):
            from heedful.nn.kernels import residual_norm  # not before: a CPU has no use for Triton

            if residual_norm.supports(input):
                y_NE = residual_norm.layer_norm(input.reshape(-1, input.shape[-1]), self.weight, self.bias, self.eps)
                return y_NE.view(input.shape)
        # The CPU's kernel mixes bfloat16 values with float32 weights; elsewhere a compiler fuses the conversions.
        values = input if input.device.type == "cpu" else input.to(self.weight.dtype)
        return F.layer_norm(values, self.normalized_shape, self.weight, self.bias, self.eps).to(input.dtype)
