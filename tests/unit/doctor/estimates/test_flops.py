"""Work and parameters, against torch's own counter and counting by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.doctor.estimates.small_transformers import ACTIVATIONS, CONFIGS, VOCABULARY, config, store
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from heedful.data.batches.pairs import collate
from heedful.doctor.estimates.flops import STEP, count_parameters, forward_flop
from heedful.models.from_recipe.network import build_model
from heedful.nn.attention.backends import explicit
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.training.objectives import NextToken


def expected(options: dict[str, Any], lengths: list[tuple[int, int]]) -> float:
    """By the formula; lengths are without markers."""
    source, target = (np.array(side) + 1 for side in zip(*lengths, strict=True))
    return forward_flop(config(**options), source, target, VOCABULARY)


def counter() -> FlopCounterMode:
    """Torch's counter, told of two operations of the CPU that it passes over."""
    aten = torch.ops.aten
    attention = aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(
        display=False,
        custom_mapping={
            aten.addmm_: lambda into, left, right, *_, out_shape=None, **options: 2 * left[0] * left[1] * right[1],
            attention: lambda q, k, v, *_, out_shape=None, **options: sdpa_flop_count(q, k, v),
        },
    )


@pytest.mark.parametrize("options", CONFIGS)
def test_the_formula_counts_what_torch_counts_in_a_forward_pass(options: dict[str, Any]) -> None:
    """Sentences of equal length: attention on a CPU pads, and padding is not counted by us."""
    lengths = [(6, 9)] * 5
    model = build_model(config(**options), VOCABULARY, VOCABULARY).eval()
    batch = collate([store(lengths)], np.arange(5))
    with counter() as counted, torch.no_grad():
        NextToken(0.1)(model, batch)
    assert counted.get_total_flops() == expected(options, lengths)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_of_a_recipe_has_its_work(activation: str) -> None:
    lengths = [(6, 9)] * 5
    options = {"activation": activation, "layers": 1}
    model = build_model(config(**options), VOCABULARY, VOCABULARY).eval()
    with counter() as counted, torch.no_grad():
        NextToken(0.1)(model, collate([store(lengths)], np.arange(5)))
    assert counted.get_total_flops() == expected(options, lengths)


@pytest.mark.parametrize("options", CONFIGS)
def test_a_training_step_is_three_forward_passes(options: dict[str, Any]) -> None:
    """With attention as written; fused kernels compute the scores once more on the way back."""
    lengths = [(6, 9)] * 5
    model = build_model(config(**options), VOCABULARY, VOCABULARY)
    for module in model.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            module.backend = explicit
    batch = collate([store(lengths)], np.arange(5))
    with counter() as counted:
        NextToken(0.1)(model, batch).loss.backward()
    assert counted.get_total_flops() == STEP * expected(options, lengths)


def test_work_on_sentences_adds_up() -> None:
    """Each sentence by itself, counted by torch, is what the formula says of all: no work crosses sentences."""
    lengths = [(3, 8), (12, 2), (7, 7)]
    model = build_model(config(), VOCABULARY, VOCABULARY).eval()
    pairs = store(lengths)
    with counter() as counted, torch.no_grad():
        for i in range(3):
            NextToken(0.1)(model, collate([pairs], np.array([i])))
    assert counted.get_total_flops() == expected({}, lengths)


def test_sums_of_squares_do_not_overflow() -> None:
    many = np.full(1_000_000, 3000, np.int32)
    assert forward_flop(config(), many, many, VOCABULARY) > 4 * 32 * 3000**2 * 1e6


@pytest.mark.parametrize(
    ("tie", "positions", "embeddings"),
    [
        ("all", "sinusoidal", 50 * 32),
        ("decoder", "sinusoidal", 2 * 50 * 32),
        ("none", "sinusoidal", 3 * 50 * 32),
        ("all", "learned", 50 * 32 + 2 * 300 * 32),
    ],
)
def test_shared_matrices_are_counted_once(tie: str, positions: str, embeddings: int) -> None:
    model = build_model(config(tie=tie, positions=positions, max_positions=300), VOCABULARY, VOCABULARY)
    parameters = count_parameters(model)
    assert parameters.embeddings == embeddings
    assert parameters.rest == sum(p.numel() for n, p in model.named_parameters() if ".blocks." in n)
    assert parameters.total == sum(p.numel() for p in model.parameters())


def test_a_radius_counts_the_pairs_within_it() -> None:
    lengths = np.array([1, 3, 9, 20])
    width, radius = 32, 4
    near = sum(abs(i - j) <= radius for s in lengths for i in range(s) for j in range(s))
    whole, part = (forward_flop(config(attention_radius=r), lengths, lengths, 50) for r in (None, radius))
    assert whole - part == 4 * 4 * width * (int(lengths @ lengths) - near)  # two blocks on each side
