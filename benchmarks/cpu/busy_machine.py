"""Training speed next to other work: the share of the quiet machine's speed that is kept beside busy processes.

    python benchmarks/cpu/busy_machine.py [--rounds 3] [--seconds 20] [--demo] [--no-record]

Trains the demo's model in float32, in a process of its own, beside no, one and two single-threaded processes that
never rest, at the same priority. Rounds alternate between the three, and each figure is the median over the rounds.
With --demo, the demo itself runs from its first line to its last, alone and beside one such process.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import harmonic_mean, median

from heedful.base.processes import child_environment, run_module

NEIGHBOUR = "while True: pass"
OVERRIDES = ("train.precision=float32", "train.steps=100000", "train.log_every=5", "train.validation.every=100000")


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keep so many single-threaded processes busy."""
    started = [subprocess.Popen([sys.executable, "-P", "-c", NEIGHBOUR]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def training_speed(seconds: float) -> float:
    """Train for some seconds after the first update, and return the target tokens per second."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        overrides = [argument for override in OVERRIDES for argument in ("--set", override)]
        command = run_module("heedful", "train", "demo-en-es", "--out", str(run), *overrides)
        environment, nowhere = child_environment(), subprocess.DEVNULL
        with subprocess.Popen(command, env=environment, stdout=nowhere, stderr=nowhere) as process:
            metrics = run / "metrics.jsonl"
            while not metrics.exists():
                assert process.poll() is None, "training ended before its first update"
                time.sleep(0.1)
            time.sleep(seconds)
            process.kill()
        lines = [json.loads(line) for line in metrics.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return harmonic_mean(line["tokens_per_second"] for line in lines[1:])  # tokens over time: updates are alike


def demo_minutes() -> float:
    """Run the demo in float32, from its first line to its last."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**child_environment(), "HEEDFUL_CACHE": str(Path(folder) / "cache")}
        command = run_module("heedful", "demo", "--out", str(Path(folder) / "run"), "--set", "train.precision=float32")
        began = time.monotonic()
        subprocess.run(command, stdin=subprocess.DEVNULL, env=environment, check=True)
        return (time.monotonic() - began) / 60


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--no-record", action="store_true")
    arguments = parser.parse_args()
    speeds: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for number in range(arguments.rounds):
        for count, found in speeds.items():
            with neighbours(count):
                found.append(training_speed(arguments.seconds))
            print(f"round {number + 1}, {count} neighbours: {found[-1]:,.0f} tokens/s", flush=True)
    kept = {count: median(b / q for b, q in zip(speeds[count], speeds[0], strict=True)) for count in (1, 2)}
    figures = {
        "tokens_per_second_quiet": median(speeds[0]),
        "tokens_per_second_one": median(speeds[1]),
        "tokens_per_second_two": median(speeds[2]),
        "kept_one": kept[1],
        "kept_two": kept[2],
    }
    if arguments.demo:
        figures["demo_minutes_float32"] = demo_minutes()
        with neighbours(1):
            figures["demo_minutes_busy"] = demo_minutes()
    print(json.dumps(figures, indent=2))
    if not arguments.no_record:
        from heedful.metrics.recorded_results import record

        record("busy", figures, command=f"python {' '.join(sys.argv)}", merge=True)


if __name__ == "__main__":
    main()
