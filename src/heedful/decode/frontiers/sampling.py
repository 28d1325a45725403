"""Sampling: tokens drawn from the model's distribution, or from its likelier part.

    P_t(v) ~ exp(score_v / temperature), among the k most probable (Fan et al. 2018),
             and of these among the fewest that have p of the probability (Holtzman et al. 2020)

A token is found by inverting the distribution function at one uniform number. Each sample of each sentence has its own
sequence of such numbers, Philox with the key (seed, sentence) and the sample in the counter: what is drawn depends
neither on the batch, nor on how many other samples there are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.decode.frontiers.token_scores import Scores
from heedful.errors import UserError

_SEEDS = 2**64


@dataclass(frozen=True)
class Sampling:
    """How to draw: `samples` targets of each sentence, independent of each other, in the order they are drawn in."""

    temperature: float = 1.0
    top_k: int = 0  # 0 is all; tokens as probable as the last of them are kept too
    top_p: float = 1.0  # 1 is all
    samples: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise UserError(
                f"`temperature` is {self.temperature}, but must be more than 0: greedy search is a `beam` of 1 without "
                "sampling."
            )
        if self.top_k < 0:
            raise UserError(f"`top_k` is {self.top_k}, but must be 1 or more, or 0 for all tokens.")
        if not 0 < self.top_p <= 1:
            raise UserError(f"`top_p` is {self.top_p}, but must be more than 0 and at most 1, which is all tokens.")
        if self.samples < 1:
            raise UserError(f"`samples` is {self.samples}, but must be at least 1.")
        if not 0 <= self.seed < _SEEDS:
            raise UserError(f"`seed` is {self.seed}, but must be 0 or more, and less than 2^64.")


@dataclass(frozen=True, eq=False)
class Draws:
    """Chooses the next token of each row by its uniform number of this step."""

    sampling: Sampling
    uniform_BKS: Float[Tensor, "B K S"]  # S: steps

    @classmethod
    def of(cls, sampling: Sampling, numbers: Sequence[int], steps: int, device: torch.device) -> "Draws":
        """Draw for at most `steps` steps; `numbers` are the sentences'."""
        return cls(sampling, torch.from_numpy(uniforms(sampling, numbers, steps)).to(device))

    def choose(self, scores: Scores, step: int) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """The log P and the token of each row."""
        tokens_R1 = draw(scores.scores_RV, self.uniform_BKS[:, :, step].flatten(), self.sampling).unsqueeze(1)
        return scores.log_p(scores.scores_RV.gather(1, tokens_R1)).squeeze(1), tokens_R1.squeeze(1)

    def select(self, sentences: Int[Tensor, "A"]) -> "Draws":
        """Keep only these sentences."""
        return replace(self, uniform_BKS=self.uniform_BKS[sentences])


def uniforms(
    sampling: Sampling, numbers: Sequence[int], steps: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The numbers, at least 0 and below 1, of each sentence, sample and step."""
    drawn = np.empty((len(numbers), sampling.samples, steps))
    for place, number in enumerate(numbers):
        for sample in range(sampling.samples):
            stream = np.random.Philox(
                key=np.array([sampling.seed, number], np.uint64), counter=np.array([0, 0, 0, sample], np.uint64)
            )
            np.random.Generator(stream).random(out=drawn[place, sample])
    return drawn


def draw(scores_RV: Float[Tensor, "R V"], uniform_R: Float[Tensor, "R"], sampling: Sampling) -> Int[Tensor, "R"]:
    """The token of each row where the distribution function passes its uniform number; any where all are forbidden.

    The tokens stand in the order of their ids, not of their scores: which of two nearly equal scores is greater may
    change with the batch by rounding, and must not change what is drawn.
    """
    scores_RV = scores_RV.double()
    greatest_R1 = scores_RV.amax(1, keepdim=True).clamp(min=torch.finfo(scores_RV.dtype).min)
    p_RV = ((scores_RV - greatest_R1) / sampling.temperature).exp()
    count = min(sampling.top_k or p_RV.shape[1], p_RV.shape[1])
    if count < p_RV.shape[1]:
        p_RV = _from(p_RV.topk(count, dim=1).values[:, -1:], p_RV)
    if sampling.top_p < 1:
        ranked_RC = p_RV.topk(count, dim=1).values
        wanted_R1 = sampling.top_p * p_RV.sum(1, keepdim=True)
        last_R1 = (ranked_RC.cumsum(1) < wanted_R1).sum(1, keepdim=True).clamp(max=count - 1)
        p_RV = _from(ranked_RC.gather(1, last_R1), p_RV)
    passed_RV = p_RV.cumsum(1)
    aims_R1 = uniform_R.unsqueeze(1) * passed_RV[:, -1:]
    return torch.searchsorted(passed_RV, aims_R1, right=True).squeeze(1).clamp(max=p_RV.shape[1] - 1)


def _from(least_R1: Float[Tensor, "R 1"], p_RV: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """Only what is at least as probable."""
    return p_RV.where(p_RV >= least_R1, 0.0)
