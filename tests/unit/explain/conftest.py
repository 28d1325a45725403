"""The explorer's page."""

from pathlib import Path

import pytest

from heedful.explain.explanation import Explanation
from heedful.explain.pages.page import explorer_page
from heedful.tasks.translate.model import Translator


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
