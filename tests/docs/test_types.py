"""Every Python line of README and the pages is accepted by `mypy --strict`, as in a user's own program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import PAGES, ROOT, blocks_of, statements_in

NOTEBOOK = "docs/guide/quickstart.ipynb"
# What the reader has at hand in a Python block, as in `test_pages`.
AT_HAND = "texts: list[str]; premises: list[str]; hypotheses: list[str]"


def program_of(page: str) -> str:
    """Return the Python blocks of a page, in order, on the lines that they have on the page."""
    lines = [AT_HAND]
    for block in blocks_of(page):
        if block.language == "python":
            lines += [""] * (block.line - len(lines)) + statements_in(block.text).splitlines()
    return "\n".join(lines)


@pytest.mark.wide
def test_mypy_accepts_every_python_line_of_the_pages(tmp_path: Path) -> None:
    programs = {page: program_of(page) for page in PAGES}
    cells = json.loads((ROOT / NOTEBOOK).read_text(encoding="utf-8"))["cells"]
    programs[NOTEBOOK] = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for page, program in programs.items():
        if program != AT_HAND:
            name = re.sub(r"\W", "_", page.partition(".")[0])
            (tmp_path / f"page_{name}.py").write_text(program + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--allow-redefinition", "--no-error-summary"]
    command += ["--disable-error-code", "import-not-found"]  # of trackers, which Heedful does not need
    command += ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    found = subprocess.run(
        [*command, *sorted(map(str, tmp_path.glob("page_*.py")))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        check=False,
    )
    assert found.stdout + found.stderr == ""
