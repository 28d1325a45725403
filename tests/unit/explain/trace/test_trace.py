"""Traces: their numbers are the model's own, and those of an independent computation."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from torch import nn

import heedful
from heedful.base.packed import Packed
from heedful.explain.trace.attention import AttentionTrace, trace_attention
from heedful.explain.trace.cells import trace_cell
from heedful.explain.trace.display import attention_page, cell_page, show_attention, show_cell
from heedful.models.recurrent.encoder import RecurrentEncoder

BUNDLES = Path(__file__).parents[3] / "golden/bundles"
TEXT = "the dog sees the tree."
IMAGE = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (40, 72, 3)).astype(np.uint8)
LONG = "On Monday, Clara Dale found 17 keys in the cave. It was Emil Holm who hid two cups at the zoo. " * 12
ASKED: dict[str, tuple[Any, ...]] = {  # of tasks that read more than a text
    "translate": (TEXT, "der Hund"),
    "answer": (LONG, "Who found keys?"),
    "classify_images": (IMAGE,),
    "caption": (IMAGE,),
    "answer_images": (IMAGE, "is there a red circle ?"),
}


def load(name: str) -> Any:
    return heedful.load(BUNDLES / name, "cpu")


def explained(model: Any) -> Any:
    """Explain a text or an image; of a translator, a given translation, which needs no search."""
    task = model.recipe.rules.name
    return model.explain(*ASKED.get(task, (TEXT,)), **({"max_extra": 2} if task == "caption" else {}))


def traced(name: str, kind: Any, layer: int = 0, head: int = 1) -> tuple[AttentionTrace, Any]:
    model = load(name)
    trace = trace_attention(model.network, lambda: explained(model), kind, layer, head)
    return trace, explained(model).attention(kind).weights[layer, head]


@pytest.mark.parametrize(("name", "kind"), [
    ("transformer", "encoder"),
    ("transformer", "decoder"),
    ("transformer", "cross"),
    ("transformer-pre-norm-rope-separate", "decoder"),
    ("transformer-relative-silu", "encoder"),
    ("transformer-alibi-sparsemax", "decoder"),
    ("transformer-additive-entmax", "cross"),
    ("bert", "encoder"),
    ("language-llama", "decoder"),
    ("reader", "encoder"),  # of the window in which an answer is most likely, which is not the last
    ("images-vit", "encoder"),
    ("captions-transformer", "encoder"),
    ("captions-transformer", "decoder"),
    ("captions-transformer", "cross"),
    ("answers-about-images", "encoder"),
    ("answers-about-images", "question"),
    ("answers-about-images", "cross"),
])  # fmt: skip
def test_weights_of_a_trace_are_those_that_the_model_captures(name: str, kind: str) -> None:
    trace, captured = traced(name, kind)
    np.testing.assert_allclose(trace.weights, captured, atol=1e-6)
    assert trace.weights.shape == (len(trace.queries), len(trace.keys))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_step_of_a_head_follows_from_the_one_before(kind: str) -> None:
    trace, _ = traced("transformer", kind)
    names = [step.name for step in trace.steps]
    width = trace.q.shape[1]
    assert names == ["q . k", f"/ sqrt({width})", *(["mask"] if kind == "decoder" else []), "softmax"]
    steps = dict(zip(names, trace.steps, strict=True))
    for query in range(len(trace.queries)):
        for key in range(len(trace.keys)):
            product = sum(float(a) * float(b) for a, b in zip(trace.q[query], trace.k[key], strict=True))
            assert steps["q . k"].values[query, key] == pytest.approx(product, abs=1e-4)
            scaled = steps[f"/ sqrt({width})"].values[query, key]
            assert scaled == pytest.approx(product / math.sqrt(width), abs=1e-4)
            if kind == "decoder":
                seen = steps["mask"].values[query, key]
                assert seen == (pytest.approx(scaled) if key <= query else -math.inf)
        scores = [math.exp(float(score)) for score in trace.steps[-2].values[query]]
        np.testing.assert_allclose(trace.weights[query], [score / sum(scores) for score in scores], atol=1e-5)
        read = sum(weight * value for weight, value in zip(trace.weights[query], trace.v, strict=True))
        np.testing.assert_allclose(trace.output[query], read, atol=1e-5)


def test_heads_together_are_what_the_layer_returns() -> None:
    model = load("transformer")
    attention = next(module for name, module in model.network.named_modules() if name.endswith("attention"))
    seen: list[Any] = []
    hook = attention.register_forward_hook(lambda module, inputs, output: seen.append(output))
    traces = [
        trace_attention(model.network, lambda: explained(model), "encoder", 0, head) for head in range(attention.heads)
    ]
    hook.remove()
    joined = torch.from_numpy(np.concatenate([trace.output for trace in traces], axis=1))
    with torch.no_grad():
        torch.testing.assert_close(attention.output(joined), seen[-1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["recurrent-bahdanau", "captions-recurrent"])
def test_attention_of_a_recurrent_decoder_is_traced(name: str) -> None:
    model = load(name)
    trace = trace_attention(model.network, lambda: explained(model), "cross", 0, 0)
    np.testing.assert_allclose(trace.weights, explained(model).attention("cross").weights[0, 0], atol=1e-6)
    assert [step.name for step in trace.steps] == ["score", "softmax"]
    scores = np.exp(trace.steps[0].values)
    np.testing.assert_allclose(trace.weights, scores / scores.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(trace.output, trace.weights @ trace.v, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_gru_cell_is_traced_gate_by_gate(direction: str) -> None:
    model = load("recurrent-bahdanau")
    trace = trace_cell(model.network, lambda: explained(model), 0, direction)
    parts, words = trace.parts, len(trace.words)
    mixed = parts["Z = sigmoid"] * parts["h(t-1)"] + (1 - parts["Z = sigmoid"]) * parts["candidate = tanh"]
    np.testing.assert_allclose(parts["h(t)"], mixed, atol=1e-6)
    np.testing.assert_array_equal(parts["h(t-1)"][1:], parts["h(t)"][:-1])
    stack = model.network.encoder.stack
    source = [*model.encode([TEXT])[0], 2]
    with torch.no_grad():
        memory = model.network.encoder(Packed.of([source]))
    own = (
        memory.values.float().numpy()[:, : stack.width]
        if direction == "forward"
        else memory.values.float().numpy()[::-1, stack.width :]
    )
    assert len(own) == words
    np.testing.assert_allclose(parts["h(t)"], own, atol=1e-5)


@pytest.mark.parametrize("name", ["recurrent-sutskever", "recurrent-cho", "language-recurrent"])
def test_states_of_other_cells_are_those_of_torch(name: str) -> None:
    model = load(name)
    seen: list[Any] = []
    stack = next(module for module in model.network.modules() if type(module).__name__ == "RecurrentStack")
    hook = stack.register_forward_hook(lambda module, inputs, output: seen.append((inputs, output)))
    trace = trace_cell(model.network, lambda: explained(model), 0)
    hook.remove()
    x = seen[-1][0][0].float()
    inner = stack.layers[0]
    assert isinstance(inner, nn.RNNBase)
    if stack.kind != "gru_paper":  # torch has no such cell: the stack's own states are the reference
        with torch.no_grad():
            states = inner.float()(x.unsqueeze(1))[0][:, 0, : stack.widths[0]]
        np.testing.assert_allclose(trace.parts["h(t)"], states.numpy(), atol=1e-5)
    elif len(stack.layers) == 1:
        np.testing.assert_allclose(trace.parts["h(t)"], seen[-1][1][0].detach()[:, : stack.widths[0]], atol=1e-5)
    if "c(t)" in trace.parts:
        parts = trace.parts
        memory = parts["F = sigmoid"] * parts["c(t-1)"] + parts["I = sigmoid"] * parts["candidate = tanh"]
        np.testing.assert_allclose(parts["c(t)"], memory, atol=1e-6)
        np.testing.assert_allclose(parts["h(t)"], parts["O = sigmoid"] * np.tanh(parts["c(t)"]), atol=1e-6)


def test_the_cell_of_a_captioner_is_traced_along_what_its_decoder_reads() -> None:
    model = load("captions-recurrent")
    trace = trace_cell(model.network, lambda: explained(model), 0)
    found = explained(model)
    (gates,) = found.gates
    assert trace.words == found.sequences["target"].pieces
    np.testing.assert_allclose(trace.parts["h(t)"], gates.values["hidden"], atol=1e-6)
    np.testing.assert_allclose(trace.parts["Z = sigmoid"], gates.values["update"], atol=1e-6)
    np.testing.assert_array_equal(trace.parts["h(t-1)"][1:], trace.parts["h(t)"][:-1])
    assert trace.parts["h(t-1)"][0].any(), "it starts from the image"
    with refuses("...There is no layer 2: the recurrent network has 1 layer..."):
        trace_cell(model.network, lambda: explained(model), 1)
    assert "cells" not in vars(model.network.decoder.wiring.stack)


def test_words_of_a_source_that_is_read_from_its_end_are_reversed() -> None:
    model = load("recurrent-sutskever")
    encoder = next(module for module in model.network.modules() if isinstance(module, RecurrentEncoder))
    trace = trace_cell(model.network, lambda: explained(model), 0)
    pieces = explained(model).sequences["source"].pieces
    assert trace.words == (pieces[::-1] if encoder.reverse else pieces)


def test_pages_and_lines_show_the_numbers() -> None:
    trace, _ = traced("transformer", "decoder")
    page = attention_page(trace, "model", "<a text>", 1, 3)
    shown = f"{trace.weights[1, 0]:.4f}"
    assert shown in page
    assert "&lt;a text&gt;" in page
    assert "<script" not in page
    lines = "\n".join(show_attention(trace, 1, 3))
    assert shown in lines
    assert lines.startswith(f"decoder, layer 1, head 2: query 2 of {len(trace.queries)}, `{trace.queries[1]}`")
    model = load("recurrent-bahdanau")
    cell = trace_cell(model.network, lambda: explained(model), 0)
    gate = f"{cell.parts['Z = sigmoid'][0, 0]:.4f}"
    assert gate in cell_page(cell, "model", TEXT, 3)
    assert gate in "\n".join(show_cell(cell, 3))


def test_of_many_queries_one_has_a_table() -> None:
    trace, _ = traced("images-vit", "encoder")
    few = attention_page(trace, "model", "a.png", 0, 3)
    assert few.count("<details") == len(trace.queries)
    repeated = 1 + 100 // len(trace.queries)
    many = replace(
        trace,
        queries=trace.queries * repeated,
        steps=tuple(replace(step, values=np.tile(step.values, (repeated, 1))) for step in trace.steps),
    )
    page = attention_page(many, "model", "a.png", 2, 3)
    assert page.count("<details") == 1
    assert f"Query 3 of {len(many.queries)}: each key" in page
    assert f"{trace.weights[2, 0]:.4f}" in page


def test_what_a_model_does_not_have_is_refused() -> None:
    model = load("transformer")
    run = lambda: explained(model)  # noqa: E731
    with refuses("...There is no head 9 in layer 1 of `encoder`: the model has..."):
        trace_attention(model.network, run, "encoder", 0, 8)
    with refuses("...This model has no recurrent cell: trace one of its heads instead..."):
        trace_cell(model.network, run, 0)
    model = load("recurrent-bahdanau")
    with refuses("...There is no layer 3: the recurrent network has 1 layer..."):
        trace_cell(model.network, run, 2)
    with refuses("...There is no head 2 in layer 1 of `cross`: the model has 1..."):
        trace_attention(model.network, run, "cross", 0, 1)
