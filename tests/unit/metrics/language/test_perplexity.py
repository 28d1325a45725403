"""Perplexity against its definition, one token at a time."""

import math

import numpy as np
import pytest
import torch

from heedful.base.packed import Packed
from heedful.config.model.transformer import TransformerModel
from heedful.data.batches.pairs import collate
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.metrics.language.perplexity import Likelihood, likelihood
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision

SOURCES, TARGETS = [[5, 6, 7], [8], [9, 9]], [[4, 5], [6, 7, 8, 9], [5]]


@torch.no_grad()
def test_perplexity_equals_its_definition_however_the_pairs_are_batched() -> None:
    config = TransformerModel(width=16, heads=2, layers=1, inner=16)
    model = build_model(config, 10, 10).double().eval()
    set_precision(model, torch.float64)
    total = 0.0
    for source, target in zip(SOURCES, TARGETS, strict=True):
        log_p_TV = model(Packed.of([[*source, END]]), Packed.of([[BEGIN, *target]])).log_softmax(1)
        total -= sum(float(log_p_TV[place, token]) for place, token in enumerate([*target, END]))
    store = TokenStore.of(source=SOURCES, target=TARGETS)
    for parts in ([[0, 1, 2]], [[2], [1, 0]]):
        found = likelihood(model, [collate([store], np.array(part)) for part in parts])
        assert found.tokens == 2 + 4 + 1 + 3
        assert found.total == pytest.approx(total, abs=1e-9)
        assert found.loss == pytest.approx(total / 10, abs=1e-9)
        assert found.perplexity == pytest.approx(math.exp(total / 10), abs=1e-9)


def test_a_hopeless_model_has_infinite_perplexity_and_no_text_has_none() -> None:
    assert Likelihood(1e6, 2).perplexity == math.inf
    assert math.isnan(Likelihood(0.0, 0).perplexity)
