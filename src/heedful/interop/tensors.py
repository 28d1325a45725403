"""Tensors of another toolkit next to ours: rows of a table that is read in both directions.

    ours = stack(turn(theirs_1), turn(theirs_2), ...)       reading
    theirs_1, theirs_2, ... = turn_back(parts of ours)      writing

A table is data: one `Pair` for each of our tensors. Nothing else may know how a toolkit lays out a matrix, or what is
written would drift from what is read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor


class Turn(NamedTuple):
    """What is done to a tensor of theirs to make it a part of ours, and the way back."""

    to_ours: Callable[[Tensor], Tensor]
    to_theirs: Callable[[Tensor], Tensor]


AS_IT_IS: Final = Turn(lambda tensor: tensor, lambda tensor: tensor)
TRANSPOSED: Final = Turn(torch.t, torch.t)  # of toolkits that store x W instead of W x


def paired_columns(head_width: int) -> Turn:
    """Return the turn of rows that make rotated columns.

    Most toolkits rotate columns c and c + D/2 of a head as a plane, Heedful columns 2c and 2c + 1 (see `Rotary`).
    Scores are the same when the rows of W_q and W_k that make these columns are put into the other order.
    """

    def to_ours(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (-1, 2, head_width // 2)).transpose(1, 2).flatten(0, 2)

    def to_theirs(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (-1, head_width // 2, 2)).transpose(1, 2).flatten(0, 2)

    return Turn(to_ours, to_theirs)


def by_rows(rows: Sequence[int], size: int) -> Turn:
    """Return the turn of a tensor with one row per piece: `rows` has the row of each of our ids, out of `size` rows.

    Several ids may have one row; of theirs, rows that no id has are zeros.
    """
    index = torch.tensor(rows)

    def to_theirs(ours: Tensor) -> Tensor:
        theirs = ours.new_zeros(size, *ours.shape[1:])
        return theirs if ours.is_meta else theirs.index_copy(0, index, ours)

    return Turn(lambda theirs: theirs[index], to_theirs)


@dataclass(frozen=True)
class Pair:
    """One of our tensors, and those of theirs that are stacked into it."""

    ours: str
    theirs: tuple[str, ...]
    turns: tuple[Turn, ...] = (AS_IT_IS,)  # one for each of theirs, or one for all
    rows: tuple[int, ...] = ()  # of ours, made by each of theirs, where they are not equally many

    def turned(self) -> list[tuple[str, Turn]]:
        """Return the names of theirs with their turns."""
        turns = self.turns * len(self.theirs) if len(self.turns) == 1 else self.turns
        return list(zip(self.theirs, turns, strict=True))


Shape = tuple[int, ...]
Take = Callable[[str, Shape], Tensor]  # a tensor of theirs by name, checked to have a shape


def read_pairs(pairs: Iterable[Pair], shapes: Mapping[str, Shape], take: Take) -> dict[str, Tensor]:
    """Return our tensors, of these shapes; each of theirs is taken once, in the shape that it must have."""
    ours: dict[str, Tensor] = {}
    for pair in pairs:
        parts = []
        for (name, turn), rows in zip(pair.turned(), _rows(pair, shapes[pair.ours][0]), strict=True):
            shape = tuple(turn.to_theirs(torch.empty(rows, *shapes[pair.ours][1:], device="meta")).shape)
            parts.append(turn.to_ours(take(name, shape)))
        ours[pair.ours] = torch.cat(parts)
    return ours


def write_pairs(pairs: Iterable[Pair], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return their tensors by name, as safetensors stores them: contiguous, each with memory of its own."""
    theirs: dict[str, Tensor] = {}
    for pair in pairs:
        whole = ours[pair.ours].detach()
        parts = whole.split(_rows(pair, len(whole)))
        theirs |= {name: _own(turn.to_theirs(part)) for (name, turn), part in zip(pair.turned(), parts, strict=True)}
    return theirs


def _rows(pair: Pair, count: int) -> list[int]:
    return list(pair.rows) or [count // len(pair.theirs)] * len(pair.theirs)


def _own(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def of_modules(modules: Mapping[str, Sequence[str]], kinds: Sequence[str] = ("weight", "bias")) -> list[Pair]:
    """Return the pairs of modules, each with these tensors: our modules, and those of theirs stacked into each."""
    return [
        Pair(f"{ours}.{kind}", tuple(f"{part}.{kind}" for part in theirs))
        for ours, theirs in modules.items()
        for kind in kinds
    ]
