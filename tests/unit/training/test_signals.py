"""Signals inside a StopRequest are wishes; outside they are what they were."""

import os
import signal
import threading

import pytest

from heedful.training.signals import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noted_and_the_old_handler_comes_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert stop.signal is None
        signal.raise_signal(number)
        assert stop.signal == number
    assert signal.getsignal(number) == before


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
    with StopRequest() as stop:
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
    with StopRequest(), pytest.raises(KeyboardInterrupt):  # noqa: PT012  # both signals belong to the case
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
