"""Patched states against networks of which one state was replaced by hand."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import Refusal, each
from torch import Tensor

import heedful
from heedful.nn.evaluation_mode import by_equation

BUNDLES = Path(__file__).parents[3] / "golden/bundles"
ASKED: dict[str, tuple[Any, Any]] = {  # texts that differ in one token
    "transformer-additive-entmax": ("the dog sees the tree today.", "the cat sees the tree today."),
    "classifier-transformer": ("The film was dull.", "The film was mull."),
    "classifier-gpt-pairs": (("It was good.", "I liked it."), ("It was good.", "I liked at.")),
    "language-llama": ("the dog", "the dig"),
    "bert": ("The [MASK] was bad.", "The [MASK] was bed."),
}


@cache
def model_named(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


def readings_of(name: str) -> tuple[Any, Any]:
    model, (text, other) = model_named(name), ASKED[name]
    chosen = model._choose(other, None, False, None)
    return model._read(text, chosen, None), model._read(other, chosen, None)


def values_of(reading: Any) -> Any:
    with torch.no_grad(), by_equation():
        return reading.values()[0].numpy()


@pytest.mark.parametrize("name", ASKED)
def test_all_states_of_the_other_text_are_its_output(name: str) -> None:
    reading, other = readings_of(name)
    found = model_named(name).patch(*ASKED[name])
    np.testing.assert_allclose(found.before, values_of(reading), atol=1e-5)
    np.testing.assert_allclose(found.after, values_of(other), atol=1e-5)
    for part in found.parts:
        np.testing.assert_allclose(part.whole[-1], found.after, atol=1e-5)
        if part.part == "encoder" or len(found.parts) == 1:  # nothing else reads the text
            np.testing.assert_allclose(part.whole, np.broadcast_to(found.after, part.whole.shape), atol=1e-5)
    assert not np.allclose(found.before, found.after, atol=1e-3)


@pytest.mark.parametrize("name", ASKED)
def test_of_embeddings_only_that_of_another_token_matters(name: str) -> None:
    found = model_named(name).patch(*ASKED[name])
    part = found.parts[0]
    differing = [i for i, (a, b) in enumerate(zip(part.tokens.pieces, part.others.pieces, strict=True)) if a != b]
    assert len(differing) == 1
    for token, values in enumerate(part.values[0]):
        np.testing.assert_allclose(values, found.after if token in differing else found.before, atol=1e-5)


@pytest.mark.parametrize("name", ["transformer-additive-entmax", "classifier-transformer"])
def test_a_patched_state_is_one_that_was_replaced_by_hand(name: str) -> None:
    model, (reading, other) = model_named(name), readings_of(name)
    found = model.patch(*ASKED[name]).part("encoder")
    encoder = model.network.encoder
    for layer, block in enumerate(encoder.blocks, start=1):
        seen: list[Tensor] = []
        hook = block.register_forward_hook(lambda module, given, output, seen=seen: seen.append(output.clone()))
        values_of(other)
        hook.remove()
        for token in range(len(found.tokens)):

            def put(module: Any, given: Any, output: Tensor, token: int = token, seen: list[Tensor] = seen) -> Tensor:
                output = output.clone()
                output[token] = seen[0][token]
                return output

            hook = block.register_forward_hook(put)
            expected = values_of(reading)
            hook.remove()
            np.testing.assert_allclose(found.values[layer, token], expected, atol=1e-5)


def test_a_given_output_is_what_patches_are_measured_by() -> None:
    found = model_named("classifier-transformer").patch(*ASKED["classifier-transformer"], "good")
    classes = model_named("classifier-transformer").classify(list(ASKED["classifier-transformer"]))
    assert found.outputs.pieces == ("good",)
    expected = [one.probabilities["good"] for one in classes]
    assert [float(np.exp(one[0])) for one in (found.before, found.after)] == pytest.approx(expected, abs=1e-5)


def test_patches_are_in_json() -> None:
    found = model_named("bert").patch(*ASKED["bert"])
    written = found.to_json()
    (part,) = written["parts"]
    assert part["values"] == found.part("encoder").values.tolist()
    assert (written["before"], written["after"]) == (found.before.tolist(), found.after.tolist())


@each([
    Refusal(
        "another number of tokens",
        lambda: model_named("bert").patch("The [MASK] was bad.", "The [MASK] was glad."),
        "States are replaced token by token, but the texts have 11 tokens and 12: give texts of equal length.",
    ),
    Refusal(
        "other masks",
        lambda: model_named("bert").patch("The [MASK] was", "[MASK] the was"),
        "The masks of the two texts are at different tokens: give texts with the same masks.",
    ),
    Refusal(
        "a recurrent network",
        lambda: model_named("recurrent-cho").patch("the dog", "the cat"),
        "States are replaced in a Transformer, and this model has none.",
    ),
    Refusal(
        "a part that is not there",
        lambda: model_named("bert").patch(*ASKED["bert"]).part("decoder"),
        "No states of `decoder` were replaced: the parts are `encoder`.",
    ),
])  # fmt: skip
def test_wrong_questions_are_refused(refusal: Refusal) -> None:
    refusal.check()
