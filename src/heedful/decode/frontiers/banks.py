"""Dynamic beam allocation: rows that must still contain something compete with rows that need as much of it.

Continuations are in banks by how many tokens of it are left to them. A sentence continues with the best of
each bank, then with the second best of each, and so on, those with the least left first, until it has K rows; the best
continuation of all always continues. Besides the best tokens of each row, its best tokens that leave less count.

Post and Vilar 2018 divide the beam by the number of banks, and give what some banks do not need to others; this is the
same division, as far as banks have enough.

Shape letters of this file: C  best tokens of a row    A  those that leave less    I  continuations of a sentence
"""

import math
from typing import Final

import torch
from jaxtyping import Float, Int
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
    advancing_RF = sharing.advancing()
    less_RA, order_RA = scores.scores_RV.gather(1, advancing_RF).topk(min(beams, advancing_RF.shape[1]), dim=1)
    tokens_RA = advancing_RF.gather(1, order_RA)
    again_RA = (tokens_RA.unsqueeze(2) == tokens_RC.unsqueeze(1)).any(2)
    log_p_RI = torch.cat([log_p_RC, scores.log_p(less_RA).masked_fill(again_RA, -math.inf)], dim=1)
    tokens_RI = torch.cat([tokens_RC, tokens_RA], dim=1)
    each = tokens_RI.shape[1]
    total_BI, order_BI = (
        (log_p_BK.flatten().unsqueeze(1) + log_p_RI).view(sentences, -1).sort(dim=1, descending=True, stable=True)
    )
    tokens_BI = tokens_RI.view(sentences, -1).gather(1, order_BI)
    left_BI = sharing.left(tokens_RI).view(sentences, -1).gather(1, order_BI)
    turn_BI = _turns(total_BI, left_BI).argsort(dim=1, stable=True)
    total_BI, order_BI, tokens_BI = (x_BI.gather(1, turn_BI) for x_BI in (total_BI, order_BI, tokens_BI))
    ends_BI = tokens_BI == END
    places_I = torch.arange(ends_BI.shape[1], device=ends_BI.device)
    ended_BI = ends_BI & (places_I < beams)
    going_BI = ~ends_BI & ((~ends_BI).cumsum(1) <= beams)
    chosen = [total_BI.masked_fill(~chosen_BI, -math.inf).topk(beams, dim=1) for chosen_BI in (ended_BI, going_BI)]
    log_p_BW = torch.cat([values for values, _ in chosen], dim=1)
    indices_BW = torch.cat([indices for _, indices in chosen], dim=1)
    return log_p_BW, order_BI.gather(1, indices_BW) // each, tokens_BI.gather(1, indices_BW)


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
    turns_BI[:, 0] = -1
    return turns_BI
