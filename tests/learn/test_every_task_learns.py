"""Every task, with every family of encoders or decoders that it has, learns a small world in seconds.

What it reaches is far above what guessing, or a network that does not train, would reach.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.learn import small_worlds as worlds

import heedful
from heedful.config.reading.load import load_recipe
from heedful.config.tasks import TASKS

pytestmark = pytest.mark.learn

SIZES = {"train": 1500, "valid": 200}
SHAPE = {"width": 48, "heads": 2, "layers": 2, "inner": 96, "dropout": 0.0}
STACK = {"family": "transformer", **SHAPE}
RECURRENT = {"family": "recurrent", "width": 48, "dropout": 0.0}
BERT = {"family": "bert", **SHAPE, "next_sentence": False}
GPT = {"family": "language", "decoder": STACK}
BAG = {"family": "bag", "width": 16, "ngrams": 1}
NESTED = {"family": "hierarchical", "words": RECURRENT, "sentences": RECURRENT}
CONVOLUTIONS = {"family": "convolutional", "width": 48, "layers": 2, "kernel": 3, "dropout": 0.0}
VIT = {"family": "vit", "width": 48, "heads": 2, "layers": 2, "inner": 96, "patch": 4, "grid": 4, "channels": 1}
CNN = {"family": "convolutional", "width": 32, "stages": 2, "channels": 1}

Write = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    """A corpus and who writes its files, a [model] table, and what the model must reach on validation data."""

    corpus: Mapping[str, str]
    write: Write
    model: Mapping[str, Any]
    metric: str
    bound: float
    steps: int = 300
    lr: float = 0.003

    def recipe(self, folder: Path) -> dict[str, Any]:
        """Return a recipe that says nothing else."""
        corpora = {
            split: {key: value.replace("SPLIT", split) for key, value in self.corpus.items()}
            for split in ("train", "valid")
        }
        parses, reads_images = "trees" in self.corpus, self.model["family"] in ("image_classifier", "image_regressor")
        tokenizer = {"kind": "word", **({"joint": False, "target": {"kind": "word"}} if parses else {})}
        return {
            **({"task": "parse"} if parses else {}),
            "data": {"folder": str(folder), **corpora, "batch_tokens": 512},
            **({} if reads_images else {"tokenizer": tokenizer}),
            "model": self.model,
            "train": {
                "steps": self.steps,
                "precision": "float32",
                "label_smoothing": 0.0,
                "report": False,
                "schedule": {"kind": "linear", "lr": self.lr, "warmup": 30},
                "validation": {"every": self.steps // 2, "metric": self.metric},
            },
        }


def rows(of: Callable[..., worlds.Rows], **fields: str) -> tuple[Mapping[str, str], Write]:
    return {"jsonl": "SPLIT.jsonl", **fields}, lambda folder: worlds.write_rows(folder, of, SIZES)


def images(**fields: str) -> tuple[Mapping[str, str], Write]:
    return {"jsonl": "SPLIT.jsonl", "image": "image", **fields}, lambda folder: worlds.write_images(folder, SIZES)


def lines(of: Callable[..., Iterator[str]], **table: str) -> tuple[Mapping[str, str], Write]:
    return table, lambda folder: worlds.write_lines(folder, of, SIZES)


NUMBERS = rows(worlds.spelled_numbers)
TOPICS = rows(worlds.topics, text="text", label="label")
RATED = rows(worlds.topics, text="text", number="number")
TAGGED = rows(worlds.tagged_words, text="text", label="label")
QUESTIONS = rows(worlds.questions, question="question")
TREES = lines(worlds.trees, trees="SPLIT.txt")
COUNTING = lines(worlds.counting, text="SPLIT.txt", documents="line", sentences="line")
PLACED = images(number="number")
LABELLED = images(label="label")
CAPTIONED = images(caption="caption")
ASKED = images(question="question", answer="answer")


def classifier(encoder: Mapping[str, Any], **more: Any) -> Case:
    return Case(*TOPICS, {"family": "classifier", "encoder": encoder}, "accuracy", 0.97, **more)


def regressor(encoder: Mapping[str, Any], **more: Any) -> Case:
    return Case(*RATED, {"family": "regressor", "encoder": encoder}, "spearman", 0.9, **more)


def image_regressor(encoder: Mapping[str, Any]) -> Case:
    return Case(*PLACED, {"family": "image_regressor", "encoder": encoder}, "spearman", 0.9)


def tagger(encoder: Mapping[str, Any], **keys: Any) -> Case:
    return Case(*TAGGED, {"family": "tagger", "encoder": encoder, **keys}, "f1", 0.97)


def reader(encoder: Mapping[str, Any], **keys: Any) -> Case:
    return Case(*QUESTIONS, {"family": "reader", "encoder": encoder, **keys}, "exact_match", 0.9, steps=600)


def captioner(decoder: Mapping[str, Any]) -> Case:
    return Case(*CAPTIONED, {"family": "captioner", "encoder": VIT, "decoder": decoder}, "exact_match", 0.9)


def answerer(question: Mapping[str, Any]) -> Case:
    return Case(*ASKED, {"family": "image_answerer", "encoder": VIT, "question": question}, "accuracy", 0.9)


MIXED = {"family": "mixed", "encoder": STACK, "decoder": RECURRENT}
CASES = {
    "translate-transformer": Case(*NUMBERS, STACK, "exact_match", 0.95),
    "translate-recurrent": Case(*NUMBERS, RECURRENT, "exact_match", 0.95),
    "translate-mixed": Case(*NUMBERS, MIXED, "exact_match", 0.95),
    "parse-transformer": Case(*TREES, {**STACK, "tie": "decoder"}, "f1", 0.95),
    "parse-recurrent": Case(*TREES, {**RECURRENT, "tie": "decoder"}, "f1", 0.95),
    "classify-transformer": classifier(STACK),
    "classify-recurrent": classifier(RECURRENT),
    "classify-hierarchical": classifier(NESTED),
    "classify-bag": classifier(BAG, lr=0.02),
    "classify-bert": classifier(BERT),
    "classify-language": classifier(GPT),
    "regress-transformer": regressor(STACK),
    "regress-recurrent": regressor(RECURRENT),
    "regress-bag": regressor(BAG, lr=0.02),
    "regress-bert": regressor(BERT),
    "regress-images-vit": image_regressor(VIT),
    "regress-images-convolutional": image_regressor(CNN),
    "tag-transformer": tagger(STACK),
    "tag-recurrent": tagger(RECURRENT, crf=True),
    "tag-bert": tagger(BERT),
    "fill": Case(*COUNTING, BERT, "accuracy", 0.8, steps=900),
    "generate-transformer": Case(*COUNTING, GPT, "perplexity", 2.0),
    "generate-recurrent": Case(*COUNTING, {**GPT, "decoder": RECURRENT}, "perplexity", 2.0),
    "generate-convolutional": Case(*COUNTING, {**GPT, "decoder": CONVOLUTIONS}, "perplexity", 2.0),
    "answer-transformer": reader({**STACK, "segments": 3}, mark_matches=True),
    "answer-recurrent": reader(RECURRENT),
    "images-vit": Case(*LABELLED, {"family": "image_classifier", "encoder": VIT}, "accuracy", 0.95),
    "images-convolutional": Case(*LABELLED, {"family": "image_classifier", "encoder": CNN}, "accuracy", 0.95),
    "caption-transformer": captioner(STACK),
    "caption-recurrent": captioner(RECURRENT),
    "answer-images-transformer": answerer(STACK),
    "answer-images-recurrent": answerer(RECURRENT),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_learns_its_small_world(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    case = CASES[name]
    case.write(tmp_path)
    run = heedful.train(case.recipe(tmp_path), tmp_path / "run", quiet=True)
    assert run.best_score is not None
    lower = run.recipe.rules.metrics[case.metric] == "lower"
    assert run.best_score <= case.bound if lower else run.best_score >= case.bound


def test_no_task_is_left_out() -> None:
    assert {load_recipe(case.recipe(Path())).rules.name for case in CASES.values()} == set(TASKS)
