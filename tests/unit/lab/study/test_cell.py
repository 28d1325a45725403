"""What is measured of a cell: of which scores lower values are better."""

from pathlib import Path

import pytest

import heedful
from heedful.lab.study.cell import measure
from heedful.lab.study.summary import compare_with_base
from heedful.lab.study.tables import verdict


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model after two updates."""
    folder = tmp_path_factory.mktemp("language")
    (folder / "text.txt").write_text("the cat sat on the mat .\nthe dog saw it .\n" * 20)
    text = {"text": str(folder / "text.txt"), "documents": "line"}
    recipe = {
        "data": {"train": text, "valid": text, "test": text, "max_length": 16, "batch_tokens": 64},
        "tokenizer": {"kind": "char"},
        "model": {
            "family": "language",
            "decoder": {"family": "transformer", "width": 8, "heads": 2, "layers": 1, "inner": 8},
        },
        "train": {"steps": 2, "validation": {"every": 2}, "device": "cpu"},
    }
    return Path(heedful.train(recipe, folder / "run", quiet=True))


@pytest.mark.parametrize("metric", ["bits_per_byte", "word_perplexity", "perplexity", "line_loss"])
def test_of_units_that_language_models_are_scored_in_lower_is_better(run: Path, metric: str) -> None:
    found = measure(run, metric)
    more = {**found, "scores": {**found["scores"], metric: found["scores"][metric] + 1}}
    test = compare_with_base([found], [more], metric)
    assert test is not None
    assert test["lower"]
    assert verdict({**test, "p_adjusted": 0.001}) == "worse"
    assert verdict({**test, "difference": -1.0, "p_adjusted": 0.001}) == "better"
