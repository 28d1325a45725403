"""The chunked loss equals its definitions: PyTorch's, and a divergence plus an entropy; values and gradients."""

import math
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.covering import in_turn
from tests.shared.examples import examples
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import heedful.nn.losses.cross_entropy
from heedful.base.packed import IGNORED
from heedful.nn.losses.cross_entropy import reference, smoothed_cross_entropy

TRITON = find_spec("triton") is not None
if TRITON:
    import heedful.nn.losses.cross_entropy_gpu
    from heedful.nn.kernels import score_gradients

with_triton = pytest.mark.skipif(not TRITON, reason="Triton is not installed here")
GPU = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # there in Triton's interpreter
ROWS, WIDTH, WORDS = 11, 5, 7
SMOOTHINGS = [0.0, 0.1]

Loss = Callable[[Tensor, Tensor, Tensor | None, Tensor, float], tuple[Tensor, Tensor]]


@pytest.fixture(params=[1, 3, 1000], ids=lambda rows: f"{rows} rows a chunk", autouse=True)
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every law holds for one row a chunk, for a last chunk that is not full, and for a single chunk."""
    rows = int(request.param)
    monkeypatch.setattr(heedful.nn.losses.cross_entropy, "_CHUNK_BYTES", rows * WORDS * 4)
    return rows


@pytest.fixture
def on_gpu(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute as on a GPU, whatever the device."""
    if not TRITON:
        pytest.skip("Triton is not installed here")
    monkeypatch.setattr(heedful.nn.losses.cross_entropy, "use_kernels", lambda _: True)
    monkeypatch.setattr(
        heedful.nn.losses.cross_entropy_gpu, "_CHUNK_BYTES", chunk * 16 * 4
    )  # rows there are 16 scores apart
    monkeypatch.setattr(heedful.nn.losses.cross_entropy_gpu, "_FEWEST_ROWS", 1)


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_values_and_gradients_equal_torchs_cross_entropy(smoothing: float, biased: bool) -> None:
    x, weight, bias, labels = batch(biased)
    found = everything(smoothed_cross_entropy, x, weight, bias, labels, smoothing)
    expected = everything(reference, x, weight, bias, labels, smoothing)
    for tensor, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(tensor, wanted, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("loss", [smoothed_cross_entropy, reference])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_loss_is_the_divergence_from_the_smoothed_labels_plus_their_entropy(loss: Loss, smoothing: float) -> None:
    """H(q, p) = KL(q || p) + H(q), summed in Python over tokens and words; only labels that count."""
    x, weight, bias, labels = batch()
    assert bias is not None
    total = likelihood = 0.0
    for row, label in zip((x @ weight.T + bias).tolist(), labels.tolist(), strict=True):
        if label == IGNORED:
            continue
        normaliser = sum(math.exp(score) for score in row)
        p = [math.exp(score) / normaliser for score in row]
        q = [(1 - smoothing) * (word == label) + smoothing / WORDS for word in range(WORDS)]
        divergence = sum(q_v * math.log(q_v / p_v) for q_v, p_v in zip(q, p, strict=True) if q_v)
        entropy = -sum(q_v * math.log(q_v) for q_v in q if q_v)
        total += divergence + entropy
        likelihood -= math.log(p[label])
    found, found_likelihood = loss(x, weight, bias, labels, smoothing)
    assert float(found.detach()) == pytest.approx(total, abs=1e-11)
    assert float(found_likelihood) == pytest.approx(likelihood, abs=1e-11)


@pytest.mark.parametrize(("smoothing", "biased"), in_turn(SMOOTHINGS, [True, False]))
def test_gradients_are_those_of_finite_differences(smoothing: float, biased: bool) -> None:
    x, weight, bias, labels = batch(biased)
    inputs = (x, weight) if bias is None else (x, weight, bias)

    def loss(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return smoothed_cross_entropy(x, weight, bias, labels, smoothing)[0]

    assert torch.autograd.gradcheck(loss, inputs, atol=1e-7, rtol=1e-6)


def test_ignored_labels_count_in_nothing() -> None:
    x, weight, bias, labels = batch()
    counted = labels != IGNORED
    assert 0 < counted.sum() < ROWS
    _, likelihood, dx, dw, db = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)
    assert (dx[~counted] == 0).all()
    fewer = everything(smoothed_cross_entropy, x[counted].detach(), weight, bias, labels[counted], 0.1)
    torch.testing.assert_close(likelihood, fewer[1], atol=1e-12, rtol=0)
    for tensor, wanted in zip((dx[counted], dw, db), fewer[2:], strict=True):
        torch.testing.assert_close(tensor, wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("rows", [0, 4])
def test_nothing_to_count_is_a_loss_of_zero(rows: int) -> None:
    x, weight, bias, _ = batch()
    labels = torch.full((rows,), IGNORED)
    for tensor in everything(smoothed_cross_entropy, x[:rows].detach(), weight, bias, labels, 0.1):
        assert (tensor == 0).all()


@pytest.mark.parametrize("factor", [0.0, 1.0, 0.25, -3.0])
def test_a_factor_behind_the_loss_scales_every_gradient(factor: float) -> None:
    x, weight, bias, labels = batch()
    plain = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)
    scaled = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1, factor)
    for tensor, wanted in zip(scaled[2:], plain[2:], strict=True):
        torch.testing.assert_close(tensor, factor * wanted, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_second_and_third_backward_pass_add_the_same_gradients_again(factor: float) -> None:
    """Gradients come from the forward pass: what `.grad` accumulates must not be the memory they lie in."""
    x, weight, bias, labels = batch()
    expected = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1, factor)[2:]
    loss, _ = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    for times in (1, 2, 3):
        (factor * loss).backward(retain_graph=True)
        for parameter, wanted in zip((x, weight, bias), expected, strict=True):
            assert parameter is not None
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, times * wanted, atol=1e-12, rtol=1e-12)


@given(cut=st.integers(1, ROWS - 1), smoothing=st.sampled_from(SMOOTHINGS))
@examples(8)
def test_two_halves_accumulate_to_the_whole(cut: int, smoothing: float) -> None:
    x, weight, bias, labels = batch()
    whole = everything(smoothed_cross_entropy, x, weight, bias, labels, smoothing)
    halves = [
        everything(smoothed_cross_entropy, x[part].detach(), weight, bias, labels[part], smoothing)
        for part in (slice(None, cut), slice(cut, None))
    ]
    torch.testing.assert_close(torch.cat([half[2] for half in halves]), whole[2], atol=1e-12, rtol=0)
    for place in (0, 1, 3, 4):
        torch.testing.assert_close(halves[0][place] + halves[1][place], whole[place], atol=1e-12, rtol=0)


def test_no_gradients_are_computed_where_none_are_wanted() -> None:
    x, weight, bias, labels = batch()
    with torch.no_grad(), FlopCounterMode(display=False) as work:
        loss, likelihood = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    assert work.get_total_flops() == 2 * ROWS * WIDTH * WORDS  # the scores, and no other product
    wanted, wanted_likelihood = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    assert not loss.requires_grad
    assert wanted.requires_grad
    assert not wanted_likelihood.requires_grad
    assert torch.equal(loss, wanted.detach())
    assert torch.equal(likelihood, wanted_likelihood)


def test_a_frozen_output_layer_still_teaches_what_lies_before_it() -> None:
    x, weight, bias, labels = batch()
    assert bias is not None
    expected = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)[2]
    loss, _ = smoothed_cross_entropy(x, weight.detach(), bias.detach(), labels, 0.1)
    torch.testing.assert_close(torch.autograd.grad(loss, x)[0], expected, atol=1e-12, rtol=0)


def test_float32_is_within_1e_5_of_float64() -> None:
    x, weight, bias, labels = batch()
    assert bias is not None
    exact = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)
    single_x, single_weight, single_bias = narrowed(torch.float32, x, weight, bias)
    narrow = everything(smoothed_cross_entropy, single_x, single_weight, single_bias, labels, 0.1)
    for tensor, wanted in zip(narrow, exact, strict=True):
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor.double(), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("gpu", [False, True], ids=["on a cpu", "on a gpu"])
def test_bfloat16_states_with_float32_weights_are_within_bfloat16_of_float64(
    gpu: bool, request: pytest.FixtureRequest
) -> None:
    """Scores round to 8 bits (2^-9 of at most about 8), so the loss of a token may be 0.02 off, gradients 0.03."""
    x, weight, bias, labels = batch()
    assert bias is not None
    rounded = x.detach().bfloat16()
    exact = everything(smoothed_cross_entropy, rounded.double(), weight, bias, labels, 0.1)
    device = GPU if gpu else torch.device("cpu")
    if gpu:
        request.getfixturevalue("on_gpu")
    _, single_weight, single_bias, _ = single_batch(device)
    found = everything(smoothed_cross_entropy, rounded.to(device), single_weight, single_bias, labels.to(device), 0.1)
    assert [tensor.dtype for tensor in found] == [torch.float32, torch.float32, torch.bfloat16, *2 * [torch.float32]]
    counted = int((labels != IGNORED).sum())
    for tensor, wanted in zip(found[:2], exact[:2], strict=True):
        assert abs(float(tensor) - float(wanted)) < 0.02 * counted
    for tensor, wanted in zip(found[2:], exact[2:], strict=True):
        assert float((tensor.double().cpu() - wanted).abs().max()) < 0.03 * max(1.0, float(wanted.abs().max()))


# --- on a GPU ---------------------------------------------------------------------------------------------------------


@with_triton
@pytest.mark.parametrize("chunk", [1000], indirect=True, ids=["one chunk"])
@given(
    rows=st.integers(1, 9),
    words=st.integers(5, 300),
    block=st.sampled_from([16, 64, 512]),
    behind=st.integers(0, 3),
    smoothing=st.sampled_from(SMOOTHINGS),
    wanted=st.booleans(),
    seed=st.integers(0, 99),
)
@examples(40)
def test_the_kernel_equals_its_reference(
    rows: int, words: int, block: int, behind: int, smoothing: float, wanted: bool, seed: int
) -> None:
    """Also where a row takes several blocks, where rows have room behind them, and where scores are far from zero."""
    generator = torch.Generator().manual_seed(seed)
    found = 3 * torch.randn(rows, words + behind, generator=generator) + 30
    found[:, words:] = math.nan
    labels = torch.randint(words, (rows,), generator=generator)
    labels[torch.rand(rows, generator=generator) < 0.3] = IGNORED
    expected, found = found.double(), found.to(GPU)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score_gradients, "BLOCK", block)
        sums = score_gradients.score_gradients(found, words, labels.to(GPU), smoothing, wanted)
    for tensor, exact in zip(sums, score_gradients.reference(expected, words, labels, smoothing, wanted), strict=True):
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor.double().cpu(), exact, atol=1e-6, rtol=1e-6)
    found = found.cpu()
    torch.testing.assert_close(found[:, :words].double(), expected[:, :words], atol=1e-6, rtol=0)
    assert not wanted or found[:, words:].isfinite().all()  # it is multiplied by words of zeros
    assert (found[labels == IGNORED, :words] == 0).all() or not wanted


@with_triton
@pytest.mark.parametrize("chunk", [1000], indirect=True, ids=["one chunk"])
@pytest.mark.parametrize("label", [WORDS, -1])
def test_a_label_outside_of_the_vocabulary_is_no_number_on_a_gpu(label: int) -> None:
    scores, labels = torch.zeros(3, WORDS, device=GPU), torch.tensor([0, label, 1], device=GPU)
    losses, misses = score_gradients.score_gradients(scores, WORDS, labels, 0.1, wanted=True)
    assert losses.isnan().tolist() == misses.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_values_and_gradients_on_a_gpu_equal_torchs_cross_entropy(
    smoothing: float, biased: bool, factor: float, on_gpu: None
) -> None:
    x, weight, bias, labels = batch(biased)
    single_x, single_weight, single_bias, single_labels = single_batch(GPU)
    chosen = single_bias if biased else None
    found = everything(smoothed_cross_entropy, single_x, single_weight, chosen, single_labels, smoothing, factor)
    expected = everything(reference, x, weight, bias, labels, smoothing, factor)
    for tensor, wanted in zip(found, expected, strict=True):
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor.double().cpu(), wanted, atol=3e-6, rtol=1e-6)


def test_a_factor_on_a_gpu_is_not_rounded_to_the_type_of_the_states(on_gpu: None) -> None:
    x, weight, _, labels = single_batch(GPU)
    rounded, factor = x.detach().bfloat16(), 1 + 2**-8  # which bfloat16 rounds to 1
    plain = everything(smoothed_cross_entropy, rounded, weight, None, labels, 0.1)[2]
    scaled = everything(smoothed_cross_entropy, rounded, weight, None, labels, 0.1, factor)[2]
    assert torch.equal(scaled, (plain.double() * factor).bfloat16())
    assert not torch.equal(scaled, plain)


def test_no_gradients_on_a_gpu_are_computed_where_none_are_wanted(
    on_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight, bias, labels = single_batch(GPU)
    taught, taught_likelihood = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    assert taught.requires_grad
    assert not taught_likelihood.requires_grad
    monkeypatch.delattr(heedful.nn.losses.cross_entropy_gpu, "_add_product")
    constant = smoothed_cross_entropy(x.detach(), weight.detach(), bias.detach(), labels, 0.1)
    with torch.no_grad():
        validated = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    for loss, likelihood in (constant, validated):
        assert not loss.requires_grad
        assert torch.equal(loss, taught.detach())
        assert torch.equal(likelihood, taught_likelihood)
    gradients = heedful.nn.losses.cross_entropy_gpu.output_loss(x.detach(), weight, bias, labels, 0.1, False)[2:]
    assert [len(gradient) for gradient in gradients] == [0, 0, 0]


def test_a_frozen_output_layer_on_a_gpu_still_teaches_what_lies_before_it(on_gpu: None) -> None:
    x, weight, bias, labels = single_batch(GPU)
    expected = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)[2]
    loss, _ = smoothed_cross_entropy(x, weight.detach(), bias.detach(), labels, 0.1)
    assert torch.equal(torch.autograd.grad(loss, x)[0], expected)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_second_and_third_backward_pass_on_a_gpu_add_the_same_gradients_again(factor: float, on_gpu: None) -> None:
    x, weight, bias, labels = single_batch(GPU)
    expected = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1, factor)[2:]
    loss, _ = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    for times in (1, 2, 3):
        (factor * loss).backward(retain_graph=True)
        for parameter, wanted in zip((x, weight, bias), expected, strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, times * wanted, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("rows", [0, 4])
def test_nothing_to_count_on_a_gpu_is_a_loss_of_zero(rows: int, on_gpu: None) -> None:
    x, weight, bias, _ = single_batch(GPU)
    labels = torch.full((rows,), IGNORED, device=GPU)
    for tensor in everything(smoothed_cross_entropy, x[:rows].detach(), weight, bias, labels, 0.1):
        assert (tensor == 0).all()


@pytest.mark.parametrize("chunk", [3], indirect=True, ids=["3 rows a chunk"])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("wanted", [True, False], ids=["gradients", "no gradients"])
def test_compilers_may_take_the_loss_of_a_gpu(biased: bool, wanted: bool, on_gpu: None) -> None:
    """Shapes, aliases and gradients are as the operator declares, also where the number of tokens is unknown."""
    x, weight, bias, labels = single_batch(GPU)
    for tensor in (x, weight, bias):
        tensor.requires_grad_(wanted)
    inputs = (x, weight, bias if biased else None, labels, 0.1, wanted)
    torch.library.opcheck(heedful.nn.losses.cross_entropy_gpu.output_loss, inputs)


def test_float64_never_reaches_the_kernel(on_gpu: None) -> None:
    x, weight, bias, labels = batch()
    found = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)
    assert all(tensor.dtype == torch.float64 for tensor in found)


@with_triton
@pytest.mark.parametrize("chunk", [1000], indirect=True, ids=["real limits"])
@given(tokens=st.integers(1, 200_000), row_bytes=st.integers(2, 600_000))
def test_chunks_are_even_and_neither_large_nor_low_of_rows(tokens: int, row_bytes: int) -> None:
    limit, fewest, tile = 256 * 2**20, 2048, 256
    rows = heedful.nn.losses.cross_entropy_gpu._rows(tokens, row_bytes)
    chunks = math.ceil(tokens / rows)
    assert (rows - tile) * row_bytes < limit or rows < 2 * fewest + tile
    assert rows >= min(tokens, fewest)
    assert chunks * rows - tokens < chunks * tile  # the last chunk lacks less than a tile for every chunk
    assert chunks == 1 or rows % tile == 0


def batch(biased: bool = True) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """States, weights, perhaps a bias, and labels of which some are ignored."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(WORDS, WIDTH, generator=generator, dtype=torch.float64)
    bias = torch.randn(WORDS, generator=generator, dtype=torch.float64)
    labels = torch.randint(WORDS, (ROWS,), generator=generator)
    labels[[0, 4, 5, ROWS - 1]] = IGNORED
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_() if biased else None, labels


def single_batch(device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same in float32, with a bias."""
    x, weight, bias, labels = batch()
    assert bias is not None
    single_x, single_weight, single_bias = narrowed(torch.float32, *(tensor.to(device) for tensor in (x, weight, bias)))
    return single_x, single_weight, single_bias, labels.to(device)


def narrowed(dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.detach().to(dtype).requires_grad_() for tensor in tensors)


def everything(
    loss: Loss, x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, factor: float = 1.0
) -> list[Tensor]:
    """The loss, the likelihood, and the gradients of the states, the weights and the bias."""
    leaf = x.detach().requires_grad_()
    value, likelihood = loss(leaf, weight, bias, labels, smoothing)
    inputs = [leaf, weight] if bias is None else [leaf, weight, bias]
    return [value.detach(), likelihood, *torch.autograd.grad(factor * value, inputs)]
