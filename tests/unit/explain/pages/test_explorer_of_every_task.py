"""The explorer's pages of images, beams and gates in a browser: what they show is what the model computed."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import heedful
from heedful.explain.pages.page import explorer_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BUNDLES = Path(__file__).parents[3] / "golden/bundles"
IMAGE = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (40, 72, 3)).astype(np.uint8)
pytestmark = pytest.mark.wide


def _open(browser: "Browser", folder: Path, found: heedful.Explanation) -> tuple["Page", list[str]]:
    path = folder / "page.html"
    path.write_text(explorer_page([found], "model"), encoding="utf-8")
    page, wrong = browser.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready-ms]")
    return page, wrong


def test_pointing_at_a_patch_shows_what_it_attends_to(browser: "Browser", tmp_path: Path) -> None:
    model: Any = heedful.load(BUNDLES / "images-vit", device="cpu")
    found = model.explain(IMAGE)
    page, wrong = _open(browser, tmp_path, found)
    weights = found.attention("encoder").head_means()[-1]

    def seen() -> list[float]:
        return list(page.evaluate("[...explorer.view.seen.weights]"))

    np.testing.assert_allclose(seen(), weights[0, 1:], atol=1e-4)  # of the class token
    scale = page.evaluate("explorer.view.seen.scale")
    page.locator(".image canvas").hover(position={"x": 24 * scale, "y": 8 * scale})  # the second patch of the first row
    np.testing.assert_allclose(seen(), weights[2, 1:], atol=1e-4)
    assert not wrong
    page.close()


def test_each_word_of_a_caption_has_its_image(browser: "Browser", tmp_path: Path) -> None:
    model: Any = heedful.load(BUNDLES / "captions-transformer", device="cpu")
    found = model.explain(IMAGE, max_extra=4, search=True)
    page, wrong = _open(browser, tmp_path, found)
    assert page.locator("#beam g").count() == sum(node.fate != "dropped" for node in found.search) > 0
    assert page.locator("#looked figcaption span").all_inner_texts() == found.output.split()
    assert not wrong
    page.close()


def test_a_page_of_answers_shows_the_image_and_nothing_to_choose_from_alone(browser: "Browser", tmp_path: Path) -> None:
    model: Any = heedful.load(BUNDLES / "answers-about-images", device="cpu")
    found = model.explain(IMAGE, "is it red ?")
    page, wrong = _open(browser, tmp_path, found)
    weights = found.attention("patches").head_means()[-1]
    assert page.locator("#classes-title").inner_text() == "Answers"
    np.testing.assert_allclose(page.evaluate("[...explorer.view.seen.weights]"), weights[0, 1:], atol=1e-4)
    assert not page.locator("#queries").is_visible()
    assert not page.locator("#heatmap").is_visible()
    page.locator("input[name=kind][value='1']").check()
    page.locator("#heatmap").wait_for(state="visible", timeout=10_000)  # words have one
    assert not wrong
    page.close()


def test_the_beam_and_the_gates_are_drawn(browser: "Browser", tmp_path: Path) -> None:
    model: Any = heedful.load(BUNDLES / "recurrent-sutskever", device="cpu")
    found = model.explain("the dog sees.", search=True, beam=3, max_extra=2)
    page, wrong = _open(browser, tmp_path, found)
    assert page.locator("#beam g").count() == sum(node.fate != "dropped" for node in found.search)
    page.locator("input[name=gate][value=forget]").check()
    assert page.locator("#gates title").first.text_content() == "forget of the lstm: encoder, layer 1, forward"
    assert not wrong
    page.close()


def test_states_are_drawn_layer_by_layer(browser: "Browser", tmp_path: Path) -> None:
    model: Any = heedful.load(BUNDLES / "transformer", device="cpu")
    found = model.explain("the dog sees.", "der Hund")
    page, wrong = _open(browser, tmp_path, found)
    decoder = found.states_of("decoder")
    page.locator("input[name=state-part][value='1']").check()
    page.locator("input[name=state-what][value=norm]").check()
    norms = decoder.norms()
    assert page.locator("#state").text_content() == (
        f"From {norms.min():.3f} to {norms.max():.3f}; the darker the greater."
    )
    place = page.locator("#states canvas").bounding_box()
    assert place is not None
    page.locator("#states canvas").hover(position={"x": place["width"] / 2, "y": place["height"] - 4})  # the last layer
    said = (page.locator("#state").text_content() or "").rpartition(", layer 2: ")
    column = found.sequences["target"].pieces.index(said[0])
    assert float(said[2]) == pytest.approx(norms[2, column], abs=1e-3)
    assert not wrong
    page.close()
