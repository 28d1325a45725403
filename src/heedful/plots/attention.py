"""Drawings of attention: what each distribution makes of the same scores, and the alignment of a translation."""

import math
from collections.abc import Sequence
from typing import Final, cast

import torch
from torch import Tensor

from heedful.base.errors import UserError, suggestion
from heedful.explain.explanation import Explanation
from heedful.explain.pages.images import by_words
from heedful.nn.alignments.distributions import DISTRIBUTIONS, Distribution
from heedful.pages.charts.bars import bar_chart
from heedful.pages.charts.drawing import join_panels
from heedful.pages.charts.heat_maps import heat_map
from heedful.pages.charts.lines import Series, line_chart

DRAWN: Final = tuple(
    name for name, kind in DISTRIBUTIONS.items() if not kind.needs_distance and name != "learned_entmax"
)
USUAL: Final = ("softmax", "entmax15", "sparsemax", "normalised_sigmoid")
_REACH: Final = 4.0
_POINTS: Final = 161


def weigh(name: str, scores: Sequence[Sequence[float]], alpha: float = 1.5) -> list[list[float]]:
    """Return the weights of rows of scores by a distribution's name in recipes."""
    if name not in DRAWN:
        raise UserError(f"`{name}` is not a distribution that can be drawn.{suggestion(name, list(DRAWN))}")
    if not alpha > 1 or not math.isfinite(alpha):
        raise UserError(f"--alpha is {alpha:g}, but must be above 1: at 1, entmax is softmax.")
    rule = DISTRIBUTIONS[name].make(**({"alpha": alpha} if name == "entmax" else {}))
    weights: Tensor = cast(Distribution, rule)(torch.tensor(scores, dtype=torch.float64))
    return weights.tolist()


def draw_distributions(names: Sequence[str], scores: Sequence[float], alpha: float = 1.5) -> str:
    """Draw the weights of some scores, and the weight of one of two keys over the difference of their scores."""
    keys = [f"{score:g} (key {number})" for number, score in enumerate(scores, start=1)]
    bars = {_shown(name, alpha): dict(zip(keys, weigh(name, [scores], alpha)[0], strict=True)) for name in names}
    differences = [-_REACH + 2 * _REACH * point / (_POINTS - 1) for point in range(_POINTS)]
    curves = [
        Series(
            _shown(name, alpha), differences, [row[0] for row in weigh(name, [[t, 0.0] for t in differences], alpha)]
        )
        for name in names
    ]
    return join_panels(
        [
            [bar_chart(bars, title="Weights of these scores", x_label="score", y_label="weight")],
            [line_chart(curves, title="Two keys with the scores t and 0", x_label="t", y_label="weight of the first")],
        ],
        "",
        "From scores to weights.",
    )


def _shown(name: str, alpha: float) -> str:
    return f"entmax, alpha {alpha:g}" if name == "entmax" else name


# --- the alignment matrix of a translation: Bahdanau et al. 2015, figure 3 --------------------------------------------


def draw_alignment(found: Explanation) -> str:
    """Draw how much each word of a translation attends to each word of the source; dots are the greatest weights."""
    if found.alignment is None:
        raise UserError("This model has no attention over a source, so no alignment: choose one that has it.")
    rows, columns = found.sequences["output"], found.sequences["source"]
    words = by_words(found.alignment, rows, columns)
    return heat_map(
        words,
        title="Alignment",
        row_names=rows.texts,
        column_names=columns.texts,
        dots=[(row, int(column)) for row, column in enumerate(words.argmax(axis=1))],
        description=f"Weights of the words of `{found.text}` in its translation `{found.output}`.",
    )
