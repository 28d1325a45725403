"""Laws of the whole model: sentences know nothing of each other, nor of their future; every variant trains."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.packed import Packed
from heedful.config.model.transformer import TRANSFORMER_PRESETS, TransformerModel
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.embedding import Embedding
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy

WORDS = 29
TINY: dict[str, Any] = {"width": 16, "heads": 2, "layers": 2, "inner": 24, "dropout": 0.0, "max_positions": 16}
VARIANTS = [
    {"norm": norm, "positions": positions, "activation": activation, "tie": tie}
    for norm, positions, activation, tie in itertools.product(
        ("post", "pre"),
        ("sinusoidal", "sinusoidal_halves", "learned"),
        ("relu", "gelu", "swiglu"),
        ("all", "decoder", "none"),
    )
] + [{"norm": norm, "positions": positions} for norm in ("post", "pre") for positions in ("rope", "alibi", "relative")]
# Each value of each option beside each value of each other one, in nine models instead of fifty-four.
FEW = [
    {"norm": "pre" if i == j else "post", "positions": positions, "activation": activation, "tie": tie}
    for i, positions in enumerate(("sinusoidal", "sinusoidal_halves", "learned"))
    for j, activation in enumerate(("relu", "gelu", "swiglu"))
    for tie in (("all", "decoder", "none")[(i + j) % 3],)
] + [{"norm": "post", "positions": positions, "max_distance": 2} for positions in ("rope", "alibi", "relative")]

token = st.integers(0, WORDS - 1)
sentence = st.lists(token, min_size=1, max_size=6)
pairs = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4)
SOME_PAIRS = [([3, 1, 4], [1, 5]), ([9], [2, 6, 5, 3]), ([5, 8, 9, 7, 9, 3], [2]), ([2, 3], [8, 4, 6])]


# --- sentences and their neighbours -----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", FEW, ids=lambda variant: "-".join(map(str, variant.values())))
def test_packed_equals_one_sentence_at_a_time(variant: dict[str, Any]) -> None:
    assert_packed_equals_alone(model_of(variant), SOME_PAIRS)


@given(pairs=pairs)
@example(pairs=[([1], [2])])
@example(pairs=[([1, 2, 3], [4, 5]), ([6, 7, 8], [9, 10])])
@examples(20)
def test_packed_equals_one_sentence_at_a_time_whatever_the_lengths(pairs: list[tuple[list[int], list[int]]]) -> None:
    assert_packed_equals_alone(model_of(), pairs)


def assert_packed_equals_alone(model: EncoderDecoder, pairs: list[tuple[list[int], list[int]]]) -> None:
    together = scores_of(model, pairs)
    gradients = torch.autograd.grad(torch.cat(together).square().sum(), list(model.parameters()))
    alone = [scores_of(model, [pair])[0] for pair in pairs]
    expected = torch.autograd.grad(torch.cat(alone).square().sum(), list(model.parameters()))
    for mine, single in zip(together, alone, strict=True):
        torch.testing.assert_close(mine, single, atol=1e-12, rtol=1e-12)
    for gradient, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("norm", ["post", "pre"])
@given(source=sentence, target=sentence, place=st.integers(0, 2))
@examples(15)
def test_a_neighbour_cannot_change_a_sentence(norm: str, source: list[int], target: list[int], place: int) -> None:
    """Whatever stands in its place, of whatever length, the others keep their states."""
    model = model_of({"norm": norm})
    others = [SOME_PAIRS[0], SOME_PAIRS[1]]
    before = states_of(model, [*others[:place], SOME_PAIRS[2], *others[place:]])
    after = states_of(model, [*others[:place], (source, target), *others[place:]])
    for row in set(range(3)) - {place}:
        torch.testing.assert_close(after[row], before[row], atol=1e-12, rtol=1e-12)


def test_no_gradient_flows_between_sentences() -> None:
    source, target, scores = embeddings_and_scores(model_of(), SOME_PAIRS)
    gradients = torch.autograd.grad(scores[1].square().sum(), (source, target))
    for side, gradient in enumerate(gradients):
        parts = gradient.split([len(pair[side]) for pair in SOME_PAIRS])
        assert [bool((part != 0).any()) for part in parts] == [False, True, False, False]


# --- causality --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
@given(target=st.lists(token, min_size=2, max_size=6), data=st.data())
@examples(15)
def test_a_later_target_token_changes_no_earlier_state(norm: str, target: list[int], data: st.DataObject) -> None:
    model = model_of({"norm": norm})
    place = data.draw(st.integers(1, len(target) - 1))
    changed = [*target[:place], (target[place] + 1) % WORDS, *target[place + 1 :]]
    before = states_of(model, [SOME_PAIRS[0], ([7, 7], target)])[1]
    after = states_of(model, [SOME_PAIRS[0], ([7, 7], changed)])[1]
    assert torch.equal(before[:place], after[:place])
    assert not torch.allclose(before[place], after[place])


@pytest.mark.parametrize("variant", FEW, ids=lambda variant: "-".join(map(str, variant.values())))
def test_earlier_states_have_exactly_no_gradient_for_later_tokens(variant: dict[str, Any]) -> None:
    model = model_of(variant)
    source, target, scores = embeddings_and_scores(model, [SOME_PAIRS[0], ([5, 8, 9], [2, 7, 1, 8])])
    for place in range(4):
        loss = scores[1][place].square().sum()
        source_gradient, target_gradient = torch.autograd.grad(loss, (source, target), retain_graph=True)
        seen = (target_gradient.split([2, 4])[1] != 0).any(dim=1)
        assert seen.tolist() == [other <= place for other in range(4)]
        assert (source_gradient.split([3, 3])[1] != 0).any(dim=1).all()  # the source is seen whole


# --- every variant ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant",
    [*FEW, *(pytest.param(variant, marks=pytest.mark.wide) for variant in VARIANTS if variant not in FEW)],
    ids=lambda variant: "-".join(map(str, variant.values())),
)
def test_every_variant_learns_to_repeat_a_batch(variant: dict[str, Any]) -> None:
    """Six steps forward and backward: all parameters have finite gradients, and the loss falls."""
    model = model_of(variant, dtype=torch.float32)
    source, target = pack(SOME_PAIRS)
    labels = target.values.roll(-1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        output = model.decoder.output
        loss, _ = smoothed_cross_entropy(model.states(source, target), output.weight, output.bias, labels, 0.1)
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_bfloat16_follows_float64_and_leaves_the_weights_alone(norm: str, activation: str) -> None:
    variant = {"norm": norm, "activation": activation}
    exact, rough = model_of(variant), model_of(variant, dtype=torch.float32)
    set_precision(rough, torch.bfloat16)
    expected, found = torch.cat(states_of(exact, SOME_PAIRS)), torch.cat(states_of(rough, SOME_PAIRS))
    assert found.dtype == torch.bfloat16
    assert float((found.double() - expected).detach().abs().max() / expected.detach().abs().max()) < 0.05
    found.sum().backward()
    for name, parameter in rough.named_parameters():
        assert parameter.dtype == torch.float32, name
        assert parameter.grad is None or parameter.grad.dtype == torch.float32, name


# --- one matrix, two or three -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tie", "matrices"),
    [
        ("all", {"encoder.embedding.weight"}),
        ("decoder", {"encoder.embedding.weight", "decoder.embedding.weight"}),
        ("none", {"encoder.embedding.weight", "decoder.embedding.weight", "decoder.output.weight"}),
    ],
)
def test_ties_share_the_very_same_matrix(tie: str, matrices: set[str]) -> None:
    model = model_of({"tie": tie})
    found = {name for name, parameter in model.named_parameters() if parameter.shape[0] == WORDS}
    assert found == matrices
    source, target = model.get_parameter("encoder.embedding.weight"), model.get_parameter("decoder.embedding.weight")
    assert (source is target) == (tie == "all")
    assert (target is model.decoder.output.weight) == (tie != "none")


def test_one_matrix_for_two_vocabularies_is_refused() -> None:
    with refuses("one matrix for both embeddings needs one vocabulary", ValueError):
        build_model(TransformerModel(**TINY, tie="all"), 10, 11)


@pytest.mark.parametrize(("preset", "published"), [("base", 65e6), ("big", 213e6)])
def test_presets_have_the_published_number_of_parameters(preset: str, published: float) -> None:
    """Vaswani et al. 2017, table 3, with the 37,000 pieces of its section 5.1."""
    words, width, inner, layers = 37_000, *(TRANSFORMER_PRESETS[preset][key] for key in ("width", "inner", "layers"))
    attention = 4 * (width * width + width)
    network = width * inner + inner + inner * width + width
    norm = 2 * width
    expected = words * width + layers * (attention + network + 2 * norm) + layers * (2 * attention + network + 3 * norm)
    assert expected == {"base": 63_082_496, "big": 214_245_376}[preset]
    with torch.device("meta"):
        model = build_model(TransformerModel.model_validate({"preset": preset}), words, words)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    assert expected == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"tie": "decoder"}, WORDS * 16),
        ({"tie": "none"}, 2 * WORDS * 16),
        ({"positions": "learned"}, 2 * 16 * 16),  # a matrix of 16 positions a side
        ({"positions": "rope"}, 0),
        ({"positions": "alibi"}, 0),
        ({"positions": "relative"}, 4 * 2 * 33 * 8),  # in each of four blocks vectors of keys and of values
        ({"positions": "relative", "max_distance": 2}, 4 * 2 * 5 * 8),
        ({"norm": "pre"}, 2 * 2 * 16),  # a final norm a side
        ({"final_norm": True}, 2 * 2 * 16),
        ({"norm": "pre", "final_norm": False}, 0),
        ({"norm_kind": "rms"}, -(2 * 2 + 2 * 3) * 16),  # no biases of norms
        ({"key_value_heads": 1}, -(2 + 2 * 2) * 2 * 8 * (16 + 1)),  # in six attentions one head of two of k and v
        ({"bias": False}, -(2 * (4 * 16 + 24 + 16 + 2 * 16) + 2 * (8 * 16 + 24 + 16 + 3 * 16))),
        ({"rope_base": 500.0, "positions": "rope"}, 0),
        ({"activation": "gelu"}, 0),
        ({"activation": "swiglu"}, 4 * (16 * 24 - 24 - 16)),  # in each of four blocks a gate more, no biases
        ({"decoder_layers": 1}, -(8 * (16 * 16 + 16) + 2 * 16 * 24 + 24 + 16 + 3 * 2 * 16)),
    ],
    ids=str,
)
def test_each_option_adds_the_parameters_it_names(change: dict[str, Any], more: int) -> None:
    def count(options: dict[str, Any]) -> int:
        model = build_model(TransformerModel(**(TINY | options)), WORDS, WORDS)
        return sum(parameter.numel() for parameter in model.parameters())

    assert count(change) == count({}) + more


# --- dropout ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dropout", "dropout_embedding", "dropout_inner", "dropout_attention"])
def test_each_dropout_acts_in_training_and_none_in_evaluation(name: str) -> None:
    none: dict[str, Any] = {"dropout": 0.0, "dropout_embedding": 0.0}
    model, plain = model_of(none | {name: 0.4}), model_of(none)
    assert not same(model, model)
    assert same(plain, plain)
    model.eval()
    assert same(model, model)
    assert same(model, plain)


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        # 2 encoder blocks with 2 residuals, 2 decoder blocks with 3: 10; 2 embeddings, each with its words; 4 networks.
        ({"dropout": 0.3}, {0.3: 10 + 2, 0.0: 4 + 2}),
        ({"dropout": 0.3, "dropout_embedding": 0.2, "dropout_inner": 0.1}, {0.3: 10, 0.2: 2, 0.1: 4, 0.0: 2}),
        ({"dropout": 0.0, "dropout_inner": 0.1, "dropout_words": 0.4}, {0.0: 10 + 2 + 1, 0.1: 4, 0.4: 1}),
    ],
    ids=str,
)
def test_dropouts_stand_where_the_recipe_says(options: dict[str, float], shares: dict[float, int]) -> None:
    model = model_of(options)
    found = [module.share for module in model.modules() if isinstance(module, Dropout)]
    assert {share: found.count(share) for share in found} == shares


def test_every_attention_drops_the_recipes_share_of_weights() -> None:
    modules = model_of({"dropout_attention": 0.2}).modules()
    attentions = [module for module in modules if isinstance(module, SelfAttention | CrossAttention)]
    assert [attention.dropout for attention in attentions] == 6 * [0.2]  # 2 in the encoder, 2 + 2 in the decoder


def same(one: EncoderDecoder, other: EncoderDecoder) -> bool:
    first, second = torch.cat(states_of(one, SOME_PAIRS)), torch.cat(states_of(other, SOME_PAIRS))
    return torch.equal(first, second)


# --- models and batches -----------------------------------------------------------------------------------------------


def model_of(variant: dict[str, Any] | None = None, dtype: torch.dtype = torch.float64) -> EncoderDecoder:
    """A tiny model, always from the same draws."""
    torch.manual_seed(7)
    model = build_model(TransformerModel(**(TINY | (variant or {}))), WORDS, WORDS).to(dtype)
    set_precision(model, dtype)
    return model


def pack(pairs: list[tuple[list[int], list[int]]]) -> tuple[Packed, Packed]:
    return Packed.of([source for source, _ in pairs]), Packed.of([target for _, target in pairs])


def states_of(model: EncoderDecoder, pairs: list[tuple[list[int], list[int]]]) -> list[Tensor]:
    source, target = pack(pairs)
    return list(model.states(source, target).split([len(target) for _, target in pairs]))


def scores_of(model: EncoderDecoder, pairs: list[tuple[list[int], list[int]]]) -> list[Tensor]:
    return list(model(*pack(pairs)).split([len(target) for _, target in pairs]))


def embeddings_and_scores(
    model: EncoderDecoder, pairs: list[tuple[list[int], list[int]]]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """What the source's and the target's embeddings put out, and each sentence's scores."""
    outputs: list[Tensor] = []
    embeddings = [module for module in model.modules() if isinstance(module, Embedding)]
    handles = [module.register_forward_hook(lambda *call: outputs.append(call[2])) for module in embeddings]
    scores = scores_of(model, pairs)
    for handle in handles:
        handle.remove()
    source, target = outputs
    return source, target, scores
