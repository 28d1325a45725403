"""A tiny reader of one-sentence reports, made in no time."""

import json
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
from heedful.models.networks import SpanReader
from heedful.runs.training_run import train

PEOPLE, PLACES = ("Ann", "Bob", "Cem", "Dora"), ("Rome", "New York", "Oslo", "Lima")
TRANSFORMER = {
    "family": "transformer",
    "width": 16,
    "heads": 2,
    "layers": 1,
    "inner": 32,
    "dropout": 0.0,
    "segments": 2,
}
RECURRENT = {"family": "recurrent", "width": 8, "embedding": 12}
BERT = {"family": "bert", "width": 16, "heads": 2, "layers": 1, "inner": 32, "max_positions": 40}


def report_rows(count: int, seed: int = 0, unanswerable: bool = False) -> list[dict[str, object]]:
    """Questions about who lives where, with a word before and after; of some texts, nobody lives anywhere."""
    chance = random.Random(seed)
    rows: list[dict[str, object]] = []
    for _ in range(count):
        person, place = chance.choice(PEOPLE), chance.choice(PLACES)
        before = " ".join(["so"] * chance.randint(0, 3))
        question, answer = chance.choice((("Who ?", person), ("Where ?", place)))
        text = f"{before} {person} lives in {place} now .".strip()
        if unanswerable and chance.random() < 0.3:
            text, answer = f"{before} nobody lives here now .".strip(), ""
        rows.append({"question": question, "text": text, "answer": answer})
    return rows


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def reader_recipe(folder: Path, model: Mapping[str, Any] = {}, **sections: Mapping[str, Any]) -> Recipe:
    """A recipe of reports in `folder`; its files need not be there as long as nothing is trained."""
    return recipe_from_json(
        {
            "data": {
                "folder": str(folder),
                **{
                    split: [{"jsonl": f"{split}.jsonl", "question": "question"}] for split in ("train", "valid", "test")
                },
                "batch_tokens": 256,
                "max_length": 24,
                **sections.get("data", {}),
            },
            "tokenizer": {"kind": "word"},
            "model": {"family": "reader", "encoder": TRANSFORMER, **model},
            "train": {
                "steps": 80,
                "schedule": {"kind": "linear", "lr": 0.03, "warmup": 5},
                "precision": "float32",
                "device": "cpu",
                "checkpoint_every": 40,
                "keep_checkpoints": 2,
                "validation": {"every": 80, "metric": "exact_match"},
                **sections.get("train", {}),
            },
        },
        "test recipe",
    )


def write_reports(home: Path, unanswerable: bool = False) -> None:
    for number, (name, count) in enumerate((("train", 200), ("valid", 20), ("test", 40))):
        write_rows(home / f"{name}.jsonl", report_rows(count, number, unanswerable))


def trained_reader(home: Path, no_answer: bool = False) -> Path:
    """A run folder of a reader that learned who lives where; its reports are in `home` too."""
    write_reports(home, no_answer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(home / "cache"))
        recipe = reader_recipe(home, {"no_answer": no_answer})
        return train(recipe, home / "reader", console=Console(file=StringIO()))


def fresh_reader(recipe: Recipe) -> Bundle[SpanReader]:
    """A reader with random weights, large enough that its answers differ."""
    words = [f"{row['question']} {row['text']}" for row in report_rows(100, 0, unanswerable=True)]
    vocabularies = Vocabularies({"text": train_tokenizer(recipe.tokenizer, words)})
    model = build_network(recipe.model, vocabularies)
    assert isinstance(model, SpanReader)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return Bundle(recipe, vocabularies, model)
