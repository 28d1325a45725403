"""Servers of tests: real ones, in a thread, whose insides can be seen and held still."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Semaphore, Thread
from typing import Any

import httpx
from fastapi import FastAPI
from tests.shared.patience import PATIENCE

from heedful.server.app import application
from heedful.server.asking import Asking
from heedful.server.run import Draining, listen, server_of
from heedful.server.served import Models, Served, load_models
from heedful.server.settings import ServeSettings
from heedful.server.worker import Call

Json = dict[str, Any]


@dataclass
class Running:
    """A server that listens."""

    url: str
    app: FastAPI
    server: Draining
    client: httpx.Client

    @property
    def asking(self) -> Asking:
        """What answers its requests."""
        asking: Asking = self.app.state.asking
        return asking

    def served(self, name: str) -> Served:
        """Return one of its models."""
        return self.asking.models.find(name)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Send a body as JSON."""
        return self.client.post(path, json=body, **more)

    def results(self, path: str, body: Any, **more: Any) -> list[Json]:
        """Return the results of a request that is answered."""
        answer = self.post(path, body, **more)
        assert answer.status_code == 200, answer.text
        found: list[Json] = answer.json()["results"]
        return found

    def events(self, path: str, body: Json) -> list[Json]:
        """Return the events of a stream."""
        with self.client.stream("POST", path, json={**body, "stream": True}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream"), answer.read()
            return [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        models = self.asking.models
        return not models.under_way and all(one.service.idle and not one.worker._live for one in models.served)


@contextmanager
def running(models: Mapping[str, Any], **settings: Any) -> Iterator[Running]:
    """Serve loaded models until the block ends."""
    chosen = ServeSettings(port=0, **settings)
    app = application(Models(load_models(models, "cpu", "float32", chosen.languages)), chosen)
    with listen(chosen) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = server_of(app)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="server of a test")
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive())
            with httpx.Client(base_url=url, timeout=PATIENCE, limits=httpx.Limits(max_connections=None)) as client:
                yield Running(url, app, server, client)
        finally:
            server.should_exit = True
            thread.join()


def wait_until(happens: Callable[[], object]) -> None:
    """Wait for what another thread does."""
    until = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < until, "it never happens"
        time.sleep(0.002)


class Held:
    """A model whose steps wait until they are allowed."""

    def __init__(self, served: Served) -> None:
        self._served, self._tick, self._submit = served, served.service.tick, served.worker.submit
        self.calls: list[Call] = []  # that arrived since
        self._left = Semaphore(0)
        self._free, self.waits = False, Event()
        self.steps = 0  # that were taken
        self.breaks = False  # whether the next one fails
        served.service.tick = self._step  # type: ignore[method-assign]
        served.worker.submit = self._record  # type: ignore[method-assign]

    def arrived(self, count: int) -> None:
        """Wait until so many calls have arrived."""
        wait_until(lambda: len(self.calls) >= count)

    def allow(self, steps: int = 1) -> None:
        """Let steps be taken, fewer if nothing is left to do; afterwards the next one waits."""
        for _ in range(steps):
            wait_until(lambda: self.waits.is_set() or self._is_over)
            if self._is_over:
                return
            self.waits.clear()
            self._left.release()
        wait_until(lambda: self.waits.is_set() or self._is_over)

    def release(self) -> None:
        """Let all steps be taken from now on."""
        self._free = True
        self._left.release()

    def end(self) -> None:
        """Leave the model as it was."""
        self.release()
        self._served.service.tick = self._tick  # type: ignore[method-assign]
        self._served.worker.submit = self._submit  # type: ignore[method-assign]

    @property
    def _is_over(self) -> bool:
        return all(call.done.done() for call in self.calls)

    def _record(self, call: Call) -> None:
        self._submit(call)
        self.calls.append(call)

    def _step(self) -> None:
        if not self._free:
            self.waits.set()
            assert self._left.acquire(timeout=PATIENCE)
        self.steps += 1
        if self.breaks:
            self.breaks = False
            raise ZeroDivisionError("a fault of a test")
        self._tick()


@contextmanager
def held(served: Served) -> Iterator[Held]:
    """Hold a model's steps inside the block."""
    hold = Held(served)
    try:
        yield hold
    finally:
        hold.end()


def talk(server: Running, request: bytes) -> bytes:
    """Send what no client would, and return all that comes until the server ends the connection."""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=PATIENCE) as line:
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(1 << 16), b""))


def abandoned(server: Running, path: str, body: Json) -> socket.socket:
    """Send a request whose client is going to go away: whoever closes the socket."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
    line = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=PATIENCE)
    line.sendall(head.encode() + content)
    return line
