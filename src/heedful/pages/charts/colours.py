"""Colours of charts: variables of the page's style, with literal values where there is no page.

Series have the colours of Okabe and Ito 2008, made a little darker, which all kinds of colour vision tell apart. Scales
carry a value by lightness alone, and signs by two hues.
"""

from typing import Final

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
