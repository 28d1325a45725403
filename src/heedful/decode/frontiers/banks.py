"""Dynamic beam allocation: rows that must still contain something compete with rows that need as much of it.

Continuations are in banks by how many tokens of it are left to them. A sentence continues with the best of
each bank, then with the second best of each, and so on, those with the least left first, until it has K rows; the best
continuation of all always continues. Besides the best tokens of each row, its best tokens that leave less count.

Post and Vilar 2018 divide the beam by the number of banks, and give what some banks do not need to others; this is the
same division, as far as banks have enough.

Shape letters of this file: C  best tokens of a row    A  those that leave less    N  both
                            I  continuations of a sentence
"""

import math
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.protocol import Sharing
from heedful.decode.frontiers.token_scores import Scores

_ROUND: Final = 1 << 32  # more than any number of tokens


def share_out(
    scores: Scores,
    log_p_BK: Float[Tensor, "B K"],
    log_p_RC: Float[Tensor, "R C"],
    tokens_RC: Int[Tensor, "R C"],
    sharing: Sharing,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log P of 2K continuations, the row each extends, and its last token.

    The first K are those that end, the others those that continue, best first; minus infinity where there are fewer.
    """
    sentences, beams = log_p_BK.shape
    less_RA, tokens_RA, again_RA = _advancing(scores.scores_RV, tokens_RC, sharing, beams)
    log_p_RN = torch.cat([log_p_RC, scores.log_p(less_RA).masked_fill(again_RA, -math.inf)], dim=1)
    tokens_RN = torch.cat([tokens_RC, tokens_RA], dim=1)
    total_BI = (log_p_BK.flatten().unsqueeze(1) + log_p_RN).view(sentences, -1)
    order_BI, *chosen = _choose(total_BI, tokens_RN, sharing, beams)
    total_BI, tokens_BI = total_BI.gather(1, order_BI), tokens_RN.view(sentences, -1).gather(1, order_BI)
    ranked = [total_BI.masked_fill(~chosen_BI, -math.inf).topk(beams, dim=1) for chosen_BI in chosen]
    log_p_BW = torch.cat([values for values, _ in ranked], dim=1)
    indices_BW = torch.cat([indices for _, indices in ranked], dim=1)
    return log_p_BW, order_BI.gather(1, indices_BW) // tokens_RN.shape[1], tokens_BI.gather(1, indices_BW)


def share_in_slots(
    scores_RV: Float[Tensor, "R V"],
    log_p_SK: Float[Tensor, "S K"],
    scores_RC: Float[Tensor, "R C"],
    tokens_RC: Int[Tensor, "R C"],
    sums_R: Float[Tensor, "R"],
    sharing: Sharing,
) -> tuple[Float[Tensor, "R N"], Int[Tensor, "R N"]]:
    """Return the scores and tokens of candidates, of which `nn.decoding.beam_step` takes all that are possible.

    These are the continuations that `share_out` chooses; slots that need not contain anything keep the best tokens.
    """
    slots, beams = log_p_SK.shape
    less_RA, tokens_RA, again_RA = _advancing(scores_RV, tokens_RC, sharing, beams)
    scores_RN = torch.cat([scores_RC, less_RA.masked_fill(again_RA, -math.inf)], dim=1)
    tokens_RN = torch.cat([tokens_RC, tokens_RA], dim=1)
    total_SI = (log_p_SK.view(-1, 1) + (scores_RN - sums_R.unsqueeze(1))).view(slots, -1)
    total_SI = total_SI.masked_fill(total_SI != total_SI, -math.inf)  # NaN is not a continuation
    order_SI, ended_SI, going_SI = _choose(total_SI, tokens_RN, sharing, beams)
    shared_SI = torch.empty_like(ended_SI).scatter_(1, order_SI, ended_SI | going_SI)
    best_N = torch.arange(scores_RN.shape[1], device=scores_RN.device) < scores_RC.shape[1]
    kept_RN = torch.where(sharing.requires_B.view(-1, 1, 1), shared_SI.view(slots, beams, -1), best_N).flatten(0, 1)
    return scores_RN.masked_fill(~kept_RN, -math.inf), tokens_RN


def _advancing(
    scores_RV: Float[Tensor, "R V"], tokens_RC: Int[Tensor, "R C"], sharing: Sharing, beams: int
) -> tuple[Float[Tensor, "R A"], Int[Tensor, "R A"], Bool[Tensor, "R A"]]:
    """Return the scores of each row's best tokens that leave less, these, and whether the best tokens have them."""
    advancing_RF = sharing.advancing()
    less_RA, order_RA = scores_RV.gather(1, advancing_RF).topk(min(beams, advancing_RF.shape[1]), dim=1)
    tokens_RA = advancing_RF.gather(1, order_RA)
    return less_RA, tokens_RA, (tokens_RA.unsqueeze(2) == tokens_RC.unsqueeze(1)).any(2)


def _choose(
    total_BI: Float[Tensor, "B I"], tokens_RN: Int[Tensor, "R N"], sharing: Sharing, beams: int
) -> tuple[Int[Tensor, "B I"], Bool[Tensor, "B I"], Bool[Tensor, "B I"]]:
    """Return continuations in the order in which they are chosen, and which of them end and continue."""
    sorted_BI, order_BI = total_BI.sort(dim=1, descending=True, stable=True)
    left_BI = sharing.left(tokens_RN).view(total_BI.shape).gather(1, order_BI)
    order_BI = order_BI.gather(1, _turns(sorted_BI, left_BI).argsort(dim=1, stable=True))
    ends_BI = tokens_RN.view(total_BI.shape).gather(1, order_BI) == END
    places_I = torch.arange(ends_BI.shape[1], device=ends_BI.device)
    return order_BI, ends_BI & (places_I < beams), ~ends_BI & ((~ends_BI).cumsum(1) <= beams)


def _turns(total_BI: Float[Tensor, "B I"], left_BI: Int[Tensor, "B I"]) -> Int[Tensor, "B I"]:
    """Return numbers by whose order continuations are chosen; these are sorted, the best first."""
    impossible_BI = total_BI == -math.inf
    banks_BI, by_bank_BI = left_BI.masked_fill(impossible_BI, _ROUND - 1).sort(dim=1, stable=True)
    places_I = torch.arange(banks_BI.shape[1], device=banks_BI.device)
    new_BI = torch.ones_like(impossible_BI)
    new_BI[:, 1:] = banks_BI[:, 1:] != banks_BI[:, :-1]
    first_BI = (places_I * new_BI).cummax(1).values
    rounds_BI = torch.empty_like(by_bank_BI).scatter_(1, by_bank_BI, places_I - first_BI)
    turns_BI = (rounds_BI * _ROUND + left_BI).masked_fill(impossible_BI, torch.iinfo(torch.int64).max)
    turns_BI[:, 0].fill_(-1)
    return turns_BI
