"""The task of language models from its recipe: what its data must have, and what a trained model is used for."""

from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

import heedful

STACK = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "max_positions": 64}


def recipe(**data: Any) -> dict[str, Any]:
    return {
        "data": {"max_length": 64, "batch_tokens": 256, **data},
        "tokenizer": {"kind": "char"},
        "model": {"family": "language", "decoder": {"family": "transformer", **STACK}},
        "train": {"steps": 2, "device": "cpu", "precision": "float32"},
    }


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))


def test_texts_without_one_full_window_are_refused(tmp_path: Path) -> None:
    with refuses("The texts have 14 tokens, which do not fill ... (64) tokens: give more text, or lower it."):
        heedful.train(recipe(borders="open"), tmp_path / "run", train=["a short text"], quiet=True)


def test_a_model_of_texts_in_memory_generates_scores_and_is_evaluated(tmp_path: Path) -> None:
    run = heedful.train(recipe(), tmp_path / "run", train=["a short text\nof two lines"] * 4, quiet=True)
    model = heedful.load(run, device="cpu")
    assert isinstance(model, heedful.TextGenerator)
    assert isinstance(model.generate("a short", max_tokens=5), str)
    (score,) = model.score(["a text"])
    scores = {score.name: score.value for score in heedful.evaluate(model, ["a text"]).scores()}
    assert scores["loss"] == pytest.approx(-score.per_piece, rel=1e-5)
    assert scores["uniform_perplexity"] == model.vocabularies["text"].size
    assert (tmp_path / "run/README.md").read_text().count("heedful generate") == 1
