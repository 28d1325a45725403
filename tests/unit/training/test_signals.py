"""Signals inside a StopRequest are requests; outside they are what they were."""

import os
import signal
import threading
import time
from typing import Any

import pytest
from tests.shared.patience import PATIENCE

from heedful.base.errors import Stopped
from heedful.training.signals import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noted_and_the_old_handler_comes_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop, stop.during_training():
        assert stop.signal is None
        signal.raise_signal(number)
        assert stop.signal == number
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_or_after_training_ends_the_work_at_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match=r"^Nothing to save\.$") as stopped, StopRequest("Nothing to save.") as stop:  # noqa: PT012
        with stop.during_training():
            pass
        os.kill(os.getpid(), number)
        pytest.fail("the work went on")
    assert stopped.value.exit_code == 128 + number
    assert signal.getsignal(number) == before


def test_a_signal_to_save_is_taken_once_and_stops_nothing() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with StopRequest() as stop:
        assert not stop.take_save()
        os.kill(os.getpid(), signal.SIGUSR1)
        with stop.during_training():
            os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.take_save()
        assert not stop.take_save()
        assert stop.signal is None
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_hang_up_that_is_ignored_already_stays_ignored() -> None:
    """`nohup` asks for that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.signal is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_where_there_is_no_hang_up_the_other_signals_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.delattr(signal, "SIGHUP")
    monkeypatch.delattr(signal, "SIGUSR1")
    with StopRequest() as stop, stop.during_training():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    entered: list[StopRequest] = []

    def work() -> None:
        with StopRequest() as stop:
            entered.append(stop)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(entered) == 1


def test_a_second_interrupt_stops_at_once() -> None:
    with StopRequest() as stop, pytest.raises(KeyboardInterrupt), stop.during_training():  # noqa: PT012  # both signals
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_handlers_are_installed_stops_in_order(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, install = signal.getsignal(number), signal.signal

    def interrupted(which: int, handler: Any) -> Any:
        found = install(which, handler)
        if which == number and handler not in (before, signal.SIG_DFL):
            signal.raise_signal(number)
        return found

    monkeypatch.setattr(signal, "signal", interrupted)
    with pytest.raises(Stopped, match=r"^Nothing to save\.$") as stopped, StopRequest("Nothing to save."):
        pytest.fail("the work began")
    assert stopped.value.exit_code == 128 + number
    assert signal.getsignal(number) == before


def test_a_signal_while_handlers_are_restored_is_for_those(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    before, install = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number)), signal.signal

    def interrupted(which: int, handler: Any) -> Any:
        if which == signal.SIGINT and leaving:
            signal.raise_signal(signal.SIGTERM)
        return install(which, handler)

    leaving = False
    monkeypatch.setattr(signal, "signal", interrupted)
    try:
        with StopRequest():
            leaving = True
        assert heard == [signal.SIGTERM]
    finally:
        install(signal.SIGTERM, before)


def test_a_signal_is_not_lost_where_python_ignores_exceptions() -> None:
    class Careless:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)

    with pytest.raises(Stopped, match=r"^Nothing to save\.$"), StopRequest("Nothing to save."):  # noqa: PT012
        careless = Careless()
        del careless
        time.sleep(PATIENCE)
        pytest.fail("the work went on")


def test_a_library_that_makes_another_error_of_a_signal_hides_nothing() -> None:
    with pytest.raises(Stopped, match=r"^Nothing to save\.$") as stopped, StopRequest("Nothing to save."):  # noqa: PT012
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(PATIENCE)
        except KeyboardInterrupt as error:
            raise ImportError("initialization failed") from error
    assert stopped.value.exit_code == 128 + signal.SIGHUP
