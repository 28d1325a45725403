"""Streams: greedy text comes as it is found and joins to the result; drafts of a beam end in it."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.golden.answers import differences
from tests.serve.questions import SHORT, TEXT, answered_alone
from tests.serve.running import Running, abandoned, held, wait_until
from tests.shared.covering import one_in

Model = Callable[[str], Any]
TRANSLATORS = [
    "transformer", "recurrent-bahdanau", "transformer-languages", "mixed", "recurrent-cho", "recurrent-luong-local",
    "recurrent-sutskever", "transformer-additive-entmax", "transformer-alibi-sparsemax", "transformer-int8",
    "transformer-kernel", "transformer-pre-norm-rope-separate", "transformer-relative-silu",
]  # fmt: skip
LANGUAGES = ["language-llama", "language-recurrent", "language-transformer"]


def target(model: Any) -> dict[str, str]:
    return {"to": "es"} if model.vocabularies["source"].tags else {}


@pytest.mark.parametrize("name", one_in(5, TRANSLATORS))
def test_what_comes_of_a_greedy_translation_joins_to_it(server: Running, alone: Model, name: str) -> None:
    body = {"text": TEXT, "beam": 1, "max_extra": 6, **target(alone(name))}
    *parts, done = server.events("/v1/translate", {"model": name, **body})
    assert {part["type"] for part in parts} == {"delta"}
    assert len(parts) > 3
    assert done["type"] == "done"
    assert "".join(part["text"] for part in parts) == done["results"][0]["text"]
    assert differences(answered_alone(alone(name), body), done["results"]) == []


@pytest.mark.parametrize("name", one_in(5, TRANSLATORS, first=1))
def test_drafts_of_a_beam_end_in_the_translation(server: Running, alone: Model, name: str) -> None:
    body = {"text": TEXT, "beam": 3, "alternatives": 1, "max_extra": 6, **target(alone(name))}
    *parts, done = server.events("/v1/translate", {"model": name, **body})
    assert {part["type"] for part in parts} == {"draft"}
    assert len(parts) > 3
    assert parts[-1]["text"] == done["results"][0]["text"]
    assert differences(answered_alone(alone(name), body), done["results"]) == []


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize(
    "options",
    [{"temperature": 0}, {"temperature": 1.2, "seed": 5}, {"beam": 2}, {"temperature": 0, "stop": ["es", "e"]}],
    ids=["greedy", "sampled", "beam", "stopped"],
)
def test_what_comes_of_a_continuation_joins_to_it(
    server: Running, alone: Model, name: str, options: dict[str, Any]
) -> None:
    body = {"text": "The dog", "max_tokens": 9, **options}
    *parts, done = server.events("/v1/generate", {"model": name, **body})
    assert {part["type"] for part in parts} <= {"delta"}
    assert all(part["text"] for part in parts)
    assert "".join(part["text"] for part in parts) == done["results"][0]["text"]
    assert differences(answered_alone(alone(name), body), done["results"]) == []


def test_a_stream_tells_of_words_and_links_at_its_end(server: Running) -> None:
    body = {"model": "transformer", "text": TEXT, "beam": 1, "details": True, **SHORT}
    *_, done = server.events("/v1/translate", body)
    assert done["results"] == server.results("/v1/translate", body)
    assert len(done["results"][0]["sentences"]) == 4


def test_a_text_grows_while_it_is_watched(server: Running) -> None:
    """The first words come before the last step is taken."""
    body = {"model": "transformer", "text": "the dog sees the tree today.", "beam": 1, "max_extra": 20}
    with (
        held(server.served("transformer")) as hold,
        server.client.stream("POST", "/v1/translate", json={**body, "stream": True}) as answer,
    ):
        lines = (line for line in answer.iter_lines() if line)
        hold.arrived(1)
        hold.allow(4)
        assert next(lines).startswith('data: {"type":"delta","text":"')
        assert not hold.calls[0].done.done()
        hold.release()
        *_, last = lines
    assert last.startswith('data: {"type":"done","model":"transformer","results":[{')


@pytest.mark.parametrize("path", ["/v1/translate", "/v1/generate"])
def test_a_stream_that_nobody_reads_stops(server: Running, path: str) -> None:
    name = {"/v1/translate": "transformer", "/v1/generate": "language-llama"}[path]
    options = {"max_extra": 1000, "beam": 1} if name == "transformer" else {"max_tokens": 1000}
    with held(server.served(name)) as hold:
        line = abandoned(server, path, {"model": name, "text": "the dog", "stream": True, **options})
        hold.arrived(1)
        hold.allow(5)
        line.close()
        wait_until(lambda: hold.calls[0].gone)
        before = hold.steps
        hold.release()
        wait_until(lambda: server.is_idle)
        assert hold.steps - before <= 2


def test_what_goes_wrong_with_a_stream_is_its_last_event(server: Running) -> None:
    """The status was sent before: the events say it."""
    body = {"model": "transformer", "text": "the dog", "min_length": 9, "max_extra": 1, "require": "der", "to": "xx"}
    (event,) = server.events("/v1/translate", body)
    assert event["type"] == "error"
    assert event["error"]["type"] == "invalid_request_error"
    assert event["error"]["param"] == "to"
