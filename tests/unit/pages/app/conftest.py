"""The page of a server in a browser, and a server that answers as tests tell it to."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from heedful.pages.app import app_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Route

Body = dict[str, Any]
ORIGIN = "http://heedful.test"


def model_of(verb: str, **more: Any) -> Body:
    """What a server says about a model."""
    return {
        "id": "demo", "object": "model", "task": verb, "verb": verb, "family": "transformer",
        "size": "1.2M parameters, vocabulary 2,000", "languages": [], "labels": [], "roles": ["text"],
        "explains": True, "streams": verb in ("translate", "generate"), "max_samples": 16, **more,
    }  # fmt: skip


LEXICON = {"the": "der", "dog": "Hund", "sees": "sieht", "big": "große", "cat": "Katze"}
UNSURE = {"sees": 0.3}  # probability of a translation; of others 0.95


def translate(body: Body) -> Body:
    """Translate word by word, as a server would: every word goes with its own, and a little with the next one."""
    source, prefix = body["text"].split(), body.get("prefix", "").split()
    words = [*prefix, *(LEXICON.get(word, word) for word in source[len(prefix) :])]
    found: Body = {"text": " ".join(words), "score": -0.25, "complete": True, "alternatives": []}
    if body.get("alternatives"):
        found["alternatives"] = [{"text": " ".join([*words[:-1], "schaut"]), "score": -0.5}]
    if body.get("details"):
        links = [[0.8 if row == column else 0.2 / max(1, len(source) - 1) for column in range(len(source))]
                 for row in range(len(words))]  # fmt: skip
        found["sentences"] = [{
            "source_words": [{"before": " " * bool(at), "text": word} for at, word in enumerate(source)],
            "words": [
                {
                    "before": " " * bool(at), "text": word, "probability": UNSURE.get(source[at], 0.95),
                    "runners_up": [{"text": "schaut", "probability": 0.2, "prefix": " ".join([*words[:at], "schaut"])}],
                }
                for at, word in enumerate(words)
            ],
            "links": links,
        }]  # fmt: skip
    return found


def stream_translation(body: Body) -> list[Body]:
    """Return the events of a greedy translation."""
    found = translate(body)
    deltas = [{"type": "delta", "text": f"{' ' * bool(at)}{word}"} for at, word in enumerate(found["text"].split())]
    return [*deltas, {"type": "done", "model": "demo", "results": [found]}]


class Server:
    """Answers the page's requests, and keeps their bodies."""

    def __init__(self) -> None:
        self.models = [model_of("translate")]
        self.answers: dict[str, Callable[[Body], Any]] = {"translate": translate}  # result of a verb
        self.streams: dict[str, Callable[[Body], list[Body]]] = {"translate": stream_translation}  # its events
        self.status: dict[str, Callable[[dict[str, str]], tuple[int, dict[str, str]] | None]] = {}  # of refusals
        self.asked: list[tuple[str, Body]] = []
        self.held: list[tuple[str, Route, Body]] = []  # those that wait for `release`
        self.holds: Callable[[str, Body], bool] = lambda verb, body: False
        self.down = False

    def bodies(self, verb: str) -> list[Body]:
        """What was asked of a verb, in order."""
        return [body for name, body in self.asked if name == verb]

    def handle(self, route: "Route") -> None:
        """Answer a request."""
        path = urlsplit(route.request.url).path
        if path == "/":
            page, policy = app_page()
            return route.fulfill(body=page, content_type="text/html", headers={"Content-Security-Policy": policy})
        if self.down:
            return route.abort("connectionrefused")
        verb = path.removeprefix("/v1/")
        refusal = self.status.get(verb)
        refused = refusal and refusal(route.request.headers)
        if refused:
            error = {"error": {"message": refused[1].pop("message", "no"), "param": refused[1].pop("param", None)}}
            return route.fulfill(status=refused[0], json=error, headers=refused[1])
        if verb == "models":
            return route.fulfill(json={"object": "list", "data": self.models})
        if path.startswith("/health/"):
            return route.fulfill(json={"status": "ok"})
        body = json.loads(route.request.post_data or "{}")
        self.asked.append((verb, body))
        if self.holds(verb, body):
            self.held.append((verb, route, body))
            return None
        return self.answer(verb, route, body)

    def answer(self, verb: str, route: "Route", body: Body) -> None:
        """Fulfil a request, by a stream where it asks for one."""
        if body.get("stream"):
            events = "".join(f"data: {json.dumps(event)}\n\n" for event in self.streams[verb](body))
            return route.fulfill(body=events, content_type="text/event-stream")
        found = self.answers[verb](body)
        if isinstance(found, str):
            return route.fulfill(body=found, content_type="text/html")
        return route.fulfill(json=found if verb == "explain" else {"model": "demo", "results": [found]})

    def release(self) -> None:
        """Answer what was held, oldest first."""
        held, self.held = self.held, []
        for verb, route, body in held:
            self.answer(verb, route, body)


class Opened:
    """The page, and what went wrong in it."""

    def __init__(self, context: "BrowserContext", server: Server, state: str = "") -> None:
        self.server = server
        self.wrong: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.page.on("dialog", self.refuse)
        self.page.route("**/*", server.handle)
        self.page.goto(f"{ORIGIN}/#{state}")

    def refuse(self, dialog: "Dialog") -> None:
        """A dialog is what hostile texts try to open."""
        self.wrong.append(dialog.message)
        dialog.dismiss()

    def type(self, text: str, into: str = "#text") -> None:
        """Fill a field."""
        self.page.locator(into).fill(text)

    def see(self, selector: str, text: str) -> None:
        """Wait until an element has a text."""
        from playwright.sync_api import expect

        expect(self.page.locator(selector)).to_have_text(text, timeout=5_000)

    def count(self, selector: str, count: int) -> None:
        """Wait until there are so many elements."""
        from playwright.sync_api import expect

        expect(self.page.locator(selector)).to_have_count(count, timeout=5_000)

    def sound(self) -> None:
        """Nothing went wrong but what a browser says about responses that a test has refused."""
        assert not [said for said in self.wrong if not said.startswith("Failed to load resource")]


Open = Callable[..., Opened]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def open_page(browser: "Browser", server: Server) -> Iterator[Open]:
    """Opens the page, with options of a browser's context; afterwards, it has had no error and kept its policy."""
    found: list[Opened] = []

    def opened(state: str = "", **options: Any) -> Opened:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        found.append(Opened(context, server, state))
        return found[-1]

    yield opened
    for one in found:
        one.page.context.close()
        one.sound()
