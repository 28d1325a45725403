"""From alignment scores to attention weights, over the last axis.

    softmax              p = exp(x) / sum exp(x)
    sigmoid              p = sigmoid(x + b), for each key separately                  Ramapuram et al. 2025
    normalised sigmoid   p = sigmoid(x) / sum sigmoid(x)                              Chorowski et al. 2015
    sparsemax            p = argmin ||p - x||^2 on the simplex                        Martins and Astudillo 2016
    entmax               p = argmax p . x + H(p), H(p) = sum (p - p^a) / (a (a - 1))  Peters et al. 2019
    de-attention         w = tanh(a x) * gate(b * -||q - k||_1), signed               Tay et al. 2019
    hard                 one key, drawn by the weights                                Xu et al. 2015, 4.1

Keys that a query does not see have a weight of exactly zero; a query that sees no key has only zero weights and zero
gradients. Weights are computed in float32 or wider and returned in the dtype of the scores.

Shape letters of this file: X, Y  any leading axes    Q  queries    L  keys
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Seen: TypeAlias = Bool[Tensor, "*#X L"] | None  # True where a query sees a key; None: everywhere


@runtime_checkable
class Distribution(Protocol):
    """Turns the scores of keys into weights."""

    def __call__(self, scores_XL: Float[Tensor, "*X L"], seen_XL: Seen = None) -> Float[Tensor, "*X L"]:
        """Return the weights; zero for keys that are not seen."""


@runtime_checkable
class DistanceDistribution(Protocol):
    """Turns the scores of keys, and their distances from the query, into weights."""

    def __call__(
        self, scores_XL: Float[Tensor, "*X L"], distance_XL: Float[Tensor, "*X L"], seen_XL: Seen = None
    ) -> Float[Tensor, "*X L"]:
        """Return the weights; zero for keys that are not seen. Distances are those of `l1_distance`."""


def _over_seen(rule: Callable[[Tensor], Tensor], scores_XL: Tensor, seen_XL: Tensor | None) -> Tensor:
    """Apply a rule that maps minus infinity to a weight of zero, in float32 or wider, to the keys that are seen."""
    if scores_XL.shape[-1] == 0:
        return scores_XL
    wide_XL = _widened(scores_XL)
    if seen_XL is None:
        return rule(wide_XL).to(scores_XL.dtype)
    nothing_X1 = ~seen_XL.any(-1, keepdim=True)  # a row of minus infinity only would give NaN
    shown_XL = wide_XL.masked_fill(~seen_XL, -math.inf).masked_fill(nothing_X1, 0)
    return rule(shown_XL).masked_fill(~seen_XL, 0).to(scores_XL.dtype)


def _widened(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


# --- dense ------------------------------------------------------------------------------------------------------------


def softmax(scores_XL: Float[Tensor, "*X L"], seen_XL: Seen = None) -> Float[Tensor, "*X L"]:
    """p = exp(x) / sum exp(x)"""
    return _over_seen(lambda x: x.softmax(-1), scores_XL, seen_XL)


def normalised_sigmoid(scores_XL: Float[Tensor, "*X L"], seen_XL: Seen = None) -> Float[Tensor, "*X L"]:
    """p = sigmoid(x) / sum sigmoid(x): several keys can have large weights      Chorowski et al. 2015, smoothing"""
    # softmax(log sigmoid x) is the same, but works even if every sigmoid(x) underflows to zero.
    return _over_seen(lambda x: F.logsigmoid(x).softmax(-1), scores_XL, seen_XL)


@dataclass(frozen=True)
class Sigmoid:
    """p = sigmoid(x + b), for each key separately, without normalisation      Ramapuram et al. 2025, 2

    b = -log n, where n is the usual number of keys, makes the sum about one when training starts.
    """

    bias: float = 0.0

    def __call__(self, scores_XL: Float[Tensor, "*X L"], seen_XL: Seen = None) -> Float[Tensor, "*X L"]:
        """Return the weights; zero for keys that are not seen."""
        return _over_seen(lambda x: (x + self.bias).sigmoid(), scores_XL, seen_XL)


# --- sparse -----------------------------------------------------------------------------------------------------------
#
# Every entmax is p = max(z - t, 0)^(1 / (a - 1)) with z = (a - 1) x and the threshold t that makes the sum one. Scores
# are shifted to a maximum of 0. Then -1 <= t < 0: scores below -1 have no weight, and are set to -1, so that long sums
# of them do not lose precision.

_Threshold = Callable[[Tensor, Any], Tensor]  # (z_XL, alpha) -> t_X1


def sparsemax(scores_XL: Float[Tensor, "*X L"], seen_XL: Seen = None) -> Float[Tensor, "*X L"]:
    """p = argmin ||p - x||^2 on the simplex, exact by sorting      Martins and Astudillo 2016, algorithm 1"""
    return _over_seen(lambda x: _entmax(x, 2.0, _sparsemax_threshold), scores_XL, seen_XL)


def entmax15(scores_XL: Float[Tensor, "*X L"], seen_XL: Seen = None) -> Float[Tensor, "*X L"]:
    """Entmax with alpha = 1.5, exact by sorting      Peters et al. 2019, algorithm 2"""
    return _over_seen(lambda x: _entmax(x, 1.5, _entmax15_threshold), scores_XL, seen_XL)


@dataclass(frozen=True)
class Entmax:
    """Entmax with any alpha above 1, by bisection      Peters et al. 2019, algorithm 1

    Softmax is the limit of alpha = 1, sparsemax is alpha = 2; the larger alpha, the fewer keys have a nonzero weight.
    """

    alpha: float = 1.5

    def __post_init__(self) -> None:
        if not self.alpha > 1:
            raise ValueError(f"entmax has an alpha of {self.alpha:g}; it must be above 1 (at 1 it is softmax)")

    def __call__(self, scores_XL: Float[Tensor, "*X L"], seen_XL: Seen = None) -> Float[Tensor, "*X L"]:
        """Return the weights; zero for keys that are not seen."""
        return _over_seen(lambda x: _entmax(x, self.alpha, _bisected_threshold), scores_XL, seen_XL)


class LearnedEntmax(nn.Module):
    """Entmax with a learned alpha for each head, alpha = 1.01 + 0.99 sigmoid(a)      Correia et al. 2019

    The paper has 1 + sigmoid(a). Closer to 1, and so to softmax, float32 cannot distinguish p^(alpha - 1) from 1.
    """

    least: Final = 0.01

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.a_H = nn.Parameter(torch.zeros(heads))

    @property
    def alpha_H(self) -> Float[Tensor, "H"]:
        """The alpha of each head, between 1.01 and 2."""
        return 1 + self.least + (1 - self.least) * self.a_H.sigmoid()

    def forward(
        self, scores_YHQL: Float[Tensor, "*Y H Q L"], seen_YHQL: Bool[Tensor, "*any L"] | None = None
    ) -> Float[Tensor, "*Y H Q L"]:
        """Return the weights, with the alpha of each head; zero for keys that are not seen."""
        alpha_H11 = self.alpha_H.view(-1, 1, 1)
        return _over_seen(lambda x: _entmax(x, alpha_H11.to(x.dtype), _bisected_threshold), scores_YHQL, seen_YHQL)


def _entmax(x_XL: Tensor, alpha: float | Tensor, threshold: _Threshold) -> Tensor:
    p_XL: Tensor = _Entmax.apply(x_XL, alpha, threshold)  # type: ignore[no-untyped-call]
    return p_XL


class _Entmax(torch.autograd.Function):
    """Weights from a threshold, and gradients from the weights only.

    dp / dx = diag(s) - s s^T / sum s,  s = p^(2 - a) where p > 0                        Peters et al. 2019
    dp / da = ((p - r) / (a - 1) + h - r sum h) / (a - 1),  r = s / sum s, h = -p log p  Correia et al. 2019
    """

    @staticmethod
    def forward(ctx: Any, x_XL: Tensor, alpha: float | Tensor, threshold: _Threshold) -> Tensor:
        z_XL = ((alpha - 1) * (x_XL - x_XL.amax(-1, keepdim=True))).clamp_(min=-1)
        p_XL = _above(z_XL, threshold(z_XL, alpha), alpha)
        p_XL /= p_XL.sum(-1, keepdim=True)  # because the threshold is rounded
        learned = isinstance(alpha, Tensor)
        ctx.save_for_backward(p_XL, alpha if learned else None)
        ctx.fixed = None if learned else alpha
        return p_XL

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        g_XL = gradients[0]
        p_XL, learned = ctx.saved_tensors
        alpha = ctx.fixed if learned is None else learned
        s_XL = (p_XL ** (2 - alpha)).where(p_XL > 0, 0)
        r_XL = s_XL / s_XL.sum(-1, keepdim=True)
        x_gradient_XL = s_XL * (g_XL - (r_XL * g_XL).sum(-1, keepdim=True))
        if not ctx.needs_input_grad[1]:
            return x_gradient_XL, None, None
        h_XL = torch.special.entr(p_XL)
        slope_XL = ((p_XL - r_XL) / (alpha - 1) + h_XL - r_XL * h_XL.sum(-1, keepdim=True)) / (alpha - 1)
        return x_gradient_XL, (g_XL * slope_XL).sum(-1, keepdim=True).sum_to_size(alpha.shape), None


def _above(z_XL: Tensor, t_X1: Tensor, alpha: float | Tensor) -> Tensor:
    return (z_XL - t_X1).clamp_(min=0) ** (1 / (alpha - 1))


def _sparsemax_threshold(z_XL: Tensor, _: float) -> Tensor:
    """Return t = (sum of the k largest - 1) / k, for the largest k whose k-th key is above t."""
    top_XL = z_XL.sort(-1, descending=True).values
    count_L = torch.arange(1, z_XL.shape[-1] + 1, device=z_XL.device, dtype=z_XL.dtype)
    sums_XL = top_XL.cumsum(-1)
    support_X1 = ((1 + count_L * top_XL > sums_XL) & (top_XL > -1)).sum(-1, keepdim=True).clamp_(min=1)  # 0: NaN
    return (sums_XL.gather(-1, support_X1 - 1) - 1) / support_X1


def _entmax15_threshold(z_XL: Tensor, _: float) -> Tensor:
    """Return t = mean - sqrt((1 - sum of squared differences from it) / k) of the k largest, with k as in sparsemax."""
    top_XL = z_XL.sort(-1, descending=True).values
    count_L = torch.arange(1, z_XL.shape[-1] + 1, device=z_XL.device, dtype=z_XL.dtype)
    mean_XL = top_XL.cumsum(-1) / count_L
    variance_XL = top_XL.square().cumsum(-1) / count_L - mean_XL.square()
    t_XL = mean_XL - (1 / count_L - variance_XL).clamp_(min=0).sqrt_()
    support_X1 = ((t_XL <= top_XL) & (top_XL > -1)).sum(-1, keepdim=True).clamp_(min=1)  # 0: NaN
    return t_XL.gather(-1, support_X1 - 1)


def _bisected_threshold(z_XL: Tensor, alpha: float | Tensor) -> Tensor:
    """Find t between -1, where the largest key alone weighs 1, and -L^(1 - a), where no key weighs more than 1 / L."""
    low_X1 = torch.full_like(z_XL[..., :1], -1)
    width = 1 - z_XL.shape[-1] ** (1 - alpha)
    for _ in range(torch.finfo(z_XL.dtype).bits):
        width = width / 2
        enough_X1 = _above(z_XL, low_X1 + width, alpha).sum(-1, keepdim=True) >= 1
        low_X1 = torch.where(enough_X1, low_X1 + width, low_X1)
    return low_X1


# --- signed -----------------------------------------------------------------------------------------------------------

_CHUNK_BYTES: Final = 256 * 2**20  # of what a GPU needs in the backward pass of distances: [queries, keys, width]


def l1_distance(q_XQD: Float[Tensor, "*X Q D"], k_XLD: Float[Tensor, "*X L D"]) -> Float[Tensor, "*X Q L"]:
    """Return -||q - k||_1 of every query and key, in float32 or wider."""
    q_XQD, k_XLD = _widened(q_XQD), _widened(k_XLD)
    row_bytes = k_XLD.numel() * k_XLD.element_size()
    rows = max(1, _CHUNK_BYTES // max(1, row_bytes))
    return -torch.cat([torch.cdist(q, k_XLD, p=1) for q in q_XQD.split(rows, dim=-2)], dim=-2)


@dataclass(frozen=True)
class DeAttention:
    """w = tanh(a x) * gate(b n), n = -||q - k||_1: values are added, subtracted or ignored      Tay et al. 2019

    n is never positive, so sigmoid(b n) is at most 1/2. The paper has two gates between 0 and 1, and that one:

        centred  sigmoid(b (n - mean n))
        doubled  2 sigmoid(b n)
        plain    sigmoid(b n)

    The mean here is over the keys that the query sees, not over the whole matrix: keys that are masked, later, or in
    another sentence must not affect a weight. The paper's Transformer scales distances like scores: b = 1 / sqrt(D).
    """

    score_factor: float = 1.0
    distance_factor: float = 1.0
    gate: Literal["centred", "doubled", "plain"] = "centred"

    def __call__(
        self, scores_XL: Float[Tensor, "*X L"], distance_XL: Float[Tensor, "*X L"], seen_XL: Seen = None
    ) -> Float[Tensor, "*X L"]:
        """Return weights between -1 and 1; zero for keys that are not seen. Distances are those of `l1_distance`."""
        seen = scores_XL.new_ones(scores_XL.shape[-1], dtype=torch.bool) if seen_XL is None else seen_XL
        x_XL, n_XL = (_widened(given).masked_fill(~seen, 0) for given in (scores_XL, distance_XL))
        w_XL = (self.score_factor * x_XL).tanh() * _GATES[self.gate](self.distance_factor * n_XL, seen)
        return w_XL.masked_fill(~seen, 0).to(scores_XL.dtype)


def _centred_gate(n_XL: Tensor, seen_XL: Tensor) -> Tensor:
    count_X1 = seen_XL.sum(-1, keepdim=True).clamp(min=1)
    return (n_XL - n_XL.sum(-1, keepdim=True) / count_X1).sigmoid()  # n is already zero for keys that are not seen


def _doubled_gate(n_XL: Tensor, _: Tensor) -> Tensor:
    return 2 * n_XL.sigmoid()


def _plain_gate(n_XL: Tensor, _: Tensor) -> Tensor:
    return n_XL.sigmoid()


_GATES: Final = {"centred": _centred_gate, "doubled": _doubled_gate, "plain": _plain_gate}


# --- hard -------------------------------------------------------------------------------------------------------------


class Hard(nn.Module):
    """One key: sampled by the weights in training, the one with the largest weight otherwise      Xu et al. 2015, 4.1

    Gradients are straight-through, as if the weights themselves had been used (Bengio et al. 2013): biased, but without
    the variance of the paper's REINFORCE. Weights must not be negative; they are used as proportions. Samples come from
    torch's global generator.
    """

    def __init__(self, distribution: Distribution) -> None:
        super().__init__()
        self.distribution = distribution

    def forward(self, scores_XL: Float[Tensor, "*X L"], seen_XL: Seen = None) -> Float[Tensor, "*X L"]:
        """Return a weight of 1 for one key, or for none if no key is seen."""
        weights_XL = self.distribution(scores_XL, seen_XL)
        if weights_XL.shape[-1] == 0:
            return weights_XL
        return self.draw(weights_XL) if self.training else _straight_through(weights_XL, weights_XL.argmax(-1))

    def draw(self, weights_XL: Float[Tensor, "*X L"]) -> Float[Tensor, "*X L"]:
        """Sample one key by these weights."""
        # Of several exponential variables, each is the smallest with a probability proportional to its rate.
        return _straight_through(weights_XL, (weights_XL.detach() / _exponential_draws(weights_XL)).argmax(-1))


class GumbelHard(Hard):
    """One key, with the gradient of softmax((log p + g) / t), g ~ Gumbel(0, 1)      Jang et al. 2017, 2.2

    The key is sampled by the weights too; the gradient depends on the sampled key, the more the lower t is.
    """

    def __init__(self, distribution: Distribution, temperature: float = 1.0) -> None:
        super().__init__(distribution)
        if not temperature > 0:
            raise ValueError(f"hard attention has a temperature of {temperature:g}; it must be above 0")
        self.temperature = temperature

    def draw(self, weights_XL: Float[Tensor, "*X L"]) -> Float[Tensor, "*X L"]:
        """Sample one key by these weights."""
        wide_XL = _widened(weights_XL)
        possible_XL = wide_XL > 0
        gumbel_XL = -_exponential_draws(wide_XL).log()
        noisy_XL = (wide_XL.where(possible_XL, 1).log() + gumbel_XL) / self.temperature
        relaxed_XL = softmax(noisy_XL, possible_XL).to(weights_XL.dtype)
        return _straight_through(relaxed_XL, noisy_XL.masked_fill(~possible_XL, -math.inf).argmax(-1))


def _exponential_draws(like: Tensor) -> Tensor:
    draws = _widened(torch.empty_like(like)).exponential_()
    return draws.clamp_(min=torch.finfo(draws.dtype).tiny)  # avoids 0 / 0


def _straight_through(soft_XL: Tensor, key_X: Int[Tensor, "*X"]) -> Tensor:
    """Return one key, if any has a weight, with the gradients of the soft weights."""
    one_X1 = (soft_XL.detach().amax(-1, keepdim=True) > 0).to(soft_XL.dtype)
    hard_XL = torch.zeros_like(soft_XL).scatter(-1, key_X.unsqueeze(-1), one_X1)
    return hard_XL + (soft_XL - soft_XL.detach())


# --- by name ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistributionKind:
    """How to make a distribution, and its properties."""

    make: Callable[..., Distribution | DistanceDistribution]
    normalised: bool = True  # weights are not negative and sum to one
    needs_distance: bool = False  # it is called with `l1_distance` besides the scores
    fused: bool = False  # fused attention kernels support it


DISTRIBUTIONS: Final[Mapping[str, DistributionKind]] = {
    "softmax": DistributionKind(lambda: softmax, fused=True),
    "sigmoid": DistributionKind(Sigmoid, normalised=False),
    "normalised_sigmoid": DistributionKind(lambda: normalised_sigmoid),
    "sparsemax": DistributionKind(lambda: sparsemax),
    "entmax15": DistributionKind(lambda: entmax15),
    "entmax": DistributionKind(Entmax),
    "learned_entmax": DistributionKind(LearnedEntmax),
    "de_attention": DistributionKind(DeAttention, normalised=False, needs_distance=True),
}
