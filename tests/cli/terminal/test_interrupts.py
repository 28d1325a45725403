"""Signals end a command with the right exit code and one line at most, however many come and wherever they come."""

import signal
import subprocess
import sys
from collections.abc import Mapping

import pytest
from tests.shared.patience import PATIENCE

# A verb whose work cannot be ended quickly: it tidies up for minutes, and a thread of it never ends.
PROGRAM = """
import sys, threading, time
from types import ModuleType
from heedful.cli import main
from heedful.training.signals import StopRequest

kind = sys.argv[1]

class Careless:
    def __del__(self):
        wait("ready")  # an exception here is ignored by Python

def work():
    threading.Thread(target=time.sleep, args=(600,)).start()
    try:
        if kind == "deleted":
            careless = Careless()
            del careless
        if kind in ("short", "plain"):
            wait("ready")
        with StopRequest("Nothing to save.") as stop:
            try:
                if kind == "stop":
                    wait("ready")
                with stop.during_training():
                    wait("ready", lambda: stop.signal)
                    wait("recorded")
            finally:
                wait("ending")
    finally:
        if kind != "short":
            wait("ending")

def wait(stage, done=lambda: False):
    print(stage, flush=True)
    while not done():
        time.sleep(0.01)

probe = sys.modules["heedful.cli.probe"] = ModuleType("heedful.cli.probe")
probe.command = work
main.VERBS = {"probe": ("heedful.cli.probe", "Probe.")}
sys.argv = ["heedful", "probe"]
main.main()
"""
INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.mark.parametrize(
    ("kind", "signals", "code", "expected"),
    [
        ("short", {"ready": INT}, 130, "heedful: interrupted.\n"),
        ("plain", {"ready": INT, "ending": INT}, 130, ""),
        ("deleted", {"ready": INT}, 130, ""),
        ("stop", {"ready": HUP, "ending": HUP}, 129, ""),
        ("stop", {"ready": TERM, "ending": INT}, 130, ""),
        ("training", {"ready": INT, "recorded": INT, "ending": INT}, 130, ""),
        ("training", {"ready": INT, "recorded": INT, "ending": TERM}, 143, ""),
    ],
)
def test_a_signal_to_a_command_that_is_ending_ends_it_at_once(
    kind: str, signals: Mapping[str, signal.Signals], code: int, expected: str
) -> None:
    command = [sys.executable, "-P", "-c", PROGRAM, kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear)
    assert process.stdout is not None
    for stage, number in signals.items():
        assert process.stdout.readline() == f"{stage}\n"
        process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (code, expected)


def hear() -> None:
    """Tests may run under `nohup`, or in the background: what they start would ignore signals too."""
    for number in (INT, TERM, HUP):
        signal.signal(number, signal.SIG_DFL if number != INT else signal.default_int_handler)


def test_an_interrupt_before_the_command_line_is_imported_shows_no_traceback() -> None:
    program = (
        "import signal, sys, heedful.__main__ as start; from importlib.abc import MetaPathFinder\n"
        "class Late(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'heedful.cli.main': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Late()); start.main()"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], stderr=subprocess.PIPE, text=True, preexec_fn=hear)
    assert (done.returncode, done.stderr) == (-INT, "")
