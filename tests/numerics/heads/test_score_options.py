"""Options of single alignments equal their definitions."""

import math

import pytest
import torch

from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.attention import build_alignment, build_distribution
from heedful.nn.alignments.distributions import DeAttention
from heedful.nn.alignments.networks import Deep
from heedful.nn.alignments.products import ActivatedGeneral
from heedful.nn.alignments.random_features import Kernel
from heedful.nn.alignments.table import make_alignment

HEADS, WIDTH = 2, 16


@pytest.mark.parametrize("name", ["general", "biased_general", "activated_general"])
def test_a_scaled_matrix_gives_the_scores_of_a_smaller_one(name: str) -> None:
    torch.manual_seed(2)
    scaled, plain = (make_alignment(name, WIDTH, WIDTH, HEADS, scaled=given) for given in (True, False))
    plain.load_state_dict(scaled.state_dict())
    with torch.no_grad():
        for key in ("weight", "bias") if name == "biased_general" else ("weight",):
            plain.get_parameter(key).div_(math.sqrt(WIDTH))
    q, keys, values = torch.randn(3, 1, HEADS, 50, WIDTH)
    found = scaled(q, scaled.prepare(keys, values))
    torch.testing.assert_close(found, plain(q, plain.prepare(keys, values)))
    if name != "activated_general":
        assert 0.8 < float(found.detach().std()) < 1.2  # as that of a scaled dot product


def test_features_of_a_relu_are_another_kernel() -> None:
    alignment = Kernel(WIDTH, WIDTH, HEADS, features=32, feature_map="relu")
    q, keys, values = torch.randn(3, 1, HEADS, 3, WIDTH)
    found = alignment(q, alignment.prepare(keys, values))
    for head in range(HEADS):
        phi = [
            ((alignment.directions[head] @ (x / WIDTH**0.25)).clamp(min=0) + 1e-3) / math.sqrt(32)
            for x in (q[0, head, 1], keys[0, head, 2])
        ]
        torch.testing.assert_close(found[0, head, 1, 2], torch.log(phi[0] @ phi[1]))


def test_a_recipe_sets_them() -> None:
    config = TransformerModel.model_validate({"alignment": "deep", "score_depth": 3, "score_activation": "sigmoid"})
    deep = build_alignment(config, "deep", WIDTH, WIDTH)
    assert isinstance(deep, Deep)
    assert (len(deep.weights), deep.activation) == (1, torch.sigmoid)
    config = TransformerModel.model_validate({"alignment": "activated_general", "score_activation": "sigmoid"})
    general = build_alignment(config, "activated_general", WIDTH, WIDTH)
    assert isinstance(general, ActivatedGeneral)
    assert (general.factor, general.activation) == (1.0, torch.sigmoid)
    gated = build_distribution(
        TransformerModel.model_validate({"distribution": "de_attention", "gate": "doubled"}), WIDTH
    )
    assert isinstance(gated, DeAttention)
    assert gated.gate == "doubled"
