"""Hard, local, multi-representational and co-attention equal their definitions, written as loops."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.shared.refusals import Refusal, each
from torch import Tensor, nn

from heedful.nn.alignments.distributions import Distribution, GumbelHard, Hard, Sigmoid, softmax, sparsemax
from heedful.nn.attention.coattention import AlternatingCoAttention, CoAttention
from heedful.nn.attention.windows import PredictedWindow, Window
from heedful.nn.layers.meta_embedding import MetaEmbedding

DRAWS = 20_000
HARD: dict[str, Callable[[Distribution], Hard]] = {
    "straight through": Hard,
    "gumbel": GumbelHard,
    "cold gumbel": lambda distribution: GumbelHard(distribution, temperature=0.1),
}
every_hard = pytest.mark.parametrize("hard", HARD.values(), ids=HARD)
CO_ATTENTIONS = (CoAttention, AlternatingCoAttention)
LENGTHS = torch.tensor([5, 1, 3, 0])
KEEP = torch.arange(5) < LENGTHS.unsqueeze(1)
OTHER_KEEP = torch.arange(4) < torch.tensor([[2], [4], [0], [3]])


# --- hard -------------------------------------------------------------------------------------------------------------


@every_hard
@pytest.mark.parametrize("distribution", [softmax, sparsemax], ids=["softmax", "sparsemax"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hard_attention_draws_keys_as_often_as_soft_attention_weighs_them(
    hard: Callable[[Distribution], Hard], distribution: Distribution, dtype: torch.dtype
) -> None:
    scores = torch.tensor([0.3, -0.2, 0.9, 0.8, -1.5, 0.1], dtype=dtype)
    seen = torch.tensor([True, True, True, False, True, True])
    weights = distribution(scores, seen).double()
    drawn = hard(distribution)(scores.expand(DRAWS, -1), seen)
    assert drawn.dtype == dtype
    assert ((drawn == 0) | (drawn == 1)).all()
    assert (drawn.sum(-1) == 1).all()
    sigma = (weights * (1 - weights) / DRAWS).sqrt()
    assert ((drawn.double().mean(0) - weights).abs() <= 5 * sigma + 2e-3 * (dtype == torch.bfloat16)).all()
    assert (drawn[:, weights == 0] == 0).all()


@every_hard
def test_outside_training_the_heaviest_key_is_taken(hard: Callable[[Distribution], Hard]) -> None:
    scores, seen = batch()
    found = hard(softmax).eval()(scores, seen)
    for row, mask, weights in zip(scores.view(-1, 5), seen.view(-1, 5), found.view(-1, 5), strict=True):
        visible = [key for key in range(5) if mask[key]]
        best = max(visible, key=lambda key: float(row[key]), default=None)
        assert weights.tolist() == [float(key == best) for key in range(5)]


@every_hard
@pytest.mark.parametrize("training", [True, False])
def test_hard_attention_over_nothing_is_nothing(hard: Callable[[Distribution], Hard], training: bool) -> None:
    scores = torch.full((3, 2, 5), math.nan, requires_grad=True)
    chosen = hard(softmax).train(training)(scores, torch.zeros(5, dtype=torch.bool))
    assert (chosen == 0).all()
    chosen.backward(torch.randn_like(chosen))
    assert scores.grad is not None
    assert (scores.grad == 0).all()
    assert hard(softmax).train(training)(scores[..., :0]).shape == (3, 2, 0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("distribution", [softmax, sparsemax, Sigmoid()], ids=["softmax", "sparsemax", "sigmoid"])
def test_the_gradient_of_hard_attention_is_that_of_soft_attention(distribution: Distribution, training: bool) -> None:
    scores, seen = batch()
    scores.requires_grad_()
    upstream = torch.randn_like(scores)
    (hard,) = torch.autograd.grad(Hard(distribution).train(training)(scores, seen), scores, upstream)
    (soft,) = torch.autograd.grad(distribution(scores, seen), scores, upstream)
    assert soft.abs().sum() > 0
    assert torch.equal(hard, soft)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 3.0])
def test_gumbel_attention_and_its_gradient_equal_torchs_gumbel_softmax(temperature: float) -> None:
    scores = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn_like(scores)
    torch.manual_seed(3)
    found = GumbelHard(softmax, temperature)(scores)
    torch.manual_seed(3)
    expected = F.gumbel_softmax(scores.log_softmax(-1), temperature, hard=True)
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found, scores, upstream)
    (wanted,) = torch.autograd.grad(expected, scores, upstream)
    torch.testing.assert_close(gradient, wanted)


@every_hard
def test_keys_without_a_weight_get_no_gradient(hard: Callable[[Distribution], Hard]) -> None:
    scores = torch.tensor([0.3, -5.0, 0.4, -9.0, 0.2]).repeat(8, 1).requires_grad_()
    chosen = hard(sparsemax)(scores)
    chosen.backward(torch.randn_like(chosen))
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert (scores.grad[:, [1, 3]] == 0).all()
    assert (scores.grad[:, [0, 2, 4]] != 0).any()


@every_hard
def test_hard_attention_draws_from_the_global_generator(hard: Callable[[Distribution], Hard]) -> None:
    scores = torch.zeros(40, 9)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(hard(softmax)(scores))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


# --- local ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half_width", [0, 1, 2, 10])
def test_a_monotone_window_is_around_the_step_and_stays_at_the_last_key(half_width: int) -> None:
    for step in range(9):
        seen = Window(half_width).monotone(step, LENGTHS, keys=6)
        for row, length in zip(seen.tolist(), LENGTHS.tolist(), strict=True):
            middle = min(step, length - 1)
            assert row == [key < length and middle - half_width <= key <= middle + half_width for key in range(6)]
            assert any(row) == (length > 0)


@torch.no_grad()
def test_predicted_windows_and_gaussians_equal_loops() -> None:
    local = PredictedWindow(3, half_width=2).double()
    nn.init.normal_(local.out.weight, std=3)
    h = torch.randn(4, 6, 3, dtype=torch.float64)
    seen, gaussian = local(h, LENGTHS, 7)
    inner, out = local.inner.weight, local.out.weight[0]
    for sentence, length in enumerate(LENGTHS.tolist()):
        for query in range(6):
            score = sum(
                float(out[row]) * math.tanh(sum(float(inner[row, e] * h[sentence, query, e]) for e in range(3)))
                for row in range(3)
            )
            position = length / (1 + math.exp(-score))
            assert float(local.positions(h, LENGTHS)[sentence, query]) == pytest.approx(position)
            for key in range(7):
                assert bool(seen[sentence, query, key]) == (key < length and abs(key - position) <= 2)
                expected = math.exp(-((key - position) ** 2) / (2 * (2 / 2) ** 2))
                assert float(gaussian[sentence, query, key]) == pytest.approx(expected)


def test_predicted_weights_peak_at_the_predicted_position() -> None:
    local = PredictedWindow(3, half_width=2)
    nn.init.zeros_(local.out.weight)  # p = S / 2
    lengths = torch.tensor([8, 6, 12])
    seen, gaussian = local(torch.randn(3, 1, 3), lengths, 12)
    weights = (softmax(torch.zeros(3, 1, 12), seen) * gaussian).squeeze(1)
    for row, length in zip(weights, lengths.tolist(), strict=True):
        middle = length // 2
        assert int(row.argmax()) == middle
        around = [math.exp(-(offset**2) / 2) / 5 for offset in (-2, -1, 0, 1, 2)]
        torch.testing.assert_close(row[middle - 2 : middle + 3].tolist(), around)
        assert row.count_nonzero() == 5


@pytest.mark.parametrize("score", [-1e4, 1e4])
def test_a_prediction_at_the_very_end_still_sees_a_key(score: float) -> None:
    local = PredictedWindow(1, half_width=1)
    for weight in (local.inner.weight, local.out.weight):
        nn.init.constant_(weight, abs(score))
    seen, _ = local(torch.full((4, 1, 1), math.copysign(1, score)), LENGTHS, 5)
    assert seen.any(-1).squeeze(1).tolist() == [True, True, True, False]


def test_predicted_positions_learn_and_are_exact_in_sixteen_bits() -> None:
    local = PredictedWindow(3, half_width=2)
    double = PredictedWindow(3, half_width=2).double()
    h = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: double(h, LENGTHS, 5)[1], h)
    nn.init.zeros_(local.out.weight)
    lengths = torch.tensor([1001])
    states = torch.randn(1, 1, 3).bfloat16()
    assert local.positions(states, lengths).detach().item() == 500.5
    seen, gaussian = local(states, lengths, 1001)
    assert gaussian.dtype == torch.bfloat16
    assert seen[0, 0].nonzero().flatten().tolist() == [499, 500, 501, 502]
    assert gaussian[0, 0, 500] == gaussian[0, 0, 501] == torch.tensor(math.exp(-0.125)).bfloat16()


REFUSALS = [
    Refusal(
        "a window that holds nothing",
        lambda: Window(-1),
        "local attention has a half width of -1; it must be at least 0",
        error=ValueError,
    ),
    Refusal(
        "a predicted window that holds nothing",
        lambda: PredictedWindow(3, 0),
        "predicted local attention has a half width of 0; it must be at least 1",
        error=ValueError,
    ),
    Refusal(
        "a missing embedding",
        lambda: MetaEmbedding((2, 3), 4)([torch.randn(6, 2)]),
        "1 embeddings cannot be mixed: there must be 2, one per width",
        error=ValueError,
    ),
]


@each(REFUSALS)
def test_windows_and_mixtures_that_cannot_be_are_refused(refusal: Refusal) -> None:
    refusal.check()


# --- multi-representational -------------------------------------------------------------------------------------------


@torch.no_grad()
def test_meta_embeddings_equal_a_loop_over_embeddings() -> None:
    mix = MetaEmbedding((2, 5, 3), 4).double()
    embeddings = [torch.randn(6, width, dtype=torch.float64) for width in (2, 5, 3)]
    found = mix(embeddings)
    for token in range(6):
        projected = [F.linear(embedding[token], project.weight, project.bias)  # type: ignore[arg-type]
                     for project, embedding in zip(mix.project, embeddings, strict=True)]  # fmt: skip
        scores = [float(mix.score.weight[0] @ row) for row in projected]
        total = sum(math.exp(score) for score in scores)
        expected = sum(math.exp(score) / total * row for score, row in zip(scores, projected, strict=True))
        torch.testing.assert_close(found[token], expected)


def test_meta_embeddings_take_another_distribution() -> None:
    mix = MetaEmbedding((2, 3), 4, distribution=Sigmoid())
    embeddings = [torch.randn(6, width) for width in (2, 3)]
    parts = [project(embedding) for project, embedding in zip(mix.project, embeddings, strict=True)]
    torch.testing.assert_close(mix(embeddings), sum(mix.score(part).sigmoid() * part for part in parts))


# --- co-attention -----------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_co_attention_equals_a_loop_over_pairs() -> None:
    both = CoAttention(3, 2, inner=4).double()
    a, b = torch.randn(4, 5, 3, dtype=torch.float64), torch.randn(4, 4, 2, dtype=torch.float64)
    found_a, found_b = both(a, KEEP, b, OTHER_KEEP)
    for sentence in range(4):
        first, second = a[sentence][KEEP[sentence]], b[sentence][OTHER_KEEP[sentence]]
        affinity = [[math.tanh(float(x @ both.affinity.weight @ y) / math.sqrt(3)) for y in second] for x in first]
        inner_a, inner_b = [both.into_a.weight @ x for x in first], [both.into_b.weight @ y for y in second]
        hidden_a = [
            (mine + sum(share * other for share, other in zip(row, inner_b, strict=True))).tanh()
            for mine, row in zip(inner_a, affinity, strict=True)
        ]
        hidden_b = [
            (mine + sum(affinity[row][column] * other for row, other in enumerate(inner_a))).tanh()
            for column, mine in enumerate(inner_b)
        ]
        for found, tokens, hidden, score in (
            (found_a, first, hidden_a, both.score_a.weight[0]),
            (found_b, second, hidden_b, both.score_b.weight[0]),
        ):
            scores = [float(score @ row) for row in hidden]
            total = sum(math.exp(value) for value in scores)
            expected = torch.zeros(tokens.shape[1], dtype=torch.float64)
            for value, token in zip(scores, tokens, strict=True):
                expected += math.exp(value) / total * token
            torch.testing.assert_close(found[sentence], expected)


@torch.no_grad()
def test_alternating_co_attention_equals_a_loop_over_its_three_steps() -> None:
    both = AlternatingCoAttention(3, 2, inner=4).double()
    a, b = torch.randn(4, 5, 3, dtype=torch.float64), torch.randn(4, 4, 2, dtype=torch.float64)

    def attended(tokens: Tensor, step: Any, guide: Tensor | None) -> Tensor:
        guided = 0 if guide is None else step.guide.weight @ guide
        powers = [math.exp(float(step.score.weight[0] @ (step.into.weight @ x + guided).tanh())) for x in tokens]
        expected = torch.zeros(tokens.shape[1], dtype=torch.float64)
        for power, token in zip(powers, tokens, strict=True):
            expected += power / sum(powers) * token
        return expected

    found_a, found_b = both(a, KEEP, b, OTHER_KEEP)
    for sentence in range(4):
        first, second = a[sentence][KEEP[sentence]], b[sentence][OTHER_KEEP[sentence]]
        summary = attended(first, both.summary, None)
        pooled_b = attended(second, both.over_b, summary)
        torch.testing.assert_close(found_b[sentence], pooled_b)
        torch.testing.assert_close(found_a[sentence], attended(first, both.over_a, pooled_b))


@pytest.mark.parametrize("kind", CO_ATTENTIONS)
def test_the_weights_of_co_attention_are_those_of_its_pooled_vectors(kind: type[CoAttention]) -> None:
    both = kind(3, 2, inner=4)
    a, b = torch.randn(4, 5, 3), torch.randn(4, 4, 2)
    weights_a, weights_b = both.weights(a, KEEP, b, OTHER_KEEP)
    found_a, found_b = both(a, KEEP, b, OTHER_KEEP)
    torch.testing.assert_close(found_a, (weights_a.unsqueeze(2) * a).sum(1))
    torch.testing.assert_close(found_b, (weights_b.unsqueeze(2) * b).sum(1))
    torch.testing.assert_close(weights_a.sum(1), KEEP.any(1).float())
    torch.testing.assert_close(weights_b.sum(1), OTHER_KEEP.any(1).float())


# --- laws of both -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poison", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("kind", CO_ATTENTIONS)
def test_what_is_not_kept_moves_no_vector_and_no_gradient(kind: type[CoAttention], poison: float) -> None:
    both = kind(3, 2, inner=4)
    a, b = torch.randn(4, 5, 3), torch.randn(4, 4, 2)
    results = []
    for filling in (0.0, poison):
        x = a.masked_fill(~KEEP.unsqueeze(2), filling).requires_grad_()
        y = b.masked_fill(~OTHER_KEEP.unsqueeze(2), filling).requires_grad_()
        outputs = both(x, KEEP, y, OTHER_KEEP)
        loss = sum((output.square().sum() for output in outputs), torch.zeros(()))
        inputs = [x, y, *both.parameters()]
        results.append([*outputs, *torch.autograd.grad(loss, inputs)])
    for clean, poisoned in zip(*results, strict=True):
        assert clean.isfinite().all()
        assert torch.equal(clean, poisoned)


@pytest.mark.parametrize("kind", CO_ATTENTIONS)
def test_mixtures_and_co_attention_compute_in_the_type_of_their_input(kind: type[CoAttention]) -> None:
    mix, both = MetaEmbedding((3, 2), 4), kind(3, 2, inner=4)
    a, b = torch.randn(4, 5, 3), torch.randn(4, 4, 2)
    pairs: list[tuple[Tensor, Tensor]] = []
    pairs.append((mix([a[0, :4].bfloat16(), b[0].bfloat16()]), mix([a[0, :4], b[0]])))
    pairs.extend(zip(both(a.bfloat16(), KEEP, b.bfloat16(), OTHER_KEEP), both(a, KEEP, b, OTHER_KEEP), strict=True))
    for narrow, wide in pairs:
        assert narrow.dtype == torch.bfloat16
        torch.testing.assert_close(narrow.float(), wide, atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("kind", CO_ATTENTIONS)
def test_gradients_of_mixtures_and_co_attention_are_those_of_finite_differences(kind: type[CoAttention]) -> None:
    mix, both = MetaEmbedding((3, 2), 4).double(), kind(3, 2, 4).double()
    a = torch.randn(4, 5, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, 4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: mix([a[0, :4], b[0]]), (a, b))
    assert torch.autograd.gradcheck(lambda a, b: both(a, KEEP, b, OTHER_KEEP), (a, b))


def batch() -> tuple[Tensor, Tensor]:
    """Scores, and what is seen: about two keys of three, and nothing in the last row."""
    scores, seen = torch.randn(4, 3, 5, dtype=torch.float64), torch.rand(4, 3, 5) < 0.67
    seen[-1, -1] = False
    return scores, seen
