"""Gradients over time: how much of a gradient reaches inputs that many steps ago, for cells with initial weights.

Bengio et al. 1994; Pascanu et al. 2013: without gates it vanishes, or explodes, exponentially with the distance.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import torch

from heedful.nn.recurrent.gradient_norms import gradients_by_distance
from heedful.nn.recurrent.stack import CellKind, RecurrentStack, init_recurrent

CellName = Literal["tanh", "gru", "lstm"]
CELLS: Final[tuple[CellName, ...]] = get_args(CellName)
_KINDS: Final[Mapping[CellName, CellKind]] = {"tanh": "rnn_tanh", "gru": "gru", "lstm": "lstm"}
_ROWS: Final = 32  # random sequences


def gradients_over_time(cell: CellName, width: int = 100, steps: int = 101, seed: int = 1) -> list[float]:
    """Return the norm of the gradient by the input, by its distance from the loss, from 0 on.

    One layer with the initial weights of every recurrent model, over random sequences; the loss depends on the last
    output alone. Norms are relative to that of the last input.
    """
    if width < 1 or steps < 1:
        raise ValueError(f"a curve needs a width and steps of at least 1, not {width} and {steps}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        stack = RecurrentStack(_KINDS[cell], width, width)
        init_recurrent(stack)
        norms = gradients_by_distance(stack.double(), torch.randn(_ROWS, steps, width, dtype=torch.float64))
    return [float(norm) for norm in norms / norms[0]]
