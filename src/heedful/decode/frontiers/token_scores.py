"""From scores over the vocabulary to the few tokens that a search continues with.

Shape letter of this file: C  tokens chosen for each row
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.decode.constraints.protocol import Constraint


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

    @classmethod
    def of(
        cls, logits_RV: Float[Tensor, "R V"], constraints: Sequence[Constraint], tokens_RT: Int[Tensor, "R T"]
    ) -> "Scores":
        """Take a decoder's scores of what follows these tokens. The logits are used up."""
        scores_RV = logits_RV.to(torch.promote_types(logits_RV.dtype, torch.float32))
        normal = cls(scores_RV, *normaliser(scores_RV))
        for constraint in constraints:
            constraint.forbid(scores_RV, tokens_RT)
        return normal

    def log_p(self, scores_RC: Float[Tensor, "R C"]) -> Float[Tensor, "R C"]:
        """Return the log probabilities of some of the scores."""
        return scores_RC - self.greatest_R1 - self.log_sum_R1

    def best(self, count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
        """Return the log probabilities of each row's `count` best tokens, or of all, and the tokens, best first."""
        best_RC, tokens_RC = _top(self.scores_RV, min(count, self.scores_RV.shape[1]))
        return self.log_p(best_RC), tokens_RC


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
