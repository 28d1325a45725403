"""Several images as one: panels in rows, under one title."""

import re
from collections.abc import Sequence
from typing import Final

from heedful.pages.charts.drawing import heading, image, number

_SIZE: Final = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)" viewBox="([^"]+)"[^>]*>')
_GAP: Final = 12


def join_panels(rows: Sequence[Sequence[str]], title: str, description: str = "") -> str:
    """Return images in rows, from the top, as one image; a row is as high as the highest in it."""
    parts, y, width = [heading(title)], 36.0 if title else 0.0, 0.0
    for row in rows:
        x, tallest = 0.0, 0.0
        for panel in row:
            opened = _SIZE.match(panel)
            if opened is None:
                raise ValueError("a panel must be an image of `drawing.image`")
            wide, high = float(opened[1]), float(opened[2])
            place = f'x="{number(x)}" y="{number(y)}" width="{opened[1]}" height="{opened[2]}" viewBox="{opened[3]}"'
            parts.append(f'<svg {place} role="img">{panel[opened.end() :].strip()}')
            x, tallest = x + wide + _GAP, max(tallest, high)
        y, width = y + tallest + _GAP, max(width, x - _GAP)
    return image(width, y, title or "Panels", parts, description)
