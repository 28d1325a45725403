"""NVIDIA's compute-sanitizer over our kernels, recorded updates and searches in slots: memcheck, then initcheck.

    python -m benchmarks.gpu.sanitize FOLDER [--seconds 240] [--part norms ...]

Every part of `sanitize_work` is a line of processes beside the others: first without a tool, which compiles its kernels
and shows that it works; then under memcheck and under initcheck, each for half of the time that is left. The folder
gets `summary.txt`, one page, and `logs.tar.gz`, everything else. It needs nothing but PyTorch, Triton, and what
`import heedful` needs. Ends with 1 if a part was not whole, or a report names a kernel of ours.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("memcheck", "initcheck")
# The parts, and whether each tensor has an allocation of its own: what is recorded must not allocate.
PARTS = {"norms": True, "linear": True, "attention": True, "steps": True, "updates": False, "slots": False}
REFUSED = 5.0  # seconds: a tool that ends before does not take an option, and runs again without any
COMPILING = 0.35  # of the time at most, for all kernels of a part without a tool
# Given where the tool knows them. Python's stacks say nothing of a kernel; calls of CUDA that fail by design, as
# PyTorch's first questions to the driver, are no errors in memory; a kernel that fails must not end what follows.
OPTIONS = {
    "--target-processes": "application-only",
    "--show-backtrace": "no",
    "--report-api-errors": "no",
    "--destroy-on-device-error": "kernel",
    "--print-limit": "500",
    "--max-connections": "64",
    "--launch-timeout": "0",
}
REPORT = re.compile(r"^=+ (?:Invalid|Uninitialized|Misaligned|Out-of-range|Program hit|Leaked|Stack overflow)")
KERNEL = re.compile(r"^=+ +at (?:0x[0-9a-f]+ in )?(?P<kernel>.+?)(?:\+0x[0-9a-f]+.*| in .*)?$")
TOTAL = re.compile(r"ERROR SUMMARY: (?P<count>\d+) error")
OURS = re.compile(r"@triton\.jit\s+def (\w+)")


@dataclass(frozen=True)
class Outcome:
    """What one process showed."""

    part: str
    tool: str
    ran: int
    complete: bool
    ended: str  # how
    seconds: float
    errors: int | None  # None: the tool did not come to its sum
    kernels: Counter[str]  # of reports
    wrong: Sequence[str]  # lines of work whose results are not finite


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0, help="for all of it")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part, and others that are named")
    options = parser.parse_args()
    checker = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if checker is None:
        raise SystemExit("compute-sanitizer is not on the PATH: it comes with CUDA's toolkit")
    options.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    known = _output(checker, "--help")
    given = [word for name, value in OPTIONS.items() if name in known for word in (name, value)]
    ends = began + options.seconds - 5  # to stop what is left, and to write

    def watch(part: str) -> list[Outcome]:
        outcomes = [_run(part, "none", [], logs, began + COMPILING * (ends - began))]
        for left, tool in zip((2, 1), TOOLS, strict=True):
            now = time.monotonic()
            deadline, log = now + (ends - now) / left, ["--log-file", str(logs / f"{part}-{tool}.log")]
            outcome = _run(part, tool, [checker, "--tool", tool, *given, *log], logs, deadline)
            if outcome.errors is None and not outcome.ran and outcome.seconds < REFUSED:
                outcome = _run(part, tool, [checker, "--tool", tool, *log], logs, deadline)
            outcomes.append(outcome)
        return outcomes

    parts, ours = options.part or list(PARTS), _our_kernels()
    with tempfile.TemporaryDirectory() as home:
        logs = Path(home)
        with ThreadPoolExecutor(len(parts)) as threads:
            outcomes = [outcome for found in threads.map(watch, parts) for outcome in found]
        shutil.make_archive(str(options.folder / "logs"), "gztar", home)
    page = _page(outcomes, ours, _output(checker, "--version"), time.monotonic() - began)
    (options.folder / "summary.txt").write_text(page)
    print(page)
    bad = [one for one in outcomes if not one.complete or one.wrong or any(_names(one, ours))]
    sys.exit(1 if bad else 0)


def _run(part: str, tool: str, command: Sequence[str], folder: Path, deadline: float) -> Outcome:
    """Run a part, and stop it and all its children at the deadline."""
    name, began = f"{part}-{tool}", time.monotonic()
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    if PARTS[part]:
        environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    words = [*command, sys.executable, "-m", "benchmarks.gpu.sanitize_work", part]
    with (folder / f"{name}.out").open("wb") as out:
        process = subprocess.Popen(
            words, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env=environment, start_new_session=True
        )
        try:
            ended = f"exit {process.wait(max(1.0, deadline - time.monotonic()))}"
        except subprocess.TimeoutExpired:
            ended = "stopped at its limit"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    shown = (folder / f"{name}.out").read_text(errors="replace").splitlines()
    log = folder / f"{name}.log"
    errors, kernels = _reports(log.read_text(errors="replace") if log.exists() else "")
    return Outcome(
        part, tool, sum(line.startswith("ran: ") for line in shown), "complete" in shown, ended,
        time.monotonic() - began, errors, kernels, [line for line in shown if line.startswith("NOT FINITE")],
    )  # fmt: skip


def _reports(log: str) -> tuple[int | None, Counter[str]]:
    """Return the sum of errors that a log ends with, and how many reports name each kernel."""
    kernels: Counter[str] = Counter()
    waiting = False
    for line in log.splitlines():
        if REPORT.match(line):
            waiting = True
        elif waiting and (found := KERNEL.match(line)):
            kernels[found["kernel"][:100]] += 1
            waiting = False
    totals = TOTAL.findall(log)
    return (int(totals[-1]) if totals else None), kernels


def _our_kernels() -> set[str]:
    """Return the names of our functions in Triton."""
    files = (ROOT / "src/heedful/nn/kernels").glob("*.py")
    return {name for file in files for name in OURS.findall(file.read_text())}


def _names(outcome: Outcome, ours: set[str]) -> list[str]:
    return [kernel for kernel in outcome.kernels if kernel in ours]


def _page(outcomes: Sequence[Outcome], ours: set[str], version: str, seconds: float) -> str:
    lines = [*version.strip().splitlines()[-2:], f"{seconds:.0f} s in all", ""]
    lines.append(f"{'part':10} {'tool':10} {'ran':>4} {'whole':>6} {'errors':>7} {'seconds':>8}  how it ended")
    for one in outcomes:
        errors = "-" if one.tool == "none" else "?" if one.errors is None else str(one.errors)
        whole = "yes" if one.complete else "NO"
        lines.append(f"{one.part:10} {one.tool:10} {one.ran:4} {whole:>6} {errors:>7} {one.seconds:8.0f}  {one.ended}")
    for one in outcomes:
        lines += [f"{one.part} {one.tool}: {line}" for line in one.wrong]
    for tool in TOOLS:
        kernels = sum((one.kernels for one in outcomes if one.tool == tool), Counter[str]())
        lines += ["", f"kernels in reports of {tool}:" + ("" if kernels else " none")]
        lines += [f"{count:6}  {'OURS ' if name in ours else ''}{name}" for name, count in kernels.most_common(20)]
    return "\n".join(lines) + "\n"


def _output(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return result.stdout + result.stderr


if __name__ == "__main__":
    main()
