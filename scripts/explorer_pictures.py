"""Photographs the explorer's page in Chromium: the pictures of the README and of docs/guide/explain.md.

    heedful demo                                        # writes runs/demo/explain.html
    python scripts/explorer_pictures.py runs/demo/explain.html
    python scripts/explorer_pictures.py                 # those of other families, by the tiny models of the tests

Needs Chromium (apt-get install chromium) and the `dev` extra.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from heedful.cli.main import run

ROOT: Final = Path(__file__).resolve().parents[1]
IMAGES: Final = ROOT / "docs/images/explorer"
WIDE: Final = {"width": 1080, "height": 800}
PICTURES: Final[Mapping[str, dict[str, Any]]] = {
    "translator.png": {"viewport": WIDE, "color_scheme": "light"},
    "translator-dark.png": {"viewport": WIDE, "color_scheme": "dark"},
    "translator-narrow.png": {"viewport": {"width": 390, "height": 760}, "color_scheme": "light"},
    "attention.png": {"viewport": WIDE, "color_scheme": "light"},
    "attention-dark.png": {"viewport": WIDE, "color_scheme": "dark"},
}

BUNDLES: Final = ROOT / "tests/golden/bundles"
SENTENCE: Final = "the dog sees the tree today."
FAMILIES: Final[Mapping[str, tuple[str, str, str, dict[str, Any]]]] = {  # model, text, part of the page, options
    "parse.png": (
        "parser", "the dog sees a small fish today", "parse-title", {"viewport": WIDE, "color_scheme": "light"}
    ),
    "beam-dark.png": (
        "recurrent-sutskever", SENTENCE, "beam-title", {"viewport": WIDE, "color_scheme": "dark"}
    ),
    "gates-narrow.png": (
        "recurrent-sutskever", SENTENCE, "gates-title",
        {"viewport": {"width": 420, "height": 760}, "color_scheme": "light"},
    ),
}  # fmt: skip


def main() -> None:
    """Take all pictures of a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, nargs="?", help="HTML file that `heedful explain` or `heedful demo` wrote")
    page = parser.parse_args().page
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("needs Chromium: install it with `apt-get install chromium`")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, (bundle, text, section, options) in FAMILIES.items() if page is None else ():
            photograph_section(opened, bundle, text, section, options, IMAGES / name)
        for name, options in PICTURES.items() if page is not None else ():
            context = opened.new_context(**options)
            shown = context.new_page()
            shown.goto(page.resolve().as_uri())
            shown.wait_for_selector("html[data-ready-ms]")
            photograph(shown, IMAGES / name)
            context.close()
        opened.close()


def photograph_section(
    browser: Browser, bundle: str, text: str, section: str, options: dict[str, Any], path: Path
) -> None:
    """Take a picture of one part of the page of a model of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "page.html"
        run(["explain", str(BUNDLES / bundle), "--device", "cpu", "--text", text, "-o", str(written)])
        context = browser.new_context(**options)
        page = context.new_page()
        page.goto(written.as_uri())
        page.wait_for_selector("html[data-ready-ms]")
        page.locator(f"section[aria-labelledby={section}]").screenshot(path=path)
        context.close()
    print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size / 1000:.0f} kB)")


def photograph(page: Page, path: Path) -> None:
    """Take one picture: the part about attention with a word selected, or the top of the page."""
    if "attention" in path.name:
        page.locator("#queries button").nth(3).click()
        page.mouse.move(0, 0)
        page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
        box = page.locator("section[aria-labelledby=attention-title]").bounding_box()
        assert box is not None
        clip: FloatRect = {"x": 0, "y": box["y"] + 8, "width": WIDE["width"], "height": box["height"] + 12}
        page.screenshot(path=path, full_page=True, clip=clip)
    else:
        page.screenshot(path=path)
    print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
