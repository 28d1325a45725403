"""Activation patching: which states of a network make the difference between two texts.

    effect(l, i) = log P(y | a, of which the state of token i after layer l is that of b)

(Meng et al. 2022, where it is called causal tracing). Where the effect is as high as log P(y | b), the state carries
what the network needs of b; where it is as low as log P(y | a), it does not matter. Layer 0 is the embedding.

Shape letters of this file: K  copies of the text    T  predictions    S  tokens    E  width
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import torch
from torch import Tensor, nn

from heedful.base.errors import UserError, counted
from heedful.explain.explanation import Array, Measured, TokenSequence
from heedful.explain.readings import Reading, chunks_of, stacks_of
from heedful.explain.recorded_states import hook_calls, hooked, record_states
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder

_ALL: Final = -1  # instead of a token: the states of all


@dataclass(frozen=True, eq=False)
class PatchedPart:
    """The effect of the states of one part of a network, the encoder or the decoder."""

    part: str
    tokens: TokenSequence  # of a
    others: TokenSequence  # of b, whose states replace them
    values: Array  # log P with one state replaced: layer x token x prediction; layer 0 is the embedding
    whole: Array  # log P with the states of all tokens replaced: layer x prediction


@dataclass(frozen=True, eq=False)
class Patches(Measured):
    """The log probability of predictions for a text, after each state was replaced by that of another text."""

    name: ClassVar[str] = "patch"

    outputs: TokenSequence  # the predictions
    before: Array  # log P of each for the text as it is
    after: Array  # log P of each for the other text
    parts: tuple[PatchedPart, ...]

    def part(self, name: str) -> PatchedPart:
        """Return the effects in the encoder or the decoder."""
        found = next((one for one in self.parts if one.part == name), None)
        if found is None:
            parts = ", ".join(f"`{one.part}`" for one in self.parts)
            raise UserError(f"No states of `{name}` were replaced: the parts are {parts}.")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return all numbers."""
        return {
            "outputs": list(self.outputs.pieces),
            "before": self.before.tolist(),
            "after": self.after.tolist(),
            "parts": [
                {
                    "part": one.part,
                    "tokens": list(one.tokens.pieces),
                    "others": list(one.others.pieces),
                    "axes": ["layer", "token", "output"],
                    "values": one.values.tolist(),
                    "whole": one.whole.tolist(),
                }
                for one in self.parts
            ],
        }


def patch(reading: Reading, other: Reading) -> Patches:
    """Replace each state of a reading by that of another one; both have the same predictions."""
    stacks = stacks_of(reading.network)
    if not stacks:
        raise UserError("States are replaced in a Transformer, and this model has none.")
    for name, own in reading.inputs.items():
        if len(own) != len(other.inputs[name]):
            raise UserError(
                f"States are replaced token by token, but the texts have {counted(len(own), 'token')} and "
                f"{len(other.inputs[name])}: give texts of equal length."
            )
    if reading.places != other.places:
        raise UserError("The masks of the two texts are at different tokens: give texts with the same masks.")
    with reading.computing():
        (before_T,) = reading.values()
        with record_states(reading.network) as record:
            (after_T,) = other.values()
        found = []
        for path, stack in stacks.items():
            name = _sequence(reading, stack)
            layers = [_effects(reading, stack, layer, states) for layer, states in enumerate(record.of(path))]
            part = "decoder" if isinstance(stack, TransformerDecoder) else "encoder"
            values = np.stack(layers)
            found.append(PatchedPart(part, reading.inputs[name], other.inputs[name], values[:, :-1], values[:, -1]))
    return Patches(reading.outputs, before_T.float().cpu().numpy(), after_T.float().cpu().numpy(), tuple(found))


def _sequence(reading: Reading, stack: nn.Module) -> str:
    """Return the name of what a part reads."""
    first, *_ = reading.inputs
    return "target" if isinstance(stack, TransformerDecoder) and "target" in reading.inputs else first


def _effects(reading: Reading, stack: TransformerEncoder | TransformerDecoder, layer: int, states_SE: Tensor) -> Array:
    """Return log P of the predictions with the state of each token replaced, and last with all of them: S + 1 x T."""
    places = [*range(len(states_SE)), _ALL]
    found = []
    for some in chunks_of(reading, len(places)):
        replaced = [places[number] for number in some]
        with _states_as(stack, layer, states_SE, replaced):
            found.append(reading.values(len(replaced)))
    return torch.cat(found).float().cpu().numpy()


@contextmanager
def _states_as(
    stack: TransformerEncoder | TransformerDecoder, layer: int, states_SE: Tensor, places: Sequence[int]
) -> Iterator[None]:
    """Replace the state of one token of each copy after a layer, or of all tokens."""

    def replace(read: Tensor) -> Tensor:
        states_KSE = read.unflatten(0, (len(places), -1)).clone()
        for copy, place in enumerate(places):
            own = slice(None) if place == _ALL else place
            states_KSE[copy, own] = states_SE[own]
        return states_KSE.flatten(0, 1)

    def after(module: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        return replace(output)

    block = stack.blocks[layer - 1] if layer else stack.embedding
    with hooked([hook_calls(block, after)]):
        yield
