"""What the laws of the engine share."""

import pytest

from heedful.decode.slots import lanes, runner


@pytest.fixture(autouse=True)
def small_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small buffers, as a step takes as long as they are large, and few steps at once, so that tickets meet."""
    monkeypatch.setattr(lanes, "_ON_CPU", ((4, 16), 16))
    monkeypatch.setattr(runner, "_AT_ONCE", 2)
