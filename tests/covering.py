"""Few combinations of options that cover many: for laws that hold for all of them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Options = dict[str, Any]


def covering(axes: Mapping[str, Sequence[Any]], size: int, legal: Callable[[Options], bool]) -> list[Options]:
    """Few combinations in which every legal choice of so many axes' values occurs, found greedily."""
    every = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    holding = [(made, set(combinations(made.items(), size))) for made in every if legal(made)]
    missing = dict.fromkeys(part for _, parts in holding for part in sorted(parts))
    chosen = []
    while missing:
        first = next(iter(missing))
        made, parts = max(
            (each for each in holding if first in each[1]), key=lambda each: len(each[1] & missing.keys())
        )
        chosen.append(made)
        missing = {part: None for part in missing if part not in parts}
    return chosen
