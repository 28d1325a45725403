"""Small sound corpora and recipes of every task, for tests that plant faults in them."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.builtin.english_spanish import sentence_pairs

Lines = dict[str, list[str]]  # the lines of each file
COUNTS = {"train": 400, "valid": 60, "test": 60}
CLASSES = ("praise", "blame", "news")
STACK = {"width": 16, "heads": 2, "layers": 1, "inner": 32}


def distinct_pairs(part: str, count: int) -> list[tuple[str, str]]:
    """English sentences and their Spanish translations, no sentence twice."""
    found: dict[str, str] = {}
    for english, spanish in sentence_pairs(part, 2 * count):
        found.setdefault(english, spanish)
    return list(found.items())[:count]


def translations() -> Lines:
    """Lines of three parts in English and Spanish."""
    files: Lines = {}
    for part, count in COUNTS.items():
        pairs = distinct_pairs(part, count)
        files[f"{part}.en"], files[f"{part}.es"] = map(list, zip(*pairs, strict=True))
    return files


def labelled_texts() -> Lines:
    """Tables of three parts with a text and one of three labels."""
    chance = random.Random(1)
    return {
        f"{part}.tsv": [f"{english}\t{chance.choice(CLASSES)}" for english, _ in distinct_pairs(part, count)]
        for part, count in COUNTS.items()
    }


def documents() -> Lines:
    """Running text of three parts: a sentence per line, three sentences per document, blank lines between them."""
    files: Lines = {}
    for part, count in COUNTS.items():
        sentences = [english for english, _ in distinct_pairs(part, count)]
        files[f"{part}.txt"] = [line for start in range(0, count, 3) for line in (*sentences[start : start + 3], "")]
    return files


CORPORA: Mapping[str, Callable[[], Lines]] = {
    "translate": translations,
    "classify": labelled_texts,
    "fill": documents,
    "generate": documents,
}
FILES: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "translate": lambda part: {"source": f"{part}.en", "target": f"{part}.es"},
    "classify": lambda part: {"tsv": f"{part}.tsv", "text": 1, "label": 2},
    "fill": lambda part: {"text": f"{part}.txt", "sentences": "line"},
    "generate": lambda part: {"text": f"{part}.txt"},
}
MODELS: Mapping[str, dict[str, Any]] = {
    "translate": {"family": "transformer", **STACK},
    "classify": {"family": "classifier", "encoder": {"family": "transformer", **STACK}, "pool": "mean"},
    "fill": {"family": "bert", "max_positions": 64, **STACK},
    "generate": {"family": "language", "decoder": {"family": "transformer", "max_positions": 64, **STACK}},
}


def write(folder: Path, files: Lines) -> None:
    """Write files of lines."""
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def recipe_of(task: str, folder: Path, **tables: Mapping[str, Any]) -> Recipe:
    """A recipe for the files of a task; `tables` add keys to its tables."""
    data = {part: [FILES[task](part)] for part in COUNTS}
    return recipe_from_json(
        {
            "data": {"folder": str(folder), **data, "batch_tokens": 512, "max_length": 64, **tables.get("data", {})},
            "tokenizer": {"kind": "bpe", "size": 100, **tables.get("tokenizer", {})},
            "model": {**MODELS[task], **tables.get("model", {})},
            "train": {
                "steps": 200,
                "schedule": {"kind": "linear", "lr": 0.001, "warmup": 20},
                "checkpoint_every": 50,
                "validation": {"every": 50},
                "precision": "float32",
                "device": "cpu",
                **tables.get("train", {}),
            },
        },
        "test recipe",
    )
