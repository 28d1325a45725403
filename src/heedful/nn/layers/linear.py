"""Linear maps and norms with float32 weights that compute in the dtype of their input.

The precision of a model is the dtype that its embeddings return: all later modules follow it. So bfloat16 training has
float32 master weights, without autocast and without a second copy of the model.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.kernels import use_kernels


class Linear(nn.Linear):
    """y = x W^T + b, computed in the dtype of x"""

    def forward(self, input: Float[Tensor, "*any in"]) -> Float[Tensor, "*any out"]:
        """Apply the map; on a GPU the gradient uses custom kernels."""
        if use_kernels(input):
            from heedful.nn.layers import linear_gpu  # imports Triton, which a CPU does not need

            if linear_gpu.supports(input):
                y_NF = linear_gpu.linear(input.reshape(-1, self.in_features), self.weight, self.bias)
                return y_NF.view(*input.shape[:-1], self.out_features)
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return F.linear(input, self.weight.to(input.dtype), bias)


class LayerNorm(nn.LayerNorm):
    """y = (x - mean) / sqrt(variance + epsilon) * w + b over the last axis      Ba et al. 2016

    Statistics and weights are float32 (or wider) whatever the dtype of x. b is optional.
    """

    def forward(self, input: Float[Tensor, "*any E"]) -> Float[Tensor, "*any E"]:
        """Normalise; on a GPU by a kernel that reads and writes memory once."""
        if use_kernels(input):
            from heedful.nn.kernels import residual_norm  # imports Triton, which a CPU does not need

            if residual_norm.supports(input):
                y_NE = residual_norm.layer_norm(input.reshape(-1, input.shape[-1]), self.weight, self.bias, self.eps)
                return y_NE.view(input.shape)
        # On a CPU the kernel accepts bfloat16 values with float32 weights; elsewhere a compiler fuses the conversions.
        values = input if input.device.type == "cpu" else input.to(self.weight.dtype)
        return F.layer_norm(values, self.normalized_shape, self.weight, self.bias, self.eps).to(input.dtype)


class RMSNorm(nn.RMSNorm):
    """y = x / sqrt(mean of squares + epsilon) * w over the last axis      Zhang and Sennrich 2019

    Statistics and weights are float32 (or wider) whatever the dtype of x.
    """

    def forward(self, x: Float[Tensor, "*any E"]) -> Float[Tensor, "*any E"]:
        """Normalise."""
        return F.rms_norm(x.to(self.weight.dtype), self.normalized_shape, self.weight, self.eps).to(x.dtype)
