"""Elements of SVG: text that is safe to write, numbers, and the image around them."""

import html
import re
from collections.abc import Iterable
from typing import Final

from heedful.pages.charts.colours import paint

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
