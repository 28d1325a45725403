"""Photographs of the explorer's pages in Chromium."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGES: Final = ROOT / "docs/images"
MOST: Final = 150_000  # bytes of an image
_COLOURS: Final = 128  # of an image's palette


@dataclass(frozen=True)
class Shot:
    """What a photograph shows: some parts of a page, after some clicks."""

    file: str
    parts: Sequence[str] = ()  # the titles' ids; none: the whole page, as far as the window reaches
    clicks: Sequence[str] = ()
    theme: Literal["light", "dark"] = "light"
    width: int = 760
    height: int = 800
    result: bool = True  # whether the text and what was found are shown above the parts


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open Chromium without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        sys.exit("needs Chromium: install it with `apt-get install chromium`")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


_ONLY: Final = """([parts, result]) => {
  for (const part of document.querySelectorAll("section")) {
    const named = part.getAttribute("aria-labelledby");
    if (!parts.includes(named)) part.style.display = "none";
  }
  const list = document.querySelector("dl.pair");
  if (!result) list.style.display = "none";
  const first = [...document.querySelectorAll("main section")].find((part) => part.style.display !== "none");
  if (first && !result) first.style.border = "0";
  Object.assign(document.querySelector("main").style, { paddingTop: "1px", paddingBottom: "1.25rem" });
  for (const { style } of document.querySelectorAll("section")) {
    Object.assign(style, { marginTop: "1.25rem", paddingTop: "1.1rem" });
  }
}"""


def photograph(browser: Browser, page: Path, shot: Shot) -> None:
    """Take an image of some parts of a page, and write it with few colours."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.theme, device_scale_factor=1.5
    )
    shown = context.new_page()
    shown.goto(page.resolve().as_uri())
    shown.wait_for_selector("html[data-ready-ms]")
    for click in shot.clicks:
        shown.locator(click).first.click()
    shown.mouse.move(0, 0)
    shown.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    path = IMAGES / shot.file
    if shot.parts:
        shown.evaluate(_ONLY, [list(shot.parts), shot.result])
        shown.locator("main").screenshot(path=path)
    else:
        shown.screenshot(path=path)
    context.close()
    _reduce(path)
    size = path.stat().st_size
    print(f"wrote {path.relative_to(ROOT)} ({size / 1000:.0f} kB)")
    if size > MOST:
        sys.exit(f"{path} has {size:,} bytes, but may have at most {MOST:,}: show less of the page.")


def _reduce(path: Path) -> None:
    """Write an image again with a palette of few colours."""
    with Image.open(path) as taken:
        reduced = taken.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)
