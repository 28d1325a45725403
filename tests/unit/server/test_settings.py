"""What a server is told: keys, addresses, limits, and the names of models."""

import socket
from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import Refusal, each, refuses

from heedful.base.errors import MachineError
from heedful.server.errors import Refused
from heedful.server.guard import Keys
from heedful.server.run import listen
from heedful.server.settings import ServeSettings, named_folders

LONG = "k" * 512


def settings(**options: Any) -> ServeSettings:
    return ServeSettings(**options)


REFUSALS = [
    Refusal("a short key", lambda: settings(keys=["1234567"]), "A key must have 8 to 512 ..."),
    Refusal("a long key", lambda: settings(keys=[LONG, LONG + "k"]), "A key must have 8 to 512 ..."),
    Refusal("a key with a space", lambda: settings(keys=["12345 6789"]), "A key must have 8 to 512 ..."),
    Refusal("an empty key", lambda: settings(keys=[""]), "A key must have 8 to 512 ..."),
    Refusal("an origin without a scheme", lambda: settings(origins=["a.b"]), "`origins` has `a.b`, but must be ..."),
    Refusal("any origin", lambda: settings(origins=["*"]), "`origins` has `*`, but must be ..."),
    Refusal("no target", lambda: settings(languages=["en-"]), "`languages` has `en-`, but must be ..."),
    Refusal("all addresses", lambda: settings(host="0.0.0.0"), "`host` is 0.0.0.0, which other machines can ..."),
    Refusal("a negative port", lambda: settings(port=-1), "`port` is -1, but must be from ..."),
    Refusal("no room", lambda: settings(queue=0), "`queue` is 0, but must be at least 1."),
    Refusal("no body", lambda: settings(max_body=0), "`max_body` is 0, but ..."),
    Refusal("no text", lambda: settings(max_text=0), "`max_text` is 0, but ..."),
    Refusal("no inputs", lambda: settings(max_inputs=-5), "`max_inputs` is -5, but ..."),
    Refusal("no time", lambda: settings(timeout=0), "`timeout` is 0, but must be more than 0."),
    Refusal("a time that is no number", lambda: settings(timeout=float("nan")), "`timeout` is nan, but ..."),
    Refusal("no time to end", lambda: settings(drain=-1.0), "`drain` is -1.0, but ..."),
]  # fmt: skip


@each(REFUSALS)
def test_impossible_settings_are_refused(refusal: Refusal) -> None:
    refusal.check()


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
        ("192.168.0.1", False), ("example.org", False), ("", False), ("localhost.example.org", False),
    ],
)  # fmt: skip
def test_only_this_machine_reaches_a_local_address(host: str, local: bool) -> None:
    made = settings(host=host, keys=["12345678"])
    assert made.is_local is local
    assert bool(made.names) is local
    if not local:
        assert settings(host=host, keys=["12345678"], hosts=["a.b"]).names >= {"a.b", "localhost"}


def test_a_key_is_one_of_the_keys() -> None:
    keys = Keys(["first-key", "second-key", LONG])
    assert keys
    assert all(keys.has(key) for key in ("first-key", "second-key", LONG))
    assert not any(keys.has(key) for key in ("", "first-key ", "First-key", "first-ke", "k" * 511, "\ud800", "ключ"))
    keys.check("second-key")
    for wrong in (None, "", "third-key"):
        with pytest.raises(Refused) as caught:
            keys.check(wrong)
        assert caught.value.status == 401


def test_without_keys_none_is_needed() -> None:
    keys = Keys([])
    assert not keys
    assert not keys.has("")
    keys.check(None)


def test_models_have_the_names_of_their_folders_or_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    assert named_folders(["runs/a", "b=runs/c", "runs/d=e", "runs/a/", "x y=z", "."]) == [
        ("a", "runs/a"), ("b", "runs/c"), ("d=e", "runs/d=e"), ("a", "runs/a/"), ("x y=z", "x y=z"), ("model", "."),
    ]  # fmt: skip


# --- where it listens -------------------------------------------------------------------------------------------------


def test_a_host_that_there_is_not_is_refused() -> None:
    with refuses("`host` is `nowhere.invalid`, but no machine has that name."):
        listen(settings(host="nowhere.invalid", keys=["12345678"]))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_port_that_is_free_is_taken(host: str) -> None:
    try:
        taken = listen(settings(host=host, port=0))
    except MachineError:
        assert host == "::1", "a machine may have no IPv6"
        return
    with taken:
        port = taken.getsockname()[1]
        assert port > 0
        assert taken.proto == socket.IPPROTO_TCP, "else asyncio lets the last part of an answer wait"
        with pytest.raises(MachineError, match="cannot be used"):
            listen(settings(host=host, port=port))
