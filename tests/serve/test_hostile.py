"""Requests that nobody would write, made by schemathesis from the OpenAPI document: none is a fault of the server."""

import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serve.questions import bodies
from tests.serve.running import Running, wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    requests = pytest.importorskip("requests", reason="what schemathesis sends requests with is not installed")

ROLES = ("text", "second", "question", "image")
QUICK, WIDE = 150, 3_000


def attack(server: Running, cases: int) -> Counter[int]:
    """Send so many requests, most of them wrong in one way or another; return how often each status came."""
    schema = schemathesis.openapi.from_dict(server.app.openapi())
    schema.config.update(base_url=server.url)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 20
    made = [
        operation.as_strategy(generation_mode=mode) for operation in operations for mode in schemathesis.GenerationMode
    ]
    statuses: Counter[int] = Counter()
    faults: list[Any] = []

    @settings(max_examples=cases, database=None, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(st.one_of(made))
    def send(case: Any) -> None:
        answer = case.call(session=session)
        statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            faults.append((answer.status_code, case.method, case.path, case.body, case.query, answer.text))

    with requests.Session() as session:
        send()
    assert faults == []
    return statuses


# --- requests that fit the schema, with any values --------------------------------------------------------------------

WORDS = st.sampled_from(
    ["the", "dog", "sees", "a", "[MASK]", "<unk>", "<2de>", "</s>", ".", "\n", "&", "日本", "é", "\u200f", "1"]
)
TEXT = st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=20)


def value_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema allows, small ones and its bounds most often: what takes long is tested elsewhere."""
    if "anyOf" in schema:
        return st.one_of([value_of(one) for one in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "integer":
            least, most = schema.get("minimum", -3), schema.get("maximum", 1 << 62)
            return st.integers(least, min(most, least + 5)) | (st.just(most) if most > 1 << 20 else st.nothing())
        case "number":
            low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
            return st.floats(low, high, allow_nan=False, allow_infinity=False).filter(
                lambda value: value > schema.get("exclusiveMinimum", -float("inf"))
            ) | st.just(max(1, low or 0))
        case "boolean":
            return st.booleans()
        case "string":
            return TEXT.map(lambda text: text[: schema.get("maxLength")])
        case "array":
            return st.lists(value_of(schema["items"]), min_size=schema.get("minItems", 0), max_size=3)
        case "object":
            return st.dictionaries(TEXT, value_of(schema["additionalProperties"]), max_size=2)
        case "null":
            return st.none()
        case other:
            raise AssertionError(f"{other} of {schema} has no values")


@st.composite
def near(draw: st.DrawFn, server: Running) -> tuple[str, dict[str, Any]]:
    """A request that a model can answer, with some fields changed to others that fit the schema."""
    document = server.app.openapi()["paths"]
    served = draw(st.sampled_from(server.asking.models.served))
    path = draw(st.sampled_from([f"/v1/{served.verb}", f"/v1/{served.verb}", "/v1/explain"]))
    body = dict(draw(st.sampled_from(bodies(served.service.model))))
    fields = document[path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    if path == "/v1/explain":
        body = {name: value[0] if isinstance(value, list) else value for name, value in body.items() if name in ROLES}
    names = [name for name in fields if name not in ("model", "image") and (name not in ROLES or name in body)]
    for name in draw(st.lists(st.sampled_from(names), max_size=4, unique=True)) if names else ():
        body[name] = draw(value_of(fields[name]))
    return path, {"model": served.name, **body}


def attack_nearly(server: Running, cases: int) -> Counter[int]:
    """Send so many requests that fit the schema; return how often each status came."""
    statuses: Counter[int] = Counter()

    @settings(max_examples=cases, database=None, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(near(server))
    def send(request: tuple[str, dict[str, Any]]) -> None:
        path, body = request
        answer = server.post(path, body)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, (path, body, answer.text)
        if body.get("stream"):
            assert '"server_error"' not in answer.text, (path, body, answer.text)
        elif answer.status_code == 422:
            error = answer.json()["error"]
            assert error["param"] is not None, (path, body, error)
            assert "\n" not in error["message"]

    send()
    return statuses


# --- the tests --------------------------------------------------------------------------------------------------------


def test_hostile_requests_are_no_fault_of_the_server(server: Running) -> None:
    assert set(attack(server, QUICK)) >= {200, 400, 404, 422}
    wait_until(lambda: server.is_idle)


@pytest.mark.wide
def test_thousands_of_hostile_requests_are_no_fault_of_the_server(server: Running) -> None:
    statuses = attack(server, WIDE)
    assert statuses.total() >= WIDE
    assert set(statuses) >= {200, 400, 404, 422}
    wait_until(lambda: server.is_idle)


def test_requests_that_fit_the_schema_are_answered_or_refused_by_a_field(server: Running) -> None:
    assert set(attack_nearly(server, QUICK // 2)) == {200, 422}
    wait_until(lambda: server.is_idle)


@pytest.mark.wide
def test_thousands_of_requests_that_fit_the_schema_are_answered_or_refused_by_a_field(server: Running) -> None:
    assert set(attack_nearly(server, WIDE)) == {200, 422}
    wait_until(lambda: server.is_idle)
