"""Draws what a command prints, with the times at which it printed it, as an SVG that plays by itself.

heedful demo 2>&1 < /dev/null | python scripts/terminal_recording.py "make demo" > docs/images/demo.svg
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

LINE, LEFT, TOP, COLUMN = 18, 18, 62, 7.85  # pixels: height of a line, margins, width of a character
SHOWN = 20.0  # seconds that a longer recording is shortened to
STYLE = """
  text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 13px; fill: #e4e7eb; white-space: pre; }
  .paper { fill: #14181d; stroke: #3e4c59; }
  .title { fill: #9aa5b1; }
  .line { animation: appear 0.01s backwards; }
  @keyframes appear { from { opacity: 0; } to { opacity: 1; } }
  @media (prefers-reduced-motion: reduce) { .line { animation: none; } }
"""  # noqa: E501  # a line per rule


@dataclass(frozen=True)
class Line:
    """A line of output, and the seconds after which it was printed."""

    seconds: float
    text: str


def draw(command: str, lines: Sequence[Line]) -> str:
    """Return the image: all lines at their times, faster if they took longer than `SHOWN` seconds.

    Where nothing moves, in print or by the reader's wish, all lines are there from the start.
    """
    took = lines[-1].seconds if lines else 0.0
    factor = max(1.0, took / SHOWN)
    pace = f"recorded in {took:,.0f} s" + (f", shown {factor:,.0f} times as fast" if factor > 1.05 else "")
    texts = [Line(0.0, f"$ {command}"), *lines]
    width = round(2 * LEFT + COLUMN * max(60, *(len(line.text) for line in texts)))
    height = TOP + LINE * len(texts)
    drawn = [
        f'<text class="line" style="animation-delay: {line.seconds / factor:.2f}s" '
        f'x="{LEFT}" y="{TOP + LINE * number}">{escape(line.text)}</text>'
        for number, line in enumerate(texts)
        if line.text.strip()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'xml:space="preserve" role="img" aria-label="{escape(command)}, as it runs in a terminal">',
            f"<title>{escape(command)}, as it runs in a terminal</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>',
            *(
                f'<circle cx="{22 + 18 * number}" cy="22" r="5.5" fill="{colour}"/>'
                for number, colour in enumerate(("#e0685a", "#d98a2b", "#3fa66b"))
            ),
            f'<text class="title" x="{width - LEFT}" y="27" text-anchor="end">{pace}</text>',
            *drawn,
            "</svg>\n",
        ]
    )


def main() -> None:
    """Read lines as they arrive on standard input, and write the image when they end."""
    began, lines = time.monotonic(), []
    for text in sys.stdin:
        lines.append(Line(time.monotonic() - began, text.rstrip("\n")))
        print(text, end="", file=sys.stderr, flush=True)
    sys.stdout.write(draw(" ".join(sys.argv[1:]), lines))


if __name__ == "__main__":
    main()
