"""The page of `heedful serve`: one file, whose policy allows its own style and script, and requests to its server."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Final

from heedful.pages.html import asset, join_modules

_POLICY: Final = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def app_page() -> tuple[str, str]:
    """Return the page and the Content-Security-Policy to send with it, which allows nothing else to run."""
    style, script = asset("style.css") + asset("app/style.css"), join_modules("app.js")
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Heedful</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header id="line"><h1>Heedful</h1></header>
<div id="notice" aria-live="polite"></div>
<main><noscript>This page needs JavaScript.</noscript></main>
<div id="spoken" class="unseen" aria-live="polite"></div>
<footer>Weights show where a model looked, not why it decided.</footer>
<script type="module">{script}</script>
</body>
</html>
"""
    return page, _POLICY.format(script=_hash_of(script), style=_hash_of(style))


def _hash_of(content: str) -> str:
    """Return how a policy names the content of an element."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
