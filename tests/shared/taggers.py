"""Tiny taggers of made-up sentences, whose noun phrases are marked by BIO."""

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
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import WordClassifier
from heedful.runs.training_run import train

ARTICLES, ADJECTIVES = ("the", "a"), ("big", "red", "old")
NOUNS, VERBS = ("dog", "cat", "bird", "house"), ("sees", "likes", "hears")
LABELS = ("B-NP", "I-NP", "O")
TRANSFORMER = {"family": "transformer", "width": 16, "heads": 2, "layers": 1, "inner": 32}

Tagged = list[tuple[str, str]]  # words and their labels


def tagged_sentences(count: int, seed: int = 0) -> list[Tagged]:
    """Sentences such as "the old dog sees a cat ."."""
    chance = random.Random(seed)

    def phrase() -> Tagged:
        words = [chance.choice(ARTICLES), *chance.sample(ADJECTIVES, chance.randint(0, 2)), chance.choice(NOUNS)]
        return [(word, "I-NP" if place else "B-NP") for place, word in enumerate(words)]

    return [[*phrase(), (chance.choice(VERBS), "O"), *phrase(), (".", "O")] for _ in range(count)]


def write_conll(path: Path, sentences: Sequence[Tagged]) -> Path:
    path.write_text("\n".join("".join(f"{word}\t{label}\n" for word, label in each) for each in sentences))
    return path


def tagger_recipe(folder: Path, model: Mapping[str, Any] = {}, **sections: Mapping[str, Any]) -> Recipe:
    """A recipe of sentences in `folder`; its files need not be there as long as nothing is trained."""
    return recipe_from_json(
        {
            "data": {
                "folder": str(folder),
                "train": {"conll": "train.conll"},
                "valid": {"conll": "valid.conll"},
                "test": {"conll": "test.conll"},
                "batch_tokens": 256,
                "max_length": 24,
                **sections.get("data", {}),
            },
            "tokenizer": {"kind": "word", **sections.get("tokenizer", {})},
            "model": {"family": "tagger", "encoder": TRANSFORMER, **model},
            "train": {
                "steps": 30,
                "schedule": {"kind": "linear", "lr": 0.02, "warmup": 5},
                "precision": "float32",
                "device": "cpu",
                "validation": {"every": 30, "metric": "f1"},
                **sections.get("train", {}),
            },
        },
        "test recipe",
    )


def trained_tagger(home: Path, model: Mapping[str, Any] = {}) -> Path:
    """A run folder of a tagger that learned to find noun phrases; the sentences are in `home` too."""
    for number, (name, count) in enumerate((("train", 60), ("valid", 15), ("test", 20))):
        write_conll(home / f"{name}.conll", tagged_sentences(count, seed=number))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(home / "cache"))
        return train(tagger_recipe(home, model), home / "phrases", console=Console(file=StringIO()))


def fresh_tagger(recipe: Recipe, labels: Sequence[str] = LABELS) -> Bundle[WordClassifier]:
    """A tagger with random weights, large enough that its labels differ."""
    texts = [" ".join(word for word, _ in sentence) for sentence in tagged_sentences(50)]
    vocabularies = Vocabularies({"text": train_tokenizer(recipe.tokenizer, texts)}, tuple(labels))
    model = build_network(recipe.model, vocabularies)
    assert isinstance(model, WordClassifier)
    for parameter in model.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return Bundle(recipe, vocabularies, model)
