"""Sampling: tokens drawn from the model's distribution, or from its more probable part (see `settings.Sampling`).

A token is found by inverting the distribution function at one uniform number. Each sample of each sentence has its own
sequence of such numbers, Philox with the key (seed, sentence) and the sample in the counter: what is drawn does not
depend on the batch, or on the number of other samples. A search that continues another draws the numbers after its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.config.decode import Sampling
from heedful.decode.constraints.protocol import OfSentences
from heedful.decode.frontiers.token_scores import Scores
from heedful.decode.query import DrawStart

_AT_ONCE: Final = 4  # numbers that Philox makes for each value of its counter


@dataclass(frozen=True, eq=False)
class Draws(OfSentences):
    """Chooses the next token of each row by one uniform number per row and step."""

    sampling: Sampling
    uniform_BKS: Float[Tensor, "B K S"]  # S: steps

    @classmethod
    def of(cls, sampling: Sampling, starts: Sequence[DrawStart], steps: int, device: torch.device) -> "Draws":
        """Draw for at most `steps` steps; `starts` are those of the queries."""
        return cls(sampling, torch.from_numpy(uniforms(sampling, starts, steps)).to(device))

    def choose(self, scores: Scores, step: int) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the log P and the token of each row."""
        tokens_R1 = draw(scores.scores_RV, self.uniform_BKS[:, :, step].flatten(), self.sampling).unsqueeze(1)
        return scores.log_p(scores.scores_RV.gather(1, tokens_R1)).squeeze(1), tokens_R1.squeeze(1)


def uniforms(
    sampling: Sampling, starts: Sequence[DrawStart], steps: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the numbers, at least 0 and below 1, of each sentence, sample and step."""
    drawn = np.empty((len(starts), sampling.samples, steps))
    for index, start in enumerate(starts):
        for sample in range(sampling.samples):
            stream = np.random.Philox(
                key=np.array([sampling.seed, start.key], np.uint64),
                counter=np.array([start.step // _AT_ONCE, 0, 0, start.sample + sample], np.uint64),
            )
            skipped = start.step % _AT_ONCE
            drawn[index, sample] = np.random.Generator(stream).random(skipped + steps)[skipped:]
    return drawn


def draw(scores_RV: Float[Tensor, "R V"], uniform_R: Float[Tensor, "R"], sampling: Sampling) -> Int[Tensor, "R"]:
    """Return the token of each row where the distribution function passes its uniform number.

    Any token is returned where all are forbidden. The tokens are in the order of their ids, not of their scores: which
    of two nearly equal scores is greater may change with the batch by rounding, and must not change what is drawn.
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
    if sampling.min_p > 0:
        p_RV = _from(sampling.min_p * p_RV.amax(1, keepdim=True), p_RV)
    passed_RV = p_RV.cumsum(1)
    aims_R1 = uniform_R.unsqueeze(1) * passed_RV[:, -1:]
    return torch.searchsorted(passed_RV, aims_R1, right=True).squeeze(1).clamp(max=p_RV.shape[1] - 1)


def _from(least_R1: Float[Tensor, "R 1"], p_RV: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """Keep only what is at least as probable."""
    return p_RV.where(p_RV >= least_R1, 0.0)
