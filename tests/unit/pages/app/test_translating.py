"""A translator on the page: its words, their links, doubts and runners-up."""

from contextlib import suppress

import pytest
from tests.unit.pages.app.conftest import Body, Open, Opened, Server, translate

TEXT = "the dog sees"


def shaded(opened: Opened, side: str) -> list[int]:
    """The words of a side that are shaded, strongest first."""
    shades = "words => words.map(one => parseFloat(one.style.getPropertyValue('--shade')) || 0)"
    found: list[float] = opened.page.locator(f"{side} .word").evaluate_all(shades)
    return sorted((index for index, share in enumerate(found) if share), key=lambda index: -found[index])


def test_a_translation_appears_while_one_types_and_settles(open_page: Open, server: Server) -> None:
    opened = open_page()
    server.holds = lambda verb, body: "details" in body
    opened.page.locator("#text").press_sequentially(TEXT, delay=5)
    opened.see(".words", "der Hund sieht")
    assert opened.page.locator(".doubtful").count() == 0
    first = opened.page.evaluate_handle("document.querySelector('.words .word')")
    while not server.held:
        opened.page.wait_for_timeout(20)
    server.release()
    opened.count(".doubtful", 1)
    assert opened.page.locator(".doubtful").inner_text() == "sieht"
    assert first.evaluate("one => one === document.querySelector('.words .word')"), "what was there stays"
    drafts = [body for body in server.bodies("translate") if body.get("stream")]
    assert drafts[-1] == {"model": "demo", "text": TEXT, "beam": 1, "stream": True}
    assert len(drafts) < len(TEXT) / 2, "one for a pause, not one per key"
    assert server.bodies("translate")[-1] == {"model": "demo", "text": TEXT, "details": True}


def test_pointing_shades_partners_and_a_click_locks_until_escape(open_page: Open, server: Server) -> None:
    opened = open_page(f"text={TEXT}")
    opened.count(".doubtful", 1)
    opened.page.locator(".words .word").nth(1).hover()
    assert shaded(opened, ".layer")[0] == 1
    opened.see(".readout", "Hund 95% reads dog 0.800 · the 0.100 · sees 0.100")
    opened.page.mouse.move(5, 5)
    assert shaded(opened, ".layer") == []
    source = opened.page.locator(".layer .word").nth(2).bounding_box()
    assert source is not None
    opened.page.mouse.move(source["x"] + 5, source["y"] + 5)  # the text area is above the layer
    assert shaded(opened, ".words")[0] == 2
    opened.page.mouse.click(source["x"] + 5, source["y"] + 5)
    opened.page.locator(".words .word").first.hover()
    assert shaded(opened, ".words")[0] == 2
    assert shaded(opened, ".layer") == [], "it stays, whatever is pointed at"
    assert opened.page.locator("[data-frame=locked]").inner_text() == "sees"
    opened.page.keyboard.press("Escape")
    assert shaded(opened, ".words") == []


@pytest.mark.wide
def test_a_runner_up_that_is_chosen_continues_the_translation(open_page: Open, server: Server) -> None:
    opened = open_page(f"text={TEXT} the")
    opened.count(".doubtful", 1)
    opened.page.locator(".words .word").nth(2).click()
    assert opened.page.get_by_role("menuitemradio").all_inner_texts() == ["sieht\n30%", "schaut\n20%"]
    opened.page.get_by_role("menuitemradio", name="schaut").click()
    opened.see(".words", "der Hund schaut der")
    opened.page.get_by_role("button", name="Undo the choice").wait_for()
    assert server.bodies("translate")[-1]["prefix"] == "der Hund schaut"
    assert opened.page.evaluate("document.activeElement.textContent") == "schaut"
    opened.page.get_by_role("button", name="Undo the choice").click()
    opened.see(".words", "der Hund sieht der")
    assert "prefix" not in server.bodies("translate")[-1]


@pytest.mark.wide
def test_stale_answers_are_dropped(open_page: Open, server: Server) -> None:
    opened = open_page()
    server.holds = lambda verb, body: body["text"] == "the cat"
    opened.type("the cat")
    while not server.held:
        opened.page.wait_for_timeout(20)
    opened.type("the dog")
    opened.see(".words", "der Hund")
    opened.page.evaluate(
        "() => { window.seen = []; const words = document.querySelector('.words'); "
        "new MutationObserver(() => seen.push(words.textContent)).observe(words, "
        "{ childList: true, characterData: true, subtree: true }); }"
    )
    from playwright.sync_api import Error

    with suppress(Error):  # the request was aborted: nobody may be there to take the answer
        server.release()
    opened.page.wait_for_timeout(800)
    assert not [text for text in opened.page.evaluate("seen") if "Katze" in text]
    opened.see(".words", "der Hund")


@pytest.mark.wide
def test_arrow_keys_lead_from_word_to_word(open_page: Open, server: Server) -> None:
    opened = open_page(f"text={TEXT}")
    opened.count(".doubtful", 1)
    opened.page.locator(".words [tabindex]").focus()
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Hund 95% reads dog")
    assert opened.page.locator(".words [role=button]").count() == 1
    assert shaded(opened, ".layer")[0] == 1
    opened.page.keyboard.press("End")
    opened.page.keyboard.press("Enter")
    opened.page.keyboard.press("ArrowDown")
    opened.page.keyboard.press("Escape")
    assert opened.page.evaluate("document.activeElement.textContent") == "sieht"
    assert shaded(opened, ".layer")[0] == 2, "the first Escape closes the list, the second one frees the word"
    opened.page.keyboard.press("Escape")
    opened.page.locator("#text").focus()
    opened.page.keyboard.press("Home")
    assert shaded(opened, ".words")[0] == 0, "the word at the caret"


@pytest.mark.wide
def test_alternatives_mark_what_differs(open_page: Open, server: Server) -> None:
    opened = open_page(f"text={TEXT}")
    opened.page.get_by_role("button", name="Alternatives").click()
    opened.see(".alternatives li > span:first-child", "der Hund schaut")
    assert opened.page.locator(".alternatives mark").all_inner_texts() == ["schaut"]
    assert server.bodies("translate")[-1]["alternatives"] == 3


@pytest.mark.wide
def test_the_address_restores_what_was_shown(open_page: Open, server: Server) -> None:
    server.models[0]["languages"] = ["de", "fr"]
    opened = open_page()
    opened.type(f"{TEXT}\n& more #1")
    opened.page.locator("#to").select_option("fr")
    opened.count(".doubtful", 1)
    opened.page.locator(".words .word").nth(1).click()
    opened.page.keyboard.press("Escape")
    opened.page.wait_for_url("**/*word=1*")
    again = open_page(opened.page.url.partition("#")[2])
    again.see("[data-frame=locked]", "Hund")
    assert again.page.locator("#text").input_value() == f"{TEXT}\n& more #1"
    assert again.page.locator("#to").input_value() == "fr"
    assert again.page.locator(".words").get_attribute("lang") == "fr"
    assert server.bodies("translate")[-1]["to"] == "fr"
    assert again.page.locator(".runners-up").count() == 0, "a link opens no list"


@pytest.mark.wide
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ראיתי את הכלב\nבבית", None),  # from right to left, two lines
        ("私は犬を見た", ["私", "は", "犬", "を", "見た"]),  # without spaces
        ("the dog  sees\n\n\nthe cat\n", None),
        ("word " * 400, None),
    ],
)
def test_the_words_of_the_layer_are_where_those_of_the_text_are(
    open_page: Open, server: Server, text: str, words: list[str] | None
) -> None:
    def answer(body: Body) -> Body:
        found = translate({**body, "text": " ".join(words or text.split())})
        if words and "details" in body:
            found["sentences"][0]["source_words"] = [{"before": "", "text": word} for word in words]
        return found

    server.answers["translate"] = answer
    opened = open_page()
    opened.type(text)
    opened.count(".layer .word", len(words or text.split()))
    assert opened.page.locator(".layer").inner_text().rstrip("\u200b\n").split() == text.split()
    sizes = opened.page.evaluate(
        "(() => { const [a, b] = ['#text', '.layer'].map(one => document.querySelector(one)); "
        "return [a.scrollHeight, a.clientHeight, b.clientHeight, a.clientWidth, b.clientWidth]; })()"
    )
    assert sizes[0] == sizes[1] == sizes[2], "nothing scrolls: both have the height of the text"
    assert sizes[3] == sizes[4]
