"""`heedful serve` as a process: signals, ports, addresses, folders."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Final

import httpx
import pytest
from tests.serve.questions import BUNDLES
from tests.shared.patience import PATIENCE
from tests.shared.refusals import like, refuses

import heedful
from heedful.cli.main import run

SHORT: Final = {"text": "the dog", "max_extra": 2, "beam": 1}
LONG: Final = {"text": "the dog", "min_length": 400, "max_extra": 500, "beam": 1}  # half a second
ENDLESS: Final = {**LONG, "text": ["the dog"] * 200, "min_length": 2000, "max_extra": 2048}


class Process:
    """A server in a process of its own."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-P", "-m", "heedful", "serve", str(BUNDLES / "transformer"), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *options], stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert self.process.stderr is not None
        self.said = ""
        while not (found := re.search(r"serving on (http://\S+)", self.said)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.url = found[1]
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE, headers={"Connection": "close"})

    def translate(self, body: dict[str, Any]) -> int:
        """Return the status of a request."""
        return self.client.post("/v1/translate", json=body).status_code

    def under_way(self) -> int:
        """Return how many requests the server has accepted and not answered, as it says."""
        found = re.search(r'^heedful_under_way\{model="transformer"\} (\S+)$', self.client.get("/metrics").text, re.M)
        assert found is not None
        return int(float(found[1]))

    def end(self) -> tuple[int, str]:
        """Wait for the end of the process; return its exit code and what it said."""
        _, rest = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, self.said + rest


@contextmanager
def process(*options: str) -> Iterator[Process]:
    """Serve until the block ends, at the latest."""
    one = Process(*options)
    try:
        yield one
    finally:
        one.client.close()
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def until(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end, "it never happens"
        time.sleep(0.01)


def test_a_signal_under_load_loses_no_request_that_was_accepted() -> None:
    found: list[object] = []
    signalled, over = Event(), Event()

    def keep_asking(one: Process) -> None:
        while not over.is_set():
            late = signalled.is_set()
            try:
                status: object = one.translate(SHORT)
            except httpx.TransportError:
                status = "late" if late or signalled.is_set() else "lost"
            found.append(status)

    with process() as one, ThreadPoolExecutor(12) as pool:
        assert one.translate({**SHORT, "text": "a secret"}) == 200
        assert one.client.get("/languages", params={"api_key": "secret"}).status_code == 200
        assert one.client.post("/v1/secret", content=b"secret").status_code == 404
        long = [pool.submit(one.translate, LONG) for _ in range(4)]
        until(lambda: one.under_way() == 4)
        short = [pool.submit(keep_asking, one) for _ in range(8)]
        until(lambda: len(found) > 20)
        signalled.set()
        one.process.send_signal(signal.SIGTERM)
        until(lambda: 503 in found)
        ready = one.client.get("/health/ready")
        assert (ready.status_code, ready.json(), ready.headers["retry-after"]) == (503, {"status": "stopping"}, "5")
        code, said = one.end()
        over.set()
        assert [each.result() for each in long] == [200] * 4
        for each in short:
            each.result()
    assert code == 0
    assert said == (  # and nothing of any request
        f"heedful: transformer: translate, on cpu\nheedful: serving on {one.url} (Ctrl-C stops)\n"
        "heedful: stopped: all requests that were accepted are answered\n"
    )
    assert set(found) <= {200, 503, "late"}


@pytest.mark.parametrize(
    ("signals", "codes"),
    [
        ((signal.SIGTERM, signal.SIGTERM), {-signal.SIGTERM, 143}),
        pytest.param((signal.SIGINT, signal.SIGINT), {130}, marks=pytest.mark.wide),
        pytest.param((signal.SIGTERM, signal.SIGINT), {130}, marks=pytest.mark.wide),
    ],
    ids=["TERM", "INT", "TERM and INT"],
)
def test_a_second_signal_stops_a_server_that_has_work_for_minutes(
    signals: tuple[signal.Signals, ...], codes: set[int]
) -> None:
    with process("--timeout", "600") as one, ThreadPoolExecutor(1) as pool:
        endless = pool.submit(one.client.post, "/v1/translate", json=ENDLESS)
        until(lambda: one.under_way() == 1)
        one.process.send_signal(signals[0])
        until(lambda: one.client.get("/health/ready").status_code == 503)
        assert one.process.poll() is None
        one.process.send_signal(signals[1])
        code, said = one.end()
        assert code in codes
        assert (endless.result().status_code, endless.result().headers["retry-after"]) == (503, "5")
    assert said.splitlines()[2:] in ([], ["heedful: interrupted."])


@pytest.mark.wide
def test_a_program_serves_until_it_is_told_to_stop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = f"import heedful; heedful.serve({str(BUNDLES / 'transformer')!r}, port={port}); print('over')"
    served = subprocess.Popen([sys.executable, "-P", "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:

            def answers() -> bool:
                try:
                    return client.get("/health/ready").status_code == 200
                except httpx.TransportError:
                    return False

            until(answers)
            assert client.post("/v1/translate", json=SHORT).status_code == 200
        served.send_signal(signal.SIGTERM)
        assert served.communicate(timeout=PATIENCE)[0] == "over\n"
        assert served.returncode == 0
    finally:
        served.kill()
        served.communicate()


# --- what cannot be served: one line, before anything is loaded -------------------------------------------------------


def serve(*arguments: object) -> int:
    return run(["serve", *map(str, arguments)])


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.server.served.load", lambda *given: pytest.fail("a model was loaded"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve(BUNDLES / "transformer", "--port", port) == 3
    assert capsys.readouterr().err == like(
        f"heedful: error: 127.0.0.1:{port} cannot be used (Address already in use): choose another --port.\n"
    )


TRANSFORMER = BUNDLES / "transformer"
WRONG: list[tuple[str, list[object], str]] = [
    ("no folder", ["nowhere"], "nowhere is not a folder: a model is..."),
    ("a folder without a model", [BUNDLES], "..."),
    ("one of two folders", [TRANSFORMER, "nowhere"], "nowhere is not a folder: ..."),
    ("a name for no folder", ["name=nowhere"], "nowhere is not a folder: ..."),
    ("one name for two", [f"a={TRANSFORMER}", f"a={BUNDLES / 'bert'}"],
     "Two models are called `a`: give one of them another name, NAME=FOLDER."),
    ("an address of others", [TRANSFORMER, "--host", "0.0.0.0"],
     "--host is 0.0.0.0, which other machines can reach: give --keys, or use 127.0.0.1."),
    ("an address of others in IPv6", [TRANSFORMER, "--host", "::"], "--host is ::, which other machines can ..."),
    ("a name of others", [TRANSFORMER, "--host", "example.org"], "--host is example.org, which other machines ..."),
    ("a port that there is not", [TRANSFORMER, "--port", "65536"], "--port is 65536, but must be from 0 to 65,535."),
    ("an origin with a path", [TRANSFORMER, "--allow-origin", "https://a.b/c"],
     "--allow-origin has `https://a.b/c`, but must be like https://example.org."),
    ("languages without a sign", [TRANSFORMER, "--languages", "ende"],
     "--languages has `ende`, but must be like en-de."),
    ("no file of keys", [TRANSFORMER, "--keys", "nowhere"], "nowhere: no such file."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_cannot_be_served_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    arguments: list[object], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert serve(*arguments, *(() if "--port" in arguments else ("--port", "0"))) == 2
    assert capsys.readouterr().err.splitlines()[-1] == like(f"heedful: error: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "... has no key: write one on each line."),
        (b" \n\t\n", "... has no key: ..."),
        (b"\xff\xfe", "... is not a text file in UTF-8: write one key on each line."),
        (b"short", "A key must have 8 to 512 ASCII characters without spaces: choose another."),
        (b"long-enough\n" + b"x" * 513, "A key must have 8 to 512 ..."),
        ("schlüsselchen".encode(), "A key must have 8 to 512 ..."),
    ],
)
def test_a_file_of_keys_must_have_keys(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "keys").write_bytes(content)
    assert serve(TRANSFORMER, "--keys", tmp_path / "keys", "--port", 0) == 2
    assert capsys.readouterr().err == like(f"heedful: error: {message}\n")


@pytest.fixture(params=["fastapi", "uvicorn", "prometheus_client"])
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of the extra that is not there, before anything of the server was imported."""
    for name in [name for name in sys.modules if name.startswith("heedful.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(heedful), "serve", raising=False)  # kept there once it was used
    monkeypatch.setitem(sys.modules, request.param, None)
    return str(request.param)


def test_a_missing_extra_is_one_line(capsys: pytest.CaptureFixture[str], missing: str) -> None:
    assert serve(TRANSFORMER) == 2
    assert capsys.readouterr().err == (
        f"heedful: error: `heedful serve` needs {missing}: install them with pip install 'heedful[serve]'.\n"
    )


def test_a_missing_extra_is_one_line_in_python(missing: str) -> None:
    with refuses(f"A server needs {missing}: ..."):
        heedful.serve([TRANSFORMER])
