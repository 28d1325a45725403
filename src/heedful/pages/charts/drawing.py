"""Elements of SVG: text that is safe to write, numbers, colours, legends, and the image around them."""

import html
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

FONT: Final = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif"
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # not in XML, even escaped


def image(width: float, height: float, title: str, parts: Iterable[str], description: str = "") -> str:
    """Return a whole SVG; screen readers read its title and description."""
    described = f"<desc>{escape(description)}</desc>" if description else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" font-size="13" role="img" '
        f'fill="#1d2433" style="max-width:100%;height:auto;fill:var(--ink,#1d2433)">'
        f"<title>{escape(title)}</title>{described}"
        f'<rect width="100%" height="100%" {paint("paper")}/>{"".join(parts)}</svg>\n'
    )


def shape(name: str, more: str = "", inside: str = "", /, **places: float) -> str:
    """Return an element with its coordinates and sizes; `more` are its other attributes, `inside` is what it holds."""
    placed = " ".join(f'{key}="{number(value)}"' for key, value in places.items())
    opened = f"<{name} {placed}{' ' if more else ''}{more}"
    return f"{opened}>{inside}</{name}>" if inside else f"{opened}/>"


def tip(text: str) -> str:
    """Return the text that a browser shows where a mouse points at the element that it is in."""
    return f"<title>{escape(text)}</title>"


def path_of(points: Iterable[tuple[float, float]]) -> str:
    """Return the points of a line or an area, as attributes have them."""
    return " ".join(f"{number(x)},{number(y)}" for x, y in points)


def label(
    x: float, y: float, text: str, *, anchor: str = "start", role: str = "ink", size: float = 13, more: str = ""
) -> str:
    """Return a line of text; `anchor` is start, middle or end."""
    aligned = "" if anchor == "start" else f' text-anchor="{anchor}"'
    colour = "" if role == "ink" else " " + paint(role)
    sized = "" if size == 13 else f' font-size="{number(size)}"'
    return f'<text x="{number(x)}" y="{number(y)}"{aligned}{sized}{colour}{more}>{escape(text)}</text>'


def heading(text: str, x: float = 16) -> str:
    """Return the title of an image, at its top."""
    return label(x, 26, text, size=15, more=' font-weight="600"') if text else ""


def escape(text: str) -> str:
    """Return a text as markup that shows it, without characters that XML does not allow."""
    return html.escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


def number(value: float) -> str:
    """Return a coordinate, rounded to hundredths, in as few characters as it takes."""
    rounded = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if rounded == "-0" else rounded


def text_width(text: str, size: float = 13) -> float:
    """Return about how wide a line of text is."""
    return 0.57 * size * len(text)


# --- colours of charts: variables of the page's style, with literal values where there is no page ---------------------
#
# Series have the colours of Okabe and Ito 2008, made a little darker, which all kinds of colour vision tell apart.
# Scales carry a value by lightness alone, and signs by two hues.


_ROLES: Final = {
    "paper": "#fcfcfb",
    "ink": "#1d2433",
    "soft": "#5c6679",
    "faint": "#667085",
    "rule": "#e4e7ec",
    "accent": "#3a56c5",
    "wash": "#eef1fb",
    "doubt": "#c2640c",
    "series-1": "#0072b2",
    "series-2": "#d55e00",
    "series-3": "#00875f",
    "series-4": "#b0558a",
    "series-5": "#9a6a00",
    "series-6": "#2f93c9",
    "series-7": "#4b4f58",
}
SERIES: Final = 7  # number of series with a colour of their own
_DASHES: Final = ("", "7 4", "2 3", "9 3 2 3")
_SCALE: Final = ((252, 252, 251), (214, 223, 247), (152, 173, 233), (84, 110, 207), (41, 58, 143), (20, 27, 77))
_NEGATIVE: Final = ((252, 252, 251), (250, 224, 200), (240, 178, 122), (208, 117, 45), (139, 69, 12), (74, 36, 5))
MISSING: Final = "#b9c0cc"  # of a value that is not a number


def paint(role: str, attribute: str = "fill") -> str:
    """Return attributes that paint something in a colour of the page: the variable, and its value where there is none.

    Programs that draw SVG without knowing variables read the first attribute, browsers the second.
    """
    literal = _ROLES[role]
    return f'{attribute}="{literal}" style="{attribute}:var(--{role},{literal})"'


def series_role(index: int) -> str:
    """Return the name of the colour of a series, counted from 0."""
    return f"series-{index % SERIES + 1}"


def dashes(index: int) -> str:
    """Return the attribute that tells series of one colour apart; empty for the first ones."""
    pattern = _DASHES[index // SERIES % len(_DASHES)]
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def colour_of(share: float) -> str:
    """Return the colour of a share from 0 to 1: one hue, whose lightness carries the value. From -1 on, of another."""
    return "#" + "".join(f"{channel:02x}" for channel in channels_of(share))


def channels_of(share: float) -> tuple[int, ...]:
    """Return red, green and blue of a share from -1 to 1."""
    stops = _SCALE if share >= 0 else _NEGATIVE
    place = min(abs(share), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    return tuple(round(a + (b - a) * (place - low)) for a, b in zip(stops[low], stops[low + 1], strict=True))


# --- legends: the names of series in rows above a chart ---------------------------------------------------------------


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


# --- several images as one: panels in rows, under one title -----------------------------------------------------------


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
            inner = panel[opened.end() :].strip().removesuffix("</svg>")
            parts.append(shape("svg", f'viewBox="{opened[3]}" role="img"', inner, x=x, y=y, width=wide, height=high))
            x, tallest = x + wide + _GAP, max(tallest, high)
        y, width = y + tallest + _GAP, max(width, x - _GAP)
    return image(width, y, title or "Panels", parts, description)
