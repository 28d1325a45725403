"""Folders of runs: those of earlier versions, and made ones."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[3] / "golden" / "runs"
WriteRun = Callable[..., Path]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write the folder of a run, as far as its report reads it."""

    def write(
        name: str = "mine",
        lines: Sequence[dict[str, Any]] = (),
        train: dict[str, Any] | None = None,
        position: dict[str, Any] | None = None,
        **recipe: Any,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        table = {"steps": 40, "log_every": 10, "validation": {"metric": "loss", "patience": None}, **(train or {})}
        config = {"heedful": "0.1", "recipe": {"model": {"family": "transformer"}, "train": table, **recipe}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if position:
            (folder / "checkpoints/step-00000040").mkdir(parents=True)
            (folder / "checkpoints/step-00000040/position.json").write_text(json.dumps(position))
        return folder

    return write


def logged(step: int, loss: float | None = 1.0, **values: Any) -> dict[str, Any]:
    """A line of metrics.jsonl about training."""
    return {"step": step, "part": "train", "loss": loss, **values}


def validated(step: int, **scores: Any) -> dict[str, Any]:
    """A line of metrics.jsonl about a validation."""
    return {"step": step, "part": "valid", **scores}
