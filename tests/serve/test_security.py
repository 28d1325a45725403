"""Who may use a server, from where, and what it tells of itself."""

import hmac
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.serve.questions import IMAGE
from tests.serve.running import Running, running, talk

KEY, OTHER = "a-key-of-a-server", "another-key-of-it"
OPEN = {"/", "/health/live", "/health/ready", "/favicon.ico"}
FORMS = {"/translate", "/languages", "/detect", "/frontend/settings"}
Model = Callable[[str], Any]


@pytest.fixture(scope="module")
def locked(loaded: Model) -> Iterator[Running]:
    """A server with keys."""
    models = {name: loaded(name) for name in ("transformer", "language-llama", "classifier-bag")}
    with running(models, keys=[KEY, OTHER], origins=["https://friend.example"], max_body=2000) as one:
        yield one


def routes(server: Running) -> list[tuple[str, str]]:
    """Methods and paths of all routes of the OpenAPI document, and those that are not in it."""
    document = server.app.openapi()
    named = [(method.upper(), path) for path, item in document["paths"].items() for method in item]
    return [*named, ("GET", "/openapi.json"), ("GET", "/"), ("GET", "/favicon.ico"), ("GET", "/nowhere")]


def test_every_route_but_health_and_the_page_needs_a_key(locked: Running) -> None:
    found: dict[str, list[int]] = {}
    given: list[dict[str, str]] = [
        {}, {"Authorization": "Bearer a-wrong-key"}, {"Authorization": f"Bearer {KEY[:-1]}"}, {"Authorization": KEY},
        {"Authorization": f"Basic {KEY}"}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {KEY}, {OTHER}"},
        {"X-Api-Key": KEY}, {"Authorization": "Bearer kéy".encode("latin-1")},  # type: ignore[dict-item]
    ]  # fmt: skip
    for method, path in routes(locked):
        for headers in given:
            for body in (None, b"{}", b"{"):
                answer = locked.client.request(
                    method, path, headers=headers, content=body if method == "POST" else None
                )
                found.setdefault(path, []).append(answer.status_code)
                if answer.status_code == 401:
                    assert answer.headers["www-authenticate"] == "Bearer"
                    assert answer.json()["error"]["message"] in (
                        "This server needs a key: send it as `Authorization: Bearer KEY`.",
                        "That key is none of this server's.",
                    )
    assert len(found) > 20
    assert {path: set(some) for path, some in found.items() if set(some) != {401}} == {
        "/": {200}, "/health/live": {200}, "/health/ready": {200}, "/favicon.ico": {204},
    }  # fmt: skip


@pytest.mark.parametrize("key", [KEY, OTHER])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
def test_each_key_opens_every_route(locked: Running, key: str, scheme: str) -> None:
    for method, path in routes(locked):
        content = b"{}" if method == "POST" else None
        answer = locked.client.request(method, path, headers={"Authorization": f"{scheme} {key}"}, content=content)
        assert answer.status_code in (200, 204, 404, 422)


TRANSLATED = {"q": "the dog", "source": "en", "target": "de"}


@pytest.mark.parametrize(
    ("key", "status"), [(KEY, 200), (OTHER, 200), ("wrong-key", 401), ("", 401), (None, 401)], ids=str
)
def test_libretranslates_clients_send_their_key_in_a_field(locked: Running, key: str | None, status: int) -> None:
    field = {} if key is None else {"api_key": key}
    for path, body in (("/translate", TRANSLATED), ("/detect", {"q": "the dog"})):
        assert locked.post(path, {**body, **field}).status_code == status
        assert locked.client.post(path, data={**body, **field}).status_code == status
        assert locked.post(path, body, params=field).status_code == status
    for path in ("/languages", "/frontend/settings"):
        assert locked.client.get(path, params=field).status_code == status


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"api_key": 1}', b'{"api_key": null}', b'{"api_key": ["a"]}', b"\xff", b"[" * 1500]
)
def test_a_body_that_cannot_be_read_has_no_key(locked: Running, body: bytes) -> None:
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        assert locked.client.post("/translate", content=body, headers={"Content-Type": kind}).status_code == 401


def test_a_key_of_a_field_opens_no_other_route(locked: Running) -> None:
    body = {"model": "transformer", "text": "the dog", "api_key": KEY}
    assert locked.post("/v1/translate", body, params={"api_key": KEY}).status_code == 401


def test_keys_are_compared_in_constant_time(locked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request compares the hash of its key with those of all keys, by `hmac.compare_digest`."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return original(one, other)

    original = hmac.compare_digest
    monkeypatch.setattr("hmac.compare_digest", compare)
    for key, status in ((KEY, 200), (OTHER, 200), ("x", 401), ("x" * 4000, 401)):
        compared.clear()
        assert locked.client.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == status
        assert len(compared) == 2
        assert {len(part) for both in compared for part in both} == {32}


# --- hosts and origins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200), ("127.0.0.1:8000", 200), ("localhost:9", 200), ("[::1]:80", 200), ("[::1]", 200),
        ("evil.example", 403), ("evil.example:8000", 403), ("127.0.0.1.evil.example", 403), ("", 403), ("::1", 403),
    ],
)  # fmt: skip
def test_a_local_server_answers_to_its_own_names_alone(server: Running, host: str, status: int) -> None:
    for path in ("/", "/health/live", "/v1/models"):
        answer = server.client.get(path, headers={"Host": host})
        assert answer.status_code == status
        if status == 403:
            named = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and host.rpartition(":")[0] else host
            message = f"`Host` is `{named}`, which is no name of this server: see --allow-host."
            assert answer.json()["error"]["message"] == message


def test_a_server_answers_to_names_that_it_was_given(loaded: Model) -> None:
    with running({"bag": loaded("classifier-bag")}, hosts=["models.example"]) as one:
        statuses = {
            host: one.client.get("/health/live", headers={"Host": host}).status_code
            for host in ("models.example", "models.example:443", "127.0.0.1", "other.example")
        }
    assert statuses == {"models.example": 200, "models.example:443": 200, "127.0.0.1": 200, "other.example": 403}


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://friend.example", 200), ("https://evil.example", 403), ("null", 403),
        ("https://friend.example.evil", 403),
        ("http://friend.example", 403), ("http://127.0.0.1:1", 403), ("file://", 403), ("http://[", 403), ("", 403),
    ],
)  # fmt: skip
def test_pages_of_other_origins_may_not_use_a_server(locked: Running, origin: str, status: int) -> None:
    headers = {"Origin": origin, "Authorization": f"Bearer {KEY}"}
    answer = locked.client.get("/v1/models", headers=headers)
    assert answer.status_code == status
    asked = locked.client.options("/v1/models", headers={"Origin": origin, "Access-Control-Request-Method": "GET"})
    assert asked.status_code == status
    allowed = {answer.headers.get("access-control-allow-origin"), asked.headers.get("access-control-allow-origin")}
    assert allowed == ({origin} if status == 200 else {None})
    if status == 403:
        told = f"Pages of `{origin}` may not use this server: allow them with --allow-origin. "
        assert answer.json()["error"]["message"] == f"{told}A proxy must pass on `Host`."


def test_its_own_page_may_use_a_server(server: Running) -> None:
    assert server.client.get("/v1/models", headers={"Origin": server.url}).status_code == 200


def test_no_page_elsewhere_may_use_a_server_that_names_none(server: Running) -> None:
    headers = {"Origin": "https://friend.example", "Access-Control-Request-Method": "POST"}
    answer = server.client.options("/v1/translate", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_what_is_refused_to_a_page_that_is_allowed_can_be_read_by_it(locked: Running) -> None:
    answer = locked.client.get("/v1/models", headers={"Origin": "https://friend.example"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, "https://friend.example")


# --- what is told -----------------------------------------------------------------------------------------------------


def test_every_answer_says_what_browsers_may_do_with_it(locked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    bearer = {"Authorization": f"Bearer {KEY}"}
    translate = {"model": "transformer", "text": "the dog", "max_extra": 2}
    answers = [
        locked.client.get("/"),
        locked.client.get("/health/live"),
        locked.client.get("/v1/models"),
        locked.client.get("/v1/models", headers={"Host": "evil"}),
        locked.client.get("/nowhere", headers=bearer),
        locked.client.delete("/v1/models", headers=bearer),
        locked.client.get("/openapi.json", headers=bearer),
        locked.client.get("/metrics", headers=bearer),
        locked.client.post("/v1/translate", headers=bearer, content=b"{"),
        locked.client.post("/v1/translate", headers=bearer, json=translate),
        locked.client.post("/v1/translate", headers=bearer, json={**translate, "stream": True}),
        locked.client.post("/v1/translate", headers=bearer, content=b" " * 2001),
        locked.client.options("/v1/models", headers={"Origin": "https://friend.example",
                                                     "Access-Control-Request-Method": "GET"}),
    ]  # fmt: skip
    monkeypatch.setattr(locked.asking.models, "find", lambda *names: 1 / 0)
    answers.append(locked.client.post("/v1/translate", headers=bearer, json=translate))
    assert [answer.status_code for answer in answers] == [
        200, 200, 401, 403, 404, 405, 200, 200, 400, 200, 200, 413, 200, 500,
    ]  # fmt: skip
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
    policy = answers[0].headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert answers[0].headers["x-frame-options"] == "DENY"


def test_documentation_loads_nothing_from_elsewhere(server: Running) -> None:
    assert {server.client.get(path).status_code for path in ("/docs", "/redoc", "/docs/oauth2-redirect")} == {404}
    assert server.client.get("/openapi.json").json()["info"]["title"] == "Heedful"


SECRET = "xyzzy plugh"


@pytest.mark.parametrize("fails", [False, True])
def test_no_body_and_no_key_is_ever_logged(
    locked: Running, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, fails: bool,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    if fails:
        monkeypatch.setattr(locked.served("transformer").service, "job", lambda *given, **options: 1 / 0)
        monkeypatch.setattr(locked.served("transformer").service, "explain", lambda *given: 1 / 0)
    bearer = {"Authorization": f"Bearer {KEY}"}
    options = {"max_extra": 2, "model": "transformer"}
    bodies = [
        ("/v1/translate", {"text": SECRET, **options}), ("/v1/translate", {"text": [SECRET, 1], **options}),
        ("/v1/translate", {"text": SECRET, "beam": SECRET}), ("/v1/translate", {SECRET: SECRET}),
        ("/v1/translate", {"text": SECRET, "stream": True, **options}), ("/v1/explain", {"text": SECRET, **options}),
        ("/v1/translate", {"text": f"<b>{SECRET}</b>", "format": "html", **options}),
        ("/v1/classify", {"text": SECRET, "image": IMAGE[:99]}), ("/v1/generate", {"text": SECRET, "max_tokens": 2}),
        ("/v1/completions", {"model": "language-llama", "prompt": SECRET}), (f"/v1/{SECRET}", {}),
        ("/v1/embeddings", {"model": "transformer", "input": SECRET}),
        ("/translate", {"q": SECRET, "source": "en", "target": "de", "api_key": KEY}), ("/detect", {"q": SECRET}),
    ]  # fmt: skip
    found = {locked.post(path, body, headers=bearer).status_code for path, body in bodies}
    found |= {locked.client.get("/languages", params={"api_key": KEY, "q": SECRET}).status_code}
    assert found >= ({200, 500, 422, 404} if fails else {200, 422, 404})
    assert locked.server.config.access_log is False  # but pytest makes it log
    told = "".join(capfd.readouterr()) + "".join(
        logging.Formatter().format(record)
        for record in caplog.records
        if not record.name.startswith(("httpx", "httpcore", "uvicorn.access"))
    )
    assert ("ZeroDivisionError" in told) == fails
    assert not [word for word in (SECRET, *SECRET.split(), KEY) if word in told]


def test_messages_do_not_tell_where_models_are(server: Running) -> None:
    answer = server.post("/v1/translate", {"model": "transformer", "text": "the dog", "shortlist": True})
    assert answer.status_code == 422
    assert "golden" not in answer.text
    assert answer.json()["error"]["param"] == "shortlist"
    assert "golden" not in server.client.get("/v1/models").text


def test_a_request_without_a_host_is_refused(server: Running) -> None:
    for version in (b"1.0", b"1.1"):
        answer = talk(server, b"GET /health/live HTTP/%s\r\nConnection: close\r\n\r\n" % version)
        assert answer.split()[1] in (b"400", b"403")
