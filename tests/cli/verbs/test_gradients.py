"""`heedful gradients` as a user sees it."""

import json
from pathlib import Path

import pytest

from heedful.cli.main import run

SMALL = ["gradients", "--width", "8", "--length", "12"]


def test_a_table_has_a_column_for_each_cell_and_ends_where_the_steps_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SMALL) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["distance", "tanh", "gru", "lstm"]
    assert [row.split()[0] for row in rows] == ["0", "1", "2", "5", "10"]
    assert rows[0].split()[1:] == ["1", "1", "1"]


def test_json_has_every_distance_and_a_seed_gives_the_same_again(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    for file in files:
        assert run([*SMALL, "--json", "--output", str(file)]) == 0
    one, two = (json.loads(file.read_text()) for file in files)
    assert one == two
    assert {cell: len(curve) for cell, curve in one["norms"].items()} == {"tanh": 12, "gru": 12, "lstm": 12}


def test_no_steps_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gradients", "--length", "0"]) == 2
    assert "Invalid value for '--length': must be at least 1." in capsys.readouterr().err
