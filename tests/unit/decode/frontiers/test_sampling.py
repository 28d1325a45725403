"""Drawing tokens: the numbers, the distribution, and what is left of it."""

import math
from collections import Counter
from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.searching import search_texts
from torch import Tensor

from heedful.base.packed import Packed
from heedful.config.decode import Sampling
from heedful.config.model.transformer import TransformerModel
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.frontiers.token_scores import Filters, draw, uniforms
from heedful.decode.query import DrawStart
from heedful.decode.settings import SearchSettings
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder

# --- uniform numbers --------------------------------------------------------------------------------------------------


def starts(*keys: int) -> list[DrawStart]:
    return [DrawStart(key) for key in keys]


def test_numbers_depend_on_seed_sentence_sample_and_step_alone() -> None:
    drawn = uniforms(Sampling(samples=3, seed=5), starts(4, 0, 9), 20)
    assert drawn.shape == (3, 3, 20)
    assert len(set(drawn.flatten().tolist())) == drawn.size
    assert drawn.min() >= 0
    assert drawn.max() < 1
    fewer = uniforms(Sampling(samples=2, seed=5), starts(9, 4), 7)
    assert (fewer == drawn[[2, 0], :2, :7]).all()
    assert (uniforms(Sampling(samples=3, seed=6), starts(4, 0, 9), 20) != drawn).all()


def test_a_search_that_continues_another_draws_the_numbers_after_its_own() -> None:
    whole = uniforms(Sampling(samples=3, seed=5), starts(4), 20)
    for step in (1, 4, 7):
        continued = uniforms(Sampling(samples=1, seed=5), [DrawStart(4, sample, step) for sample in (2, 0)], 20 - step)
        assert (continued[:, 0] == whole[0, [2, 0], step:]).all()


def test_the_greatest_seed_is_a_seed() -> None:
    assert uniforms(Sampling(seed=2**64 - 1), starts(2**40), 2).shape == (1, 1, 2)


# --- one draw ---------------------------------------------------------------------------------------------------------


def drawn(scores_RV: Tensor, uniform_R: Tensor, sampling: Sampling) -> Tensor:
    return draw(scores_RV, uniform_R, Filters.of(sampling, scores_RV.shape[1]))


def left_of(scores: list[float], sampling: Sampling) -> list[float]:
    """The distribution that is drawn from, with lists: temper, keep the best k, the fewest with p, none below min_p."""
    greatest = max(scores)
    shares = [math.exp((score - greatest) / sampling.temperature) for score in scores]
    ranked = sorted(shares, reverse=True)[: sampling.top_k or None]
    least = next(
        share
        for share, mass in zip(ranked, accumulate(ranked), strict=True)
        if mass >= sampling.top_p * sum(ranked) * (1 - 1e-12)
    )
    least = max(least, sampling.min_p * ranked[0])
    kept = [share if share >= least else 0.0 for share in shares]
    return [share / sum(kept) for share in kept]


@given(
    scores=st.lists(st.integers(-60, 60), min_size=2, max_size=12, unique=True),
    temperature=st.sampled_from([0.1, 0.7, 1.0, 4.0]),
    top_k=st.integers(0, 14),
    top_p=st.sampled_from([0.05, 0.5, 0.93, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.4, 1.0]),
    uniform=st.floats(0, 1, exclude_max=True),
    forbidden=st.integers(0, 11),
)
def test_a_token_is_where_the_distribution_function_passes_the_number(
    scores: list[int], temperature: float, top_k: int, top_p: float, min_p: float, uniform: float, forbidden: int
) -> None:
    sampling = Sampling(temperature, top_k, top_p, min_p=min_p)
    given_scores = [score / 10 for score in scores]
    given_scores[forbidden % len(scores)] = -math.inf
    passed = list(accumulate(left_of(given_scores, sampling)))
    found = int(drawn(torch.tensor([given_scores]).double(), torch.tensor([uniform]).double(), sampling))
    assert (passed[found - 1] if found else 0.0) <= uniform + 1e-12
    assert uniform < passed[found] + 1e-12
    assert left_of(given_scores, sampling)[found] > 0


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(0.5), Sampling(2.0, top_k=4), Sampling(top_p=0.8), Sampling(1.5, top_k=5, top_p=0.7)],
    ids=str,
)
def test_tokens_come_as_often_as_they_are_probable(sampling: Sampling) -> None:
    scores, count = [1.0, -0.5, 0.3, 2.0, -math.inf, 1.9, 0.0, -1.0], 20_000
    numbers = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    tokens = Counter(drawn(torch.tensor([scores]).expand(count, -1), numbers, sampling).tolist())
    expected = left_of(scores, sampling)
    assert all(p > 0 for token, p in enumerate(expected) if token in tokens)
    statistic = sum((tokens[token] - count * p) ** 2 / (count * p) for token, p in enumerate(expected) if p > 0)
    assert statistic < 22.5  # chi-square of 6 degrees of freedom: passed once in a thousand times


def test_tokens_as_probable_as_the_last_one_kept_are_kept_too() -> None:
    scores_RV = torch.tensor([[1.0, 2.0, 1.0, 1.0, 0.0]])
    for sampling in (Sampling(top_k=2), Sampling(top_p=0.5)):
        found = {int(drawn(scores_RV, torch.tensor([u / 50]).double(), sampling)) for u in range(50)}
        assert found == {0, 1, 2, 3}


def test_extreme_temperatures_and_scores_stay_numbers() -> None:
    scores_RV = torch.tensor([[-math.inf, 500.0, -500.0, 499.0]])
    half = torch.tensor([0.5]).double()
    assert int(drawn(scores_RV, half, Sampling(temperature=1e-300))) == 1
    assert int(drawn(scores_RV, half, Sampling(temperature=1e300))) == 2
    assert int(drawn(scores_RV, half, Sampling(top_p=1e-300))) == 1


def test_a_row_that_nothing_may_follow_draws_something() -> None:
    for sampling in (Sampling(), Sampling(top_k=2, top_p=0.5)):
        assert 0 <= int(drawn(torch.full((1, 5), -math.inf), torch.tensor([0.3]).double(), sampling)) < 5


# --- a search ---------------------------------------------------------------------------------------------------------

SOURCES = [[5, 6, 7, 8], [9], [4, 4, 4, 4, 4, 4, 4], [8, 9], [9]]


def model_of(seed: int = 0) -> EncoderDecoder:
    torch.manual_seed(seed)
    return build_model(TransformerModel(width=16, heads=2, layers=1, inner=16), 20, 20).eval()


def test_the_most_probable_token_alone_is_greedy_search() -> None:
    model = model_of()
    sampling = SearchSettings(beam=1, max_extra=4, sampling=Sampling(top_k=1, samples=2))
    greedy = search_texts(model, SOURCES, SearchSettings(beam=1, max_extra=4), 4096)
    for drawn, (best,) in zip(search_texts(model, SOURCES, sampling, 4096), greedy, strict=True):
        assert [sample.tokens for sample in drawn] == [best.tokens] * 2
        assert drawn[0].log_probability == pytest.approx(best.log_probability, abs=1e-4)


def test_what_is_drawn_depends_neither_on_the_batch_nor_on_other_samples() -> None:
    model = model_of()
    settings = SearchSettings(beam=1, max_extra=6, sampling=Sampling(samples=4, seed=2))
    together = search_texts(model, SOURCES, settings, 4096)
    fewer = SearchSettings(beam=1, max_extra=6, sampling=Sampling(samples=2, seed=2))
    for place, source in enumerate(SOURCES):
        alone = search_texts(model, [source], fewer, 4096, numbers=[place])[0]
        assert [sample.tokens for sample in alone] == [sample.tokens for sample in together[place][:2]]
    assert [s.tokens for s in together[1]] != [s.tokens for s in together[4]]  # the same source, other numbers
    other = SearchSettings(beam=1, max_extra=6, sampling=Sampling(samples=4, seed=3))
    assert [s.tokens for s in search_texts(model, SOURCES, other, 4096)[0]] != [s.tokens for s in together[0]]


def test_samples_come_in_the_order_they_are_drawn_in_with_the_models_own_log_p() -> None:
    model = model_of()
    hot = SearchSettings(beam=1, max_extra=5, sampling=Sampling(temperature=3.0, samples=6))
    (drawn,) = search_texts(model, [[5, 6]], hot, 4096)
    assert [sample.score for sample in drawn] != sorted((sample.score for sample in drawn), reverse=True)
    for sample in drawn:
        decoded = [*sample.tokens, END] if sample.complete else list(sample.tokens)
        logits_NV = model(Packed.of([[5, 6, END]]), Packed.of([[BEGIN, *decoded[:-1]]]))
        log_p_N = logits_NV.log_softmax(1).gather(1, torch.tensor(decoded).unsqueeze(1))
        assert sample.log_probability == pytest.approx(log_p_N.sum().item(), abs=1e-4)
