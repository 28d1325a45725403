"""Co-attention: two sequences, such as a question and an image, each attended to in view of the other.

Shape letters of this file: L, A  length and width of the first sequence    M, C  of the second    F  inner width
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.nn.alignments.distributions import softmax
from heedful.nn.layers.linear import Linear


class _PoolsBoth(nn.Module, ABC):
    """Pools two sequences by weights of their tokens, which subclasses compute."""

    def forward(
        self,
        a_BLA: Float[Tensor, "B L A"],
        keep_BL: Bool[Tensor, "B L"],
        b_BMC: Float[Tensor, "B M C"],
        keep_BM: Bool[Tensor, "B M"],
    ) -> tuple[Float[Tensor, "B A"], Float[Tensor, "B C"]]:
        """Pool the tokens that `keep` marks in both sequences."""
        weights_BL, weights_BM = self.weights(a_BLA, keep_BL, b_BMC, keep_BM)
        return _pool(weights_BL, _zero_padding(a_BLA, keep_BL)), _pool(weights_BM, _zero_padding(b_BMC, keep_BM))

    @abstractmethod
    def weights(
        self,
        a_BLA: Float[Tensor, "B L A"],
        keep_BL: Bool[Tensor, "B L"],
        b_BMC: Float[Tensor, "B M C"],
        keep_BM: Bool[Tensor, "B M"],
    ) -> tuple[Float[Tensor, "B L"], Float[Tensor, "B M"]]:
        """Return the weight of each token in the two pooled vectors."""


class CoAttention(_PoolsBoth):
    """Parallel co-attention of sequences a and b      Lu et al. 2016, 3.3

    C   = tanh(a W_c b^T / sqrt(A))             affinity of each token of a and each token of b
    H_a = tanh(a W_a + C (b W_b)),              p_a = softmax(H_a w_a),  a_pooled = p_a . a
    H_b = tanh(b W_b + C^T (a W_a)),            p_b = softmax(H_b w_b),  b_pooled = p_b . b

    The paper's affinity has no root, which W_c can absorb; with it, tanh is not saturated when training starts.
    """

    def __init__(self, width_a: int, width_b: int, inner: int) -> None:
        super().__init__()
        self.scale = width_a**-0.5
        self.affinity = Linear(width_b, width_a, bias=False)
        self.into_a, self.into_b = Linear(width_a, inner, bias=False), Linear(width_b, inner, bias=False)
        self.score_a, self.score_b = Linear(inner, 1, bias=False), Linear(inner, 1, bias=False)

    def weights(
        self,
        a_BLA: Float[Tensor, "B L A"],
        keep_BL: Bool[Tensor, "B L"],
        b_BMC: Float[Tensor, "B M C"],
        keep_BM: Bool[Tensor, "B M"],
    ) -> tuple[Float[Tensor, "B L"], Float[Tensor, "B M"]]:
        """Return the weight of each token in the two pooled vectors."""
        a_BLA, b_BMC = (
            _zero_padding(a_BLA, keep_BL),
            _zero_padding(b_BMC, keep_BM),
        )  # so that the affinity of padding is tanh(0) = 0
        affinity_BLM = (a_BLA * self.scale @ self.affinity(b_BMC).transpose(1, 2)).tanh()
        a_BLF, b_BMF = self.into_a(a_BLA), self.into_b(b_BMC)
        seen_a_BLF = (a_BLF + affinity_BLM @ b_BMF).tanh()
        seen_b_BMF = (b_BMF + affinity_BLM.transpose(1, 2) @ a_BLF).tanh()
        weights_BL = softmax(self.score_a(seen_a_BLF).squeeze(2), keep_BL)
        weights_BM = softmax(self.score_b(seen_b_BMF).squeeze(2), keep_BM)
        return weights_BL, weights_BM


class AlternatingCoAttention(_PoolsBoth):
    """Alternating co-attention of sequences a and b, in three steps      Lu et al. 2016, 3.3

    s        = A_1(a; 0)           a summary of a
    b_pooled = A_2(b; s)           b in view of the summary
    a_pooled = A_3(a; b_pooled)    a in view of what was found in b

    A(x; g) = p . x,  p = softmax(H w),  H = tanh(x W_x + g W_g)

    The paper writes the matrices of the three steps with the same letters, although a and b may differ in width: here
    every step has its own, and the first one, whose g is zero, has no W_g.
    """

    def __init__(self, width_a: int, width_b: int, inner: int) -> None:
        super().__init__()
        self.summary = _GuidedAttention(width_a, None, inner)
        self.over_b = _GuidedAttention(width_b, width_a, inner)
        self.over_a = _GuidedAttention(width_a, width_b, inner)

    def weights(
        self,
        a_BLA: Float[Tensor, "B L A"],
        keep_BL: Bool[Tensor, "B L"],
        b_BMC: Float[Tensor, "B M C"],
        keep_BM: Bool[Tensor, "B M"],
    ) -> tuple[Float[Tensor, "B L"], Float[Tensor, "B M"]]:
        """Return the weight of each token in the two pooled vectors."""
        a_BLA, b_BMC = _zero_padding(a_BLA, keep_BL), _zero_padding(b_BMC, keep_BM)
        summary_BA = _pool(self.summary(a_BLA, keep_BL), a_BLA)
        weights_BM = self.over_b(b_BMC, keep_BM, summary_BA)
        return self.over_a(a_BLA, keep_BL, _pool(weights_BM, b_BMC)), weights_BM


class _GuidedAttention(nn.Module):
    """p = softmax(H w),  H = tanh(x W_x + g W_g), with a vector g that guides it, or none"""

    def __init__(self, width: int, guide_width: int | None, inner: int) -> None:
        super().__init__()
        self.into = Linear(width, inner, bias=False)
        self.guide = None if guide_width is None else Linear(guide_width, inner, bias=False)
        self.score = Linear(inner, 1, bias=False)

    def forward(
        self, x_BLE: Float[Tensor, "B L E"], keep_BL: Bool[Tensor, "B L"], guide_BG: Float[Tensor, "B G"] | None = None
    ) -> Float[Tensor, "B L"]:
        """Return the weight of each token."""
        inner_BLF = self.into(x_BLE)
        if self.guide is not None:
            inner_BLF = inner_BLF + self.guide(guide_BG).unsqueeze(1)
        return softmax(self.score(inner_BLF.tanh()).squeeze(2), keep_BL)


def _zero_padding(x_BLE: Tensor, keep_BL: Tensor) -> Tensor:
    """Set padding to zero: neither values nor gradients may depend on its content."""
    return x_BLE.masked_fill(~keep_BL.unsqueeze(2), 0)


def _pool(weights_BL: Tensor, x_BLE: Tensor) -> Tensor:
    return torch.einsum("bl,ble->be", weights_BL, x_BLE)
