"""Dropout, random choices and dtypes of attention with any alignment, and the effect of every key of a recipe."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.numerics.attention.any_alignment_equations import (
    EVERY_WORD,
    HEAD,
    HEADS,
    LENGTHS,
    MEMORY,
    MEMORY_LENGTHS,
    SCHEMES,
    SOURCES,
    WIDTH,
    attentions_of,
    close,
    config_of,
    model_of,
    reading,
)
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.transformer import TransformerModel
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.slots import SlotShape
from heedful.nn.alignments.distributions import l1_distance, softmax
from heedful.nn.alignments.products import ScaledDot
from heedful.nn.attention.any_alignment import (
    AlignedCrossAttention,
    AlignedSelfAttention,
    HeadAttention,
)
from heedful.nn.attention.backends import Backend, automatic, explicit
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention


@pytest.fixture(autouse=True)
def exact_constants() -> Iterator[None]:
    """Everything in float64: weights, sines, slopes and random features."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_dropped_weights_do_not_count_in_any_value(scheme: str) -> None:
    """With one key a weight is 0 or 1 / (1 - p), and so is the whole of the value with its vector."""
    attention = AlignedSelfAttention(WIDTH, HEADS, reading(), dropout=0.5, positions=SCHEMES[scheme]())
    nn.init.eye_(attention.output.weight)
    nn.init.zeros_(attention.output.bias)
    layout, x = Layout.of([1] * 300), torch.randn(300, WIDTH)
    whole = attention.eval()(x, layout).unflatten(1, (HEADS, HEAD))
    found = attention.train()(x, layout).unflatten(1, (HEADS, HEAD))
    kept = (found != 0).any(2, keepdim=True)
    close(found, torch.where(kept, 2 * whole, 0.0))
    assert 0.4 < float(kept.double().mean()) < 0.6


@pytest.mark.parametrize("choice", ["hard", "gumbel"])
def test_choices_are_random_in_training_and_deterministic_otherwise(choice: str) -> None:
    layout, x = Layout.of([6]), torch.randn(6, WIDTH)
    for attention in attentions_of(config_of(choice=choice, distribution="entmax15"))[:2]:
        assert torch.equal(attention(x, layout), attention(x, layout))
        attention.train()
        assert not torch.equal(attention(x, layout), attention(x, layout))


@EVERY_WORD
def test_values_keep_their_type_and_scores_are_wide(options: dict[str, str]) -> None:
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(3)
    layout, memory_layout = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(memory_layout.tokens, MEMORY)
    for place, attention in enumerate(attentions_of(config_of(**options))):
        inputs = (x, layout, memory, memory_layout) if place == 2 else (x, layout)
        narrow = [each.bfloat16() if isinstance(each, Tensor) else each for each in inputs]
        found = attention(*narrow)
        assert found.dtype == torch.bfloat16
        found.float().square().sum().backward()
        assert all(weight.grad is None or weight.grad.isfinite().all() for weight in attention.parameters())
        if options["choice"] == "soft":  # a choice between nearly equal keys may turn over
            exact = attention.double()(*(each.double() if isinstance(each, Tensor) else each for each in inputs))
            assert float(((found - exact).abs().max() / exact.abs().max()).detach()) < 0.1


def test_a_distribution_is_given_wide_scores_and_wide_distances() -> None:
    seen: list[torch.dtype] = []

    def listening(scores: Tensor, distance: Tensor, visible: Tensor | None) -> Tensor:
        seen.extend((scores.dtype, distance.dtype))
        return softmax(scores + distance, visible)

    attention = AlignedSelfAttention(WIDTH, HEADS, HeadAttention(ScaledDot(HEAD, HEAD, HEADS), listening, l1_distance))
    attention(torch.randn(3, WIDTH).bfloat16(), Layout.of([2, 1]))
    assert seen == [torch.float32, torch.float32]


# --- from the recipe --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backend", "function"), [("auto", automatic), ("fused", automatic), ("explicit", explicit)])
def test_a_backend_is_used_only_for_what_backends_support(backend: str, function: Backend) -> None:
    config = config_of(backend=backend)
    for attention in attentions_of(config):
        assert type(attention) in (SelfAttention, CrossAttention)
        assert attention.backend is function
        assert attention.in_slots == config.fused
    for attention in attentions_of(config_of(distribution="sparsemax", backend="explicit")):
        assert isinstance(attention, AlignedSelfAttention | AlignedCrossAttention)
        assert not attention.in_slots


def test_attention_that_is_not_fused_does_not_decode_in_slots() -> None:
    for options in ({"backend": "explicit"}, {"choice": "hard"}, {"alignment": "dot"}, {"distribution": "sigmoid"}):
        decoder = model_of(**options).decoder
        assert isinstance(decoder, TransformerDecoder)
        assert not decoder.decodes_in_slots
        with refuses("a decoder whose attention is not fused does not decode in slots", ValueError):
            decoder.slots(SlotShape(slots=1, beams=1, room=8, memory=8))
    fused = model_of().decoder
    assert isinstance(fused, TransformerDecoder)
    assert fused.decodes_in_slots


def test_a_sentence_longer_than_the_places_of_a_location_alignment_is_refused() -> None:
    model = model_of(alignment="location", max_places=4)
    model(Packed.of([[4] * 4]), Packed.of([[5] * 4]))
    refusal = r"^the memory has 5 positions, but the"
    with pytest.raises(ValueError, match=refusal):
        model(Packed.of([[4] * 5]), Packed.of([[5] * 4]))
    state = model.decoder.start(model.encoder(Packed.of([[4] * 4])), 2)
    for _ in range(4):
        _, state = model.decoder.step(torch.tensor([5, 5]), state)
    with pytest.raises(ValueError, match=refusal):
        model.decoder.step(torch.tensor([5, 5]), state)


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "preset": ({"preset": "small"}, {"preset": "base", "layers": 1, "dropout": 0.1}),
    "width": ({}, {"width": 12}),
    "heads": ({}, {"heads": 4}),
    "key_value_heads": ({"alignment": "general"}, {"alignment": "general", "key_value_heads": 1}),
    "key_width": ({}, {"key_width": 3}),
    "value_width": ({}, {"value_width": 5}),
    "attention_radius": ({}, {"attention_radius": 1}),
    "encoder_layer": ({}, {"encoder_layer": "separable"}),
    "kernel": ({"encoder_layer": "convolution"}, {"encoder_layer": "convolution", "kernel": 3}),
    "dilation": (
        {"encoder_layer": "convolution", "layers": 2},
        {"encoder_layer": "convolution", "layers": 2, "dilation": 3},
    ),
    "layers": ({}, {"layers": 2}),
    "decoder_layers": ({}, {"decoder_layers": 2}),
    "inner": ({}, {"inner": 9}),
    "activation": ({}, {"activation": "gelu"}),
    "norm": ({}, {"norm": "post"}),
    "norm_kind": ({}, {"norm_kind": "rms"}),
    "norm_epsilon": ({}, {"norm_epsilon": 0.5}),
    "embedding_scale": ({}, {"embedding_scale": False}),
    "embedding_norm": ({}, {"embedding_norm": True}),
    "output_bias": ({}, {"output_bias": True}),
    "word_positions": ({}, {"word_positions": True}),
    "final_norm": ({}, {"final_norm": False}),
    "positions": ({}, {"positions": "rope"}),
    "max_positions": ({"positions": "learned"}, {"positions": "learned", "max_positions": 50}),
    "max_distance": ({"positions": "relative"}, {"positions": "relative", "max_distance": 1}),
    "rope_base": ({"positions": "rope"}, {"positions": "rope", "rope_base": 20.0}),
    "bias": ({}, {"bias": False}),
    "projection_bias": ({}, {"projection_bias": False}),
    "alignment": ({}, {"alignment": "dot"}),
    "backend": ({}, {"backend": "explicit"}),
    "embeddings": ({}, {"embeddings": 2}),
    "tie": ({}, {"tie": "none"}),
    "dropout": ({}, {"dropout": 0.3}),
    "dropout_embedding": ({}, {"dropout_embedding": 0.3}),
    "dropout_words": ({}, {"dropout_words": 0.4}),
    "dropout_attention": ({"alignment": "deep"}, {"alignment": "deep", "dropout_attention": 0.3}),
    "dropout_inner": ({}, {"dropout_inner": 0.3}),
    "dropout_layers": ({}, {"dropout_layers": 0.9}),
    "distribution": ({}, {"distribution": "sparsemax"}),
    "alpha": ({"distribution": "entmax"}, {"distribution": "entmax", "alpha": 1.9}),
    "choice": ({}, {"choice": "hard"}),
    "temperature": ({"choice": "gumbel"}, {"choice": "gumbel", "temperature": 0.3}),
    "features": ({"alignment": "kernel"}, {"alignment": "kernel", "features": 8}),
    "feature_map": ({"alignment": "kernel"}, {"alignment": "kernel", "feature_map": "relu"}),
    "score_scale": ({"alignment": "general"}, {"alignment": "general", "score_scale": True}),
    "score_activation": ({"alignment": "deep"}, {"alignment": "deep", "score_activation": "tanh"}),
    "score_depth": ({"alignment": "deep"}, {"alignment": "deep", "score_depth": 3}),
    "gate": ({"distribution": "de_attention"}, {"distribution": "de_attention", "gate": "doubled"}),
    "area": ({"alignment": "area"}, {"alignment": "area", "area": 3}),
    "encoder_attention": ({}, {"encoder_attention": {"alignment": "general"}}),
    "decoder_attention": ({}, {"decoder_attention": {"distribution": "sparsemax"}}),
    "cross_attention": ({"alignment": "kernel"}, {"alignment": "kernel", "cross_attention": {"features": 8}}),
    "max_places": ({"alignment": "location"}, {"alignment": "location", "max_places": 12}),
}  # fmt: skip


def test_every_key_of_a_transformer_has_an_effect() -> None:
    assert set(CHANGES) == set(TransformerModel.model_fields) - {"family"}


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_has_an_effect(key: str) -> None:
    before, after = CHANGES[key]
    if key == "preset":  # whose sizes are not for tests
        sizes = [TransformerModel.model_validate(options) for options in CHANGES[key]]
        assert sizes[0].width != sizes[1].width
        return
    known, again, other = (effect(**options) for options in (before, before, after))
    assert same(known, again)
    assert not same(known, other)


def effect(**options: Any) -> dict[str, Tensor]:
    """All that a step of training says of a model: its outputs, the gradients of all weights, and where it decodes."""
    model = model_of(**options).train()
    torch.manual_seed(4)
    logits = model(Packed.of(SOURCES), Packed.of([[4, 4], [5, 6, 7, 8], [6]]))
    logits.square().sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    assert isinstance(model.decoder, TransformerDecoder)
    return {"logits": logits.detach(), "slots": torch.tensor(model.decoder.decodes_in_slots), **gradients}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)
