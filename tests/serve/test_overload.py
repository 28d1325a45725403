"""More work than there is room for, deadlines, clients that go away, faults: the server goes on, and nothing stays."""

import gc
import random
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.golden.answers import differences
from tests.serve.questions import IMAGE, TEXT, answered_alone
from tests.serve.running import Running, abandoned, held, running, talk, wait_until
from tests.shared.patience import PATIENCE

from heedful.base.errors import MachineError
from heedful.decode.scorer import SingleModel

Model = Callable[[str], Any]
TRANSLATE: dict[str, Any] = {"model": "transformer", "text": "the dog sees a tree.", "max_extra": 4, "beam": 1}
GENERATE: dict[str, Any] = {"model": "language-llama", "text": "The dog", "max_tokens": 6, "temperature": 0}
CLASSIFY: dict[str, Any] = {"model": "classifier-bag", "text": "The film was great."}
CAPTION: dict[str, Any] = {"model": "captions-recurrent", "image": IMAGE, "max_extra": 3}
ASKED = {"/v1/translate": TRANSLATE, "/v1/generate": GENERATE, "/v1/classify": CLASSIFY, "/v1/caption": CAPTION}
ROOM = 6
FAILED = "The server failed to answer: its log says why."


@pytest.fixture
def small(loaded: Model) -> Iterator[Running]:
    """A server with little room."""
    with running({body["model"]: loaded(body["model"]) for body in ASKED.values()}, queue=ROOM) as one:
        yield one


def message_of(answer: Any) -> str:
    return str(answer.json()["error"]["message"])


def test_a_full_server_says_when_to_come_back(small: Running) -> None:
    with ThreadPoolExecutor(ROOM) as pool, held(small.served("transformer")) as hold:
        waiting = [pool.submit(small.post, "/v1/translate", TRANSLATE) for _ in range(ROOM)]
        hold.arrived(ROOM)
        for path, body in [
            *ASKED.items(),
            ("/v1/translate", {**TRANSLATE, "stream": True}),
            ("/v1/explain", TRANSLATE),
        ]:
            if path == "/v1/explain":
                body = {"model": "transformer", "text": "the dog"}
            answer = small.post(path, body)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
            assert message_of(answer) == f"The queue is full ({ROOM} requests): try again later."
        assert small.client.get("/health/ready").status_code == 200
        hold.release()
        assert [one.result().status_code for one in waiting] == [200] * ROOM
    assert small.post("/v1/translate", TRANSLATE).status_code == 200
    assert small.asking.models.most == ROOM


def test_under_four_times_the_load_no_more_is_accepted_than_there_is_room_for(small: Running) -> None:
    explain = {"model": "transformer", "text": "the dog"}
    asked = [*ASKED.items(), ("/v1/translate", {**TRANSLATE, "details": True}), ("/v1/explain", explain)] * 8
    random.Random(1).shuffle(asked)
    with ThreadPoolExecutor(4 * ROOM) as pool:
        answers = list(pool.map(lambda one: small.post(*one), asked))
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status_code == 429)
    assert 1 < small.asking.models.most <= ROOM
    wait_until(lambda: small.is_idle)


def test_what_takes_too_long_ends_at_its_deadline(loaded: Model) -> None:
    with running({"transformer": loaded("transformer")}, timeout=0.2) as one:
        with ThreadPoolExecutor(2) as pool, held(one.served("transformer")) as hold:
            waiting = pool.submit(one.post, "/v1/translate", TRANSLATE)
            streamed = pool.submit(one.events, "/v1/translate", TRANSLATE)
            hold.arrived(2)
            threading.Event().wait(0.3)
            hold.release()
            assert waiting.result().status_code == 504
            assert message_of(waiting.result()) == "The request took longer than the server allows: ask for less."
            assert streamed.result()[-1] == {"type": "error", **waiting.result().json()}
        wait_until(lambda: one.is_idle)
        assert one.post("/v1/translate", TRANSLATE).status_code in (200, 504)


@pytest.mark.parametrize("path", ASKED)
def test_a_client_that_goes_away_frees_its_room_within_two_steps(server: Running, path: str) -> None:
    body = {**ASKED[path], **({"text": TEXT * 40} if path == "/v1/translate" else {})}
    with held(server.served(body["model"])) as hold:
        line = abandoned(server, path, body)
        hold.arrived(1)
        line.close()
        wait_until(lambda: hold.calls[0].gone)
        steps = hold.steps
        hold.release()
        wait_until(lambda: server.is_idle)
        assert hold.steps - steps <= 2


def test_a_client_may_go_away_in_the_middle_of_its_body(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    begun = b"POST /v1/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"
    assert talk(server, begun) == b""
    assert (
        talk(server, begun.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked")[:-1] + b"2\r\n{}\r\n") == b""
    )
    assert server.post("/v1/translate", TRANSLATE).status_code == 200
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


# --- bodies -----------------------------------------------------------------------------------------------------------


def memory() -> int:
    """Bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_body_is_limited_while_it_arrives(loaded: Model) -> None:
    """Whatever its length is said to be; what is left of it is not kept."""
    with running({"classifier-bag": loaded("classifier-bag")}, max_body=4096) as one:
        message = "The body is larger than this server takes, 4,096 bytes: send less at once."
        for path in ("/v1/classify", "/v1/explain", "/v1/completions", "/translate"):
            answer = one.client.post(path, content=b" " * 4097)
            assert (answer.status_code, message_of(answer)) == (413, message)
        head = b"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        told = talk(
            one, head + b"Transfer-Encoding: chunked\r\n\r\n1000\r\n" + b" " * 4096 + b"\r\n1\r\n \r\n0\r\n\r\n"
        )
        assert told.startswith(b"HTTP/1.1 413 ")
        assert message.encode() in told
        told = talk(one, head + b"Expect: 100-continue\r\nContent-Length: 4097\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 413 "), "before any of it was sent"
        for length in (b"-1", b"1e3", b"0x10", b"99999999999999999999", b"+5", b"1_0", "٣".encode()):
            told = talk(one, head + b"Content-Length: %s\r\n\r\n{}" % length)
            assert told.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 ")), (length, told)
        assert one.post("/v1/classify", CLASSIFY).status_code == 200
        before, part = memory(), b" " * (1 << 16)
        answer = one.client.post("/v1/classify", content=(part for _ in range(1 << 10)))
        assert answer.status_code == 413
        assert memory() - before < 1 << 24


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["tick", "network"])
def test_a_fault_inside_a_step_ends_its_calls_and_the_server_goes_on(
    server: Running, alone: Model, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    served = server.served("transformer")
    expected = answered_alone(alone("transformer"), {key: TRANSLATE[key] for key in ("text", "max_extra", "beam")})
    with ThreadPoolExecutor(3) as pool, held(served) as hold:
        waiting = [pool.submit(server.post, "/v1/translate", TRANSLATE) for _ in range(2)]
        streamed = pool.submit(server.events, "/v1/translate", TRANSLATE)
        hold.arrived(3)
        hold.allow(2)
        with monkeypatch.context() as broken:
            hold.breaks = where == "tick"
            if where == "network":
                broken.setattr(SingleModel, "step", lambda *given, **options: 1 / 0)
            hold.release()
            answers = [one.result() for one in waiting]
            (*_, event) = streamed.result()
    for answer in answers:
        assert answer.status_code == 500
        assert answer.json()["error"] == event["error"]
        assert answer.json()["error"] == {
            "message": FAILED,
            "type": "server_error",
            "param": None,
            "code": None,
        }
    assert "ZeroDivisionError" in caplog.text
    assert differences(expected, server.results("/v1/translate", TRANSLATE)) == []
    wait_until(lambda: server.is_idle)


def test_a_fault_of_one_request_is_not_that_of_its_neighbours(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    service, begun = server.served("transformer").service, server.served("transformer").service.job

    def job(inputs: Any, options: Any, **more: Any) -> Any:
        return 1 / 0 if inputs[0]["text"] == "a fault" else begun(inputs, options, **more)

    monkeypatch.setattr(service, "job", job)
    texts = ["a fault", "the dog", "a fault", "a bird"]
    with ThreadPoolExecutor(4) as pool, held(server.served("transformer")) as hold:
        waiting = [pool.submit(server.post, "/v1/translate", {**TRANSLATE, "text": text}) for text in texts]
        hold.arrived(4)
        hold.release()
        assert [one.result().status_code for one in waiting] == [500, 200, 500, 200]


def test_a_machine_without_memory_says_when_to_come_back(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **options: Any) -> Any:
        raise MachineError("the GPU's memory is full: ask for less.")

    monkeypatch.setattr(server.served("transformer").service, "job", full)
    answer = server.post("/v1/translate", TRANSLATE)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert message_of(answer) == "the GPU's memory is full: ask for less."


def test_explanations_wait_for_each_other_but_not_without_end(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    service, go = server.served("transformer").service, threading.Event()
    explain, body = service.explain, {"model": "transformer", "text": "the dog"}
    monkeypatch.setattr(service, "explain", lambda *given: go.wait() and explain(*given))
    with ThreadPoolExecutor(8) as pool, ExitStack() as stack:
        stack.callback(go.set)
        waiting = [pool.submit(server.post, "/v1/explain", body) for _ in range(8)]
        wait_until(lambda: server.asking.models.explaining == 8)
        answer = server.post("/v1/explain", body)
        assert server.post("/v1/translate", TRANSLATE).status_code == 200
        go.set()
        assert {one.result().status_code for one in waiting} == {200}
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert message_of(answer) == "8 explanations are waiting already: try again later."


def test_words_of_an_accepted_translation_wait_for_explanations_and_count_in_the_queue(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, go = server.served("transformer").service, threading.Event()
    explain, body = service.explain, {"model": "transformer", "text": "the dog"}
    monkeypatch.setattr(service, "explain", lambda *given: go.wait() and explain(*given))
    models = server.asking.models
    with ThreadPoolExecutor(9) as pool, ExitStack() as stack:
        stack.callback(go.set)
        waiting = [pool.submit(server.post, "/v1/explain", body) for _ in range(8)]
        wait_until(lambda: models.explaining == 8)
        translated = pool.submit(server.post, "/v1/translate", {**TRANSLATE, "details": True})
        wait_until(lambda: models.explaining == 9)
        assert models.accepted == 9
        go.set()
        assert {one.result().status_code for one in waiting} == {200}
        assert translated.result().json()["results"][0]["sentences"]
    wait_until(lambda: server.is_idle)


def test_what_fails_in_words_of_a_translation_fails_its_request_alone(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr("heedful.tasks.translate.service.TranslateJob._sentence", broken)
    answer = server.post("/v1/translate", {**TRANSLATE, "details": True})
    assert (answer.status_code, message_of(answer)) == (500, FAILED)
    assert server.post("/v1/translate", TRANSLATE).status_code == 200
    wait_until(lambda: server.is_idle)


def test_a_model_without_explanations_says_so(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.tasks.shared.answering.service.Service.explains", False)
    answer = server.post("/v1/explain", {"model": "bert", "text": "the dog"})
    assert answer.status_code == 422
    assert message_of(answer) == "bert has answers that are not explained."


# --- a long text and short ones ---------------------------------------------------------------------------------------


def test_a_long_text_does_not_hold_up_a_short_one(server: Running) -> None:
    """The short one takes as many steps as by itself, and a few to join."""
    served, long = server.served("transformer"), {**TRANSLATE, "text": TEXT * 60}
    with ThreadPoolExecutor(2) as pool, held(served) as hold:
        first = pool.submit(server.post, "/v1/translate", TRANSLATE)
        hold.arrived(1)
        while not hold.calls[0].done.done():
            hold.allow()
        alone = hold.steps
        last = pool.submit(server.post, "/v1/translate", long)
        hold.arrived(2)
        hold.allow(5)
        steps = hold.steps
        short = pool.submit(server.post, "/v1/translate", TRANSLATE)
        hold.arrived(3)
        while not hold.calls[2].done.done():
            hold.allow()
        assert hold.steps - steps <= alone + 3
        assert not hold.calls[1].done.done()
        hold.release()
        assert differences(first.result().json(), short.result().json()) == []
        assert last.result().status_code == 200


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_server_that_stops_answers_what_it_has_accepted(small: Running) -> None:
    with ThreadPoolExecutor(2) as pool, held(small.served("transformer")) as hold:
        waiting = pool.submit(small.post, "/v1/translate", TRANSLATE)
        streamed = pool.submit(small.events, "/v1/translate", TRANSLATE)
        hold.arrived(2)
        small.asking.draining = True
        for path, body in [*ASKED.items(), ("/v1/explain", {"model": "transformer", "text": "a"})]:
            answer = small.post(path, body)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert message_of(answer) == "The server is stopping: try again later."
        ready = small.client.get("/health/ready")
        assert (ready.status_code, ready.json()) == (503, {"status": "stopping"})
        assert small.client.get("/health/live").json() == {"status": "live"}
        hold.release()
        assert waiting.result().status_code == 200
        assert streamed.result()[-1]["type"] == "done"


def test_what_takes_longer_than_a_server_waits_when_it_stops_is_refused(loaded: Model) -> None:
    with running({"transformer": loaded("transformer")}, drain=0.1) as one:
        with ThreadPoolExecutor(2) as pool, held(one.served("transformer")) as hold:
            waiting = pool.submit(one.post, "/v1/translate", TRANSLATE)
            hold.arrived(1)
            hold.calls[0].loop.call_soon_threadsafe(one.server.handle_exit, signal.SIGTERM, None)
            wait_until(lambda: one.server.dropped)
            hold.release()
            answer = waiting.result()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert message_of(answer) == "The server is stopping."
        assert one.server.dropped == 1


# --- what is left -----------------------------------------------------------------------------------------------------


def files() -> int:
    gc.collect()
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_300_requests_of_which_some_go_away_leave_no_thread_no_file_and_no_ticket(server: Running) -> None:
    chance = random.Random(7)
    asked = [chance.choice([*ASKED.items()]) for _ in range(300)]

    def ask(number: int) -> int:
        path, body = asked[number]
        if number % 10 == 3:
            abandoned(server, path, {**body, "stream": True} if number % 20 == 3 and "text" in body else body).close()
            return 200
        return client.post(path, json=body).status_code

    def ask_all(numbers: range) -> tuple[list[int], int, int]:
        """Return the statuses, and how many threads and files there are afterwards."""
        connections = server.server.server_state.connections
        before = len(connections)
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(ask, numbers))
        client.close()
        wait_until(lambda: server.is_idle and not server.server.server_state.tasks and len(connections) <= before)
        return found, threading.active_count(), files()

    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        first, *before = ask_all(range(60))
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        found, *after = ask_all(range(60, 300))
    found += first
    assert set(found) == {200}
    assert after <= before
    for one in server.asking.models.served:
        engine = getattr(one.service, "engine", None)
        assert one.worker.under_way == 0
        assert engine is None or engine.idle
        assert all(batcher.idle for batcher in one.service._batchers.values())
