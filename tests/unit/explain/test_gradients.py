"""Gradients next to weights, against differences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.nn.layers.embedding import Embedding

BUNDLES = Path(__file__).parents[2] / "golden/bundles"


def _model(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


@pytest.mark.parametrize(("name", "text", "queries", "keys"), [
    ("transformer", "the dog sees the tree today.", "output", "source"),
    ("recurrent-bahdanau", "the dog sees the tree today.", "output", "source"),
    ("recurrent-cho", "the dog sees the tree today.", "output", "source"),
    ("classifier-transformer", "The film was dull.", "output", "text"),
    ("classifier-hierarchical", "The film was dull. I liked it.", "output", "text"),
    ("bert", "The [MASK] was dull.", "output", "text"),
    ("language-transformer", "the dog sees the tree", "output", "text"),
    ("language-recurrent", "the dog sees the tree", "output", "text"),
])  # fmt: skip
def test_every_family_has_shares_of_its_input_in_each_prediction(name: str, text: str, queries: str, keys: str) -> None:
    options = {"max_extra": 1} if "source" in keys else {}
    found = _model(name).explain(text, gradients=True, **options)
    one = found.attention("gradient")
    assert (one.queries, one.keys) == (queries, keys)
    assert one.weights.shape == (1, 1, len(found.sequences[queries]), len(found.sequences[keys]))
    np.testing.assert_allclose(one.weights.sum(axis=-1), 1, atol=1e-5)
    assert len(np.unique(one.weights)) > 2


def test_shares_are_those_of_differences() -> None:
    model, text = _model("classifier-transformer"), "The film was dull."
    found = model.explain(text, gradients=True)
    label = max(found.classes, key=lambda name: found.classes[name])
    (embedding,) = [module for module in model.network.modules() if isinstance(module, Embedding)]
    step, sizes = 1e-3, []
    for token in range(len(found.sequences["text"])):

        def grow(module: Any, inputs: Any, output: torch.Tensor, token: int = token) -> torch.Tensor:
            output = output.clone()
            output[token] *= 1 + step
            return output

        hook = embedding.register_forward_hook(grow)
        sizes.append(abs(np.log(model.explain(text).classes[label]) - np.log(found.classes[label])) / step)
        hook.remove()
    shares = np.array(sizes) / sum(sizes)
    np.testing.assert_allclose(found.attention("gradient").weights[0, 0, 0], shares, atol=0.02)


def test_a_language_model_has_no_gradients_from_later_tokens() -> None:
    weights = _model("language-transformer").explain("the dog sees", gradients=True).attention("gradient").weights[0, 0]
    assert not np.triu(weights, 1).any()
