"""What the page does when its server is away, busy, locked, or refuses an input."""

import pytest
from tests.unit.pages.app.conftest import Open, Server

TEXT = "the dog sees"


def test_a_lost_server_is_said_and_comes_back_by_itself(open_page: Open, server: Server) -> None:
    opened = open_page()
    opened.count("#text", 1)
    server.down = True
    opened.type(TEXT)
    opened.see("#notice", "The server does not answer. Trying again until it does.")
    server.down = False
    opened.see(".words", "der Hund sieht")
    opened.see("#notice", "")


@pytest.mark.wide
def test_a_server_with_keys_is_asked_again_with_the_key_of_this_tab(open_page: Open, server: Server) -> None:
    def guard(headers: dict[str, str]) -> tuple[int, dict[str, str]] | None:
        return None if headers.get("authorization") == "Bearer right" else (401, {})

    server.status = {"models": guard, "translate": guard}
    opened = open_page()
    opened.type("wrong", "#key")
    opened.page.keyboard.press("Enter")
    opened.see("#notice label", "This key is not valid. Another key:")
    opened.type("right", "#key")
    opened.page.get_by_role("button", name="Use key").click()
    opened.type(TEXT)
    opened.see(".words", "der Hund sieht")
    assert opened.page.evaluate("[sessionStorage.length, localStorage.length]") == [1, 0]
    opened.page.wait_for_url("**/#*text=*")
    opened.page.reload()
    opened.see(".words", "der Hund sieht")  # the tab keeps the key, and the address the text


@pytest.mark.wide
def test_a_busy_server_is_left_alone_as_long_as_it_asks(open_page: Open, server: Server) -> None:
    left = [(429, {"Retry-After": "1"}), (503, {"Retry-After": "1"})]
    server.status["translate"] = lambda headers: left.pop() if left else None
    opened = open_page(f"text={TEXT}")
    opened.see("#notice", "The server is busy. The next attempt is in 1 s.")
    opened.see(".words", "der Hund sieht")
    opened.see("#notice", "")
    assert not left


@pytest.mark.wide
def test_what_is_refused_is_said_next_to_the_input(open_page: Open, server: Server) -> None:
    message = "<b>text</b> is too long: at most 10 tokens."
    refused: list[tuple[int, dict[str, str]]] = [(422, {"message": message, "param": "text"})]
    server.status["translate"] = lambda headers: refused.pop() if refused else None
    opened = open_page(f"text={TEXT}")
    opened.see("#text-refusal", message)
    assert opened.page.locator("#text").get_attribute("aria-invalid") == "true"
    opened.type("the dog")
    opened.see("#text-refusal", "")
    opened.see(".words", "der Hund")


@pytest.mark.wide
def test_a_stream_that_is_cut_begins_again(open_page: Open, server: Server) -> None:
    whole, cuts = server.streams["translate"], [True]
    server.streams["translate"] = lambda body: whole(body)[:1] if cuts and cuts.pop() else whole(body)
    opened = open_page(f"text={TEXT}")
    opened.see(".words", "der Hund sieht")
    opened.count(".doubtful", 1)


@pytest.mark.wide
def test_an_error_in_a_stream_is_said(open_page: Open, server: Server) -> None:
    server.streams["translate"] = lambda body: [{"type": "error", "error": {"message": "out of time"}}]
    opened = open_page(f"text={TEXT}")
    opened.see("#text-refusal", "out of time")


@pytest.mark.wide
def test_a_server_without_models_says_so(open_page: Open, server: Server) -> None:
    server.models = []
    open_page().see("main", "This server has no models that the page can show.")
