"""Colours and letters of drawings: those of the page they are in, and the light ones in a file of their own."""

import html
from typing import Final

FAMILY: Final = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif"
PAPER: Final = "var(--paper, #fcfcfb)"
INK: Final = "var(--ink, #1d2433)"
SOFT: Final = "var(--soft, #5c6679)"
FAINT: Final = "var(--faint, #667085)"
RULE: Final = "var(--rule-strong, #98a2b3)"
ACCENT: Final = "var(--accent, #3a56c5)"
DOUBT: Final = "var(--doubt, #c2640c)"


def svg_page(width: float, height: float, title: str, content: str) -> str:
    """Return a drawing of this size, with its title for screen readers."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FAMILY}" font-size="14" fill="{INK}" role="img">'
        f"<title>{html.escape(title)}</title>"
        f'<rect width="100%" height="100%" fill="{PAPER}"/>{content}</svg>\n'
    )
