"""Hidden states of Transformers against those of a plain run, and against the vectors of `embed`."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses

import heedful
from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN

BUNDLES = Path(__file__).parents[2] / "golden/bundles"
IMAGE = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (40, 72, 3)).astype(np.uint8)
TEXT, QUESTION = "the dog sees a small fish .", "is there a red circle ?"

# Name of the bundle, how it is explained, how it runs without, and the parts that have states with their sequences.
PLAIN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], dict[str, str]]] = {
    "transformer": (
        lambda model: model.explain(TEXT, "der Hund"),
        lambda model: model.score([TEXT], ["der Hund"]),
        {"encoder": "source", "decoder": "target"},
    ),
    "transformer-pre-norm-rope-separate": (
        lambda model: model.explain(TEXT, "der Hund"),
        lambda model: model.score([TEXT], ["der Hund"]),
        {"encoder": "source", "decoder": "target"},
    ),
    "language-llama": (
        lambda model: model.explain(TEXT), lambda model: model.score([TEXT]), {"decoder": "text"}
    ),
    "tagger-transformer": (
        lambda model: model.explain("the dog sees"), lambda model: model.tag("the dog sees"), {"encoder": "text"}
    ),
    "reader": (
        lambda model: model.explain(TEXT, "Who sees ?"),
        lambda model: model.answer("Who sees ?", TEXT),
        {"encoder": "text"},
    ),
    "images-vit": (
        lambda model: model.explain(IMAGE), lambda model: model.classify(IMAGE), {"encoder": "patches"}
    ),
    "answers-about-images": (
        lambda model: model.explain(IMAGE, QUESTION),
        lambda model: model.answer(QUESTION, IMAGE),
        {"encoder": "patches", "question": "text"},
    ),
}  # fmt: skip


@cache
def _model(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


@pytest.mark.parametrize("name", PLAIN)
def test_states_are_those_of_a_run_without_capture(name: str) -> None:
    model, (explain, run, parts) = _model(name), PLAIN[name]
    found = explain(model)
    assert {one.part: one.tokens for one in found.states} == parts
    seen: dict[str, list[Any]] = {}
    hooks = []
    for place, stack in model.network.named_modules():
        if hasattr(stack, "blocks"):
            outputs = seen.setdefault(place, [])

            def keep(module: Any, inputs: Any, output: Any, outputs: list[Any] = outputs) -> None:
                outputs.append(output.detach().float().numpy())

            # The last residual of a block has its output; blocks that look at images are not called as modules.
            hooks += [
                module.register_forward_hook(keep)
                for module in (stack.embedding, *(block.around_network for block in stack.blocks), stack.final)
            ]
    run(model)
    for hook in hooks:
        hook.remove()
    for one, (*layers, output) in zip(found.states, seen.values(), strict=True):
        tokens = len(found.sequences[one.tokens])
        assert one.values.shape[:2] == (len(layers), tokens)
        np.testing.assert_allclose(one.values, np.stack(layers)[:, :tokens], atol=1e-5)
        np.testing.assert_allclose(one.output, output[:tokens], atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "classifier-transformer", "language-transformer"])
def test_a_layer_is_what_embed_returns_for_its_number(name: str) -> None:
    model = _model(name)
    found = model.explain(TEXT)
    (states,) = found.states
    for layer, values in enumerate(states.values[:-1]):
        (vectors,) = model.embed([TEXT], of="tokens", layer=layer, markers=True)
        np.testing.assert_allclose(values, vectors.vectors[: len(values)], atol=1e-5)
    (vectors,) = model.embed([TEXT], of="tokens", markers=True)  # after the final norm
    np.testing.assert_allclose(states.output, vectors.vectors[: len(states.output)], atol=1e-5)


def test_states_of_a_caption_are_those_of_the_encoder_and_the_decoder() -> None:
    model = _model("captions-transformer")
    found = model.explain(IMAGE, max_extra=3)
    encoder, decoder = found.states_of("encoder"), found.states_of("decoder")
    assert (encoder.tokens, decoder.tokens) == ("patches", "target")
    tokens = model.vocabularies["text"].encode(found.output)
    read = Packed.of([[BEGIN, *tokens][: decoder.values.shape[1]]])
    with torch.no_grad():
        memory = model.network.encoder(found.image.packed())
        np.testing.assert_allclose(encoder.output, memory.values.numpy(), atol=1e-5)
        np.testing.assert_allclose(decoder.output, model.network.decoder.states(read, memory).numpy(), atol=1e-5)


def test_norms_and_similarities_are_those_of_the_vectors() -> None:
    states = _model("bert").explain(TEXT).states_of("encoder")
    norms, similarities = states.norms(), states.similarities()
    layers, tokens, _ = states.values.shape
    assert (norms.shape, similarities.shape) == ((layers, tokens), (layers - 1, tokens))
    for layer, token in np.ndindex(layers - 1, tokens):
        before, after = states.values[layer, token], states.values[layer + 1, token]
        lengths = math.sqrt(before @ before), math.sqrt(after @ after)
        assert norms[layer, token] == pytest.approx(lengths[0], rel=1e-5)
        assert similarities[layer, token] == pytest.approx(before @ after / (lengths[0] * lengths[1]), rel=1e-4)


def test_json_has_states_on_request_and_recurrent_models_have_none() -> None:
    found = _model("bert").explain(TEXT)
    assert found.to_json()["states"] == []
    (written,) = found.to_json(states=True)["states"]
    assert (written["part"], written["tokens"], written["axes"]) == ("encoder", "text", ["layer", "token", "component"])
    assert np.array_equal(np.array(written["values"], np.float32), found.states[0].values)
    with refuses("...has no hidden states of `decoder`. Those that it has: `encoder`..."):
        found.states_of("decoder")
    with refuses("...Those that it has: none..."):
        _model("language-recurrent").explain(TEXT).states_of("decoder")


def test_no_hook_is_left_after_an_explanation() -> None:
    model = _model("transformer")
    model.explain(TEXT, "der Hund")
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.network.modules())
