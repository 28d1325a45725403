"""Each operation of the kernels is its definition, for random shapes, and stays inside its buffers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.native.random_programs import CHECKS, check

from heedful.native.compiler import INSTRUCTIONS, cpu_features
from heedful.native.library import find_library, library

ROOT = Path(__file__).parents[3]
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g", "-fno-omit-frame-pointer")

pytestmark = pytest.mark.skipif(library() is None, reason=f"no kernels: {find_library()}")


@pytest.mark.parametrize("name", CHECKS)
def test_an_operation_is_its_definition(name: str) -> None:
    kernels = library()
    assert kernels is not None
    for seed in range(60):
        check(kernels, name, seed)


@pytest.mark.wide
@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_thousands_of_random_operations_stay_in_their_buffers(instructions: str) -> None:
    if not INSTRUCTIONS[instructions].features <= cpu_features():
        pytest.skip(f"this CPU does not have {INSTRUCTIONS[instructions].title}")
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    sanitizer = found.stdout.strip()
    if not Path(sanitizer).is_absolute():
        pytest.skip("gcc has no address sanitizer here")
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.native.random_programs", "3500", "1000", *SANITIZED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ
        | {
            "HEEDFUL_NATIVE": instructions,
            "CC": "gcc",
            "LD_PRELOAD": sanitizer,
            "ASAN_OPTIONS": "detect_leaks=0",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == f"3500 programs by {INSTRUCTIONS[instructions].title}"
