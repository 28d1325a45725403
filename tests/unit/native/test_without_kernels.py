"""Where there is no compiler or no instruction set, or no kernel is wanted, PyTorch computes everything."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
QUICK = "not learn and not recipes and not wide and not faults"
PARTS = {
    "int8": [
        "tests/unit/native",
        "tests/unit/models/test_int8_weights.py",
        "tests/unit/tasks/shared/test_int8_models.py",
        "tests/golden/test_bundles.py",
        "tests/cli/verbs/test_quantize.py",
    ],
    "searches": [
        "tests/unit/decode",
        "--ignore=tests/unit/decode/slots",  # which are for GPUs
        "tests/contract/decoding",
        "tests/contract/test_decoding.py",
    ],
    "tasks": [
        "tests/tasks/test_threads.py",
        "tests/unit/tasks/translate",
        "tests/unit/tasks/generate",
        "tests/cli/verbs/test_translate.py",
        "tests/cli/verbs/test_shortlist.py",
    ],
}
UNLIKE = "no kernels: `$HEEDFUL_NATIVE` is `off`"  # why tests of the kernels themselves are left out


@pytest.mark.wide
@pytest.mark.parametrize("part", PARTS)
def test_without_kernels_the_quick_tests_pass(part: str) -> None:
    command = [sys.executable, "-m", "pytest", "--verbosity=0", "-rs", "-n", "0", "-p", "no:cacheprovider", "-m", QUICK]
    child = os.environ | {"HEEDFUL_NATIVE": "off", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    for name in [name for name in child if name.startswith("PYTEST_")]:  # of the run that this test is in
        del child[name]
    done = subprocess.run([*command, *PARTS[part]], cwd=ROOT, env=child, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert part != "int8" or UNLIKE in done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 50
