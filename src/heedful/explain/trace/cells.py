"""One recurrent cell, gate by gate and word by word, with the numbers of the model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.base.errors import UserError, counted
from heedful.explain.explanation import Array, Explanation
from heedful.explain.recorded_states import CellStep, hook_calls, hooked, record_steps, text_stacks
from heedful.nn.recurrent.cells import Cell, CellState
from heedful.nn.recurrent.stack import RecurrentStack

Gates = dict[str, Tensor]
_SYMBOLS: Final = {
    "input": "I = sigmoid",
    "forget": "F = sigmoid",
    "output": "O = sigmoid",
    "reset": "R = sigmoid",
    "update": "Z = sigmoid",
    "candidate": "candidate = tanh",
}


@dataclass(frozen=True, eq=False)
class CellTrace:
    """What a cell computes at each word, in the order in which it reads them; the layer is counted from 0."""

    cell: str
    layer: int
    direction: str
    words: tuple[str, ...]
    parts: dict[str, Array]  # gates and states by name: word x component

    def to_json(self) -> dict[str, Any]:
        """Return everything as lists."""
        return {
            "kind": "cell",
            "cell": self.cell,
            "layer": self.layer + 1,
            "direction": self.direction,
            "words": self.words,
            "parts": {name: values.tolist() for name, values in self.parts.items()},
        }


def trace_cell(
    network: nn.Module, explain: Callable[[], Explanation], layer: int, direction: str = "forward"
) -> CellTrace:
    """Trace the cell of a layer while `explain` runs the network on a text; of several stacks, the first that runs.

    The cell of a decoder that attends at every step is traced if there is no other.
    """
    stacks = [stack for _, stack in text_stacks(network)]
    if not stacks:
        raise UserError("This model has no recurrent cell: trace one of its heads instead, such as --kind encoder.")
    calls: list[tuple[RecurrentStack, Any]] = []
    hooks = (hook_calls(one, lambda module, inputs, output: calls.append((module, inputs))) for one in stacks)
    recorded: list[Gates] = []  # what a decoder's cell, whose steps are taken one by one, did last

    def keep(number: int, backward: int, step: CellStep) -> None:
        if number == layer and not backward:
            recorded.append({name: value.detach().float().cpu() for name, value in _parts(step).items()})

    with hooked(hooks), record_steps(stacks[0], keep, begin=recorded.clear):
        found = explain()
    stack = next((module for module, _ in calls), stacks[0])
    if not 0 <= layer < len(stack.layers):
        raise UserError(
            f"There is no layer {layer + 1}: the recurrent network has {counted(len(stack.layers), 'layer')}."
        )
    if direction == "backward" and stack.directions == 1:
        raise UserError("This network reads in one direction: leave out --direction backward.")
    name = stack.kind.removeprefix("rnn_")
    if not calls:
        return CellTrace(name, layer, direction, found.sequences["target"].pieces, _joined(recorded))
    x_NI, layout, *initial = [inputs for module, inputs in calls if module is stack][-1]
    length = int(layout.lengths[0])
    with torch.no_grad():
        x_TI = x_NI[:length].float()
        state = initial[0] if initial and initial[0] is not None else stack.start(1, x_TI)
        steps = list(_layer_steps(stack, x_TI, state, layer, direction == "backward"))
    turned = any(
        getattr(module, "reverse", False) and getattr(module, "stack", None) is stack for module in network.modules()
    )
    pieces = found.sequences["source" if "source" in found.sequences else "text"].pieces[:length]
    order = pieces[::-1] if turned != (direction == "backward") else pieces
    return CellTrace(name, layer, direction, tuple(order), _joined(steps))


def _joined(steps: Sequence[Gates]) -> dict[str, Array]:
    return {name: torch.cat([step[name] for step in steps]).numpy() for name in steps[0]}


def _layer_steps(stack: RecurrentStack, x_TI: Tensor, state: Any, layer: int, backward: bool) -> Iterator[Gates]:
    """Yield what a layer's cell computes at each step, after running the layers below it."""
    y_TO = x_TI
    for number, cells in enumerate(stack.cells(1, x_TI).layers[: layer + 1]):
        outputs = []
        for direction, cell in enumerate(cells):
            first = number * stack.directions + direction
            own = tuple(part[first, :1, : stack.widths[number]].float() for part in state.parts)
            steps = list(_steps(cell, y_TO.flip(0) if direction else y_TO, own))
            if number == layer and bool(direction) == backward:
                yield from (gates for gates, _ in steps)
            read = torch.cat([h for _, h in steps])
            outputs.append(read.flip(0) if direction else read)
        y_TO = torch.cat(outputs, dim=1)


def _steps(cell: Cell, x_TI: Tensor, state: CellState) -> Iterator[tuple[Gates, Tensor]]:
    for x_1I in x_TI.split(1):
        x_1G, fed_back = cell.project(x_1I), cell.recurrent_input(state, None)
        sum_1G = torch.addmm(cell.addend(x_1G), fed_back, cell.weight_h.t())
        after = cell.advance(x_1G, sum_1G, state, fed_back)
        yield _parts(CellStep(cell, x_1G, sum_1G, fed_back, state, after)), after[0]
        state = after


def _parts(step: CellStep) -> Gates:
    """Return the gates, the candidate and the states of a step, by the names of the equations of the cell's class."""
    gates = {_SYMBOLS[name]: value for name, value in step.gates().items()} or {"W x + U h + b": step.sum_RG}
    names = ("h", "c")[: len(step.before)]
    old = {f"{name}(t-1)": part for name, part in zip(names, step.before, strict=True)}
    new = {f"{name}(t)": part for name, part in reversed(list(zip(names, step.after, strict=True)))}
    return gates | old | new
