"""A browser without a window, and the explorer's page in it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from heedful.explain.explanation import Explanation
from heedful.explain.pages.page import explorer_page
from heedful.tasks.translate.model import Translator

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")  # not longer: while it is open, an event loop runs, and other tests start their own
def browser() -> Iterator["Browser"]:
    """Debian's Chromium, or another that is installed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("needs Chromium: install it with `apt-get install chromium`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def explained(reversing: Translator) -> list[Explanation]:
    """Two translations, whose words cross."""
    return [reversing.explain("ant bee cat dog", top=3), reversing.explain("fox gnu", top=3)]


@pytest.fixture(scope="session")
def page_file(explained: list[Explanation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their page."""
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    path.write_text(explorer_page(explained, "reversing"), encoding="utf-8")
    return path
