"""Kinds of positions: their names, and what each one means for the rest of a model.

Their equations are in `nn/layers/positions.py`, if they are added to embeddings, or else in
`nn/attention/relative_positions.py`; both end in a table of the same names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

PositionsName = Literal["sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", "relative", "none"]


@dataclass(frozen=True)
class PositionsKind:
    """What a kind of positions needs, and what it allows."""

    limited: bool = False  # there are only `max_positions` of them
    even_width: bool = False  # the columns of a token come in pairs
    even_heads: bool = False  # the columns of a head come in pairs
    adds_to_scores: bool = False  # to those of all pairs of positions, for which sentences are padded
    distance_vectors: bool = False  # each distance up to `max_distance` has vectors
    reads_longer: bool = False  # made for texts that are longer than those of training


POSITIONS: Final[Mapping[PositionsName, PositionsKind]] = {
    "sinusoidal": PositionsKind(even_width=True),
    "sinusoidal_halves": PositionsKind(even_width=True),
    "learned": PositionsKind(limited=True),
    "rope": PositionsKind(even_heads=True),
    "alibi": PositionsKind(adds_to_scores=True, reads_longer=True),
    "relative": PositionsKind(adds_to_scores=True, distance_vectors=True),
    "none": PositionsKind(),  # the order of tokens is not seen, except by a decoder, whose tokens see those before them
}
