"""Recipes that name nothing but their files and their family, for every task, on files that are made here."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.shared.sound_corpora import documents, labelled_texts, translations, write

_SCENES = {"builtin": "scenes", "count": 60}
_REPORTS = {"builtin": "reports", "count": 120}
MINIMAL: Mapping[str, dict[str, Any]] = {  # the model and the corpora of each task
    "translate": {"train": {"source": "train.en", "target": "train.es"}},
    "classify": {"train": {"tsv": "train.tsv", "text": 1, "label": 2}, "family": "classifier"},
    "regress": {"train": {"tsv": "train.numbers", "text": 1, "number": 2}, "family": "regressor"},
    "tag": {"train": {"conll": "train.conll"}, "family": "tagger"},
    "parse": {"train": {"trees": "train.trees"}, "task": "parse"},
    "answer": {"train": _REPORTS, "family": "reader"},
    "fill": {"train": {"text": "train.txt", "sentences": "line"}, "family": "bert"},
    "generate": {"train": {"text": "train.txt"}, "family": "language"},
    "classify_images": {"train": _SCENES, "family": "image_classifier"},
    "regress_images": {"train": _SCENES, "family": "image_regressor"},
    "answer_images": {"train": {**_SCENES, "questions": 2}, "family": "image_answerer"},
    "caption": {"train": _SCENES, "family": "captioner"},
}


def _tag(word: str) -> str:
    return "LONG" if len(word) > 4 else "SHORT"


def write_files(folder: Path) -> None:
    """Write the files of all tasks: three parts of each."""
    chance = random.Random(2)
    texts = labelled_texts()
    write(folder, {**translations(), **texts, **documents()})
    for part in ("train", "valid", "test"):
        sentences = [row.partition("\t")[0] for row in texts[f"{part}.tsv"]]
        numbered = [f"{text}\t{chance.random():.2f}" for text in sentences]
        tagged = ["\n".join(f"{word}\t{_tag(word)}" for word in text.split()) + "\n" for text in sentences]
        trees = [" ".join(f"({_tag(word)} {word})" for word in text.split()) for text in sentences]
        trees = [f"(ROOT (S {leaves}))" for leaves in trees]
        write(folder, {f"{part}.numbers": numbered, f"{part}.conll": tagged, f"{part}.trees": trees})


def minimal_recipe(task: str, folder: Path, **train: Any) -> dict[str, Any]:
    """The recipe of a task with training, validation and test data; `train` has keys of [train]."""
    said = dict(MINIMAL[task])
    family, corpus = said.pop("family", None), said.pop("train")

    def of(part: str) -> dict[str, Any]:
        if "builtin" in corpus:
            return {**corpus, "part": part}
        return {key: value.replace("train", part) if isinstance(value, str) else value for key, value in corpus.items()}

    return {
        **said,
        "data": {"folder": str(folder), **{part: of(part) for part in ("train", "valid", "test")}},
        **({"model": {"family": family}} if family else {}),
        **({"train": train} if train else {}),
    }
