"""Measures how many branches of src/heedful the tests of `make test` and of `make test-all` take, in all processes.

    python scripts/branch_coverage.py                              # both sets of tests, about an hour
    python scripts/branch_coverage.py --json coverage.json         # and what is missed, file by file, as JSON
    python scripts/branch_coverage.py -- tests/unit/decode -n 0    # arguments of pytest, here of one folder

Last lines printed: branches and lines that are taken. Exit code 1 where a test failed.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
SELECTIONS = ("not learn and not recipes and not wide and not faults", "wide")  # as in the Makefile
SETTINGS = """[run]
branch = True
source = {source}
data_file = {data}
parallel = True
concurrency = thread,multiprocessing
"""
NOTHING_SELECTED = 5  # pytest's exit code where no test has the mark


def measure(pytest_arguments: list[str], folder: Path) -> tuple[dict[str, float], bool]:
    """Run the tests with coverage; return coverage's totals, and whether all tests passed. The data stay in folder."""
    settings = folder / "coveragerc"
    settings.write_text(SETTINGS.format(source=ROOT / "src/heedful", data=folder / "data"))
    environment = {**os.environ, "COVERAGE_PROCESS_START": str(settings)}  # processes that tests start count too
    passed = True
    for number, selection in enumerate(SELECTIONS):
        command = [sys.executable, "-P", "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", selection]
        command += ["--cov", f"--cov-config={settings}", "--cov-report=", *(["--cov-append"] if number else [])]
        ended = subprocess.run([*command, *pytest_arguments], cwd=ROOT, env=environment)
        passed = passed and ended.returncode in (0, NOTHING_SELECTED)
    written = ["-m", "coverage", "json", f"--rcfile={settings}", "-o", str(folder / "coverage.json"), "--quiet"]
    subprocess.run([sys.executable, "-P", *written], cwd=ROOT, check=True)
    return json.loads((folder / "coverage.json").read_text())["totals"], passed


def main() -> None:
    """Print the share of branches that are taken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="where coverage's own report goes")
    parser.add_argument("pytest_arguments", nargs="*", metavar="ARGUMENT", help="arguments of pytest, after --")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        totals, passed = measure(arguments.pytest_arguments, Path(folder))
        if arguments.json:
            arguments.json.write_bytes((Path(folder) / "coverage.json").read_bytes())
    for what, taken, all_of_them in (
        ("branches", totals["covered_branches"], totals["num_branches"]),
        ("lines", totals["covered_lines"], totals["num_statements"]),
    ):
        print(f"{taken:,} of {all_of_them:,} {what}: {100 * taken / all_of_them:.2f}%")
    print(f"together {totals['percent_covered']:.2f}%")
    sys.exit(not passed)


if __name__ == "__main__":
    main()
