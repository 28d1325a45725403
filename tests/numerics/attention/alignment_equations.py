"""Alignments of every kind, and the equations of their scores."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.table import make_alignment

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 2, 3, 5, 4  # the width is that of values
CASES: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "content": ("content", 3, 3, {}),
    "dot": ("dot", 3, 3, {}),
    "scaled dot": ("scaled_dot", 3, 3, {}),
    "general": ("general", 3, 2, {}),
    "biased general": ("biased_general", 3, 2, {}),
    "activated general": ("activated_general", 3, 2, {}),
    "activated general, sigmoid": ("activated_general", 3, 2, {"activation": "sigmoid"}),
    "kernel": ("kernel", 3, 3, {"features": 7, "seed": 5}),
    "additive": ("additive", 3, 2, {}),
    "additive, wide": ("additive", 3, 2, {"inner": 6}),
    "deep": ("deep", 3, 2, {}),
    "deep, one layer": ("deep", 3, 2, {"depth": 2, "inner": 5, "activation": "tanh"}),
    "location": ("location", 3, 2, {"max_length": 6}),
    "area": ("area", 3, 3, {}),
    "area, mean": ("area", 3, 3, {"features": "mean", "largest": 4}),
    "area, small": ("area", 3, 3, {"largest": 1}),
    "area, larger than the memory": ("area", 3, 3, {"largest": 8}),
}
EACH = pytest.mark.parametrize("case", CASES)


def made(case: str) -> Alignment:
    """The alignment of a case in float64, with every parameter drawn, those that start at zero as well."""
    name, query_width, key_width, options = CASES[case]
    alignment = make_alignment(name, query_width, key_width, HEADS, **options).double()
    for parameter in alignment.parameters():
        nn.init.normal_(parameter, std=0.7)
    return alignment


def drawn(case: str, queries: int = QUERIES, keys: int = KEYS) -> tuple[Tensor, Tensor, Tensor]:
    _, query_width, key_width, _ = CASES[case]
    shapes = ((queries, query_width), (keys, key_width), (keys, WIDTH))
    q, k, v = (torch.randn(BATCH, HEADS, *shape, dtype=torch.float64) for shape in shapes)
    return q, k, v


def softmax(scores: Tensor, seen: Tensor | None) -> Tensor:
    return (scores if seen is None else scores.masked_fill(~seen, -math.inf)).softmax(-1)


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def areas(largest: int, length: int) -> list[range]:
    return [range(first, first + size) for size in range(1, largest + 1) for first in range(length - size + 1)]
