"""The explorer in its place on the page, and as a file."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.pages.app.conftest import Body, Open, Server

from heedful.explain.explanation import AttentionWeights, Explanation, SearchNode, TokenPrediction, TokenSequence
from heedful.explain.pages.page import explorer_item

TEXT = "the dog sees"
SOURCE = TokenSequence.named((*TEXT.split(), "</s>"))
OUTPUT = TokenSequence.named(("der", "Hund", "sieht", "</s>"))
WEIGHTS = np.eye(4, dtype=np.float32) * 0.9 + 0.025
FOUND = Explanation(
    "translate", "transformer", TEXT, "der Hund sieht", {"source": SOURCE, "output": OUTPUT},
    (AttentionWeights("cross", np.stack([WEIGHTS, WEIGHTS])[None], "output", "source"),),
    "output", (TokenPrediction(0, "der", 0.9, (("die", 0.1),)),), alignment=WEIGHTS,
    search=(SearchNode(None, "der", 1, -0.1, -0.1, "finished", True),),
)  # fmt: skip


def explain(body: Body) -> Any:
    """Return an item, or a page."""
    if body["form"] == "page":
        return "<!DOCTYPE html><title>page</title>"
    return {"model": "demo", "item": explorer_item(replace(FOUND, text=body["text"]))}


def test_why_opens_the_explorer_with_the_chosen_word(open_page: Open, server: Server) -> None:
    server.answers["explain"] = explain
    opened = open_page(f"text={TEXT}&word=1")
    opened.see("[data-frame=locked]", "Hund")
    opened.page.get_by_role("button", name="Why?").click()
    opened.see("#readout", "Hund reads dog 0.925 · the 0.025 · sees 0.025 · </s> 0.025")
    assert opened.page.locator("#queries [aria-pressed=true]").all_inner_texts() == ["Hund"]
    assert server.bodies("explain") == [{"model": "demo", "text": TEXT, "search": True, "form": "item"}]
    drawn = opened.page.locator("#beam svg")
    assert drawn.evaluate("one => getComputedStyle(one).fill") == "rgb(29, 36, 51)", "styles of drawings hold"
    opened.page.get_by_role("button", name="Why?").click()
    opened.count("#queries", 0)
    assert opened.page.locator(".tip").count() == 0


@pytest.mark.wide
def test_the_explorer_follows_the_text_and_the_theme(open_page: Open, server: Server) -> None:
    server.answers["explain"] = explain
    opened = open_page(f"text={TEXT}")
    opened.count(".doubtful", 1)
    opened.page.get_by_role("button", name="Why?").click()
    opened.count("#heatmap", 1)
    light = opened.page.locator("#heatmap").evaluate("canvas => canvas.toDataURL()")
    opened.page.locator("#theme").select_option("dark")
    assert opened.page.locator("#heatmap").evaluate("canvas => canvas.toDataURL()") != light
    opened.type("the cat")
    opened.see("#why .pair dd:first-of-type", "the cat")
    opened.count("#heatmap", 1)


@pytest.mark.wide
def test_save_downloads_the_page(open_page: Open, server: Server) -> None:
    server.answers["explain"] = explain
    opened = open_page(f"text={TEXT}")
    opened.count(".doubtful", 1)
    with opened.page.expect_download() as download:
        opened.page.get_by_role("button", name="Save").click()
    assert download.value.suggested_filename == "explanation.html"
    assert download.value.path().read_text() == "<!DOCTYPE html><title>page</title>"


@pytest.mark.wide
def test_of_several_sentences_the_one_with_the_chosen_word_is_explained(open_page: Open, server: Server) -> None:
    server.answers["explain"] = explain
    whole = server.answers["translate"]

    def in_two(body: Body) -> Body:
        found = whole(body)
        if "details" in body:
            (one,) = found["sentences"]
            found["sentences"] = [
                {"source_words": one["source_words"][cut], "words": one["words"][cut],
                 "links": [row[cut] for row in one["links"][cut]]}
                for cut in (slice(0, 2), slice(2, 4))
            ]  # fmt: skip
        return found

    server.answers["translate"] = in_two
    opened = open_page("text=the dog the cat&word=3")
    opened.see("[data-frame=locked]", "Katze")
    opened.page.get_by_role("button", name="Why?").click()
    opened.see(".said", "This is sentence 2 of 2. Choose a word of another one, then ask again.")
    expected = {"model": "demo", "text": "the cat", "target": "der Katze", "form": "item"}
    assert server.bodies("explain") == [expected]
    assert opened.page.locator("#queries [aria-pressed=true]").all_inner_texts() == ["Hund"], "the second word"


@pytest.mark.wide
def test_drawings_run_and_load_nothing(open_page: Open, server: Server) -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)" style="fill:red"><script>alert(2)</script>'
        '<image href="http://elsewhere.test/x.png" onerror="alert(3)"/><a href="javascript:alert(4)"><text>x</text></a>'
        '<foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="javascript:alert(5)"/></foreignObject>'
        '<text id="kept">a style="b"</text></svg>'
    )
    drawing = {"name": "parse", "title": "Parse", "note": "", "svg": svg}
    server.answers["explain"] = lambda body: {"item": explain(body)["item"] | {"drawings": [drawing]}}
    opened = open_page(f"text={TEXT}")
    opened.count(".doubtful", 1)
    opened.page.get_by_role("button", name="Why?").click()
    opened.count("#kept", 1)
    assert opened.page.locator("#parse svg").get_attribute("onload") is None
    assert opened.page.locator("#parse svg > *").count() == 2
    assert opened.page.locator("#parse image").get_attribute("href") is None
    blocked, opened.wrong = opened.wrong, []
    assert all(said.startswith("Executing inline event handler violates") for said in blocked), "told when it is parsed"
