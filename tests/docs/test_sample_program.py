"""The types of `heedful` as a program sees them: strictly checked, and mistakes are found."""

from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
MISTAKES = """
import heedful

model = heedful.Translator.load("runs/a")
model.translate("a", beam="3")
model.translate("a", nbest=3)
model.fill("a")
heedful.load("runs/a").translate("a")
"""


@pytest.mark.wide
def test_a_program_is_strictly_typed_and_its_mistakes_are_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(MISTAKES)
    found, errors, _ = api.run(["--strict", "--no-error-summary", str(HERE / "sample_program.py"), str(wrong)])
    assert not errors
    lines = {int(line.split(":")[1]) for line in found.splitlines() if ": error: " in line}
    assert all(line.startswith(str(wrong)) for line in found.splitlines() if ": error: " in line), found
    assert lines == {5, 6, 7, 8}


def test_the_package_says_that_it_is_typed() -> None:
    import heedful

    assert (Path(str(heedful.__file__)).parent / "py.typed").exists()
