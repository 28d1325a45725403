"""A page of markup alone: style and pictures in one file, without a script."""

from importlib.resources import files
from typing import Final

from heedful.pages.charts.drawing import escape

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def static_page(title: str, lead: str, body: str, brand: str = "Heedful", style: str = "") -> str:
    """Return a page whose main part is `body`, which is markup; title and lead are text. `style` adds rules."""
    shared = (files("heedful.pages") / "assets" / "style.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{shared}{style}</style>
</head>
<body>
<header class="page">
<p class="brand">{escape(brand)}</p>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
</header>
<main>{body}</main>
<footer>This file needs no network: keep it, or send it.</footer>
</body>
</html>
"""
