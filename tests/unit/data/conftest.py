from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("heedful", deadline=None)  # the machine may be busy with other work
settings.load_profile("heedful")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEEDFUL_CACHE", str(folder))
    return folder
