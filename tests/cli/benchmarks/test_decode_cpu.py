"""The benchmark of inference on a CPU: it runs, it finds the fastest settings, and both sides have the same network."""

import math
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from typing import Any, Self

import pytest
from benchmarks.cpu import decode_cpu, decode_cpu_engines, decode_cpu_parts, decode_cpu_peers
from benchmarks.cpu.decode_cpu_engines import Answer, EngineError

from heedful.base.processes import child_environment, run_module


@pytest.mark.wide
@pytest.mark.parametrize("part", ["bert", "gpt"])
def test_the_parts_that_need_no_peer_but_transformers_run(part: str) -> None:
    command = run_module("benchmarks.cpu.decode_cpu", "--tiny", "--parts", part)
    done = subprocess.run(command, env=child_environment("benchmarks"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ratio_{part}_2" in done.stdout


@pytest.mark.parametrize(("installed", "why"), [(None, "is not installed"), ("4.6.1", "4.6.1 is too old")])
def test_what_is_missing_is_named_with_the_way_to_install_it(
    installed: str | None, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(package: str) -> str:
        if installed is None:
            raise PackageNotFoundError(package)
        return installed

    monkeypatch.setattr(decode_cpu_peers, "version", version)
    monkeypatch.setattr(sys, "argv", ["decode_cpu", "--tiny", "--parts", "speed"])
    with pytest.raises(SystemExit):
        decode_cpu.main()
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f'CTranslate2 {why}: pip install "ctranslate2>=4.8"')


class _Timed:
    """An engine that takes as long as a table says."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def ask(self, case: Any) -> Answer:
        if self.seconds is None:
            raise EngineError("this machine does not have it")
        return Answer(self.seconds * case, 0.0, None)


def test_the_fastest_setting_is_chosen_and_what_a_machine_does_not_have_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {("int8", "MKL", ""): 3.0, ("int8", "oneDNN", ""): 2.0, ("int8_float32", "oneDNN", ""): 1.0}

    def start(maker: str, threads: int, setting: decode_cpu_peers.Setting, **given: object) -> _Timed:
        return _Timed(seconds.get((setting.compute_type, setting.backend, setting.instructions)))

    monkeypatch.setattr(decode_cpu_peers, "start", start)
    choice = decode_cpu_peers.Choice("an engine", 1, {"work": (2.0, 1)}, lambda setting: {})
    choice.try_int8()
    assert choice.best["work"].title == "int8_float32, oneDNN"
    assert choice.seconds["work"] == {"int8, MKL": 6.0, "int8, oneDNN": 4.0, "int8_float32, oneDNN": 2.0}
    assert [failed.partition(":")[0] for failed in choice.failed] == [
        "int8, packed MKL", "int8_bfloat16, oneDNN", "int8_float32, oneDNN, its own kernels with AVX2",
    ]  # fmt: skip


def test_with_more_threads_only_settings_are_tried_that_were_nearly_the_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {"MKL": 1.0, "packed MKL": 1.2, "oneDNN": 2.0}
    monkeypatch.setattr(
        decode_cpu_peers, "start", lambda maker, threads, setting, **given: _Timed(seconds[setting.backend])
    )
    one, two = (decode_cpu_peers.Choice("an engine", threads, {"work": (1.0, 1)}, lambda _: {}) for threads in (1, 2))
    one.try_out(decode_cpu_peers.Setting("int8", backend) for backend in seconds)
    assert [setting.title for setting in one.near()] == ["int8, MKL", "int8, packed MKL"]
    two.try_threads(one.near())
    assert [*two.seconds["work"]] == ["int8, MKL", "int8, packed MKL", "int8, MKL, threads that spin"]


def test_no_round_but_the_first_begins_when_the_minutes_are_over() -> None:
    asked: list[Any] = []

    class Waiting(_Timed):
        def wait(self) -> float:
            return 0.0

        def ask(self, case: Any, calls: int = 1) -> Answer:
            asked.append(case)
            return super().ask(1.0)

    engines: dict[str, Any] = {"one": Waiting(1.0), "other": Waiting(2.0)}
    turns: dict[str, Any] = {"case": "work", "rounds": 3, "calls": 1, "warm": "before"}
    over, going = (decode_cpu_engines.alternate(engines, **turns, until=until) for until in (0.0, math.inf))
    assert [len(answers) for answers in (over["one"], over["other"], going["one"], going["other"])] == [1, 1, 3, 3]
    assert asked[:4] == ["before", "before", "work", "work"]


def test_tokens_count_until_the_first_difference() -> None:
    assert decode_cpu_parts.same_start([[1, 2, 3, 9]], [[1, 2, 3, 8]]) == 1.0  # the last one does not count
    assert decode_cpu_parts.same_start([[1, 2, 3, 9], [5, 6, 7, 9]], [[1, 4, 3, 9], [5, 6, 7, 9]]) == 4 / 6
