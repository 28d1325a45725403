"""Photographs the page of a report in Chromium: the image of docs/guide/report.md.

    heedful train recipes/dates.toml --out runs/fast
    heedful train recipes/dates.toml --out runs/slow --set train.schedule.lr=0.001
    heedful report runs/fast runs/slow -o report.html
    python scripts/report_image.py report.html

Needs Chromium (apt-get install chromium) and the `dev` extra.
"""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGE = Path(__file__).resolve().parents[1] / "docs/images/report.png"


def main() -> None:
    """Take the image of the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="HTML file that `heedful report` wrote")
    page = parser.parse_args().page.resolve()
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("needs Chromium: install it with `apt-get install chromium`")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = opened.new_page(viewport={"width": 1080, "height": 800}, color_scheme="light")
        shown.goto(page.as_uri())
        shown.wait_for_selector("html[data-ready]")
        shown.locator("#figure-training-loss svg").focus()
        for _ in range(15):
            shown.keyboard.press("ArrowRight")
        top, bottom = (shown.locator(name).bounding_box() for name in ("#curves", "#figure-score-exact_match"))
        assert top is not None
        assert bottom is not None
        height = bottom["y"] - top["y"] - 8
        shown.screenshot(path=IMAGE, full_page=True, clip={"x": 0, "y": top["y"] + 4, "width": 1080, "height": height})
        opened.close()


if __name__ == "__main__":
    main()
