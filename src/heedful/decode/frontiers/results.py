"""Rows on a device as hypotheses: what a frontier gives back in the end. Asks the device."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.decode.frontiers.attended import Attended
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.penalties import Coverage
from heedful.decode.settings import SearchSettings


def standing(
    settings: SearchSettings,
    tokens_BKT: Int[Tensor, "B K T"],
    log_p_BK: Float[Tensor, "B K"],
    attended: Attended | None,
) -> list[list[Hypothesis]]:
    """The possible ones among K rows of each sentence as they stand, scored by the length that they have."""
    covered_BK = torch.zeros_like(log_p_BK) if attended is None else Coverage(settings.coverage)(attended.sums_BKL)
    places = _places(log_p_BK, attended.places_BKT if attended and settings.aligned else None)
    rows = zip(tokens_BKT[:, :, 1:].tolist(), log_p_BK.tolist(), covered_BK.tolist(), places, strict=True)
    return [
        [
            Hypothesis.scored(tokens, log_p, settings.penalty, covered, aligned)
            for tokens, log_p, covered, aligned in zip(*row, strict=True)
            if math.isfinite(log_p)
        ]
        for row in rows
    ]


def listed(
    tokens_BKT: Int[Tensor, "B K T"],
    score_BK: Float[Tensor, "B K"],
    log_p_BK: Float[Tensor, "B K"],
    places_BKT: Int[Tensor, "B K T-1"] | None,
) -> list[list[Hypothesis]]:
    """The possible ones among K rows of each sentence, with these scores."""
    places = _places(log_p_BK, places_BKT)
    rows = zip(tokens_BKT[:, :, 1:].tolist(), score_BK.tolist(), log_p_BK.tolist(), places, strict=True)
    return [[Hypothesis.of(*found) for found in zip(*row, strict=True) if math.isfinite(found[1])] for row in rows]


def _places(like_BK: Float[Tensor, "B K"], places_BKT: Int[Tensor, "B K T"] | None) -> list[list[list[int] | None]]:
    """The aligned places of each row, or None for each."""
    if places_BKT is None:
        sentences, rows = like_BK.shape
        return [[None] * rows] * sentences
    places: list[list[list[int] | None]] = places_BKT.tolist()
    return places
