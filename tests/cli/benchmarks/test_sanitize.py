"""What is read out of the logs of compute-sanitizer, and that its driver runs without a GPU too."""

import os
import subprocess
import sys
from collections import Counter

from benchmarks.gpu.sanitize import OURS, PARTS, ROOT, Outcome, _our_kernels, _page, _reports
from tests.shared.patience import PATIENCE

OURS_OF_BLOCKS = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at _forward+0x3a0 in src/heedful/nn/kernels/residual_norm.py:90
=========     by thread (64,0,0) in block (0,0,0)
=========
========= Invalid __global__ write of size 4 bytes
=========     at 0x90 in void at::native::elementwise_kernel<(int)4, at::native::FillFunctor<float>>(int, T2, T3)
=========     by thread (1,0,0) in block (0,0,0)
========= Uninitialized __global__ memory read of size 2 bytes
=========     at _forward+0x3b0 in src/heedful/nn/kernels/residual_norm.py:91
========= ERROR SUMMARY: 1203 errors
"""
THEIRS = "void at::native::elementwise_kernel<(int)4, at::native::FillFunctor<float>>(int, T2, T3)"


def test_reports_are_counted_by_kernel_in_both_forms_of_the_tool() -> None:
    assert _reports(OURS_OF_BLOCKS) == (1203, Counter({"_forward": 2, THEIRS: 1}))
    assert _reports("========= COMPUTE-SANITIZER\n") == (None, Counter())
    assert _reports("========= ERROR SUMMARY: 0 errors\n") == (0, Counter())


def test_the_page_names_our_kernels_and_what_was_not_whole() -> None:
    errors, kernels = _reports(OURS_OF_BLOCKS)
    outcomes = [
        Outcome("norms", "memcheck", 9, True, "exit 0", 1.0, 0, Counter(), []),
        Outcome("norms", "initcheck", 4, False, "stopped at its limit", 2.0, errors, kernels, ["NOT FINITE: x"]),
    ]
    page = _page(outcomes, _our_kernels(), "Version 1\n", 3.0).splitlines()
    assert [line.split() for line in page if line.startswith("norms  ")] == [
        ["norms", "memcheck", "9", "yes", "0", "1", "exit", "0"],
        ["norms", "initcheck", "4", "NO", "1203", "2", "stopped", "at", "its", "limit"],
    ]
    assert "norms initcheck: NOT FINITE: x" in page
    assert "     2  OURS _forward" in page
    assert f"     1  {THEIRS}" in page
    assert "kernels in reports of memcheck: none" in page


def test_every_kernel_of_ours_is_known_by_name() -> None:
    marked = sum(file.read_text().count("@triton.jit") for file in (ROOT / "src/heedful/nn/kernels").glob("*.py"))
    found = [name for file in (ROOT / "src/heedful/nn/kernels").glob("*.py") for name in OURS.findall(file.read_text())]
    assert len(found) == marked > 20


def test_a_part_runs_on_a_cpu() -> None:
    """Searches in slots: the quickest part; the others are tried by hand."""
    assert "slots" in PARTS
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu.sanitize_work", "slots"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["complete"], done.stderr
    assert len(lines) >= 4
    assert all(line.startswith("ran: ") for line in lines[:-1])
