"""Gates and states of recurrent networks against torch's own layers, and against the equations of a step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.reading import fresh_reader, reader_recipe
from tests.shared.taggers import fresh_tagger, tagger_recipe
from torch import nn

import heedful
from heedful.base.packed import Layout
from heedful.config.reading.load import recipe_from_json
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.explain.recorded_states import CellStep, record_gates, record_steps
from heedful.explain.trace.cells import trace_cell
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_network
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.tasks.answer.model import Reader
from heedful.tasks.classify.image_models import ImageAnswerer
from heedful.tasks.tag.model import Tagger

BUNDLES = Path(__file__).parents[2] / "golden/bundles"
READING = {"family": "recurrent", "width": 8, "embedding": 12}


def _naive(layer: nn.RNNBase, x: torch.Tensor, backward: bool) -> dict[str, list[torch.Tensor]]:
    """All gates of one sentence, step by step, from the weights that torch documents."""
    w_x, w_h, b_x, b_h = layer.all_weights[int(backward)]
    h = c = torch.zeros(layer.hidden_size)
    found: dict[str, list[torch.Tensor]] = {}
    for token in x.flip(0) if backward else x:
        from_x, from_h = w_x @ token + b_x, w_h @ h + b_h
        if isinstance(layer, nn.LSTM):
            i, f, g, o = (from_x + from_h).chunk(4)
            step = {"input": i.sigmoid(), "forget": f.sigmoid(), "candidate": g.tanh(), "output": o.sigmoid()}
            c = step["forget"] * c + step["input"] * step["candidate"]
            h = step["output"] * c.tanh()
            step |= {"hidden": h, "cell": c}
        else:
            (xr, xz, xn), (hr, hz, hn) = from_x.chunk(3), from_h.chunk(3)
            step = {"reset": (xr + hr).sigmoid(), "update": (xz + hz).sigmoid()}
            step["candidate"] = (xn + step["reset"] * hn).tanh()
            h = step["update"] * h + (1 - step["update"]) * step["candidate"]
            step["hidden"] = h
        for name, value in step.items():
            found.setdefault(name, []).append(value)
    return {name: values[::-1] if backward else values for name, values in found.items()}


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_gates_are_those_of_the_equations_in_both_directions_and_all_sentences(kind: Any) -> None:
    torch.manual_seed(0)
    network = nn.ModuleDict({"stack": RecurrentStack(kind, 3, 4, bidirectional=True)})
    stack: Any = network["stack"]
    x, layout = torch.randn(8, 3), Layout.of([3, 5])
    with torch.no_grad():
        plain, _ = stack(x, layout)
        with record_gates(network) as record:
            recorded, _ = stack(x, layout)
        gates = record.explain({"text": 8})
        torch.testing.assert_close(recorded, plain)
        assert [(one.layer, one.direction, one.steps) for one in gates] == [
            (0, "forward", "text"),
            (0, "backward", "text"),
        ]
        for one in gates:
            parts = [_naive(stack.layers[0], part, one.direction == "backward") for part in x.split([3, 5])]
            assert list(one.values) == list(parts[0])
            for name, values in one.values.items():
                expected = torch.stack([*parts[0][name], *parts[1][name]])
                torch.testing.assert_close(torch.from_numpy(values), expected)
    assert "cells" not in vars(stack)
    assert stack.watch is None
    assert record.explain({"text": 7}) == (), "no sequence is as long"


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("recurrent-bahdanau", "the dog sees.", {("encoder.stack", "source"), ("decoder.wiring.stack", "target")}),
    ("recurrent-sutskever", "the dog sees.", {("encoder.stack", "source"), ("decoder.wiring.stack", "target")}),
    ("tagger-recurrent-letters-crf", "the dog sees", {("encoder.stack", "text")}),  # not those of letters
    ("language-recurrent", "the dog sees", {("decoder.stack", "text")}),
])  # fmt: skip
def test_recurrent_models_have_gates_along_what_they_read(name: str, text: str, expected: set[tuple[str, str]]) -> None:
    model: Any = heedful.load(BUNDLES / name, device="cpu", precision="float32")
    found = model.explain(text, **({"max_extra": 1} if hasattr(model, "translate") else {}))
    assert {(one.stack, one.steps) for one in found.gates} == expected
    for one in found.gates:
        for gate, values in one.values.items():
            assert len(values) == len(found.sequences[one.steps])
            assert (values >= (0 if gate in ("input", "forget", "output", "reset", "update") else -np.inf)).all()
    first, again = found.to_json(gates=True)["gates"][0], found.gates[0].values["hidden"]
    assert np.array_equal(np.array(first["values"]["hidden"], np.float32), again)
    assert found.to_json()["gates"] == []


def _reader(folder: Path) -> Any:
    return Reader(fresh_reader(reader_recipe(folder, {"encoder": READING})))


def _tagger(folder: Path) -> Any:
    letters = {"family": "recurrent", "width": 4}
    return Tagger(fresh_tagger(tagger_recipe(folder, {"encoder": READING, "letters": letters})))


def _answerer(folder: Path) -> Any:
    recipe = recipe_from_json(
        {
            "data": {"train": [{"builtin": "scenes", "questions": 1, "count": 4}]},
            "tokenizer": {"kind": "word"},
            "model": {
                "family": "image_answerer",
                "encoder": {"family": "convolutional", "width": 8, "stages": 2, "depth": 1},
                "question": {"family": "recurrent", "width": 6},
            },
        },
        "recipe",
    )
    words = Vocabularies({"text": train_tokenizer(recipe.tokenizer, ["is there a red star ?"])}, ("no", "yes"))
    return ImageAnswerer(Bundle(recipe, words, build_network(recipe.model, words)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("make", "asked"), [
    (_reader, ("so Ann lives in Rome now .", "Where ?")),
    (_tagger, ("Ann sees Rome",)),
    (_answerer, (np.zeros((8, 12, 3), np.uint8), "is there a red star ?")),
])  # fmt: skip
def test_states_of_recurrent_encoders_are_what_they_return(make: Any, asked: tuple[Any, ...], tmp_path: Path) -> None:
    model, returned = make(tmp_path), list[Any]()
    (stack,) = (one for name, one in model.network.named_modules()
                if isinstance(one, RecurrentStack) and "letters" not in name)  # fmt: skip
    hook = stack.register_forward_hook(lambda module, inputs, output: returned.append(output[0]))
    found = model.explain(*asked)
    hook.remove()
    forward, backward = found.gates
    assert (forward.steps, backward.steps) == ("text", "text")
    both = np.concatenate([forward.values["hidden"], backward.values["hidden"]], axis=1)
    assert len(both) == len(found.sequences["text"])
    np.testing.assert_allclose(both, returned[-1].detach().numpy(), atol=1e-5)
    trace = trace_cell(model.network, lambda: model.explain(*asked), 0)
    assert trace.words == found.sequences["text"].pieces
    np.testing.assert_allclose(trace.parts["h(t)"], forward.values["hidden"], atol=1e-5)


def test_recordings_of_one_stack_can_be_nested_and_leave_nothing_behind() -> None:
    stack = RecurrentStack("gru", 3, 4, layers=2)
    outer: list[tuple[int, int]] = []
    inner: list[CellStep] = []
    begun: list[None] = []

    def run(steps: int) -> None:
        state, cells = stack.start(1, torch.zeros(1, 3)), stack.cells(1, torch.zeros(1, 3))
        for _ in range(steps):
            _, state = cells.step(torch.ones(1, 3), state)

    def keep(layer: int, direction: int, step: CellStep) -> None:
        outer.append((layer, direction))

    with record_steps(stack, keep, begin=lambda: begun.append(None)):
        with record_steps(stack, lambda layer, direction, step: inner.append(step)):
            run(2)
        run(1)
    run(1)
    assert outer == [(0, 0), (1, 0)] * 3
    assert len(begun) == 2
    assert [set(step.gates()) for step in inner] == [{"reset", "update", "candidate"}] * 4
    assert torch.equal(inner[0].after[0], inner[2].before[0])
    assert "cells" not in vars(stack)
