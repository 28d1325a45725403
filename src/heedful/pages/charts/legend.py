"""Legends: the names of series in rows above a chart."""

from collections.abc import Callable, Sequence

from heedful.pages.charts.drawing import label, text_width


def draw_legend(
    names: Sequence[str], width: float, mark: Callable[[int, float, float], str]
) -> tuple[list[str], float]:
    """Return a legend in as many rows as it takes, and where the chart begins below it; one name needs none.

    `mark` draws the sample of a name, by its index, within 20 x 8 pixels above and right of a point.
    """
    if len(names) < 2:
        return [], 48
    parts, x, y = [], 16.0, 48.0
    for index, name in enumerate(names):
        wide = 26 + text_width(name, 12) + 18
        if x + wide > width and x > 16:
            x, y = 16.0, y + 18
        parts.append(mark(index, x, y) + label(x + 26, y, name, role="soft", size=12))
        x += wide
    return parts, y + 16
