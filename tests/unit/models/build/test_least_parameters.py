"""The size by which a recipe is refused is never above that of the network."""

import pytest
from tests.contract.families import FAMILIES, config_of

from heedful.config.model.any import least_parameters
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.encoders import HierarchicalEncoderTable
from heedful.config.model.pooled import ClassifierModel
from heedful.models.from_recipe.network import build_model


@pytest.mark.parametrize("family", FAMILIES)
def test_a_network_has_at_least_as_many_parameters(family: str) -> None:
    config = config_of(family, dropout=0.0)
    network = build_model(config, 14, 14)
    assert 0 < least_parameters(config) <= sum(weights.numel() for weights in network.parameters())


def test_an_encoder_counts_for_its_classifier() -> None:
    bert = BertModel(family="bert", width=8, heads=2, layers=3, inner=16)
    assert (
        least_parameters(ClassifierModel(family="classifier", encoder=bert)) == least_parameters(bert) > 3 * 2 * 8 * 16
    )
    assert least_parameters(HierarchicalEncoderTable(family="hierarchical")) == 2 * 50 * 50
