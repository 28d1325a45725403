"""Position schemes of attention: each against a loop over the paper's equation, and what all of them promise."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.examples import examples
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from heedful.base.packed import Layout, Packed
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.weights import weights_from_bytes, weights_to_bytes
from heedful.nn.attention.backends import BACKENDS, PackedHeads
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.attention.relative_positions import LinearBias, PositionScheme, RelativeVectors, Rotary, alibi_slopes

HEADS, WIDTH, REACH = 3, 4, 2  # of one head; distances that have vectors of their own
WORDS = 17
POSITIONS = ("rope", "alibi", "relative")
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}


@pytest.fixture
def exact_constants() -> Iterator[None]:
    """Sines and slopes in float64, so that they are the paper's to the last digit."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# --- the papers' equations --------------------------------------------------------------------------------------------


@dataclass
class Pair:
    """Query i of head h and key j, with all that an equation may ask for."""

    i: int
    j: int
    head: int
    q: Tensor
    k: Tensor
    v: Tensor


class Paper:
    """A score and a value for each pair, where nothing is said of positions."""

    def __init__(self, scheme: PositionScheme) -> None:
        self.scheme = scheme

    def score(self, pair: Pair) -> Tensor:
        return pair.q @ pair.k / math.sqrt(WIDTH)

    def value(self, pair: Pair) -> Tensor:
        return pair.v


class SuEtAl(Paper):
    """q_i^T R_i^T R_j k_j with the matrix of equation 15: blocks of cos, -sin, sin, cos on the diagonal."""

    def score(self, pair: Pair) -> Tensor:
        return (self.matrix(pair.i) @ pair.q) @ (self.matrix(pair.j) @ pair.k) / math.sqrt(WIDTH)

    def matrix(self, position: int) -> Tensor:
        angles = [position * 10000 ** (-2 * (c - 1) / WIDTH) for c in range(1, WIDTH // 2 + 1)]
        blocks = [[[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]] for a in angles]
        return torch.block_diag(*(torch.tensor(block, dtype=torch.float64) for block in blocks))


class PressEtAl(Paper):
    """Each head adds its slope times the distance, which is never positive."""

    def score(self, pair: Pair) -> Tensor:
        return super().score(pair) + released_slopes(HEADS)[pair.head] * -abs(pair.i - pair.j)


class ShawEtAl(Paper):
    """Equations 3 and 4, with the vectors w_-k .. w_k of both tables."""

    def score(self, pair: Pair) -> Tensor:
        return pair.q @ (pair.k + self.vector("keys", pair)) / math.sqrt(WIDTH)

    def value(self, pair: Pair) -> Tensor:
        return pair.v + self.vector("values", pair)

    def vector(self, table: str, pair: Pair) -> Tensor:
        return self.scheme.get_parameter(table)[max(-REACH, min(REACH, pair.j - pair.i)) + REACH].double()


def released_slopes(heads: int) -> list[float]:
    """`get_slopes` of the ALiBi paper's released program, word by word."""

    def power_of_2(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return power_of_2(heads)
    closest = 2 ** math.floor(math.log2(heads))
    return power_of_2(closest) + released_slopes(2 * closest)[0::2][: heads - closest]


def loop(paper: Paper, q_NHD: Tensor, k_NHD: Tensor, v_NHD: Tensor, lengths: list[int], causal: bool) -> Tensor:
    """Sentence by sentence, query by query, head by head, in float64."""
    q, k, v = (x.double() for x in (q_NHD, k_NHD, v_NHD))
    rows, start = [], 0
    for length in lengths:
        for i in range(length):
            heads = []
            for h in range(HEADS):
                pairs = [
                    Pair(i, j, h, q[start + i, h], k[start + j, h], v[start + j, h])
                    for j in range(i + 1 if causal else length)
                ]
                weights = torch.stack([paper.score(pair) for pair in pairs]).exp()
                values = torch.stack([paper.value(pair) for pair in pairs])
                heads.append(weights / weights.sum() @ values)
            rows.append(torch.stack(heads))
        start += length
    return torch.stack(rows)


SCHEMES: dict[str, tuple[Callable[[], PositionScheme], type[Paper]]] = {
    "none": (PositionScheme, Paper),
    "rope": (lambda: Rotary(WIDTH), SuEtAl),
    "alibi": (lambda: LinearBias(HEADS), PressEtAl),
    "relative": (lambda: RelativeVectors(WIDTH, REACH), ShawEtAl),
}
COMBINATIONS = [(name, backend) for name in SCHEMES for backend in ("automatic", "padded", "explicit")]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("name", "backend"), COMBINATIONS)
@pytest.mark.usefixtures("exact_constants")
def test_values_and_gradients_are_those_of_the_papers_equation(
    name: str, backend: str, causal: bool, dtype: torch.dtype
) -> None:
    for lengths in ([6, 1, 3], [4, 4], [1]):  # beyond the reach of the vectors, and rows of equal length
        compare(name, backend, causal, dtype, lengths)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.usefixtures("exact_constants")
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4))
@example(lengths=[7])
@example(lengths=[1, 7])
@examples(6)
def test_they_are_whatever_the_lengths(name: str, causal: bool, lengths: list[int]) -> None:
    compare(name, "automatic", causal, torch.float64, lengths)


def compare(name: str, backend: str, causal: bool, dtype: torch.dtype, lengths: list[int]) -> None:
    make, paper = SCHEMES[name]
    scheme = make().to(dtype)
    layout = Layout.of(lengths)
    generator = torch.Generator().manual_seed(len(lengths))
    q, k, v, factors = (torch.randn(layout.tokens, HEADS, WIDTH, generator=generator).to(dtype) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)] + list(scheme.parameters())
    placed = scheme.encode(q, k, layout.positions, layout.bound)
    found = scheme.attend(BACKENDS[backend], PackedHeads(*placed, v, layout, layout), causal, 0.0)
    expected = loop(paper(scheme), q, k, v, lengths, causal)
    assert found.dtype == dtype
    close(found, expected, dtype)
    gradients = torch.autograd.grad((found * factors).sum(), inputs)
    for gradient, wanted in zip(gradients, torch.autograd.grad((expected * factors).sum(), inputs), strict=True):
        close(gradient, wanted, dtype)


def close(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(found.double(), expected.double(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", SCHEMES)
def test_dropped_weights_do_not_count_in_any_value(name: str) -> None:
    """With one key a weight is 0 or 1 / (1 - p), and so is the whole of the value with its vector."""
    scheme = SCHEMES[name][0]()
    layout = Layout.of([1] * 400)
    ones = torch.ones(400, HEADS, WIDTH)
    torch.manual_seed(1)
    y = scheme.attend(BACKENDS["automatic"], PackedHeads(ones, ones, ones, layout, layout), False, 0.5).detach()
    whole = scheme.attend(BACKENDS["automatic"], PackedHeads(ones, ones, ones, layout, layout), False, 0.0).detach()
    kept = (y[..., 0] != 0).unsqueeze(2)
    torch.testing.assert_close(y, torch.where(kept, 2 * whole, 0.0))
    assert 0.4 < float(kept.float().mean()) < 0.6


# --- RoPE -------------------------------------------------------------------------------------------------------------


def scores_at(rotary: Rotary, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
    turned_q, turned_k = rotary.encode(q, k, positions, int(positions.max()) + 1)
    return torch.einsum("ihd,jhd->hij", turned_q, turned_k)


@pytest.mark.usefixtures("exact_constants")
@given(shift=st.integers(1, 2000))
@examples(10)
def test_rotated_scores_know_distances_alone(shift: int) -> None:
    rotary, positions = Rotary(WIDTH), torch.tensor([0, 3, 4, 11, 700])
    q, k = torch.randn(2, 5, HEADS, WIDTH)
    before, after = (scores_at(rotary, q, k, positions + move) for move in (0, shift))
    torch.testing.assert_close(after, before, atol=1e-11, rtol=0)
    assert not torch.allclose(scores_at(rotary, q, k, positions * 2), before)


def test_rotation_keeps_lengths_and_leaves_the_first_token_alone() -> None:
    rotary = Rotary(WIDTH)
    q, k = torch.randn(2, 4, HEADS, WIDTH)
    for x, turned in zip((q, k), rotary.encode(q, k, torch.tensor([0, 1, 90, 5000]), 5001), strict=True):
        torch.testing.assert_close(turned.norm(dim=2), x.norm(dim=2))
        assert torch.equal(turned[0], x[0])
        assert not torch.allclose(turned[1:], x[1:])


def test_rotation_equals_that_of_transformers() -> None:
    """Llama pairs column c with column c + D/2: the same planes in another order of columns."""
    width, tokens = 16, 40
    theirs = LlamaRotaryEmbedding(LlamaConfig(hidden_size=width * HEADS, num_attention_heads=HEADS))
    q, k = torch.randn(2, tokens, HEADS, width)
    places = torch.arange(tokens) * 9
    cos, sin = theirs(q, places.unsqueeze(0))
    order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
    rows = [x[..., order].transpose(0, 1).unsqueeze(0) for x in (q, k)]  # [1, H, N, D]
    expected = apply_rotary_pos_emb(*rows, cos, sin)
    for turned, wanted in zip(Rotary(width).encode(q, k, places, 361), expected, strict=True):
        torch.testing.assert_close(turned[..., order], wanted[0].transpose(0, 1), atol=5e-5, rtol=0)  # float32 angles


def test_a_table_that_grew_in_a_search_still_trains() -> None:
    rotary, q = Rotary(WIDTH), torch.randn(1, HEADS, WIDTH, requires_grad=True)
    position = torch.tensor([3000])
    with torch.inference_mode():
        searched, _ = rotary.encode(q.detach(), q.detach(), position, 3001)
    turned, _ = rotary.encode(q, q, position, 3001)
    assert torch.equal(turned, searched)
    (gradient,) = torch.autograd.grad((turned * turned).sum(), q)
    torch.testing.assert_close(gradient, 2 * q.detach())  # a rotation's own


# --- ALiBi ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", range(1, 34))
def test_slopes_are_those_of_the_released_program(heads: int) -> None:
    assert alibi_slopes(heads) == pytest.approx(released_slopes(heads), rel=1e-12)


def test_eight_heads_have_the_slopes_that_the_paper_names() -> None:
    assert alibi_slopes(8) == [2.0**-h for h in range(1, 9)]


# --- models -----------------------------------------------------------------------------------------------------------


def model_of(positions: str, norm: str = "pre", seed: int = 1, dtype: torch.dtype = torch.float64) -> EncoderDecoder:
    torch.manual_seed(seed)
    tiny: dict[str, Any] = {"width": 12, "heads": 3, "layers": 2, "inner": 16, "dropout": 0.0, "max_distance": 2}
    config = TransformerModel.model_validate({**tiny, "positions": positions, "norm": norm})
    model = build_model(config, WORDS, WORDS).to(dtype).eval()
    set_precision(model, dtype)
    return model


SOURCE, TARGET = [[5, 6, 7, 8, 9, 4], [4, 4]], [[1, 8, 7, 6], [1, 5, 9, 9, 3]]


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_source_in_another_order_is_another_source(positions: str) -> None:
    """Two tokens change places, and the others notice; without a scheme they could not."""
    model = model_of(positions)
    for noticed in (True, False):
        before, after = (model.encoder(Packed.of([source])).values for source in ([5, 6, 7, 8], [6, 5, 7, 8]))
        assert torch.allclose(after[2:], before[2:]) is not noticed
        for module in model.modules():
            if isinstance(module, SelfAttention):
                module.positions = PositionScheme()


@pytest.mark.parametrize("positions", POSITIONS)
def test_attention_over_the_memory_knows_no_positions(positions: str) -> None:
    model = model_of(positions)
    memory, target = model.encoder(Packed.of(SOURCE)), Packed.of(TARGET)
    first, second = memory.split()
    moved = memory.with_values(torch.cat((first[torch.tensor([3, 1, 5, 0, 2, 4])], second.flip(0))))
    torch.testing.assert_close(model.decoder(target, moved), model.decoder(target, memory))


@pytest.mark.parametrize("positions", POSITIONS)
def test_sequences_of_any_length_are_taken(positions: str) -> None:
    model = model_of(positions, dtype=torch.float32)
    assert model(Packed.of([[5] * 700]), Packed.of([[6] * 600])).isfinite().all()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_saved_model_comes_back_whole(positions: str, norm: str) -> None:
    """The recipe as JSON and the weights as bytes, as a bundle holds them."""
    written = model_of(positions, norm)
    corpus = AlignedFiles(source="a", target="b")
    model = TransformerModel.model_validate({"positions": positions, "max_distance": 5})
    recipe = Recipe(data=Data(train=(corpus,)), model=model)
    assert recipe_from_json(recipe_to_json(recipe), "here") == recipe
    read = model_of(positions, norm, seed=2)
    source, target = Packed.of(SOURCE), Packed.of(TARGET)
    assert not torch.allclose(read(source, target), written(source, target))
    weights_from_bytes(read, weights_to_bytes(written), Path("model.safetensors"))
    assert torch.equal(read(source, target), written(source, target))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_bfloat16_follows_float64_whole_and_step_by_step(positions: str, norm: str) -> None:
    exact, rough = model_of(positions, norm), model_of(positions, norm, dtype=torch.float32)
    set_precision(rough, torch.bfloat16)
    source, target = Packed.of(SOURCE), Packed.of([TARGET[0], TARGET[1][:4]])
    expected = exact(source, target).detach()
    found = rough(source, target)
    assert found.dtype == torch.bfloat16
    assert far(found, expected) < 0.05
    found.sum().backward()
    assert all(weight.grad is not None and weight.grad.dtype == torch.float32 for weight in rough.parameters())
    state = rough.decoder.start(rough.encoder(source), 2)
    steps = []
    for tokens in target.values.view(2, 4).T:
        logits, state = rough.decoder.step(tokens.repeat_interleave(2), state)
        steps.append(logits[::2])
        assert torch.equal(logits[::2], logits[1::2])
    assert far(torch.stack(steps, 1).flatten(0, 1), expected) < 0.05


def far(found: Tensor, expected: Tensor) -> float:
    return float((found.detach().double() - expected).abs().max() / expected.abs().max())


def test_bfloat16_sums_many_far_places_well() -> None:
    """Hundreds of places share the last vector: their weights are small, and a sum in 16 bits would lose them."""
    torch.manual_seed(2)
    scheme, layout = RelativeVectors(WIDTH, 1), Layout.of([600])
    nn.init.ones_(scheme.values)
    q, k, v = (0.01 * torch.randn(3, 600, HEADS, WIDTH)).bfloat16()
    y = scheme.attend(BACKENDS["automatic"], PackedHeads(q, k, torch.zeros_like(v), layout, layout), False, 0.0)
    torch.testing.assert_close(y.float(), torch.ones(600, HEADS, WIDTH), atol=0.02, rtol=0)


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_layer_of_both_sides_has_the_scheme_and_embeddings_add_nothing(positions: str) -> None:
    model = model_of(positions)
    schemes = [module.positions for module in model.modules() if isinstance(module, SelfAttention)]
    kind = {"rope": Rotary, "alibi": LinearBias, "relative": RelativeVectors}[positions]
    assert [type(scheme) for scheme in schemes] == [kind] * 4
    shared = {parameter for scheme in schemes for parameter in scheme.parameters()}
    assert len(shared) == (8 if positions == "relative" else 0)  # two tables a layer
    embedding = model.get_submodule("encoder.embedding")
    once, again = embedding(torch.tensor([3, 3]), Layout.of([2]))
    assert torch.equal(once, again)
