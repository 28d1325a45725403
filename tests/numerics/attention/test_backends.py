"""All attention backends compute the same: each other's values and gradients, and those of a loop over sentences."""

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.attention import backends
from heedful.nn.attention.backends import (
    BACKENDS,
    Backend,
    PackedHeads,
    attention_weights,
    automatic,
    explicit,
    padded,
    varlen,
)

HEADS, WIDTH = 2, 8  # of one head
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
needs_interpreter = pytest.mark.skipif(
    find_spec("triton") is None or torch.cuda.is_available(), reason="Triton is not installed here, or not interpreted"
)

# Widest difference from a float64 loop over sentences, on the scale of the largest value where that is above one.
# bfloat16 has 8 bits, so one rounding is up to 2^-9 = 0.002: `padded` computes in float32 on the CPU and rounds once,
# `explicit` rounds scores, weights and sums.
WIDE = pytest.mark.wide  # an interpreted kernel is slow; tests of its own run it in `make test`
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}

EVERYWHERE = [
    pytest.param(name, CPU, dtype, id=f"{name}-cpu-{dtype}")
    for name, dtypes in {
        "padded": tuple(TOLERANCES),
        "explicit": tuple(TOLERANCES),
        "even": (torch.float32,),
        "automatic": (torch.float32,),
    }.items()
    for dtype in dtypes
] + [pytest.param("short", CPU, torch.float32, id="short-interpreted-float32", marks=[needs_interpreter, WIDE])]
ON_CUDA = [
    pytest.param(name, CUDA, dtype, id=f"{name}-cuda-{dtype}", marks=needs_cuda)
    for name, dtypes in {
        "padded": (torch.float32, torch.bfloat16),
        "explicit": (torch.float64, torch.float32),
        "even": (torch.bfloat16,),
        "varlen": (torch.bfloat16,),
        "short": (torch.float32, torch.bfloat16),
        "automatic": (torch.float32, torch.bfloat16),
    }.items()
    for dtype in dtypes
]

lengths = st.lists(st.integers(1, 7), min_size=1, max_size=5)
pairs_of_lengths = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=5)


@pytest.mark.parametrize(("name", "device", "dtype"), EVERYWHERE + ON_CUDA)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@given(lengths=lengths, seed=st.integers(0, 2**16))
@example(lengths=[1], seed=0)
@example(lengths=[1, 1, 1], seed=0)
@example(lengths=[6], seed=0)
@example(lengths=[4, 4, 4], seed=0)
@example(lengths=[1, 7], seed=0)
@examples(6)
def test_self_attention_equals_a_loop_over_sentences(
    name: str, device: torch.device, dtype: torch.dtype, causal: bool, lengths: list[int], seed: int
) -> None:
    compare_with_loop(BACKENDS[name], device, dtype, causal, lengths, lengths, seed)


@pytest.mark.parametrize(("name", "device", "dtype"), EVERYWHERE + ON_CUDA)
@given(pairs=pairs_of_lengths, seed=st.integers(0, 2**16))
@example(pairs=[(1, 1)], seed=0)
@example(pairs=[(1, 7)], seed=0)
@example(pairs=[(7, 1), (7, 1)], seed=0)
@example(pairs=[(2, 5), (2, 5)], seed=0)
@example(pairs=[(1, 6), (3, 2)], seed=0)
@examples(6)
def test_cross_attention_equals_a_loop_over_sentences(
    name: str, device: torch.device, dtype: torch.dtype, pairs: list[tuple[int, int]], seed: int
) -> None:
    queries, keys = zip(*pairs, strict=True)
    compare_with_loop(BACKENDS[name], device, dtype, False, queries, keys, seed)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=str)
@given(lengths=lengths, seed=st.integers(0, 2**16))
@examples(15)
def test_padded_and_explicit_agree(
    dtype: torch.dtype, tolerance: float, causal: bool, lengths: list[int], seed: int
) -> None:
    layout = Layout.of(lengths)
    inputs = draw(layout, layout, dtype, CPU, seed)
    for found, expected in zip(
        values_and_gradients(padded, inputs, layout, layout, causal, seed),
        values_and_gradients(explicit, inputs, layout, layout, causal, seed),
        strict=True,
    ):
        assert difference(found, expected) <= tolerance


@pytest.mark.parametrize(("name", "device", "dtype"), EVERYWHERE + ON_CUDA)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_empty_sentences_are_finite_and_change_no_real_one(
    name: str, device: torch.device, dtype: torch.dtype, causal: bool
) -> None:
    """The static layout of CUDA: empty sentences behind the real ones, and a bound that no sentence reaches."""
    real = [3, 1, 5]
    static = replace(Layout.of([*real, 0, 0]), bound=8)
    inputs = draw(static, static, dtype, device, seed=3)
    found = values_and_gradients(BACKENDS[name], inputs, static, static, causal, seed=4)
    expected = values_and_gradients(loop, inputs, Layout.of(real), Layout.of(real), causal, seed=4)
    for tensor, wanted in zip(found, expected, strict=True):
        assert tensor.isfinite().all()
        assert difference(tensor, wanted) <= TOLERANCES[dtype]


@pytest.mark.parametrize(("name", "device", "dtype"), EVERYWHERE + ON_CUDA)
def test_empty_memories_are_finite_and_change_no_real_one(name: str, device: torch.device, dtype: torch.dtype) -> None:
    """A dummy whose other side has no token attends to nothing: whatever comes out, it is a number."""
    queries, keys = replace(Layout.of([2, 4, 3, 0, 0]), bound=6), replace(Layout.of([5, 1, 0, 2, 0]), bound=8)
    inputs = draw(queries, keys, dtype, device, seed=5)
    found = values_and_gradients(BACKENDS[name], inputs, queries, keys, False, seed=6)
    wanted = values_and_gradients(loop, inputs, Layout.of([2, 4]), Layout.of([5, 1]), False, seed=6)
    real_queries, real_keys = 6, 6
    for tensor, expected, real in zip(found, wanted, (real_queries, real_queries, real_keys, real_keys), strict=True):
        assert tensor.isfinite().all()
        assert difference(tensor[:real], expected[:real]) <= TOLERANCES[dtype]


@given(lengths=lengths, causal=st.booleans())
@examples(20)
def test_weights_are_distributions_over_what_may_be_seen(lengths: list[int], causal: bool) -> None:
    layout = Layout.of(lengths)
    q, k, _ = draw(layout, layout, torch.float64, CPU, seed=7)
    weights = attention_weights(q, k, layout, layout, causal)
    for sentence, length in enumerate(lengths):
        rows = weights[sentence, :, :length]
        torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]), atol=1e-12, rtol=0)
        assert (rows[..., length:] == 0).all()
        assert (rows[..., :length] > 0).all(dim=0).sum() == (length * (length + 1) // 2 if causal else length**2)


@pytest.mark.parametrize("name", ["padded", "explicit", "automatic"])  # `short` has a file of its own
def test_dropped_weights_leave_the_mean_and_a_share_of_zeros(name: str) -> None:
    """With one key a weight is 0 or 1 / (1 - p): its mean over many sentences is 1 within five sigma."""
    share, sentences = 0.3, 5000
    layout = Layout.of([1] * sentences)
    ones = torch.ones(sentences, 1, 1)
    torch.manual_seed(1)
    y = BACKENDS[name](PackedHeads(ones, ones, ones, layout, layout), False, share)
    assert y.unique().tolist() == pytest.approx([0, 1 / (1 - share)])
    sigma = math.sqrt(share * (1 - share) / sentences)
    assert abs(float((y == 0).float().mean()) - share) < 5 * sigma
    assert abs(float(y.mean()) - 1) < 5 * sigma / (1 - share)


def test_varlen_refuses_to_drop_weights() -> None:
    layout = Layout.of([2, 3])
    q, k, v = draw(layout, layout, torch.bfloat16, CPU, seed=8)
    with refuses("varlen attention cannot drop weights", ValueError):
        varlen(PackedHeads(q, k, v, layout, layout), True, 0.1)


def test_every_backend_has_a_row_in_the_comparison() -> None:
    assert {str(row.values[0]) for row in EVERYWHERE + ON_CUDA} == set(BACKENDS)


# --- a bias -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("each", [False, True], ids=["one bias", "a bias a sentence"])
@pytest.mark.parametrize(
    ("name", "device", "dtype"), [row for row in EVERYWHERE + ON_CUDA if row.values[0] not in ("short", "varlen")]
)
@pytest.mark.parametrize("lengths", [[3, 1, 6], [4, 4], [1]], ids=str)
def test_a_bias_is_added_to_the_scores(
    name: str, device: torch.device, dtype: torch.dtype, each: bool, causal: bool, lengths: list[int]
) -> None:
    layout = Layout.of(lengths)
    inputs = draw(layout, layout, dtype, device, seed=9)
    bias = torch.randn(layout.sentences if each else 1, HEADS, layout.bound, layout.bound).to(dtype).float().to(device)
    found = values_and_gradients(partial(BACKENDS[name], bias_BHLL=bias), inputs, layout, layout, causal, seed=10)
    expected = values_and_gradients(partial(loop, bias_BHLL=bias), inputs, layout, layout, causal, seed=10)
    without = values_and_gradients(loop, inputs, layout, layout, causal, seed=10)
    for tensor, wanted in zip(found, expected, strict=True):
        assert tensor.dtype == dtype
        assert difference(tensor, wanted) <= TOLERANCES[dtype]
    assert layout.bound == 1 or difference(found[0], without[0]) > 0.1


@pytest.mark.parametrize("name", ["varlen", "short"])
def test_what_attends_on_the_packed_layout_refuses_a_bias(name: str) -> None:
    layout = Layout.of([2, 3])
    q, k, v = draw(layout, layout, torch.float32, CPU, seed=8)
    with refuses(f"{name} attention cannot add a bias to the scores", ValueError):
        BACKENDS[name](PackedHeads(q, k, v, layout, layout), True, 0.0, torch.zeros(1, HEADS, 3, 3))


def test_the_automatic_choice_is_never_one_that_refuses_a_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if on a GPU, where without a bias it is one of those."""
    layout = Layout.of([2, 3])
    q, k, v = draw(layout, layout, torch.bfloat16, CPU, seed=8)
    chosen = []
    for name in ("padded", "varlen", "short"):
        monkeypatch.setattr(backends, name, lambda *call, name=name: chosen.append(name))
    monkeypatch.setattr(Tensor, "is_cuda", True)
    monkeypatch.setattr(backends, "use_kernels", lambda x: True)
    for dropout in (0.0, 0.1):
        for bias in (torch.zeros(1, HEADS, 3, 3), None):
            inspect.unwrap(automatic)(PackedHeads(q, k, v, layout, layout), True, dropout, bias)
    assert chosen == ["padded", "short"] * 2


def compare_with_loop(
    backend: Backend,
    device: torch.device,
    dtype: torch.dtype,
    causal: bool,
    query_lengths: Sequence[int],
    key_lengths: Sequence[int],
    seed: int,
) -> None:
    queries, keys = Layout.of(query_lengths), Layout.of(key_lengths)
    inputs = draw(queries, keys, dtype, device, seed)
    found = values_and_gradients(backend, inputs, queries, keys, causal, seed)
    expected = values_and_gradients(loop, inputs, queries, keys, causal, seed)
    for what, tensor, wanted in zip(("values", "dq", "dk", "dv"), found, expected, strict=True):
        assert tensor.dtype == dtype
        assert difference(tensor, wanted) <= TOLERANCES[dtype], what


def loop(heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Tensor | None = None) -> Tensor:
    """The definition: for each sentence, head and query, a softmax over the keys that it may see; always float64."""
    *tensors, queries, keys = heads
    q, k, v = (x.to(CPU, torch.float64) for x in tensors)
    rows = []
    for sentence in range(queries.sentences):
        query_start, query_end = queries.offsets[sentence : sentence + 2].tolist()
        key_start, key_end = keys.offsets[sentence : sentence + 2].tolist()
        for i in range(query_start, query_end):
            end = key_start + (i - query_start) + 1 if causal else key_end
            read = []
            for head in range(q.shape[1]):
                scores = torch.stack([q[i, head] @ k[j, head] for j in range(key_start, end)])
                scores = scores / math.sqrt(q.shape[2])
                if bias_BHLL is not None:
                    mine = bias_BHLL.expand(queries.sentences, -1, -1, -1)[sentence, head, i - query_start]
                    scores = scores + mine[: end - key_start].to(scores)
                powers = scores.exp()
                read.append(powers / powers.sum() @ v[key_start:end, head])
            rows.append(torch.stack(read))
    return torch.stack(rows)


def draw(queries: Layout, keys: Layout, dtype: torch.dtype, device: torch.device, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(tokens, HEADS, WIDTH) for tokens in (queries.tokens, keys.tokens, keys.tokens)]
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype).requires_grad_()
        for shape in shapes
    ]


def values_and_gradients(
    backend: Backend, inputs: list[Tensor], queries: Layout, keys: Layout, causal: bool, seed: int
) -> list[Tensor]:
    """The values, and the gradients of q, k and v under a random linear loss."""
    q, k, v = inputs
    device = q.device
    y = backend(PackedHeads(q, k, v, queries.to(device), keys.to(device)), causal, 0.0)
    generator = torch.Generator().manual_seed(seed)
    factors = torch.randn(q.shape, generator=generator, dtype=torch.float64)[: len(y)]
    rounded = factors.to(q.dtype).to(y)  # the same numbers, whatever the type of y
    return [y.detach(), *torch.autograd.grad((y * rounded).sum(), inputs)]


def difference(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    wanted = expected.double().cpu()
    return float((found.double().cpu() - wanted).abs().max() / wanted.abs().max().clamp(min=1))
