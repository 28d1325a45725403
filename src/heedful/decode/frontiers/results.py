"""From rows on a device to hypotheses: what a frontier returns in the end. Waits for the device."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.decode.frontiers.rows import Attended
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.penalties import Coverage
from heedful.decode.settings import SearchSettings


def list_unfinished(
    settings: SearchSettings,
    tokens_BKT: Int[Tensor, "B K T"],
    log_p_BK: Float[Tensor, "B K"],
    attended: Attended | None,
) -> list[list[Hypothesis]]:
    """Return the possible hypotheses among K rows per sentence as they are, scored by their present length."""
    covered_BK = torch.zeros_like(log_p_BK) if attended is None else Coverage(settings.coverage)(attended.sums_BKL)
    alignments = _alignments(log_p_BK, attended.indices_BKT if attended and settings.aligned else None)
    rows = zip(tokens_BKT[:, :, 1:].tolist(), log_p_BK.tolist(), covered_BK.tolist(), alignments, strict=True)
    return [
        [
            Hypothesis.scored(tokens, log_p, settings.penalty, covered, aligned)
            for tokens, log_p, covered, aligned in zip(*row, strict=True)
            if math.isfinite(log_p)
        ]
        for row in rows
    ]


def list_finished(
    tokens_BKT: Int[Tensor, "B K T"],
    score_BK: Float[Tensor, "B K"],
    log_p_BK: Float[Tensor, "B K"],
    indices_BKT: Int[Tensor, "B K T-1"] | None,
) -> list[list[Hypothesis]]:
    """Return the possible hypotheses among K rows per sentence, with these scores."""
    alignments = _alignments(log_p_BK, indices_BKT)
    rows = zip(tokens_BKT[:, :, 1:].tolist(), score_BK.tolist(), log_p_BK.tolist(), alignments, strict=True)
    return [[Hypothesis.of(*found) for found in zip(*row, strict=True) if math.isfinite(found[1])] for row in rows]


def _alignments(
    like_BK: Float[Tensor, "B K"], indices_BKT: Int[Tensor, "B K T"] | None
) -> list[list[list[int] | None]]:
    """Return the aligned source tokens of each row, or None for each."""
    if indices_BKT is None:
        sentences, rows = like_BK.shape
        return [[None] * rows] * sentences
    alignments: list[list[list[int] | None]] = indices_BKT.tolist()
    return alignments
