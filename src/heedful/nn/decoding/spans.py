"""Spans of a text as answers: the probabilities of where one starts and ends, and the best spans.

Shape letter of this file: A  maximum tokens of an answer
"""

from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.padding import pad

IMPOSSIBLE: Final = -1e30  # finite, so that a row without any possible token has no undefined gradient


class Spans(NamedTuple):
    """The best spans of each row, best first; where there are fewer, the score is IMPOSSIBLE or less."""

    scores: Float[Tensor, "B K"]
    starts: Int[Tensor, "B K"]
    ends: Int[Tensor, "B K"]


def log_ends(
    scores_N2: Float[Tensor, "N 2"], possible_N: Bool[Tensor, "N"], layout: Layout
) -> tuple[Float[Tensor, "B L"], Float[Tensor, "B L"]]:
    """Return log P(start) and log P(end) of every token, each a softmax over the possible tokens of a row

    Devlin et al. 2019, 4.2
    """
    padded_BL2 = pad(scores_N2.float(), layout)
    possible_BL = possible_of_rows(possible_N, layout)
    logs_BL2 = padded_BL2.masked_fill(~possible_BL.unsqueeze(2), IMPOSSIBLE).log_softmax(1)
    return logs_BL2[..., 0], logs_BL2[..., 1]


def possible_of_rows(possible_N: Bool[Tensor, "N"], layout: Layout) -> Bool[Tensor, "B L"]:
    """Return the possible tokens as rows of equal length."""
    return possible_N[layout.gather] & layout.keep


def best_spans(
    starts_BL: Float[Tensor, "B L"], ends_BL: Float[Tensor, "B L"], allowed_BL: Bool[Tensor, "B L"], most: int, k: int
) -> Spans:
    """Return the k spans with the greatest log P(start) + log P(end), of at most `most` tokens, all allowed."""
    rows, length = starts_BL.shape
    most = min(most, length)
    starts_BL = starts_BL.masked_fill(~allowed_BL, IMPOSSIBLE)
    ends_BL = ends_BL.masked_fill(~allowed_BL, IMPOSSIBLE)
    beyond = ends_BL.new_full((rows, most - 1), IMPOSSIBLE)
    ends_BLA = torch.cat([ends_BL, beyond], dim=1).unfold(1, most, 1)  # of token i: those of i, i + 1, ...
    scores_BX = (starts_BL.unsqueeze(2) + ends_BLA).flatten(1)
    scores_BK, found_BK = scores_BX.topk(min(k, scores_BX.shape[1]), dim=1)
    starts_BK = found_BK // most
    return Spans(scores_BK, starts_BK, starts_BK + found_BK % most)
