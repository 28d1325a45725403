"""A page in one file: markup, style, modules and data. It loads nothing, and its own policy forbids that it does."""

import html
import json
import posixpath
import re
from importlib.resources import files
from typing import Any, Final

_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_STATIC_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_IMPORT: Final = re.compile(r'^import \{(?P<names>[^}]*)\} from "(?P<path>\.{1,2}/[\w./]+\.js)";\n', re.M)
_EXPORT: Final = re.compile(r"^export (async function|function|class|const) (\w+)", re.M)
_FOOTER: Final = "This file needs no network: keep it, or send it."
_EXPLORER_FOOTER: Final = f"Weights show where a model looked, not why it decided. {_FOOTER}"


def write_page(
    title: str,
    lead: str,
    module: str,
    data: Any,
    brand: str = "Heedful explorer",
    *,
    footer: str = _EXPLORER_FOOTER,
    reload_every: int | None = None,
    main: str = "",
    style: str = "",
) -> str:
    """Return a page whose main part `module` makes from `data`, which must be what JSON can hold.

    `main` is markup that is there before, and `style` more rules for it. With `reload_every`, a browser loads the page
    again after this number of seconds.
    """
    head = "" if reload_every is None else f'<meta http-equiv="refresh" content="{reload_every}">\n'
    scripts = f"""<script type="application/json" id="data">{_embedded(data)}</script>
<script type="module">
{join_modules(module)}</script>
"""
    return static_page(title, lead, main, brand=brand, footer=footer, style=style, head=head, scripts=scripts)


def static_page(
    title: str,
    lead: str,
    main: str,
    *,
    brand: str = "Heedful",
    footer: str = _FOOTER,
    style: str = "",
    head: str = "",
    scripts: str = "",
) -> str:
    """Return a page whose main part is markup, and all else text; `style` comes after the common one."""
    policy, main = (_POLICY, main) if scripts else (_STATIC_POLICY, f"\n{main}")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
{head}<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{asset("style.css")}{style}</style>
</head>
<body>
<header class="page">
<p class="brand">{html.escape(brand)}</p>
<h1>{html.escape(title)}</h1>
<p class="lead">{html.escape(lead)}</p>
</header>
<main>{main}</main>
<footer>{html.escape(footer)}</footer>
{scripts}</body>
</html>
"""


def themed(svg: str) -> str:
    """Return an image for a file of its own, in the colours of the pages: light or dark, as its reader prefers."""
    colours = asset("style.css").partition("* { ")[0].strip()
    assert colours.startswith(":root"), "the style begins with the colours"
    opened, close, rest = svg.partition(">")
    return f"{opened}{close}<style>{colours}</style>{rest}"


def join_modules(name: str) -> str:
    """Return a module and all that it imports as one: what it imports comes first, each module in its own scope.

    `name` is its path in `assets`; an import names a path from its own folder.
    """
    found: dict[str, str] = {}

    def add(module: str) -> None:
        source, folder = asset(module), posixpath.dirname(module)

        def path_of(needed: re.Match[str]) -> str:
            return posixpath.normpath(posixpath.join(folder, needed["path"]))

        for needed in map(path_of, _IMPORT.finditer(source)):
            if needed not in found:
                add(needed)
        inner = _IMPORT.sub(lambda needed: f"const {{{needed['names']}}} = {_scope(path_of(needed))};\n", source)
        names, inner = ", ".join(name for _, name in _EXPORT.findall(inner)), _EXPORT.sub(r"\1 \2", inner)
        found[module] = (
            inner if module == name else f"const {_scope(module)} = (() => {{\n{inner}return {{ {names} }};\n}})();\n"
        )

    add(name)
    return "\n".join(found.values())


def asset(name: str) -> str:
    """Return a file of `assets`: a module, or a style."""
    return (files("heedful.pages") / "assets" / name).read_text(encoding="utf-8")


def _scope(module: str) -> str:
    return re.sub(r"\W", "_", module)


def _embedded(data: Any) -> str:
    """Return JSON that cannot end the element it is in."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
