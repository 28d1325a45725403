"""BERT folders to import and to damage."""

import shutil
from pathlib import Path

import pytest
from tests.unit.interop.bert.bert_folders import write_bert


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT folder that can be imported."""
    folder = tmp_path_factory.mktemp("whole") / "bert"
    write_bert(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(whole, tmp_path / "bert")
