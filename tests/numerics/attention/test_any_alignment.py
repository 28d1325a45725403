"""Attention with any alignment and distribution equals its equations, and fused attention where that exists."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
from tests.numerics.attention.any_alignment_equations import (
    EVERY_PAIR,
    EVERY_WORD,
    HEAD,
    HEADS,
    LENGTHS,
    MEMORY,
    MEMORY_LENGTHS,
    PAIRS,
    SCHEMES,
    WIDTH,
    WORDS,
    Loop,
    attentions_of,
    close,
    config_of,
    legal,
    reading,
    shaken,
)
from torch import Tensor

from heedful.base.packed import Layout
from heedful.config.model.attention import AlignmentName
from heedful.config.model.transformer import SITE_KEYS
from heedful.models.from_recipe.network import build_model
from heedful.nn.attention.any_alignment import (
    AlignedCrossAttention,
    AlignedSelfAttention,
)
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.initialization import init_xavier
from heedful.nn.padding import pad

EVERY_ALIGNMENT = pytest.mark.parametrize("alignment", get_args(AlignmentName))


@pytest.fixture(autouse=True)
def exact_constants() -> Iterator[None]:
    """Everything in float64: weights, sines, slopes and random features."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# --- the equations ----------------------------------------------------------------------------------------------------


@EVERY_PAIR
@torch.no_grad()
def test_every_attention_equals_its_equations_in_any_batch(options: dict[str, str]) -> None:
    config = config_of(**options)
    encoding, decoding, cross = attentions_of(config)
    layout, memory_layout = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(memory_layout.tokens, MEMORY)
    sentences = list(zip(x.split(LENGTHS), memory.split(MEMORY_LENGTHS), strict=True))
    close(encoding(x, layout), torch.cat([Loop(config, encoding)(each)[0] for each, _ in sentences]))
    close(decoding(x, layout), torch.cat([Loop(config, decoding, causal=True)(each)[0] for each, _ in sentences]))
    expected = torch.cat([Loop(config, cross)(each, read)[0] for each, read in sentences])
    close(cross(x, layout, memory, memory_layout), expected)


SITE_OPTIONS = (
    {
        "encoder_attention": {"alignment": "additive"},
        "decoder_attention": {"alignment": "scaled_dot", "distribution": "sparsemax"},
        "cross_attention": {"alignment": "general", "distribution": "entmax15"},
    },
    {"alignment": "kernel", "cross_attention": {"alignment": "deep", "score_depth": 2}},
    {"distribution": "de_attention", "decoder_attention": {"distribution": "softmax"}},
    {"positions": "alibi", "cross_attention": {"alignment": "area"}},
)


@pytest.mark.parametrize("options", SITE_OPTIONS, ids=("all-three", "cross", "decoder", "cross-by-areas"))
@torch.no_grad()
def test_every_site_has_the_attention_that_it_names(options: dict[str, Any]) -> None:
    config = config_of(**options)
    encoding, decoding, cross = attentions_of(config)
    x, memory, alone = torch.randn(4, WIDTH), torch.randn(3, MEMORY), Layout.of([4])
    own = {key: value for key, value in options.items() if key not in SITE_KEYS}
    # Each written out by hand: the model's keys, then those of the site.
    first, second = (config_of(**{**own, **options.get(key, {})}) for key in SITE_KEYS[:2])
    third = config_of(**{**own, **options.get("cross_attention", {}), "positions": "rope"})  # has no positions
    close(encoding(x, alone), Loop(first, encoding)(x)[0])
    close(decoding(x, alone), Loop(second, decoding, causal=True)(x)[0])
    close(cross(x, alone, memory, Layout.of([3])), Loop(third, cross)(x, memory)[0])


def test_a_model_whose_sites_all_name_what_is_usual_is_the_usual_model() -> None:
    usual = config_of(alignment="additive", encoder_attention={}, cross_attention={"distribution": "softmax"})
    assert [type(each) for each in attentions_of(usual)] == [
        type(each) for each in attentions_of(config_of(alignment="additive"))
    ]
    assert config_of(cross_attention={"choice": "soft"}).fused
    assert not config_of(cross_attention={"choice": "hard"}).fused


@pytest.mark.parametrize("distribution", ["softmax", "de_attention"])
@EVERY_ALIGNMENT
@pytest.mark.parametrize("positions", ["rope", "relative"])
def test_gradients_equal_those_of_the_equations(alignment: str, distribution: str, positions: str) -> None:
    options = {"alignment": alignment, "distribution": distribution, "positions": positions}
    if not legal(options):
        return
    config = config_of(**options)
    for attention, causal in zip(attentions_of(config)[:2], (False, True), strict=True):
        layout = Layout.of([3, 2])
        x, factors = torch.randn(2, 5, WIDTH)
        inputs = [x.requires_grad_(), *attention.parameters()]
        loops = torch.cat([Loop(config, attention, causal)(each)[0] for each in x.split([3, 2])])
        found = torch.autograd.grad((attention(x, layout) * factors).sum(), inputs)
        for gradient, expected in zip(found, torch.autograd.grad((loops * factors).sum(), inputs), strict=True):
            close(gradient, expected)


def test_every_parameter_learns() -> None:
    """With one distribution or another: a softmax does not notice what is added to all scores alike."""
    learning: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    known: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    layout, memory_layout = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    for options in PAIRS:
        for place, attention in enumerate(attentions_of(config_of(**options))):
            x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(memory_layout.tokens, MEMORY)
            inputs = (x, layout, memory, memory_layout) if place == 2 else (x, layout)
            attention.train()(*inputs).square().sum().backward()
            key = options["alignment"], place
            known[key] |= {name for name, _ in attention.named_parameters()}
            learning[key] |= {
                name for name, weight in attention.named_parameters() if weight.grad is not None and far(weight.grad)
            }
    assert learning == known


def far(x: Tensor) -> bool:
    return bool((x.abs() > 1e-8).any())


@EVERY_WORD
@torch.no_grad()
def test_neighbours_and_empty_sentences_change_nothing(options: dict[str, str]) -> None:
    encoding, decoding, cross = attentions_of(config_of(**options))
    layout, memory_layout = Layout.of([3, 0, 4]), Layout.of([2, 0, 5])
    x, memory = torch.randn(7, WIDTH), torch.randn(7, MEMORY)
    louder_x, louder_memory = (torch.cat((each[:size], 9 * each[size:])) for each, size in ((x, 3), (memory, 2)))
    for attention in (encoding, decoding):
        first = attention(x, layout)[:3]
        close(attention(louder_x, layout)[:3], first)
        close(attention(x[:3], Layout.of([3])), first)
    first = cross(x, layout, memory, memory_layout)[:3]
    close(cross(louder_x, layout, louder_memory, memory_layout)[:3], first)
    close(cross(x[:3], Layout.of([3]), memory[:2], Layout.of([2])), first)


# --- beside the fused classes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_softmax_of_scaled_dots_is_what_fused_self_attention_computes(scheme: str, causal: bool) -> None:
    fused = shaken(SelfAttention(WIDTH, HEADS, causal, positions=SCHEMES[scheme]()))
    aligned = AlignedSelfAttention(WIDTH, HEADS, reading(), causal, positions=SCHEMES[scheme]())
    assert set(aligned.state_dict()) == set(fused.state_dict())  # this alignment has no parameters
    aligned.load_state_dict(fused.state_dict())
    layout, x = Layout.of(LENGTHS), torch.randn(sum(LENGTHS), WIDTH, requires_grad=True)
    close(aligned(x, layout), fused(x, layout))
    gradients = [
        torch.autograd.grad(module(x, layout).square().sum(), [x, *module.parameters()]) for module in (aligned, fused)
    ]
    for found, expected in zip(*gradients, strict=True):
        close(found, expected)
    close(stepped(aligned, beams=1), stepped(fused, beams=1))
    close(stepped(aligned, beams=3), stepped(fused, beams=3))


@torch.no_grad()
def stepped(attention: SelfAttention, beams: int) -> Tensor:
    """Three steps of two sentences, whose rows descend from rows of chance."""
    torch.manual_seed(beams)
    cache, descent, outputs = torch.zeros(2, 2, HEADS, 0, HEAD), torch.zeros(2, beams, 0, beams, dtype=torch.bool), []
    for _ in range(3):
        own = torch.eye(beams, dtype=torch.bool).unsqueeze(1).expand(2, beams, 1, beams)
        descent = torch.cat((descent[torch.arange(2)[:, None], torch.randint(beams, (2, beams))], own), dim=2)
        cache = torch.cat((cache, torch.full((2, 2, HEADS, beams, HEAD), math.nan)), dim=3)
        keep = None if beams == 1 else descent.flatten(2).unsqueeze(1)
        outputs.append(attention.step(torch.randn(2 * beams, WIDTH), cache, keep))
    return torch.stack(outputs)


def test_a_softmax_of_scaled_dots_is_what_fused_attention_over_a_memory_computes() -> None:
    fused = shaken(CrossAttention(WIDTH, HEADS, memory_width=MEMORY))
    aligned = AlignedCrossAttention(WIDTH, HEADS, reading(), memory_width=MEMORY)
    aligned.load_state_dict(fused.state_dict())
    layout, memory_layout = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(memory_layout.tokens, MEMORY)
    close(aligned(x, layout, memory, memory_layout), fused(x, layout, memory, memory_layout))
    keys, values = (pad(each, memory_layout).transpose(1, 2) for each in fused.keys_and_values(memory))
    held = torch.randn(6, WIDTH), torch.stack((keys, values)), memory_layout.keep[:, None, None, :]
    close(aligned.step(*held), fused.step(*held))
    close(aligned.step_weights(*held), fused.step_weights(*held))


@pytest.mark.parametrize(("alignment", "distribution"), [("deep", "learned_entmax"), ("area", "softmax")])
def test_projections_start_as_those_of_fused_attention(alignment: str, distribution: str) -> None:
    models = [
        build_model(config_of(alignment=align, distribution=distribute), WORDS, WORDS)
        for align, distribute in (("scaled_dot", "softmax"), (alignment, distribution))
    ]
    weights = []
    for model in models:
        torch.manual_seed(5)
        init_xavier(model)
        weights.append(dict(model.named_parameters()))
    fused, aligned = weights
    assert set(fused) < set(aligned)
    projections = [name for name in fused if "project" in name or "output" in name.split(".")[-2]]
    assert len(projections) == 2 * (2 + 2 + 3)
    assert all(torch.equal(aligned[name], fused[name]) for name in projections if "blocks" in name)
