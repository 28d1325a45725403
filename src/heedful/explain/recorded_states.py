"""Gates and states of recurrent networks over time, and hidden states of Transformers: recorded while a network runs.

Inside a recording, recurrent stacks take their steps by their own cells, which compute what torch's functions do, and
every step leaves its gates. Without a recording, nothing is different.

Shape letters of this file: T  steps    G  width of all gates
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from heedful.models.images import ImageEncoder, LookingEncoder
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.evaluation_mode import HookHere
from heedful.nn.recurrent.cells import Cell, CellState, GRUCell, LSTMCell, StackedCells
from heedful.nn.recurrent.paper_gru import PaperGRUCell
from heedful.nn.recurrent.stack import RecurrentStack, TimeMajor

_DIRECTIONS: Final = ("forward", "backward")


@contextmanager
def hooked(hooks: Iterable[RemovableHandle]) -> Iterator[None]:
    """Remove hooks after the block."""
    with ExitStack() as stack:
        for hook in hooks:
            stack.callback(hook.remove)
        yield


def hook_calls(module: nn.Module, look: Callable[[Any, Any, Any], Any]) -> RemovableHandle:
    """Call a function after each call of a module in this thread, with the module, its inputs and its output."""
    return module.register_forward_hook(HookHere(look))


def _sequence(likely: Sequence[str], lengths: Mapping[str, int], count: int) -> str | None:
    """Return the first of the likely sequences that has this length; None if none has."""
    return next((one for one in likely if lengths.get(one) == count), None)


@dataclass(frozen=True, eq=False)
class CellStep:
    """One step of a cell: what it adds up, and its state before and after."""

    cell: Cell
    x_RG: Tensor
    sum_RG: Tensor
    fed_back_RE: Tensor
    before: CellState
    after: CellState

    def gates(self) -> dict[str, Tensor]:
        """Return the gates by name, by the equations of the cell; those without gates have none."""
        match self.cell:
            case LSTMCell():
                i, f, candidate, o = self.sum_RG.chunk(4, dim=1)
                gates = {"input": i.sigmoid(), "forget": f.sigmoid(), "candidate": candidate.tanh()}
                return gates | {"output": o.sigmoid()}
            case GRUCell():
                (r, z, n), (ur, uz, un) = self.x_RG.chunk(3, dim=1), self.sum_RG.chunk(3, dim=1)
                reset = (r + ur).sigmoid()
                return {"reset": reset, "update": (z + uz).sigmoid(), "candidate": (n + reset * un).tanh()}
            case PaperGRUCell():
                reset, update = self.sum_RG.sigmoid().chunk(2, dim=1)
                fed_back_RE = nn.functional.linear(reset * self.fed_back_RE, self.cell.weight_n)
                candidate = self.x_RG[:, self.sum_RG.shape[1] :] + fed_back_RE
                return {"reset": reset, "update": update, "candidate": candidate.tanh()}
            case _:
                return {}


@contextmanager
def record_steps(
    stack: RecurrentStack, keep: Callable[[int, int, CellStep], None], begin: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Let a stack tell the steps that this thread takes inside the block.

    `keep` is called after each step that a cell takes, with its layer and direction, and `begin` before the first step
    of a sequence. Recordings may be nested.
    """

    def show(made: StackedCells) -> None:
        begin()
        for layer, directions in enumerate(made.layers):
            for direction, cell in enumerate(directions):
                object.__setattr__(cell, "advance", _telling(cell, partial(keep, layer, direction)))

    with stack.shown.having(show):
        yield


def _telling(cell: Cell, keep: Callable[[CellStep], None]) -> Callable[[Tensor, Tensor, CellState, Tensor], CellState]:
    """Return the step of a cell, which also tells what it does."""
    advance = cell.advance

    def step(x_RG: Tensor, sum_RG: Tensor, state: CellState, fed_back_RE: Tensor) -> CellState:
        new = advance(x_RG, sum_RG, state, fed_back_RE)
        keep(CellStep(cell, x_RG, sum_RG, fed_back_RE, state, new))
        return new

    return step


@dataclass(frozen=True, eq=False)
class GateValues:
    """The gates and states of one layer in one direction, for each token of a sequence."""

    stack: str  # name of the stack in the network, such as `encoder.stack`
    kind: str  # `lstm`, `gru`, `gru_paper`, `rnn_tanh` or `rnn_relu`
    layer: int  # counted from 0
    direction: str  # `forward` or `backward`
    steps: str  # name of the sequence
    values: Mapping[str, NDArray[np.float32]]  # by gate, and `hidden` and `cell`: step x unit


class GateRecord:
    """What the cells of all stacks of a network left."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int, int], list[dict[str, Tensor]]] = {}
        self._whole: dict[tuple[str, int, int], dict[str, Tensor]] = {}
        self._stacks: dict[str, tuple[RecurrentStack, bool]] = {}

    def explain(self, lengths: Mapping[str, int]) -> tuple[GateValues, ...]:
        """Return all gates; `lengths` are those of the sequences, of which a stack's is the first that fits.

        A decoder steps along what it reads, `target`. Stacks along nothing that has a name are left out.
        """
        found = []
        for key, own in {**self._whole, **{key: _join(steps) for key, steps in self._steps.items()}}.items():
            name, layer, direction = key
            stack, turned = self._stacks[name]
            count = len(next(iter(own.values())))
            decodes = name.startswith("decoder")
            likely = ("target", "text") if decodes else ("source", "text", "sentences", "patches")
            steps = _sequence(likely, lengths, count)
            if steps is None:
                continue
            values = {gate: (value.flip(0) if turned else value).cpu().numpy() for gate, value in own.items()}
            found.append(GateValues(name, stack.kind, layer, _DIRECTIONS[direction], steps, values))
        return tuple(found)

    @contextmanager
    def recording(self, name: str, stack: RecurrentStack, turned: bool) -> Iterator[None]:
        """Let a stack record inside the block; `turned` if it reads texts from their ends."""
        self._stacks[name] = (stack, turned)

        def keep(layer: int, direction: int, step: CellStep) -> None:
            states = zip(("hidden", "cell"), step.after, strict=False)  # only an LSTM has both
            values = {part: value.detach().float() for part, value in (*step.gates().items(), *states)}
            self._steps.setdefault((name, layer, direction), []).append(values)

        def gather(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            time = TimeMajor.of(inputs[1])
            for key in [key for key in self._steps if key[0] == name]:
                steps = self._steps.pop(key)
                in_time = _join(steps[::-1] if key[2] else steps)
                self._whole[key] = {gate: value[time.places] for gate, value in in_time.items()}

        with stack.stepping.having(True), hooked([hook_calls(stack, gather)]), record_steps(stack, keep):
            yield


def text_stacks(network: nn.Module) -> Iterator[tuple[str, RecurrentStack]]:
    """Yield the recurrent stacks of a network that step along a text, with their names: not those of letters."""
    for name, module in network.named_modules():
        if isinstance(module, RecurrentStack) and "letters" not in name.split("."):
            yield name, module


@contextmanager
def record_gates(network: nn.Module) -> Iterator[GateRecord]:
    """Record the gates of all recurrent stacks of a network inside the block, but not those of letters."""
    record = GateRecord()
    turned = {id(module.stack) for module in network.modules() if getattr(module, "reverse", False)}
    with ExitStack() as open_ones:
        for name, stack in text_stacks(network):
            open_ones.enter_context(record.recording(name, stack, id(stack) in turned))
        yield record


def _join(steps: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {gate: torch.cat([step[gate] for step in steps]) for gate in steps[0]}


# --- hidden states of Transformers: the vector of every token after every layer ---------------------------------------

_Stack = TransformerEncoder | TransformerDecoder | ImageEncoder | LookingEncoder
_SMALL: Final = 1e-12
_READ: Final = {"decoder": ("target", "text")}  # sequences that a part may read


@dataclass(frozen=True, eq=False)
class LayerStates:
    """The states of the tokens that one part of a network reads, after each of its layers."""

    part: str  # `encoder`, `question` or `decoder`, like the kinds of attention
    tokens: str  # name of the sequence
    values: NDArray[np.float32]  # layer x token x component; layer 0 is the embedding, which the first layer reads
    output: NDArray[np.float32]  # token x component: the last layer after the final norm, where there is one

    def norms(self) -> NDArray[np.float32]:
        """Return the length of each state: layer x token."""
        lengths: NDArray[np.float32] = np.linalg.norm(self.values, axis=2)
        return lengths

    def similarities(self) -> NDArray[np.float32]:
        """Return the cosine of each state and the same token's state one layer before: layer x token, from layer 1."""
        products = (self.values[1:] * self.values[:-1]).sum(axis=2)
        lengths = self.norms()
        found: NDArray[np.float32] = products / np.maximum(lengths[1:] * lengths[:-1], _SMALL)
        return found


class StateRecord:
    """What the layers of all parts of a network returned, each the last time that it ran."""

    def __init__(self) -> None:
        self._layers: dict[str, list[Tensor]] = {}
        self._outputs: dict[str, Tensor] = {}
        self._stacks: dict[str, _Stack] = {}

    def explain(self, lengths: Mapping[str, int]) -> tuple[LayerStates, ...]:
        """Return all states; `lengths` are those of the sequences, of which a part's is the first that fits."""
        found = []
        for name, layers in self._layers.items():
            stack = self._stacks[name]
            likely = ("patches",) if isinstance(stack, ImageEncoder) else _READ.get(name, ("source", "text"))
            tokens = _sequence(likely, lengths, len(layers[0]))
            if tokens is not None:
                values = torch.stack(layers).float().cpu().numpy()
                found.append(LayerStates(_part(name, stack), tokens, values, self._outputs[name].float().cpu().numpy()))
        return tuple(found)

    def of(self, name: str) -> list[Tensor]:
        """Return the states of the part of this name: what its first layer read, and what each layer returned."""
        return self._layers[name]

    def watch(self, name: str, stack: _Stack) -> Iterator[RemovableHandle]:
        """Record a part from now on, and yield the hooks that do."""
        self._stacks[name] = stack

        def keep(number: int, module: nn.Module, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
            """Keep the last thing that a block does: to choose between what it read and what it made."""
            if number == 0:
                self._layers[name] = [inputs[0].detach()]
            self._layers[name].append(output.detach())

        def end(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
            self._outputs[name] = output.detach()

        for number, block in enumerate(stack.blocks):
            assert isinstance(block, EncoderBlock | DecoderBlock)
            yield hook_calls(block.drop, partial(keep, number))
        yield hook_calls(stack.final, end)


@contextmanager
def record_states(network: nn.Module) -> Iterator[StateRecord]:
    """Record the hidden states of all Transformers of a network inside the block."""
    record = StateRecord()
    stacks = [(name, one) for name, one in network.named_modules() if isinstance(one, _Stack) and len(one.blocks)]
    with hooked(hook for name, stack in stacks for hook in record.watch(name, stack)):
        yield record


def _part(name: str, stack: _Stack) -> str:
    if name.split(".")[0] == "questions":
        return "question"
    return "decoder" if isinstance(stack, TransformerDecoder) else "encoder"
