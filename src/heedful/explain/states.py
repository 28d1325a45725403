"""Hidden states of Transformers: the vector of every token after every layer, recorded while a network runs.

Those of recurrent networks are among their gates.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heedful.models.images import ImageEncoder, LookingEncoder
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder

_Stack = TransformerEncoder | TransformerDecoder | ImageEncoder | LookingEncoder
_SMALL: Final = 1e-12


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
            tokens = next((one for one in _order(name, stack) if lengths.get(one) == len(layers[0])), None)
            if tokens is not None:
                values = torch.stack(layers).float().cpu().numpy()
                found.append(LayerStates(_part(name, stack), tokens, values, self._outputs[name].float().cpu().numpy()))
        return tuple(found)

    def watch(self, name: str, stack: _Stack) -> Iterator[Any]:
        """Record a part from now on, and yield the hooks that do."""
        self._stacks[name] = stack
        for number, block in enumerate(stack.blocks):
            assert isinstance(block, EncoderBlock | DecoderBlock)
            yield block.drop.register_forward_hook(self._keep(name, number))
        yield stack.final.register_forward_hook(self._end(name))

    def _keep(self, name: str, number: int) -> Any:
        """Return a hook on the last thing that a block does: to choose between what it read and what it made."""

        def keep(module: nn.Module, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
            if number == 0:
                self._layers[name] = [inputs[0].detach()]
            self._layers[name].append(output.detach())

        return keep

    def _end(self, name: str) -> Any:
        def keep(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
            self._outputs[name] = output.detach()

        return keep


@contextmanager
def record_states(network: nn.Module) -> Iterator[StateRecord]:
    """Record the hidden states of all Transformers of a network inside the block."""
    record = StateRecord()
    hooks = [
        hook
        for name, module in network.named_modules()
        if isinstance(module, _Stack) and len(module.blocks)
        for hook in record.watch(name, module)
    ]
    try:
        yield record
    finally:
        for hook in hooks:
            hook.remove()


def _part(name: str, stack: _Stack) -> str:
    if name.split(".")[0] == "questions":
        return "question"
    return "decoder" if isinstance(stack, TransformerDecoder) else "encoder"


def _order(name: str, stack: _Stack) -> tuple[str, ...]:
    """Return the names of the sequences that a part may read."""
    if isinstance(stack, ImageEncoder):
        return ("patches",)
    return ("target", "text") if name == "decoder" else ("source", "text")
