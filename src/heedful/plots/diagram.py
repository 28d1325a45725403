"""Boxes and arrows: the elements of drawn networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heedful.pages.charts.drawing import label, paint, path_of, shape, tip

Point = tuple[float, float]
_HEAD: Final = 7.0  # length of an arrow's head
_FILLED: Final = 'fill-opacity="0.13" stroke-opacity="0.75" stroke="currentColor" fill="currentColor"'


@dataclass(frozen=True)
class Box:
    """A rectangle with a name and a second line; x and y are those of its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> Point:
        """The middle of the upper edge."""
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        """The middle of the lower edge."""
        return self.x + self.width / 2, self.y + self.height

    @property
    def left(self) -> Point:
        """The middle of the left edge."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        """The middle of the right edge."""
        return self.x + self.width, self.y + self.height / 2

    def draw(self, name: str, detail: str = "", role: str = "series-1", told: str = "") -> str:
        """Draw the box with its name in the middle, and a smaller line below it."""
        x, y = self.x + self.width / 2, self.y + self.height / 2
        look = f"{_FILLED} {paint(role, 'color')}"
        inner = shape("rect", look, x=self.x, y=self.y, width=self.width, height=self.height, rx=7)
        tipped = tip(told) if told else ""
        if not detail:
            return f"<g>{tipped}{inner}{label(x, y + 4.5, name, anchor='middle')}</g>"
        return (
            f"<g>{tipped}{inner}{label(x, y - 2, name, anchor='middle')}"
            f"{label(x, y + 14, detail, anchor='middle', role='soft', size=11)}</g>"
        )


def arrow(points: Sequence[Point], role: str = "faint", dashed: bool = False, head: bool = True) -> str:
    """Draw a line through points that ends in a head."""
    (x0, y0), (x1, y1) = points[-2], points[-1]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    end = (x1 - dx * _HEAD, y1 - dy * _HEAD) if head else (x1, y1)
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    path = path_of([*points[:-1], end])
    line = f'<polyline points="{path}" fill="none" stroke-width="1.4"{dash} {paint(role, "stroke")}/>'
    if not head:
        return line
    corners = ((x1, y1), (end[0] - dy * 3.6, end[1] + dx * 3.6), (end[0] + dy * 3.6, end[1] - dx * 3.6))
    return f'{line}<polygon points="{path_of(corners)}" {paint(role)}/>'


def dot(x: float, y: float, text: str) -> str:
    """Draw an operation on single values: a circle with its sign."""
    circle = shape("circle", f"{_FILLED} {paint('series-2', 'color')}", cx=x, cy=y, r=12)
    return circle + label(x, y + 4.5, text, anchor="middle")
