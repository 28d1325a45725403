"""What a server tells of itself: the OpenAPI document, its models, health and metrics."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from tests.serve.questions import NAMES, answered_alone
from tests.serve.running import Running

import heedful

VERBS = ("answer", "caption", "classify", "fill", "generate", "parse", "regress", "tag", "translate")
OTHERS = {
    "/v1/explain", "/v1/models", "/v1/models/{name}", "/v1/completions", "/v1/embeddings", "/v1/chat/completions",
    "/translate", "/languages", "/detect", "/frontend/settings", "/health/live", "/health/ready", "/metrics",
}  # fmt: skip


def schemas(server: Running) -> dict[str, Any]:
    """Return the schema of each body, by its route."""
    document = server.client.get("/openapi.json").json()
    return {
        path: operation["requestBody"]["content"]["application/json"]["schema"]
        for path, item in document["paths"].items()
        for operation in item.values()
        if "requestBody" in operation
    }


def parts(name: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all parts of a schema, each with the name of its field."""
    yield name, schema
    for one in schema.get("anyOf", ()):
        yield from parts(name, one)
    for key, one in schema.get("properties", {}).items():
        yield from parts(f"{name} {key}", one)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from parts(name, schema[key])


def test_the_document_has_every_route(server: Running) -> None:
    document = server.client.get("/openapi.json").json()
    assert set(document["paths"]) == {f"/v1/{verb}" for verb in VERBS} | OTHERS
    assert set(schemas(server)) == {f"/v1/{verb}" for verb in (*VERBS, "explain", "completions", "embeddings")} | {
        "/translate",
        "/detect",
    }
    assert "$ref" not in json.dumps([schemas(server)[path] for path in schemas(server)])


def test_every_number_and_every_length_has_a_limit(server: Running) -> None:
    bounds: dict[str, tuple[tuple[str, ...], ...]] = {
        "string": (("maxLength", "enum", "const"),),
        "array": (("maxItems",),),
        "object": (("maxProperties", "properties"),),
        "integer": (("minimum",), ("maximum",)),
        "number": (("minimum", "exclusiveMinimum"), ("maximum",)),
    }
    found = [part for path, schema in schemas(server).items() for part in parts(path, schema)]
    missing = [
        (name, schema)
        for name, schema in found
        for some in bounds.get(schema.get("type", ""), ())
        if not any(bound in schema for bound in some)
    ]
    assert len(found) > 200
    assert missing == []


def test_every_field_says_what_it_is(server: Running) -> None:
    own = ("/v1/completions", "/v1/embeddings", "/translate", "/detect")  # which their documentation describes
    fields = {
        (path, name): field.get("description", "")
        for path, schema in schemas(server).items()
        for name, field in schema["properties"].items()
        if path not in own and name != "model"
    }
    assert [key for key, text in fields.items() if not re.fullmatch(r"\S.*[.)]", text)] == []


def test_models_are_listed_with_what_a_page_needs(server: Running) -> None:
    listed = server.client.get("/v1/models").json()
    assert listed["object"] == "list"
    found = {one["id"]: one for one in listed["data"]}
    assert list(found) == NAMES
    for one in found.values():
        assert set(one) == {
            "id", "object", "created", "owned_by", "task", "verb", "family", "size", "languages", "labels", "roles",
            "explains", "embeds", "streams",
        }  # fmt: skip
        assert server.client.get(f"/v1/models/{one['id']}").json() == one
    assert found["transformer-languages"]["languages"] == ["de", "es"]
    assert found["transformer"]["languages"] == []
    assert found["classifier-bag"]["labels"] == ["bad", "good"]
    assert found["reader"]["roles"] == ["question", "text"]
    assert found["classifier-gpt-pairs"]["roles"] == ["text", "second"]
    assert found["answers-about-images"]["roles"] == ["image", "question"]
    assert {name for name, one in found.items() if one["streams"]} == {
        name for name, one in found.items() if one["verb"] in ("translate", "generate")
    }


def test_a_model_that_is_not_named_is_chosen_by_what_it_reads(server: Running) -> None:
    body = {"text": "a story", "second": "a film"}
    assert server.post("/v1/classify", body).json()["model"] == "classifier-alternating-pairs"
    assert server.post("/v1/classify", {"text": "a story"}).json()["model"] == "classifier-attention-pools"
    assert server.post("/v1/answer", {"text": "a story", "question": "who?"}).json()["model"] == "reader"


def test_health_says_that_a_server_lives_and_takes_requests(server: Running) -> None:
    assert server.client.get("/health/live").json() == {"status": "live"}
    assert server.client.get("/health/ready").json() == {"status": "ready"}


def test_metrics_count_requests_by_route_and_status_not_by_what_clients_write(server: Running) -> None:
    server.post("/v1/tag", {"text": "the dog", "model": "tagger-transformer"})
    server.post("/v1/tag", {"text": 1})
    server.client.get("/a-path-of-a-client")
    server.client.get("/v1/models/a-name-of-a-client")
    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    for line in (
        'heedful_requests_total{route="/v1/tag",status="200"} ',
        'heedful_requests_total{route="/v1/tag",status="422"} ',
        'heedful_requests_total{route="/v1/models/{name}",status="404"} ',
        'heedful_requests_total{route="other",status="404"} ',
        'heedful_under_way{model="bert"} 0.0',
        "heedful_explaining 0.0",
    ):
        assert any(one.startswith(line) for one in lines), line
    assert "client" not in answer.text


# --- in Python --------------------------------------------------------------------------------------------------------


def test_an_application_can_be_served_by_a_server_of_ones_own(loaded: Callable[[str], Any]) -> None:
    app = heedful.asgi({"bag": loaded("classifier-bag")}, device="cpu", keys=["a-key-of-mine"])

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):
            headers = {"Authorization": "Bearer a-key-of-mine"}
            body = {"text": "The film was great."}
            return [
                await client.post("/v1/classify", json=body),
                await client.post("/v1/classify", json=body, headers=headers),
            ]

    refused, answered = asyncio.run(ask())
    assert refused.status_code == 401
    assert answered.json()["results"] == answered_alone(loaded("classifier-bag"), {"text": "The film was great."})
