"""Tiny classifiers and masked language models of film reviews, made in no time."""

import random
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle, write_description, write_weights
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import Classifier, MaskedModel
from heedful.runs.training_run import train

PRAISE, BLAME = ("great", "lovely", "funny", "superb"), ("dull", "awful", "boring", "flat")
NOUNS = ("film", "story", "cast", "plot", "ending")
TRANSFORMER = {"family": "transformer", "width": 16, "heads": 2, "layers": 1, "inner": 32, "dropout": 0.1}
RECURRENT = {"family": "recurrent", "width": 8, "embedding": 12}
HIERARCHICAL = {"family": "hierarchical", "words": RECURRENT, "sentences": {"family": "recurrent", "width": 6},
                "max_sentence": 4}  # fmt: skip
BERT = {"family": "bert", "width": 16, "heads": 2, "layers": 1, "inner": 32, "max_positions": 40}


def film_texts(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Labels and reviews of one to four sentences."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        label, words = chance.choice((("pos", PRAISE), ("neg", BLAME)))
        sentences = [f"The {chance.choice(NOUNS)} was {chance.choice(words)} ." for _ in range(chance.randint(1, 4))]
        found.append((label, " ".join(sentences)))
    return found


def write_tsv(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path


def classifier_recipe(folder: Path, model: Mapping[str, Any] = {}, **sections: Mapping[str, Any]) -> Recipe:
    """A recipe of reviews in `folder`; its files need not be there as long as nothing is trained."""
    columns = {"label": 1, "text": 2}
    return recipe_from_json(
        {
            "data": {
                "folder": str(folder),
                "train": [{"tsv": "train.tsv", **columns}],
                "valid": [{"tsv": "valid.tsv", **columns}],
                "test": [{"tsv": "test.tsv", **columns}, {"name": "second", "tsv": "valid.tsv", **columns}],
                "batch_tokens": 256,
                "max_length": 24,
                **sections.get("data", {}),
            },
            "tokenizer": {"kind": "word"},
            "model": {"family": "classifier", "encoder": TRANSFORMER, "pool": "mean", **model},
            "train": {
                "steps": 30,
                "schedule": {"kind": "linear", "lr": 0.02, "warmup": 5},
                "precision": "float32",
                "device": "cpu",
                "checkpoint_every": 10,
                "keep_checkpoints": 2,
                "validation": {"every": 30, "metric": "accuracy"},
                **sections.get("train", {}),
            },
        },
        "test recipe",
    )


def masked_recipe(folder: Path, model: Mapping[str, Any] = {}, seed: int = 1) -> Recipe:
    """A recipe of running text in `folder`."""
    return recipe_from_json(
        {
            "data": {
                "folder": str(folder),
                "train": [{"text": "train.txt"}],
                "valid": [{"text": "test.txt"}],
                "test": [{"text": "test.txt"}],
                "batch_tokens": 256,
                "max_length": 40,
            },
            "tokenizer": {"kind": "word"},
            "model": {**BERT, **model},
            "train": {"seed": seed},
        },
        "test recipe",
    )


def trained_classifier(home: Path) -> Path:
    """A run folder of a classifier that learned to tell praise from blame; the texts are in `home` too."""
    for number, (name, count) in enumerate((("train", 80), ("valid", 20), ("test", 40))):
        write_tsv(home / f"{name}.tsv", film_texts(count, seed=number))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(home / "cache"))
        return train(classifier_recipe(home), home / "films", console=Console(file=StringIO()))


def fresh_classifier(recipe: Recipe, labels: Sequence[str] = ("neg", "pos")) -> Bundle[Classifier]:
    """A classifier with random weights, large enough that its answers differ."""
    bundle = _fresh(recipe, labels, mask=False)
    assert isinstance(bundle.model, Classifier)
    return bundle  # type: ignore[return-value]


def fresh_masked_model(recipe: Recipe) -> Bundle[MaskedModel]:
    """A masked language model with random weights."""
    bundle = _fresh(recipe, (), mask=True)
    assert isinstance(bundle.model, MaskedModel)
    return bundle  # type: ignore[return-value]


def written(bundle: Bundle[Any], folder: Path) -> Path:
    """A bundle in a folder."""
    write_description(folder, bundle.recipe, bundle.vocabularies)
    write_weights(folder, bundle.model)
    return folder


def _fresh(recipe: Recipe, labels: Sequence[str], mask: bool) -> Bundle[torch.nn.Module]:
    words = [text for _, text in film_texts(100)]
    tokenizer = train_tokenizer(recipe.tokenizer, words, mask=mask)
    vocabularies = Vocabularies({"text": tokenizer}, tuple(labels))
    model = build_network(recipe.model, vocabularies)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return Bundle(recipe, vocabularies, model)
