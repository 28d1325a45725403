"""From scores over the vocabulary to the few tokens that a search continues with: the best ones, or random ones.

Sampling draws tokens from the model's distribution, or from its more probable part (see `config.decode.Sampling`). A
token is found by inverting the distribution function at one uniform number. Each sample of each sentence has its own
sequence of such numbers, Philox with the key (seed, sentence) and the sample in the counter: what is drawn does not
depend on the batch, or on the number of other samples. A search that continues another draws the numbers after its own.

Shape letter of this file: C  tokens chosen for each row
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.config.decode import Sampling
from heedful.decode.constraints.protocol import Constraint, OfSentences
from heedful.decode.query import DrawStart


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of every next token of each row, minus infinity where it may not follow.

        log P = score - m - log sum_v exp(score_v - m),  m the greatest score

    The sum is over the whole vocabulary, before any token is forbidden: log P is the model's own. Sums are float32 or
    wider.
    """

    scores_RV: Float[Tensor, "R V"]
    greatest_R1: Float[Tensor, "R 1"]
    log_sum_R1: Float[Tensor, "R 1"]
    ranking: "Ranking"

    @classmethod
    def of(
        cls,
        logits_RV: Float[Tensor, "R V"],
        constraints: Sequence[Constraint],
        tokens_RT: Int[Tensor, "R T"],
        ranking: "Ranking",
    ) -> "Scores":
        """Take a decoder's scores of what follows these tokens. The logits are used up."""
        scores_RV = logits_RV.to(torch.promote_types(logits_RV.dtype, torch.float32))
        normal = cls(scores_RV, *ranking.normaliser(scores_RV), ranking)
        for constraint in constraints:
            constraint.forbid(scores_RV, tokens_RT)
        return normal

    def log_p(self, scores_RC: Float[Tensor, "R C"]) -> Float[Tensor, "R C"]:
        """Return the log probabilities of some of the scores."""
        return scores_RC - self.greatest_R1 - self.log_sum_R1

    def best(self, count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
        """Return the log probabilities of each row's `count` best tokens, or of all, and the tokens, best first."""
        best_RC, tokens_RC = self.ranking.best(self.scores_RV, min(count, self.scores_RV.shape[1]))
        return self.log_p(best_RC), tokens_RC


@runtime_checkable
class Ranking(Protocol):
    """Passes over the scores of a whole vocabulary, which take longer than all else that a search does with them."""

    def normaliser(self, scores_RV: Float[Tensor, "R V"]) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
        """Return what turns scores into log probabilities, in two parts: the greatest, and log sum exp of the rest."""

    def best(self, scores_RV: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
        """Return each row's `count` best scores and their tokens, best first."""


class UsualRanking:
    """By PyTorch, on any device."""

    def normaliser(self, scores_RV: Float[Tensor, "R V"]) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
        """See `normaliser`."""
        return normaliser(scores_RV)

    def best(self, scores_RV: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
        """See `_top`."""
        return _top(scores_RV, count)


USUAL: Final = UsualRanking()


def normaliser(scores_RV: Float[Tensor, "R V"]) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
    """Return what turns scores into log probabilities, in two parts: the greatest, and log sum exp of the rest."""
    greatest_R1 = scores_RV.amax(1, keepdim=True)
    # torch.log_softmax and torch.logsumexp take several times as long on a CPU.
    return greatest_R1, (scores_RV - greatest_R1).exp_().sum(1, keepdim=True).log_()


def _top(x_RV: Float[Tensor, "R V"], count: int) -> tuple[Tensor, Tensor]:
    """Return what torch.topk returns, which sorts slowly on the CPU.

    The columns are dealt into groups; the best `count` of a row are in its `count` groups with the greatest maxima, so
    only these are sorted.
    """
    size = math.isqrt(x_RV.shape[1] // count)  # of a group: as much sorting among groups as inside the chosen
    if x_RV.device.type != "cpu" or size < 4:
        return x_RV.topk(count, dim=1)
    groups = x_RV.shape[1] // size
    dealt = x_RV[:, : size * groups].unflatten(1, (size, groups))  # column c is in group c % groups
    chosen_RC = dealt.amax(1).topk(count, dim=1, sorted=False).indices
    columns_RS = (torch.arange(size).unsqueeze(1) * groups + chosen_RC.unsqueeze(1)).flatten(1)
    rest = torch.arange(size * groups, x_RV.shape[1]).expand(x_RV.shape[0], -1)
    columns_RS = torch.cat([columns_RS, rest], dim=1)
    best_RC, indices_RC = x_RV.gather(1, columns_RS).topk(count, dim=1)
    return best_RC, columns_RS.gather(1, indices_RC)


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

    def delayed(self, steps: int) -> "Draws":
        """Return the same numbers for steps that come later, or earlier."""
        return replace(self, uniform_BKS=F.pad(self.uniform_BKS, (steps, 0)))

    def join(self, other: "Draws") -> "Draws":
        """See `OfSentences.join`: what a sentence never reaches has any number."""
        most = max(self.uniform_BKS.shape[2], other.uniform_BKS.shape[2])
        both = [F.pad(one.uniform_BKS, (0, most - one.uniform_BKS.shape[2])) for one in (self, other)]
        return replace(self, uniform_BKS=torch.cat(both))

    def choose(self, scores: Scores, step: int) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the log P and the token of each row."""
        uniform_R = self.uniform_BKS[:, :, step].flatten()
        tokens_R1 = draw(scores.scores_RV, uniform_R, Filters.of(self.sampling, scores.scores_RV.shape[1])).unsqueeze(1)
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


Limit = float | Float[Tensor, "R 1"]  # of all rows, or of each
Count = int | Int[Tensor, "R 1"]


@dataclass(frozen=True, eq=False)
class Filters:
    """What `config.decode.Sampling` says of the distribution that a token is drawn from: for all rows, or for each."""

    temperature: Limit
    top_k: Count  # as many as there are tokens, where all are allowed
    top_p: Limit
    min_p: Limit
    ranked: int  # number of tokens that are put in order: 0 where neither `top_k` nor `top_p` asks for it

    @classmethod
    def of(cls, sampling: Sampling, vocab_size: int) -> "Filters":
        """Return those of all rows."""
        top_k = min(sampling.top_k or vocab_size, vocab_size)
        ranked = top_k if top_k < vocab_size or sampling.top_p < 1 else 0
        return cls(sampling.temperature, top_k, sampling.top_p, sampling.min_p, ranked)


def draw(scores_RV: Float[Tensor, "R V"], uniform_R: Float[Tensor, "R"], filters: Filters) -> Int[Tensor, "R"]:
    """Return the token of each row where the distribution function passes its uniform number.

    Any token is returned where all are forbidden. The tokens are in the order of their ids, not of their scores: which
    of two nearly equal scores is greater may change with the batch by rounding, and must not change what is drawn.
    """
    scores_RV = scores_RV.double()
    greatest_R1 = scores_RV.amax(1, keepdim=True).clamp(min=torch.finfo(scores_RV.dtype).min)
    p_RV = ((scores_RV - greatest_R1) / filters.temperature).exp()
    if filters.ranked:
        ranked_RC = p_RV.topk(filters.ranked, dim=1).values
        last_R1 = torch.as_tensor(filters.top_k, device=p_RV.device).expand(len(p_RV), 1) - 1
        p_RV = _from(ranked_RC.gather(1, last_R1), p_RV)
        wanted_R1 = filters.top_p * p_RV.sum(1, keepdim=True)
        enough_R1 = (ranked_RC.cumsum(1) < wanted_R1).sum(1, keepdim=True).minimum(last_R1)
        all_R1 = torch.as_tensor(filters.top_p, device=p_RV.device) >= 1  # whatever rounding makes of the sums
        p_RV = _from(ranked_RC.gather(1, torch.where(all_R1, last_R1, enough_R1)), p_RV)
    p_RV = _from(filters.min_p * p_RV.amax(1, keepdim=True), p_RV)
    passed_RV = p_RV.cumsum(1)
    aims_R1 = uniform_R.unsqueeze(1) * passed_RV[:, -1:]
    return torch.searchsorted(passed_RV, aims_R1, right=True).squeeze(1).clamp(max=p_RV.shape[1] - 1)


def _from(least_R1: Float[Tensor, "R 1"], p_RV: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """Keep only what is at least as probable."""
    return p_RV.where(p_RV >= least_R1, 0.0)
