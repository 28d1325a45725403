"""Sinusoidal positions: the whole table, its two arrangements side by side, and single dimensions as curves."""

from collections.abc import Sequence
from typing import Final

import torch

from heedful.base.errors import UserError
from heedful.config.model.transformer import TransformerStack
from heedful.config.recipe import Recipe
from heedful.nn.layers.positions import Sinusoidal
from heedful.pages.charts.drawing import join_panels
from heedful.pages.charts.heat_maps import Values, heat_map
from heedful.pages.charts.lines import Series, line_chart
from heedful.plots.recipes import tables_of

_CURVES: Final = 100  # positions of the curves


def position_table(width: int, count: int, halves: bool = False) -> Values:
    """Return the vectors of positions, position x dimension, from the module that models have."""
    table: Values = Sinusoidal(width, halves)(torch.arange(count), count).numpy()
    return table


def positions_of(recipe: Recipe) -> tuple[int, bool]:
    """Return the width of a recipe's sinusoidal positions, and whether their halves are apart."""
    stacks = [table for table in tables_of(recipe.model) if isinstance(table, TransformerStack)]
    if not stacks:
        raise UserError(
            f"The family `{recipe.model.family}` has no positions to draw: choose a recipe with Transformer blocks."
        )
    stack = stacks[0]
    if not stack.positions.startswith("sinusoidal"):
        raise UserError(
            f"The positions of this recipe are `{stack.positions}`, but only sinusoidal ones are drawn: add --set "
            'model.positions="sinusoidal", or leave the recipe out.'
        )
    return stack.width, stack.positions == "sinusoidal_halves"


def draw_positions(width: int, count: int, dimensions: Sequence[int], halves: bool | None = None) -> str:
    """Draw positions as Vaswani et al. 2017, 3.5, describe them; `halves` chooses one arrangement, by default both."""
    if max(dimensions) >= width:
        raise UserError(f"There is no dimension {max(dimensions)}: the positions have {width}, counted from 0.")
    chosen = {False: "Sine and cosine alternate", True: "All sines, then all cosines"}
    kinds = [False, True] if halves is None else [halves]
    panel = 720 if len(kinds) == 1 else 480
    maps = [
        heat_map(
            position_table(width, count, kind),
            title=chosen[kind],
            x_label="dimension",
            y_label="position",
            width=panel,
            height=420,
        )
        for kind in kinds
    ]
    shown = min(count, _CURVES)
    curves = [
        line_chart(
            [
                Series(
                    f"dimension {dimension}", range(shown), position_table(width, shown, kind)[:, dimension].tolist()
                )
                for dimension in dimensions
            ],
            title=f"Dimensions {', '.join(map(str, dimensions))}",
            x_label="position",
            width=panel,
            height=300,
        )
        for kind in kinds
    ]
    return join_panels([maps, curves], f"Sinusoidal positions: {count:,} x {width:,}")
