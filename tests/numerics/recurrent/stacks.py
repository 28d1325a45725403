"""Recurrent stacks, and what torch computes with the same weights."""

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from heedful.nn.recurrent.stack import CellKind, RecurrentStack

WIDE, WIDTH = 5, 4  # of inputs and of states
ALL: tuple[CellKind, ...] = get_args(CellKind)
kinds = pytest.mark.parametrize("kind", ALL)
library_kinds = pytest.mark.parametrize("kind", [kind for kind in ALL if kind != "gru_paper"])  # which torch has
shapes = pytest.mark.parametrize(
    ("layers", "bidirectional"),
    [(1, False), (1, True), (3, False), (2, True)],
    ids=["one", "both", "three", "two-both"],
)


def stack_of(kind: CellKind, dtype: torch.dtype = torch.float64, **options: Any) -> RecurrentStack:
    return RecurrentStack(kind, WIDE, WIDTH, **options).to(dtype)


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> bool:
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=0, atol=tolerance)
