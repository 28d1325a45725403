"""Damaged inputs of every kind: used, or refused in one line, without an escape, within bounds of time and memory.

`benchmarks/damage/mutations.py` does this with 10,000 inputs, guided by coverage.
"""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from benchmarks.damage.damaging import OWN
from benchmarks.damage.kinds import KINDS, Inputs
from benchmarks.damage.mutators import TEXT
from tests.shared.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SLOW = ("study", "cache", "checkpoint")  # kinds whose sound inputs are trained first, or that train when they are read


def damaged(*options: str) -> dict[str, object]:
    """Run damaged inputs, and return the figures."""
    program = [sys.executable, "benchmarks/damage/mutations.py", "--unguided", "--no-record", *options]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
    printed = f"\n{done.stdout}"
    figures: dict[str, object] = json.loads(printed[printed.rindex("\n{") :])
    assert (figures["tracebacks"], figures["hangs"], figures["escapes"]) == (0, 0, 0), done.stdout
    return figures


def test_a_damaged_input_is_used_or_refused_in_one_line() -> None:
    kinds = [kind for kind in KINDS if kind not in SLOW]
    number = 15 * len(kinds)  # 20 seconds on two cores
    assert damaged("--inputs", str(number), "--first", "1000000", "--kinds", *kinds)["inputs"] == number


@pytest.mark.wide
def test_damaged_inputs_of_all_kinds_within_limits() -> None:
    figures = damaged("--inputs", "300", "--first", "2000000")
    assert figures["inputs"] == 300
    assert float(str(figures["largest_mib"])) < 1000


def test_an_input_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    for name in ("table:5.7", "recipe:3", "archive:11", "bundle:2.9.4"):
        made = []
        for place in ("once", "again"):
            folder = tmp_path / place / name
            folder.mkdir(parents=True)
            commands = Inputs(tmp_path / place / "sound").work(name).make(folder)
            files = {
                str(path.relative_to(folder)): path.read_bytes()
                for path in sorted(folder.rglob("*"))
                if path.is_file() and not path.is_symlink()
            }
            made.append((commands, files))
        assert made[0] == made[1]


@pytest.mark.parametrize("mutator", dict.fromkeys((*TEXT, *(one for several in OWN.values() for one in several))))
def test_a_mutator_takes_any_bytes_and_is_a_function_of_its_seed(mutator: object) -> None:
    assert callable(mutator)
    for data in (b"", b"\0", b"x" * 40, b'{"a": [1]}', b"a = 1\n", b"<a>b</a>", b"PK\3\4", bytes(range(256))):
        for seed in range(3):
            assert mutator(Random(seed), data) == mutator(Random(seed), data)


WATCHED = """
import os, pathlib, pickle, socket, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from benchmarks.damage.watching import watch
folder = Path(sys.argv[2])
os.chdir(folder)
with watch(folder, None):
    exec(sys.argv[3])
"""


@pytest.mark.parametrize(
    ("does", "found"),
    [
        ("Path('inside').write_text('x'); Path('inside').unlink()", ""),
        ("Path('/dev/null').write_text('x')", ""),
        ("Path('../outside').write_text('x')", "writes to"),
        ("Path('link').symlink_to('../outside'); Path('link').write_text('x')", "writes to"),
        ("os.rename('a', '../b') if Path('a').touch() is None else 0", "os.rename"),
        ("subprocess.run(['true'])", "subprocess.Popen"),
        ("Path('m.py').write_text('x = 1'); sys.path.insert(0, ''); import m", "m.py"),
        ("socket.socket().connect_ex(('127.0.0.1', 9))", "socket.connect"),
        ("pickle.loads(pickle.dumps(os.path.join))", "pickle.find_class"),
    ],
)
def test_escapes_are_seen(does: str, found: str, tmp_path: Path) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    command = [sys.executable, "-c", WATCHED, str(ROOT), str(folder), does]
    subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)
    escapes = json.loads((tmp_path / "input.seen").read_text())["escapes"]
    assert bool(escapes) is bool(found)
    assert found in "".join(escapes)
