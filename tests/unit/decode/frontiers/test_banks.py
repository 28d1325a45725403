"""Dynamic beam allocation, against its definition with lists."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.protocol import Sharing
from heedful.decode.frontiers.banks import share_out
from heedful.decode.frontiers.token_scores import USUAL, Scores

VOCABULARY, SENTENCES = 9, 20


@dataclass
class Given(Sharing):
    """A constraint with random numbers of tokens that are left."""

    left_RV: Tensor
    before_R: Tensor

    def advancing(self) -> Tensor:
        tokens_RV = torch.arange(VOCABULARY).expand_as(self.left_RV)
        return tokens_RV.masked_fill(self.left_RV >= self.before_R.unsqueeze(1), 0)

    def left(self, tokens_RC: Tensor) -> Tensor:
        return self.left_RV.gather(1, tokens_RC)


Continuation = tuple[float, int, int]  # log P, row and token


def chosen(candidates: list[Continuation], left: list[list[int]], beams: int) -> tuple[list[Continuation], ...]:
    """What ends and what continues: the best of all, then of each bank the best, the second best and so on."""
    ranked = sorted(candidates, reverse=True)
    banks: dict[int, list[Continuation]] = {}
    for one in ranked:
        banks.setdefault(left[one[1]][one[2]], []).append(one)
    turns = [(place, bank, one) for bank, some in banks.items() for place, one in enumerate(some) if one != ranked[0]]
    order = [ranked[0], *(one for _, _, one in sorted(turns, key=lambda turn: turn[:2]))]
    ended = [one for one in order[:beams] if one[2] == END]
    going = [one for one in order if one[2] != END][:beams]
    return sorted(ended, reverse=True), sorted(going, reverse=True)


@pytest.mark.parametrize("beams", [2, 3, 5])
def test_each_bank_has_its_share_of_the_beam(beams: int) -> None:
    rows = SENTENCES * beams
    scores_RV = torch.randn(rows, VOCABULARY, dtype=torch.float64)
    scores_RV[:, 0] = -math.inf
    left_RV = torch.randint(0, 4, (rows, VOCABULARY))
    before_R = torch.randint(1, 4, (rows,))
    log_p_BK = torch.randn(SENTENCES, beams, dtype=torch.float64).sort(1, descending=True).values
    scores = Scores(scores_RV, torch.zeros(rows, 1), torch.zeros(rows, 1), USUAL)
    best_RC, tokens_RC = scores.best(2 * beams)
    found = share_out(scores, log_p_BK, best_RC, tokens_RC, Given(left_RV, before_R))
    for sentence in range(SENTENCES):
        candidates = set[Continuation]()
        for row in range(beams):
            at = sentence * beams + row
            total = {token: float(log_p_BK[sentence, row] + scores_RV[at, token]) for token in range(1, VOCABULARY)}
            advancing = [token for token in total if left_RV[at, token] < before_R[at]]
            advancing = sorted(advancing, key=lambda token: -total[token])[:beams]
            candidates |= {(total[token], row, token) for token in [*tokens_RC[at].tolist(), *advancing] if token}
        left = left_RV.view(SENTENCES, beams, VOCABULARY)[sentence].tolist()
        expected = chosen(list(candidates), left, beams)
        listed = [(float(p), int(row), int(token)) for p, row, token in zip(*(x[sentence] for x in found), strict=True)]
        assert ([one for one in listed[:beams] if one[0] > -math.inf], listed[beams:]) == expected
