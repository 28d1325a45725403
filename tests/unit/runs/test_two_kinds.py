"""A translator whose sides are tokenized by two kinds, from training to its bundle and back."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.shared.refusals import refuses

from heedful.config.recipe import Recipe
from heedful.data.prepare.pairs import prepare
from heedful.models.bundle import read_bundle
from heedful.runs.training_run import train
from heedful.tasks.translate.model import Translator

WORDS = ("ant bee", "bee cat", "cat ant bee")
SPELT = ("Ameise Biene", "Biene Katze", "Katze Ameise Biene")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "en").write_text("".join(f"{line}\n" for line in WORDS * 4))
    (tmp_path / "de").write_text("".join(f"{line}\n" for line in SPELT * 4))
    return tmp_path


def recipe(folder: Path, **tokenizer: Any) -> Recipe:
    return Recipe.model_validate(
        {
            "data": {"folder": str(folder), "train": {"source": "en", "target": "de"}, "batch_tokens": 64},
            "tokenizer": tokenizer,
            "model": {
                "family": "transformer", "tie": "decoder", "width": 8, "heads": 2, "layers": 1, "inner": 8
            },
            "train": {"steps": 2, "threads": 1, "device": "cpu"},
        }
    )  # fmt: skip


def test_characters_are_translated_to_words(folder: Path) -> None:
    asked = recipe(folder, kind="char", target={"kind": "word", "size": 6})
    train(asked, folder / "run", console=Console(file=io.StringIO()))
    bundle = read_bundle(folder / "run")
    assert bundle.recipe.tokenizer == asked.tokenizer
    assert bundle.vocabularies["source"].pieces(bundle.vocabularies["source"].encode("bee")) == ["b", "e", "e"]
    target = bundle.vocabularies["target"]
    assert target.size == 6  # four special pieces and the two most frequent words
    assert target.encode("Biene Ameise")[0] == 4
    assert sorted(file.name for file in (folder / "run").glob("tokenizer*.json")) == [
        "tokenizer.source.json",
        "tokenizer.target.json",
    ]
    model = Translator.load(folder / "run", device="cpu")
    assert all(isinstance(text, str) for text in model.translate(list(WORDS)))


def test_a_side_s_vocabulary_depends_on_its_own_table_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
    two = prepare(recipe(folder, kind="char", target={"kind": "word"}))
    said: list[str] = []
    letters = prepare(recipe(folder, kind="char", joint=False), said.append)
    words = prepare(recipe(folder, kind="word", joint=False), said.append)
    assert two.vocabularies["source"].fingerprint == letters.vocabularies["source"].fingerprint
    assert two.vocabularies["target"].fingerprint == words.vocabularies["target"].fingerprint
    trained = [line.split(":")[0] for line in said if line.startswith("training")]
    assert trained == ["training the tokenizer of the target side", "training the tokenizer of the source side"]


def test_the_target_s_sample_is_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
    said: list[str] = []
    prepare(recipe(folder, kind="char", target={"kind": "word", "sample": 5}), said.append)
    assert "training the tokenizer of the source side: char, 5,000 pieces" in said
    assert (
        "training the tokenizer of the target side: word, 50,000 pieces, on 5 of 12 texts (`tokenizer.target.sample`)"
        in said
    )


def test_the_target_s_size_is_named_as_its_own(folder: Path) -> None:
    with refuses("`tokenizer.target.size` is 4, but must be more than 4, the number of special pieces."):
        prepare(recipe(folder, kind="char", target={"kind": "word", "size": 4}))
