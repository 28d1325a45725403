"""Folders to damage."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interop.marian_folders import Change, write_marian


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian folder that can be imported."""
    folder = tmp_path_factory.mktemp("whole") / "opus-mt-en-de"
    write_marian(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(whole, tmp_path / "opus-mt-en-de")


@pytest.fixture
def change(folder: Path) -> Change:
    """Set values of a JSON file of the copy; None takes one away."""

    def change(name: str = "config.json", **values: Any) -> None:
        path = folder / name
        old = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({key: value for key, value in (old | values).items() if value is not None}))

    return change
