"""Drawing with filters of each row: as with those of all rows, and as by a definition with lists."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.shared.covering import one_in
from torch import Tensor

from heedful.config.decode import Sampling
from heedful.decode.frontiers.token_scores import Filters, draw

WORDS = 13
SAMPLINGS = [
    Sampling(),
    Sampling(0.3),
    Sampling(2.5, top_k=1),
    Sampling(top_k=4),
    Sampling(0.7, top_k=5, top_p=0.61),
    Sampling(1.3, top_p=0.37),
    Sampling(top_p=0.93, min_p=0.2),
    Sampling(0.8, min_p=0.05),
    Sampling(1.7, top_k=WORDS + 3, top_p=0.999),  # more than there are
    Sampling(top_k=WORDS - 1, min_p=1.0),
    Sampling(1e-3, top_p=1e-6),
]


def by_definition(scores: Sequence[float], sampling: Sampling) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The distribution function of what is drawn from.

    P_t(v) ~ exp(score_v / temperature), then the k most probable, then the fewest with p of what is left, then those
    with min_p of the greatest; what is as probable as the last one kept is kept too.
    """
    p = np.array([math.exp((score - max(scores)) / sampling.temperature) for score in scores])
    if sampling.top_k:
        p[p < np.sort(p)[::-1][min(sampling.top_k, len(p)) - 1]] = 0
    if sampling.top_p < 1:
        ranked = np.sort(p)[::-1]
        p[p < ranked[np.flatnonzero(ranked.cumsum() >= sampling.top_p * p.sum())[0]]] = 0
    p[p < sampling.min_p * p.max()] = 0
    return (p / p.sum()).cumsum()


def rows_of(kind: str, count: int, seed: int) -> Tensor:
    """Scores without equal ones, with many of them, or most of them forbidden."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        scores = [chance.gauss(0, 2) for _ in range(WORDS)]
        if kind == "ties":
            scores = [float(round(score)) for score in scores]
        if kind == "forbidden":
            kept = set(chance.sample(range(WORDS), chance.randint(1, 4)))
            scores = [score if word in kept else -math.inf for word, score in enumerate(scores)]
        rows.append(scores)
    return torch.tensor(rows, dtype=torch.float64)


def of_each(samplings: Sequence[Sampling], ranked: int) -> Filters:
    """The filters of rows, as the slots of a search have them."""
    each = [Filters.of(sampling, WORDS) for sampling in samplings]
    columns = [[[one.temperature] for one in each], [[one.top_p] for one in each], [[one.min_p] for one in each]]
    temperature_R1, top_p_R1, min_p_R1 = torch.tensor(columns, dtype=torch.float64)
    return Filters(temperature_R1, torch.tensor([[one.top_k] for one in each]), top_p_R1, min_p_R1, ranked)


@pytest.mark.parametrize("kind", ["usual", "ties", "forbidden"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_a_draw_is_where_the_distribution_function_by_definition_passes_the_number(
    sampling: Sampling, kind: str
) -> None:
    """With the filters of all rows, and of each."""
    scores_RV = rows_of(kind, 40, seed=1)
    uniform_R = torch.rand(40, dtype=torch.float64)
    found = draw(scores_RV, uniform_R, Filters.of(sampling, WORDS))
    assert torch.equal(found, draw(scores_RV, uniform_R, of_each([sampling] * 40, WORDS)))
    for scores, number, token in zip(scores_RV.tolist(), uniform_R.tolist(), found.tolist(), strict=True):
        passed = by_definition(scores, sampling)
        assert token == np.searchsorted(passed, number, side="right")


@pytest.mark.parametrize("kind", ["usual", "ties", "forbidden"])
@pytest.mark.parametrize("seed", one_in(3, range(6)))
def test_rows_with_filters_of_their_own_draw_what_they_draw_alone(seed: int, kind: str) -> None:
    chance = random.Random(seed)
    samplings = [chance.choice(SAMPLINGS) for _ in range(60)]
    scores_RV = rows_of(kind, 60, seed)
    uniform_R = torch.rand(60, dtype=torch.float64)
    together = draw(scores_RV, uniform_R, of_each(samplings, WORDS))
    alone = [
        draw(scores_RV[[row]], uniform_R[[row]], Filters.of(sampling, WORDS)) for row, sampling in enumerate(samplings)
    ]
    assert together.tolist() == torch.cat(alone).tolist()
    assert len(set(together.tolist())) > 5


@pytest.mark.parametrize("kind", ["usual", "ties", "forbidden"])
def test_rows_that_rank_nothing_draw_the_same_whether_others_rank(kind: str) -> None:
    """In slots, tokens are put in order only where some ticket asks for it."""
    samplings = [sampling for sampling in SAMPLINGS if not Filters.of(sampling, WORDS).ranked] * 10
    assert len(samplings) == 30
    scores_RV, uniform_R = rows_of(kind, len(samplings), 3), torch.rand(len(samplings), dtype=torch.float64)
    expected = draw(scores_RV, uniform_R, of_each(samplings, 0))
    assert torch.equal(draw(scores_RV, uniform_R, of_each(samplings, WORDS)), expected)


def test_a_row_that_nothing_may_follow_draws_something_and_disturbs_no_other() -> None:
    scores_RV = rows_of("usual", 3, seed=1)
    uniform_R = torch.rand(3, dtype=torch.float64)
    filters = of_each([Sampling(0.5, top_k=3), Sampling(top_p=0.5), Sampling(top_p=0.9, min_p=0.1)], WORDS)
    expected = draw(scores_RV, uniform_R, filters).tolist()
    scores_RV[1] = -math.inf
    found = draw(scores_RV, uniform_R, filters).tolist()
    assert (found[0], found[2]) == (expected[0], expected[2])
    assert 0 <= found[1] < WORDS
