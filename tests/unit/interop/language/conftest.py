"""Folders of language models to import and to damage."""

import shutil
from pathlib import Path

import pytest
from tests.unit.interop.language.language_folders import write_gpt2, write_llama


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 folder that can be imported."""
    folder = tmp_path_factory.mktemp("whole") / "gpt2"
    write_gpt2(folder)
    return folder


@pytest.fixture(scope="session")
def whole_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama folder that can be imported."""
    folder = tmp_path_factory.mktemp("whole") / "llama"
    write_llama(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the GPT-2 folder."""
    return shutil.copytree(whole, tmp_path / "gpt2")
