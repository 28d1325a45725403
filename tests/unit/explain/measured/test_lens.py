"""The logit lens against networks whose last layers were taken off."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses

import heedful
from heedful.nn.evaluation_mode import by_equation

BUNDLES = Path(__file__).parents[3] / "golden/bundles"
ASKED: dict[str, Any] = {
    "transformer": "the dog sees the tree today.",
    "transformer-pre-norm-rope-separate": "the dog sees the tree today.",
    "language-transformer": "the dog sees the tree",
    "language-llama": "the dog sees the tree",
    "bert": "The [MASK] was [MASK].",
    "classifier-transformer": "The film was dull.",
    "classifier-bert-several": "The film was dull.",
    "classifier-gpt-pairs": ("The film was dull.", "I liked it a lot."),
    "classifier-parallel-pairs": ("The film was dull.", "I liked it a lot."),
}


@cache
def model_named(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


@pytest.mark.parametrize("name", ASKED)
def test_the_last_layer_is_the_model(name: str) -> None:
    model, text = model_named(name), ASKED[name]
    reading = model._read(text, model._choose(text, None, True, None), None)
    found = model.lens(text)
    with torch.no_grad(), by_equation():
        expected = reading.values()[0]
    assert np.array_equal(found.log_probabilities[-1], expected.numpy())


def test_the_last_layer_has_the_probabilities_of_explain() -> None:
    for name in ("transformer", "language-transformer", "bert"):
        found, told = model_named(name).lens(ASKED[name]), model_named(name).explain(ASKED[name])
        shares = [one.probability for one in told.predictions]
        np.testing.assert_allclose(np.exp(found.log_probabilities[-1]), shares, rtol=1e-5)
        assert found.outputs.pieces == tuple(one.piece for one in told.predictions)
    found, label = model_named("classifier-transformer").lens(ASKED["classifier-transformer"]), "bad"
    classes = model_named("classifier-transformer").classify(ASKED["classifier-transformer"]).probabilities
    assert dict(found.best[-1][0]) == pytest.approx(classes, abs=1e-5)
    assert found.outputs.pieces == (label,)


@pytest.mark.parametrize("name", ["transformer", "language-transformer", "bert", "classifier-transformer"])
def test_a_layer_predicts_what_a_network_of_so_many_layers_does(name: str) -> None:
    model, text = model_named(name), ASKED[name]
    found = model.lens(text, top=2)
    short: Any = heedful.load(BUNDLES / name, device="cpu", precision="float32")
    chosen = model._choose(text, None, True, None)
    stack = short._read(text, chosen, None).stack
    assert found.layers == len(stack.blocks) + 1
    for layer in range(len(stack.blocks), 0, -1):
        stack.blocks = stack.blocks[:layer]
        with torch.no_grad(), by_equation():
            log_p_TC = short._read(text, chosen, None).run(1)[0].log_softmax(dim=1)
        best = log_p_TC.topk(2).values.exp().tolist()
        assert [[share for _, share in ranked] for ranked in found.best[layer]] == [
            pytest.approx(ranked, abs=1e-5) for ranked in best
        ]


def test_a_lens_is_in_json() -> None:
    found = model_named("bert").lens(ASKED["bert"], top=3)
    written = found.to_json()
    assert written["outputs"] == list(found.outputs.pieces)
    assert written["log_probabilities"] == found.log_probabilities.tolist()
    assert np.array(written["best"]).shape == (found.layers, 2, 3)


@pytest.mark.parametrize("name", ["recurrent-cho", "classifier-bag", "classifier-hierarchical", "regressor-bag"])
def test_networks_without_layers_that_the_output_reads_are_refused(name: str) -> None:
    message = "The lens reads the layers of a Transformer, and this model has none that its output layer reads."
    with refuses(message):
        model_named(name).lens("The film was dull.")
