"""Initial weights by name: their distributions, for every kind of network, and old starts unchanged."""

import math
from typing import Any

import pytest
import torch
from tests.contract.families import config_of
from torch import Tensor, nn

from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.initialization import INITIALIZATIONS, initialize
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.nn.recurrent.stack import RecurrentStack

WIDTH, WORDS = 64, 50


def model_of(**options: Any) -> EncoderDecoder:
    torch.manual_seed(1)
    return build_model(TransformerModel(width=WIDTH, heads=4, layers=2, inner=96, **options), WORDS, WORDS)


def matrices(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in model.named_parameters() if weight.ndim > 1}


def test_without_a_name_nothing_is_drawn() -> None:
    model = model_of()
    before, state = {name: weight.clone() for name, weight in matrices(model).items()}, torch.get_rng_state()
    initialize(model, None)
    assert all(torch.equal(weight, before[name]) for name, weight in matrices(model).items())
    assert torch.equal(torch.get_rng_state(), state)


def test_xavier_is_the_start_that_translators_have() -> None:
    model = model_of()
    before = {name: weight.clone() for name, weight in matrices(model).items()}
    initialize(model, "xavier")
    for name, weight in matrices(model).items():
        same = "embedding" in name or name.split("decoder.")[-1] == "output.weight"
        assert torch.equal(weight, before[name]) == same, name
        assert float(weight.std()) == pytest.approx(float(before[name].std()), rel=0.1)


@pytest.mark.parametrize(
    ("name", "deviation"),
    [
        ("plain_xavier", math.sqrt(2 / (WIDTH + 96))),
        ("he", math.sqrt(2 / WIDTH)),
        ("orthogonal", math.sqrt(1 / 96)),
        ("bert", 0.02 * 0.88),  # of a normal distribution that is cut at two deviations
        ("gpt2", 0.02),
    ],
)
def test_matrices_have_the_deviation_of_their_name(name: Any, deviation: float) -> None:
    model = model_of()
    initialize(model, name)
    into = model.encoder.blocks[0].network.into.weight.detach()  # type: ignore[attr-defined]
    assert float(into.std()) == pytest.approx(deviation, rel=0.07)
    assert not any(weight.any() for key, weight in model.named_parameters() if key.endswith("bias") and weight.ndim == 1
                   and "norm" not in key and "after" not in key and "before" not in key)  # fmt: skip


def test_plain_xavier_leaves_projections_of_attention_as_large_as_other_matrices() -> None:
    deviations = []
    for name in ("xavier", "plain_xavier"):
        model = model_of()
        initialize(model, name)
        deviations.append(float(model.encoder.blocks[0].attention.project.weight.detach().std()))  # type: ignore[attr-defined]
    assert deviations == pytest.approx([math.sqrt(1 / (2 * WIDTH)), math.sqrt(1 / WIDTH)], rel=0.07)


def test_orthogonal_matrices_are_orthogonal_each_by_itself() -> None:
    model = model_of()
    initialize(model, "orthogonal")
    attention: Any = model.encoder.blocks[0].attention  # type: ignore[attr-defined]
    for matrix in attention.project.weight.detach().split(WIDTH):
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(WIDTH), atol=1e-5, rtol=0)


def test_gpt2_makes_matrices_smaller_that_write_to_the_residual_stream() -> None:
    model = model_of()
    initialize(model, "gpt2")
    encoder, decoder = model.encoder.blocks[0], model.decoder.blocks[0]  # type: ignore[attr-defined]
    for block, sums in ((encoder, 4), (decoder, 6)):
        for weight in (block.attention.output.weight, block.network.out.weight):
            assert float(weight.detach().std()) == pytest.approx(0.02 / math.sqrt(sums), rel=0.07)
    assert float(decoder.cross.output.weight.detach().std()) == pytest.approx(0.02 / math.sqrt(6), rel=0.07)


def test_gains_of_deep_norms_multiply_any_start() -> None:
    plain, deep = model_of(), model_of(norm="deepnorm")
    for model in (plain, deep):
        torch.manual_seed(3)
        initialize(model, "he")
    gain = 0.87 * (2**4 * 2) ** (-1 / 16)
    ours, theirs = (model.encoder.blocks[0].network.out.weight.detach() for model in (deep, plain))  # type: ignore[attr-defined]
    torch.testing.assert_close(ours, gain * theirs)


@pytest.mark.parametrize("name", INITIALIZATIONS)
def test_recurrence_stays_orthogonal_whatever_the_name(name: Any) -> None:
    torch.manual_seed(1)
    model = build_model(config_of("luong-local-lstm", 0.0), WORDS, WORDS)
    initialize(model, name)
    stacks = [module for module in model.modules() if isinstance(module, RecurrentStack)]
    assert stacks
    for stack in stacks:
        weight = stack.layers[0].weight_hh_l0
        assert isinstance(weight, torch.Tensor)
        matrix = weight.detach().chunk(4)[0]
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(len(matrix)), atol=1e-5, rtol=0)
