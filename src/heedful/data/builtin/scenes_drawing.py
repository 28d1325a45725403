"""Images of scenes, drawn with NumPy: every shape is a circle or a polygon, with smooth edges.

The coverage of a pixel is 1/2 - d, clipped to [0, 1], where d is the distance of its centre from the edge of the shape
in pixels, negative inside.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.data.builtin.scenes import CELLS, Scene, Thing

BACKGROUND: Final = (24, 24, 32)
PAINT: Final[Mapping[str, tuple[int, int, int]]] = {
    "red": (224, 40, 40),
    "green": (40, 176, 64),
    "blue": (48, 88, 232),
    "yellow": (240, 224, 48),
    "purple": (152, 56, 200),
    "orange": (248, 144, 32),
    "cyan": (64, 216, 224),
    "white": (240, 240, 240),
}
RADII: Final[Mapping[str, float]] = {"small": 0.19, "medium": 0.3, "large": 0.42}  # in cells

Points = Sequence[tuple[float, float]]  # (down, right) of each corner, at most 1 from the centre
Plane = NDArray[np.float64]


def _star(points: int, inner: float) -> Points:
    """Return the corners of a star whose first point is at the top."""
    turns = [math.pi * number / points for number in range(2 * points)]
    return [
        (-reach * math.cos(turn), reach * math.sin(turn))
        for turn, reach in zip(turns, [1.0, inner] * points, strict=True)
    ]


_S: Final = math.sqrt(0.5)
_ARM: Final = 0.34  # half the width of a cross's arms
CORNERS: Final[Mapping[str, Points]] = {
    "square": [(-_S, -_S), (-_S, _S), (_S, _S), (_S, -_S)],
    "triangle": [(-1.0, 0.0), (0.75, 0.95), (0.75, -0.95)],
    "diamond": [(-1.0, 0.0), (0.0, 0.62), (1.0, 0.0), (0.0, -0.62)],
    "star": _star(5, 0.42),
    "cross": [
        (-1.0, -_ARM), (-1.0, _ARM), (-_ARM, _ARM), (-_ARM, 1.0), (_ARM, 1.0), (_ARM, _ARM),
        (1.0, _ARM), (1.0, -_ARM), (_ARM, -_ARM), (_ARM, -1.0), (-_ARM, -1.0), (-_ARM, -_ARM),
    ],
}  # fmt: skip


def draw_scene(scene: Scene, size: int = 64) -> NDArray[np.uint8]:
    """Return the image of a scene: size x size x 3."""
    image = np.full((size, size, 3), BACKGROUND, np.float64)
    for thing in scene.things:
        # The rows and columns of pixels that a thing may cover.
        cell = size / CELLS
        reach = RADII[thing.size] * cell + 1
        middles = (thing.row + 0.5 + thing.down) * cell, (thing.column + 0.5 + thing.right) * cell
        rows, columns = (range(max(0, int(at - reach)), min(size, math.ceil(at + reach))) for at in middles)
        cover = _coverage(thing, size, rows, columns)[..., None]
        part = image[rows.start : rows.stop, columns.start : columns.stop]
        part += cover * (np.array(PAINT[thing.colour], np.float64) - part)
    return np.floor(image + 0.5).astype(np.uint8)


def coverage(thing: Thing, size: int) -> Plane:
    """Return which share of each pixel a thing covers."""
    return _coverage(thing, size, range(size), range(size))


def _coverage(thing: Thing, size: int, rows: range, columns: range) -> Plane:
    """Return which share of each pixel in some rows and columns a thing covers."""
    cell = size / CELLS
    middle_down, middle_right = (thing.row + 0.5 + thing.down) * cell, (thing.column + 0.5 + thing.right) * cell
    downs, rights = np.array(rows) + 0.5 - middle_down, np.array(columns) + 0.5 - middle_right
    down, right = np.meshgrid(downs, rights, indexing="ij")
    return np.clip(0.5 - distance(thing.shape, down, right, RADII[thing.size] * cell), 0.0, 1.0)


def distance(shape: str, down: Plane, right: Plane, radius: float) -> Plane:
    """Return the distance of points from the edge of a shape around the origin, negative inside."""
    if shape == "circle":
        return np.sqrt(down**2 + right**2) - radius * 0.9  # of a similar area as the others
    corners = np.array(CORNERS[shape]) * radius
    down_a, right_a = corners.T[:, :, None, None]  # one plane per edge, from a corner a to the next one b
    down_b, right_b = np.roll(corners, -1, axis=0).T[:, :, None, None]
    edge_down, edge_right = down_b - down_a, right_b - right_a
    along = ((down - down_a) * edge_down + (right - right_a) * edge_right) / (edge_down**2 + edge_right**2)
    along = np.clip(along, 0.0, 1.0)
    squares = (down - down_a - along * edge_down) ** 2 + (right - right_a - along * edge_right) ** 2
    # A ray to the right crosses an edge; it crosses none that is level, which has no rows between its ends.
    between = (down_a <= down) != (down_b <= down)
    level = np.where(edge_down, edge_down, 1.0)
    inside = np.logical_xor.reduce(between & (right < right_a + (down - down_a) * edge_right / level), axis=0)
    nearest: Plane = np.where(inside, -1.0, 1.0) * np.sqrt(squares.min(axis=0))
    return nearest
