"""Co-attention: two sequences, such as a question and a picture, each attended to in view of the other.

Shape letters of this file: L, A  length and width of the first sequence    M, C  of the second    F  inner width
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.nn.alignments.distributions import softmax
from heedful.nn.layers.linear import Linear


class CoAttention(nn.Module):
    """Parallel co-attention of sequences a and b      Lu et al. 2016, 3.3

    C   = tanh(a W_c b^T)                       affinity of each token of a and each token of b
    H_a = tanh(a W_a + C (b W_b)),              p_a = softmax(H_a w_a),  a_pooled = p_a . a
    H_b = tanh(b W_b + C^T (a W_a)),            p_b = softmax(H_b w_b),  b_pooled = p_b . b
    """

    def __init__(self, width_a: int, width_b: int, inner: int) -> None:
        super().__init__()
        self.affinity = Linear(width_b, width_a, bias=False)
        self.into_a, self.into_b = Linear(width_a, inner, bias=False), Linear(width_b, inner, bias=False)
        self.score_a, self.score_b = Linear(inner, 1, bias=False), Linear(inner, 1, bias=False)

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
        affinity_BLM = (a_BLA @ self.affinity(b_BMC).transpose(1, 2)).tanh()
        a_BLF, b_BMF = self.into_a(a_BLA), self.into_b(b_BMC)
        seen_a_BLF = (a_BLF + affinity_BLM @ b_BMF).tanh()
        seen_b_BMF = (b_BMF + affinity_BLM.transpose(1, 2) @ a_BLF).tanh()
        weights_BL = softmax(self.score_a(seen_a_BLF).squeeze(2), keep_BL)
        weights_BM = softmax(self.score_b(seen_b_BMF).squeeze(2), keep_BM)
        return weights_BL, weights_BM


def _zero_padding(x_BLE: Tensor, keep_BL: Tensor) -> Tensor:
    """Set padding to zero: neither values nor gradients may depend on its content."""
    return x_BLE.masked_fill(~keep_BL.unsqueeze(2), 0)


def _pool(weights_BL: Tensor, x_BLE: Tensor) -> Tensor:
    return torch.einsum("bl,ble->be", weights_BL, x_BLE)
