"""What alignments prepare from a memory: areas, growing memories, masks and dtypes."""

import pytest
import torch
import torch.nn.functional as F
from tests.numerics.attention.alignment_equations import (
    BATCH,
    CASES,
    EACH,
    HEADS,
    KEYS,
    QUERIES,
    areas,
    close,
    drawn,
    made,
    softmax,
)
from torch import Tensor

from heedful.nn.alignments.area import Area
from heedful.nn.alignments.table import make_alignment
from heedful.nn.attention.explicit import attend

# --- candidates and attention -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("largest", [1, 3])
def test_areas_are_all_short_spans_with_summed_values_kept_when_all_their_keys_are(length: int, largest: int) -> None:
    alignment = make_alignment("area", 3, 3, HEADS, largest=largest)
    k, v = torch.randn(2, BATCH, HEADS, length, 3)
    keep = torch.rand(BATCH, length) > 0.3
    found = alignment.prepare(k, v, keep)
    expected = areas(largest, length)
    assert found.keep is not None
    assert found.last is not None
    assert found.last.tolist() == [area[-1] for area in expected]
    for place, area in enumerate(expected):
        close(found.values[:, :, place], v[:, :, list(area)].sum(2), 1e-6)
        assert torch.equal(found.keep[:, place], keep[:, list(area)].all(1))
    assert alignment.prepare(k, v).keep is None


def test_deviations_of_areas_keep_their_digits_far_from_zero() -> None:
    """Differences of squares of 1000 would leave nothing of a deviation of 0.01 in float32."""
    alignment, seen = listened_area(largest=2)
    k = (1000 + 0.01 * torch.arange(400.0) % 2).reshape(1, 1, 200, 2)
    alignment.prepare(k, k)
    expected = (k.double().unfold(2, 2, 1).var(-1, correction=0) + 1e-6).sqrt()
    close(seen[1][:, :, 200:].double(), expected, 1e-5)


def test_features_of_areas_of_bfloat16_keys_are_rounded_once() -> None:
    alignment, seen = listened_area(largest=8)
    k = torch.randn(1, 1, 200, 2).bfloat16()
    alignment.prepare(k, k)
    stretches = k.double().unfold(2, 8, 1)
    for found, expected in zip(seen, (stretches.mean(-1), stretches.std(-1, correction=0)), strict=False):
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found[:, :, -193:].double(), expected, atol=1e-6, rtol=2**-8)


def listened_area(largest: int) -> tuple[Area, list[Tensor]]:
    """An alignment, and the means and deviations of areas that it prepared."""
    alignment = Area(2, 2, 1, largest=largest)
    seen: list[Tensor] = []
    alignment.area_key.register_forward_hook(lambda module, inputs, output: seen.extend(inputs[:2]))
    return alignment, seen


@EACH
def test_prepared_keys_can_be_added_one_by_one_if_the_class_is_one_to_one(case: str) -> None:
    alignment = made(case)
    _, k, v = drawn(case)
    whole = alignment.prepare(k, v)
    parts = [alignment.prepare(k[:, :, i : i + 1], v[:, :, i : i + 1]) for i in range(KEYS)]
    assert alignment.one_to_one == (CASES[case][0] != "area")
    if alignment.one_to_one:
        close(torch.cat([part.keys for part in parts], dim=2), whole.keys)
        assert whole.last is None
        assert torch.equal(whole.values, v)


@EACH
def test_attention_is_the_weighted_sum_of_values_and_places_have_their_share(case: str) -> None:
    alignment = made(case)
    q, k, v = drawn(case)
    y, weights = attend(alignment, softmax, q, alignment.prepare(k, v))
    close(weights.sum(-1), torch.ones(BATCH, HEADS, QUERIES, dtype=torch.float64))
    shares = alignment.position_weights(weights, KEYS)
    for b in range(BATCH):
        for head in range(HEADS):
            for i in range(QUERIES):
                expected = torch.stack([shares[b, head, i, j] * v[b, head, j] for j in range(KEYS)]).sum(0)
                close(y[b, head, i], expected)


@EACH
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_neighbours_in_a_batch_cannot_change_a_result(case: str, causal: bool) -> None:
    alignment = made(case)
    q, k, v = drawn(case)
    keep = torch.rand(BATCH, KEYS) > 0.3
    keep[:, 0] = True
    together = attend(alignment, softmax, q, alignment.prepare(k, v, keep), causal)
    for b in range(BATCH):
        alone = slice(b, b + 1)
        candidates = alignment.prepare(k[alone], v[alone], keep[alone])
        for found, expected in zip(together, attend(alignment, softmax, q[alone], candidates, causal), strict=True):
            close(found[alone], expected)


@EACH
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_padding_cannot_change_a_result_and_has_no_gradient(case: str, causal: bool) -> None:
    alignment = made(case)
    q, k, v = drawn(case)
    keep = torch.tensor([[True, True, True, False, False], [True, False, True, True, False]])
    outside = ~keep[:, None, :, None]
    clean = attend(alignment, softmax, q, alignment.prepare(k, v, keep), causal)
    bad_k, bad_v = (torch.where(outside, 1e4 * torch.randn_like(x), x).requires_grad_() for x in (k, v))
    poisoned = attend(alignment, softmax, q, alignment.prepare(bad_k, bad_v, keep), causal)
    for found, expected in zip(poisoned, clean, strict=True):
        close(found, expected)
    for gradient in torch.autograd.grad(poisoned[0].sum(), (bad_k, bad_v), materialize_grads=True):
        assert (gradient.masked_select(outside) == 0).all()


@EACH
def test_a_causal_query_reads_what_it_would_from_the_memory_up_to_itself(case: str) -> None:
    alignment = made(case)
    q, k, v = drawn(case, queries=KEYS)
    y, _ = attend(alignment, softmax, q, alignment.prepare(k, v), causal=True)
    for i in range(KEYS):
        candidates = alignment.prepare(k[:, :, : i + 1], v[:, :, : i + 1])
        expected, _ = attend(alignment, softmax, q[:, :, i : i + 1], candidates)
        close(y[:, :, i : i + 1], expected)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
def test_the_scaled_dot_product_with_a_softmax_is_torchs_attention(causal: bool, masked: bool) -> None:
    alignment = made("scaled dot")
    q, k, v = drawn("scaled dot", queries=KEYS)
    keep = torch.tensor([[True] * KEYS, [True] * 3 + [False] * 2]) if masked else None
    mask = torch.ones(BATCH, 1, KEYS, KEYS, dtype=torch.bool)
    if keep is not None:
        mask = mask & keep[:, None, None, :]
    if causal:
        mask = mask.tril()
    y, _ = attend(alignment, softmax, q, alignment.prepare(k, v, keep), causal)
    close(y, F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_a_distribution_gets_a_mask_only_if_something_is_hidden(causal: bool, masked: bool) -> None:
    told: list[Tensor | None] = []

    def listening(scores: Tensor, seen: Tensor | None) -> Tensor:
        told.append(seen)
        assert seen is None or seen.shape == scores.shape
        return softmax(scores, seen)

    alignment = made("dot")
    q, k, v = drawn("dot")
    keep = torch.tensor([[True] * KEYS, [True] * 3 + [False] * 2]) if masked else None
    attend(alignment, listening, q, alignment.prepare(k, v, keep), causal)
    assert (told[0] is None) == (not causal and not masked)
    if told[0] is not None:
        for b in range(BATCH):
            for i in range(QUERIES):
                expected = [(not causal or j <= i) and (keep is None or bool(keep[b, j])) for j in range(KEYS)]
                assert told[0][b, :, i].tolist() == [expected] * HEADS


@EACH
def test_bfloat16_values_flow_through_float32_parameters(case: str) -> None:
    alignment = made(case)
    q, k, v = drawn(case)
    narrow = [x.bfloat16() for x in (q, k, v)]
    expected, _ = attend(alignment, softmax, narrow[0].double(), alignment.prepare(*(x.double() for x in narrow[1:])))
    alignment.float()
    y, weights = attend(alignment, softmax, narrow[0], alignment.prepare(*narrow[1:]))
    assert y.dtype == torch.bfloat16
    assert weights.dtype == torch.float32
    assert float((y.double() - expected).detach().abs().max()) < 0.05 * float(expected.detach().abs().max())
