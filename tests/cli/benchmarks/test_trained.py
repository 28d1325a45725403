"""The translators that benchmarks share."""

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import sleep

import pytest
from benchmarks.translation import trained

from heedful.tasks.translate.model import Translator


def test_who_needs_the_same_model_waits_for_its_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run folder refuses a second training: three cells of a benchmark once failed for that reason."""
    training, order = Lock(), list[str]()

    def train(_: Sequence[str], run: Path, resume: bool) -> None:
        assert resume
        assert training.acquire(blocking=False)
        sleep(0.05)
        order.append(run.name)
        training.release()

    monkeypatch.setattr(trained, "load_recipe", lambda name, settings: settings)
    monkeypatch.setattr(trained, "train", train)
    monkeypatch.setattr(Translator, "load", lambda run: run.name)
    options = argparse.Namespace(models=tmp_path / "models", data=tmp_path, tiny=False, set=[])
    with ThreadPoolExecutor(3) as pool:
        loaded = list(pool.map(lambda seed: trained.translator("cho", seed, options), [1, 1, 1]))
    assert [str(model) for model in loaded] == ["cho-1"] * 3
    assert order == ["cho-1"] * 3
