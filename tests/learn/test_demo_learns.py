"""The demo's promise: unseen combinations of words, translated exactly."""

from pathlib import Path

import pytest

import heedful
from heedful.data.builtin.english_spanish import sentence_pairs


@pytest.mark.recipes
def test_the_demo_model_translates_98_percent_of_held_out_sentences_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    model = heedful.Translator.load(heedful.train("demo-en-es", tmp_path / "run"))
    sources, references = zip(*sentence_pairs("test", 2000), strict=True)
    right = sum(map(str.__eq__, model.translate(sources), references))
    assert right >= 0.98 * len(sources)
