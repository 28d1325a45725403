"""Programs of the cards of exported models, run as a reader would."""

import os
import subprocess
import sys
from pathlib import Path


def run_program(folder: Path) -> str:
    """Run the program of a card in its folder, which does not need Heedful, and return what it prints."""
    program = (folder / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert program
    assert "heedful" not in program
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
