"""Attention with a kernel of random features, in quadratic and in linear time.

Choromanski et al. 2021 (FAVOR+). `Kernel` is an alignment like the others, with Q * L scores. Two functions compute its
attention with a softmax without scores: `linear_attention` over all keys, `causal_linear_attention` over the past.
"""

import math
from typing import ClassVar, Final, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.nn.alignments.base import Alignment, Candidates, project

_LEAST: Final = 1e-3  # added to the features of a ReLU, so that no query is without keys


class Kernel(Alignment):
    """score(q, k) = log(phi(q) . phi(k)),  phi_m(x) = exp(w_m . x' - |x'|^2 / 2) / sqrt(M),  x' = x / D^(1/4)

    Lemma 1 of the paper: with w ~ N(0, I) the expectation of the product is exp(q . k / sqrt(D)); mutually orthogonal
    directions w_m reduce its variance. Because of the logarithm, a softmax over scores is the kernel's own
    normalisation. The M `features` of each head are drawn once, from `seed`, so that they are the same for a recipe.

    With the feature map "relu", phi_m(x) = (max(0, w_m . x') + 0.001) / sqrt(M): another kernel, not a softmax (4.2).
    """

    equal_widths: ClassVar[bool] = True
    directions: Tensor

    def __init__(
        self,
        query_width: int,
        key_width: int,
        heads: int,
        features: int = 256,
        seed: int = 0,
        feature_map: Literal["exp", "relu"] = "exp",
    ) -> None:
        super().__init__(query_width, key_width, heads)
        self.feature_map = feature_map
        generator = torch.Generator("cpu").manual_seed(seed)
        drawn = [orthogonal_directions(features, query_width, generator) for _ in range(heads)]
        self.register_buffer("directions", torch.stack(drawn).to(torch.get_default_dtype()))

    def prepare_keys(self, keys_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L A"]:
        """Compute log phi(k)."""
        return self.log_features(keys_BHLK)

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Multiply features; the largest one of each vector is factored out before exp and added back after log."""
        queries_BHQM, keys_BHCM = self.log_features(q_BHQD), candidates.keys
        largest_BHQ1, largest_BHC1 = (x.detach().amax(-1, keepdim=True) for x in (queries_BHQM, keys_BHCM))
        sums_BHQC = (queries_BHQM - largest_BHQ1).exp() @ (keys_BHCM - largest_BHC1).exp().mT
        least = torch.finfo(sums_BHQC.dtype).tiny  # keeps scores finite however far apart two vectors are
        return sums_BHQC.clamp(min=least).log() + largest_BHQ1 + largest_BHC1.mT

    def log_features(self, x_BHLD: Float[Tensor, "B H L D"]) -> Float[Tensor, "B H L M"]:
        """Return log phi(x), in float32 or wider: an absolute error in a logarithm is a relative error of phi."""
        scaled = x_BHLD.to(torch.promote_types(x_BHLD.dtype, self.directions.dtype)) * x_BHLD.shape[-1] ** -0.25
        normaliser = math.log(self.directions.shape[1]) / 2
        if self.feature_map == "relu":
            return (project(scaled, self.directions).relu() + _LEAST).log() - normaliser
        halves = scaled.square().sum(-1, keepdim=True) / 2
        return project(scaled, self.directions) - halves - normaliser

    def query_features(self, q_BHQD: Float[Tensor, "B H Q D"]) -> Float[Tensor, "B H Q M"]:
        """Return phi(q) times a factor per query, which cancels in linear attention."""
        logs_BHQM = self.log_features(q_BHQD)
        return (logs_BHQM - logs_BHQM.detach().amax(-1, keepdim=True)).exp()

    def key_features(
        self, keys_BHLD: Float[Tensor, "B H L D"], keep_BL: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return phi(k) times a factor per memory, which cancels in linear attention; 0 for keys that are not kept."""
        logs_BHLM = self.log_features(keys_BHLD)
        if keep_BL is not None:
            logs_BHLM = logs_BHLM.masked_fill(~keep_BL[:, None, :, None], -math.inf)
        largest = logs_BHLM.detach().amax((2, 3), keepdim=True)
        return (logs_BHLM - largest.clamp(min=torch.finfo(largest.dtype).min)).exp()  # finite even if no key is kept


def orthogonal_directions(count: int, width: int, generator: torch.Generator) -> Float[Tensor, "M D"]:
    """Draw rows from N(0, I) that are orthogonal within each block of `width` rows, in float64."""
    blocks = []
    for _ in range(math.ceil(count / width)):
        rotation, triangle = torch.linalg.qr(
            torch.randn(width, width, generator=generator, dtype=torch.float64, device="cpu")
        )
        blocks.append(rotation * triangle.diagonal().sign())  # the signs make it uniform over rotations: Mezzadri 2007
    lengths = torch.randn(count, width, generator=generator, dtype=torch.float64, device="cpu").norm(dim=1)
    return torch.cat(blocks)[:count] * lengths[:, None]


def linear_attention(
    phi_q_BHQM: Float[Tensor, "B H Q M"],
    phi_k_BHLM: Float[Tensor, "B H L M"],
    v_BHLD: Float[Tensor, "B H L D"],
    keep_BL: Bool[Tensor, "B L"] | None = None,
) -> Float[Tensor, "B H Q D"]:
    """y_i = phi(q_i) . sum_j phi(k_j) v_j / phi(q_i) . sum_j phi(k_j), linear in Q and L in time and memory

    A query that sees no key gets zeros. Computed in the dtype of the features, returned in that of the values.
    """
    k_BHLM, v_BHLX = _masked(phi_k_BHLM, v_BHLD, keep_BL)
    return _divide(phi_q_BHQM @ (k_BHLM.mT @ v_BHLX)).to(v_BHLD.dtype)


def causal_linear_attention(
    phi_q_BHLM: Float[Tensor, "B H L M"],
    phi_k_BHLM: Float[Tensor, "B H L M"],
    v_BHLD: Float[Tensor, "B H L D"],
    keep_BL: Bool[Tensor, "B L"] | None = None,
    chunk: int = 128,
) -> Float[Tensor, "B H L D"]:
    """Linear attention with sums over j <= i: quadratic within chunks, plus the sums over all previous chunks.

    It takes memory for L * chunk + L / chunk * M * D values; prefix sums at every position would take L * M * D.
    """
    length = v_BHLD.shape[2]
    chunk = min(chunk, length)
    k_BHLM, v_BHLX = _masked(phi_k_BHLM, v_BHLD, keep_BL)
    q_BHCSM, k_BHCSM, v_BHCSX = (
        F.pad(x, (0, 0, 0, -length % chunk)).unflatten(2, (-1, chunk)) for x in (phi_q_BHLM, k_BHLM, v_BHLX)
    )
    upto_BHCMX = (k_BHCSM.mT @ v_BHCSX).cumsum(2)
    before_BHCMX = F.pad(upto_BHCMX[:, :, :-1], (0, 0, 0, 0, 1, 0))
    sums_BHCSX = (q_BHCSM @ k_BHCSM.mT).tril() @ v_BHCSX + q_BHCSM @ before_BHCMX
    return _divide(sums_BHCSX.flatten(2, 3)[:, :, :length]).to(v_BHLD.dtype)


def _masked(
    phi_k_BHLM: Float[Tensor, "B H L M"], v_BHLD: Float[Tensor, "B H L D"], keep_BL: Bool[Tensor, "B L"] | None
) -> tuple[Float[Tensor, "B H L M"], Float[Tensor, "B H L X"]]:
    """Return features that are 0 for keys that are not kept, and values with a 1 appended, whose sum is the divisor."""
    if keep_BL is not None:
        phi_k_BHLM = phi_k_BHLM.masked_fill(~keep_BL[:, None, :, None], 0)
    return phi_k_BHLM, F.pad(v_BHLD.to(phi_k_BHLM.dtype), (0, 1), value=1)


def _divide(sums_BHQX: Float[Tensor, "B H Q X"]) -> Float[Tensor, "B H Q D"]:
    divisor_BHQ1 = sums_BHQX[..., -1:]
    return sums_BHQX[..., :-1] / divisor_BHQ1.where(divisor_BHQ1 > 0, 1)
