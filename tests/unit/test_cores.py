"""Cores that may be used, threads that wait, and other work on the same cores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heedful.base.cores import SPINS, CoreClock, limit_spinning, usable_cores


def test_waiting_threads_sleep_soon_unless_the_user_decides_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    fresh: dict[str, str] = {}
    limit_spinning(fresh)
    assert fresh == {"GOMP_SPINCOUNT": SPINS}
    for chosen in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        own = {chosen: "x"}
        limit_spinning(own)
        assert own == {chosen: "x"}


def test_nothing_is_set_once_torch_is_there() -> None:
    import torch  # noqa: F401

    environment: dict[str, str] = {}
    limit_spinning(environment)
    assert environment == {}


def test_importing_heedful_limits_spinning_before_torch_is_imported() -> None:
    program = "import heedful, os, sys; print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)"
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    done = subprocess.run([sys.executable, "-c", program], env=bare, capture_output=True, text=True, check=True)
    assert done.stdout == f"{SPINS} False\n"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000\n"}, 3),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "20000 100000\n"}, 1),
        ({"cpu.max": "900000 100000\n"}, 3),
        ({"cpu.max": "nonsense"}, 3),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({}, 3),
    ],
)
def test_the_quota_of_a_container_limits_the_cores(
    files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_cores(tmp_path) == cores


def test_the_time_that_threads_waited_for_a_core_is_read_from_the_kernel(tmp_path: Path) -> None:
    for thread, waited in (("7", 2_000_000_000), ("8", 500_000_000)):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(f"123 {waited} 45\n")
    clock = CoreClock.read(tmp_path)
    assert clock is not None
    assert clock.waited == 2.5
    assert CoreClock(12.5, clock.at + 20).share_waited_since(clock, threads=2) == 0.25
    assert CoreClock.read(tmp_path / "nowhere") is None
