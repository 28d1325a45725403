"""The explorer in a browser: what it shows is what the model computed, and no request leaves it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest

from heedful.explain.explanation import Explanation
from heedful.explain.pages.images import by_words

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Opened:
    """The page, the requests that it made, and what went wrong in it."""

    def __init__(self, browser: "Browser", path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready-ms]")

    def choose(self, name: str, value: str) -> None:
        """Choose a radio button by its keyboard-reachable input."""
        self.page.locator(f"input[name={name}][value='{value}']").check()

    def matrix(self) -> np.ndarray[Any, Any]:
        """The weights on the screen."""
        found = self.page.evaluate(
            "(() => { const m = explorer.view.matrix; return [m.rows.length, m.columns.length, [...m.values]]; })()"
        )
        return np.array(found[2]).reshape(found[:2])


@pytest.fixture
def opened(browser: "Browser", page_file: Path) -> Iterator[Opened]:
    found = Opened(browser, page_file)
    yield found
    found.context.close()
    assert not found.errors
    assert found.requests == [page_file.as_uri()]  # the page itself, and nothing else


def test_pointing_at_words_shows_the_weights_of_the_model(opened: Opened, explained: list[Explanation]) -> None:
    cross = explained[0].attention("cross")
    expected = by_words(
        cross.head_means()[-1], explained[0].sequences[cross.queries], explained[0].sequences[cross.keys]
    )

    def shown() -> list[float]:
        return [float(one.get_attribute("data-weight") or "nan") for one in opened.page.locator("#keys span").all()]

    opened.page.locator("#queries [data-query='1']").hover()
    np.testing.assert_allclose(shown(), expected[1], atol=1e-4)
    assert "cat reads bee" not in (text := opened.page.locator("#readout").inner_text())
    assert text.startswith(f"cat reads {explained[0].sequences['source'].texts[int(expected[1].argmax())]}")
    for row in (0, 2):
        opened.page.locator(f"#queries [data-query='{row}']").click()
    opened.page.mouse.move(0, 0)
    np.testing.assert_allclose(shown(), expected[[0, 2]].mean(axis=0), atol=1e-4)


@pytest.mark.wide
def test_every_kind_and_head_is_the_one_of_the_model(opened: Opened, explained: list[Explanation]) -> None:
    for index, one in enumerate(explained[0].attentions):
        opened.choose("kind", str(index))
        sequences = explained[0].sequences[one.queries], explained[0].sequences[one.keys]
        for head in range(one.heads):
            opened.choose("head", str(head))
            np.testing.assert_allclose(opened.matrix(), by_words(one.weights[0, head], *sequences), atol=1e-4)
        if one.queries == one.keys:
            opened.choose("head", "rollout")
            np.testing.assert_allclose(opened.matrix(), by_words(one.rollout()[0], *sequences), atol=1e-4)
        opened.choose("unit", "pieces")
        opened.choose("head", "mean")
        np.testing.assert_allclose(opened.matrix(), one.head_means()[0], atol=1e-4)
        opened.choose("unit", "words")


@pytest.mark.wide
def test_arrow_keys_read_the_heat_map_cell_by_cell(opened: Opened) -> None:
    opened.page.locator("#heatmap").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        opened.page.keyboard.press(key)
    tip = opened.page.locator(".tip").inner_text()
    assert tip.split()[:3] == ["cat", "→", "bee"]
    assert float(tip.split()[3]) == pytest.approx(opened.matrix()[1, 1], abs=1e-3)


@pytest.mark.wide
def test_tokens_show_their_runners_up_and_texts_can_be_chosen(opened: Opened, explained: list[Explanation]) -> None:
    opened.page.locator("#texts").select_option("1")
    assert opened.page.locator("#output").inner_text() == explained[1].output
    second = explained[1].predictions[1]
    opened.page.locator("[data-token='1']").hover()
    names = opened.page.locator("#runners-up .name").all_inner_texts()
    assert names == [second.piece, *(piece for piece, _ in second.runners_up)]


@pytest.mark.wide
def test_every_image_downloads_as_svg(opened: Opened) -> None:
    buttons = opened.page.locator("[data-save]").all()
    assert len(buttons) == 4  # two of the alignment, attention, states
    for button in buttons:
        with opened.page.expect_download() as download:
            button.click()
        assert download.value.suggested_filename.endswith(".svg")
        root = ElementTree.parse(download.value.path()).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert {"ant", "dog"} <= {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}


def test_where_words_are_turned_round_their_lines_cross(opened: Opened) -> None:
    lines = opened.page.locator("#links path[stroke-width='2.5']").all()
    pairs = {
        (int(line.get_attribute("data-row") or -1), int(line.get_attribute("data-column") or -1)) for line in lines
    }
    assert pairs == {(0, 3), (1, 2), (2, 1), (3, 0)}


@pytest.mark.wide
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_shows_the_page_without_scrolling_sideways(
    browser: "Browser", page_file: Path, scheme: str
) -> None:
    found = Opened(browser, page_file, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    assert found.page.evaluate("document.documentElement.scrollWidth") <= 360
    ground = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 21, 28)") == (scheme == "dark")
    found.context.close()
