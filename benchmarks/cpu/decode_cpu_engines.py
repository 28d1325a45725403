"""Engines of benchmarks.cpu.decode_cpu: processes that hold one network each and work when they are asked to.

Each has its own threads and environment. Between rounds it waits for a line of JSON on standard input, so that it
takes nothing from the engine whose turn it is.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Self

from heedful.base.processes import child_environment, run_module

Answering = Callable[[Any], object]  # from a case to what is found, both as JSON has them
MAKERS: Mapping[str, str] = {  # functions that take the number of threads and further arguments, by name
    "heedful ids": "benchmarks.cpu.decode_cpu_work:translate_ids",
    "heedful file": "benchmarks.cpu.decode_cpu_work:translate_file",
    "heedful continues": "benchmarks.cpu.decode_cpu_work:continue_ids",
    "heedful vectors": "benchmarks.cpu.decode_cpu_work:vectors",
    "ctranslate2 ids": "benchmarks.cpu.decode_cpu_peers:translate_ids",
    "ctranslate2 file": "benchmarks.cpu.decode_cpu_peers:translate_file",
    "ctranslate2 continues": "benchmarks.cpu.decode_cpu_peers:continue_ids",
    "transformers continues": "benchmarks.cpu.decode_cpu_peers:transformers_continue",
}
PAUSE = 0.05  # seconds before a round: threads of the round before may still spin for some milliseconds
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class EngineError(Exception):
    """What went wrong in an engine."""


class Answer(NamedTuple):
    """How long an engine took for one call, and what it found."""

    seconds: float
    cpu_seconds: float  # of all its cores, which other processes change less
    found: Any


class Engine:
    """A process that works when it is asked to; `with` ends it. It starts while others do."""

    def __init__(
        self, maker: str, threads: int, environment: Mapping[str, str] | None = None, **arguments: Any
    ) -> None:
        variables = {**child_environment("benchmarks"), **dict.fromkeys(THREADS, str(threads)), **(environment or {})}
        told = json.dumps({"maker": maker, "threads": threads, **arguments})
        command = run_module("benchmarks.cpu.decode_cpu_engines", told)
        pipe = subprocess.PIPE
        self._maker, self._began = maker, time.perf_counter()
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=variables, text=True)
        self._start_seconds: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait(self) -> float:
        """Wait until it is ready; return the seconds from its start until then."""
        if self._start_seconds is None:
            self._read()
            self._start_seconds = time.perf_counter() - self._began
        return self._start_seconds

    def ask(self, case: object, calls: int = 1) -> Answer:
        """Let it work some times on a case; the seconds are those of one call."""
        self.wait()
        time.sleep(PAUSE)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps({'case': case, 'calls': calls})}\n")
        self._process.stdin.flush()
        answer = self._read()
        return Answer(answer["seconds"], answer["cpu_seconds"], answer["found"])

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"the process ended with {self._process.wait()}"}
        if "error" in answer:
            raise EngineError(f"{self._maker}: {answer['error']}")
        return answer


def alternate(
    engines: Mapping[str, Engine], case: object, rounds: int, calls: int, warm: object, until: float
) -> dict[str, list[Answer]]:
    """Return the answers of each round, by engine: they take turns, after another case that warms them up.

    No round but the first one begins after `until`, in seconds of `time.monotonic`.
    """
    answers: dict[str, list[Answer]] = {name: [] for name in engines}
    for engine in engines.values():
        engine.wait()
    for engine in engines.values():
        engine.ask(warm)
    for done in range(rounds):
        if done and time.monotonic() > until:
            break
        for name, engine in engines.items():
            answers[name].append(engine.ask(case, calls))
    return answers


def _work() -> None:
    """Be an engine: say that it is ready, and answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer

    def say(**answer: object) -> None:
        answers.write(f"{json.dumps(answer)}\n")
        answers.flush()

    told = json.loads(sys.argv[1])
    module, _, function = MAKERS[told.pop("maker")].partition(":")
    try:
        answer: Answering = getattr(import_module(module), function)(**told)
        say(ready=True)
        for line in sys.stdin:
            asked = json.loads(line)
            found: object = None
            calls, began, cpu = asked["calls"], time.perf_counter(), time.process_time()
            for _ in range(calls):
                found = answer(asked["case"])
            seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
            say(seconds=seconds / calls, cpu_seconds=cpu_seconds / calls, found=found)
    except Exception as error:
        say(error=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}")


if __name__ == "__main__":
    _work()
