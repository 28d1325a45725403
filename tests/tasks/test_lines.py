"""Laws of the line to beat, for every task: next to each validation, learned once and said once, and kept at resume."""

from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console
from tests.shared.taggers import tagged_sentences, write_conll

import heedful
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.tasks.table import RULES
from heedful.tasks.tag.task import TagTask

TINY: Mapping[str, Any] = {"width": 8, "heads": 2, "layers": 1, "inner": 8}
ENCODER: Mapping[str, Any] = {"family": "transformer", **TINY}

SCENES: Mapping[str, Any] = {"builtin": "scenes"}
HELD_OUT: Mapping[str, Any] = {"builtin": "scenes", "part": "valid"}
VIT: Mapping[str, Any] = {"family": "vit", **TINY, "patch": 16, "channels": 3}


class Small(NamedTuple):
    """A recipe on a little data, and the line that it has to beat."""

    data: Mapping[str, Any]
    model: Mapping[str, Any]
    metric: str
    line: str  # what is said of it, without its score
    write: Callable[[Path], object] = lambda folder: None
    tokenizer: Mapping[str, Any] = {"kind": "word"}


def _tagged(folder: Path) -> None:
    for name, count in (("train", 20), ("valid", 5)):
        write_conll(folder / name, tagged_sentences(count, seed=count))


def _trees(folder: Path) -> None:
    trees = ["(S (NP (DT a) (NN dog)) (VP (VBZ barks)))", "(S (NP (PRP you)) (VP (VBP see) (NP (NNS dogs))) (. .))"]
    for name, count in (("train", 6), ("valid", 2)):
        (folder / name).write_text("\n".join(trees * count))


def _texts(folder: Path) -> None:
    for name, count in (("train", 30), ("valid", 8)):
        lines = (f"The {('red', 'old')[number % 2]} dog sees {number % 7} of 7 birds." for number in range(count))
        (folder / name).write_text("\n\n".join(lines))


def _pairs(folder: Path) -> None:
    words = [("red", "rot"), ("dog", "Hund"), ("sees", "sieht"), ("bird", "Vogel")]
    for name, count in (("train", 12), ("valid", 4)):
        chosen = [[words[(number * step) % 4] for step in (1, 2, 3)] for number in range(count)]
        for side, language in enumerate(("en", "de")):
            lines = (" ".join(pair[side] for pair in row) for row in chosen)
            (folder / f"{name}.{language}").write_text("\n".join(lines))


SMALL: Mapping[str, Small] = {
    "tag": Small(
        {"train": {"conll": "train"}, "valid": {"conll": "valid"}},
        {"family": "tagger", "encoder": ENCODER},
        "f1",
        "the most frequent label of each word, learned from the 20 training sentences",
        _tagged,
    ),
    "classify_images": Small(
        {"train": {**SCENES, "count": 12, "label": "number"}, "valid": {**HELD_OUT, "count": 4, "label": "number"}},
        {"family": "image_classifier", "encoder": VIT},
        "accuracy",
        "logistic regression on pixels, learned from the 12 training images",
        tokenizer={},
    ),
    "answer_images": Small(
        {"train": {**SCENES, "count": 6, "questions": 2}, "valid": {**HELD_OUT, "count": 3, "questions": 2}},
        {"family": "image_answerer", "encoder": VIT},
        "accuracy",
        "the most frequent answer to each question, learned from the 6 training images",
    ),
    "generate": Small(
        {"train": {"text": "train"}, "valid": {"text": "valid"}, "max_length": 16},
        {"family": "language", "decoder": ENCODER},
        "perplexity",
        "Kneser-Ney counts of n-grams, learned from the 300 training tokens",
        _texts,
    ),
    "fill": Small(
        {"train": {"text": "train"}, "valid": {"text": "valid"}, "max_length": 16},
        {"family": "bert", **TINY, "next_sentence": False},
        "accuracy",
        "the most frequent token for every mask, learned from the 240 training tokens",
        _texts,
    ),
    "answer": Small(
        {"train": {"builtin": "reports", "count": 12}, "valid": {"builtin": "reports", "part": "valid", "count": 4}},
        {"family": "reader", "encoder": ENCODER},
        "f1",
        "the span of greatest overlap of words with the question, learned from the 12 training questions",
    ),
    "caption": Small(
        {"train": {**SCENES, "count": 8}, "valid": {**HELD_OUT, "count": 3}},
        {"family": "captioner", "encoder": VIT, "decoder": ENCODER},
        "bleu",
        "the caption of the nearest image, learned from the 8 training images",
    ),
    "translate": Small(
        {"train": {"source": "train.en", "target": "train.de"}, "valid": {"source": "valid.en", "target": "valid.de"}},
        {"family": "transformer", **TINY},
        "chrf",
        "a word-by-word dictionary, learned from the 12 training pairs",
        _pairs,
    ),
    "parse": Small(
        {"train": {"trees": "train"}, "valid": {"trees": "valid"}, "max_length": 30},
        {"family": "transformer", **TINY},
        "f1",
        "right-branching trees with the most frequent labels, learned from the 12 training trees",
        _trees,
        {"kind": "word", "joint": False},
    ),
}


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def recipe_of(task: str, folder: Path, steps: int = 4, valid: bool = True) -> Recipe:
    small = SMALL[task]
    small.write(folder)
    validation = {"validation": {"every": 2, "metric": small.metric}} if valid else {}
    tables: dict[str, Any] = {
        "task": task,
        "data": {"folder": str(folder), "batch_tokens": 600, **small.data},
        **({"tokenizer": small.tokenizer} if small.tokenizer else {}),
        "model": small.model,
        "train": {
            "steps": steps,
            "schedule": {"kind": "constant", "lr": 0.001, "warmup": 1},
            "device": "cpu",
            "precision": "float32",
            **validation,
        },
    }
    if not valid:
        tables["data"]["valid"] = []
    return recipe_from_json(tables, "test recipe")


def trained(recipe: Recipe, folder: Path, resume: bool = False) -> tuple[heedful.Run, list[str]]:
    """Train, and return what was said of the line to beat."""
    screen = StringIO()
    run = heedful.train(recipe, folder / "run", resume=resume, console=Console(file=screen, width=500))
    return run, [line for line in screen.getvalue().splitlines() if line.startswith("the line to beat: ")]


@pytest.mark.parametrize("task", SMALL)
def test_the_line_is_next_to_each_validation_said_once_and_the_same_at_resume(task: str, folder: Path) -> None:
    small = SMALL[task]
    name = f"baseline_{small.metric}"
    run, said = trained(recipe_of(task, folder), folder)
    rows = run.validations
    assert [row["step"] for row in rows] == [2, 4]
    baseline = rows[0][name]
    assert baseline == rows[1][name]
    assert [each for each in rows[0] if each.startswith("baseline_")] == [name]
    (line,) = said
    assert line.startswith(f"the line to beat: {small.metric} {baseline:.4g}, ")
    assert f", of {small.line} (" in line

    records = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(records.replace(name, "forgotten"))
    run, said = trained(recipe_of(task, folder, steps=6), folder, resume=True)
    assert run.validations[-1][name] == baseline
    assert [one.split(" (")[0] for one in said] == [line.split(" (")[0]]  # but for the time it took


def test_a_resumed_run_takes_the_line_that_it_recorded_and_learns_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = trained(recipe_of("tag", folder), folder)
    baseline = run.validations[0]["baseline_f1"]
    monkeypatch.delattr(TagTask, "line")
    run, said = trained(recipe_of("tag", folder, steps=6), folder, resume=True)
    assert [row["baseline_f1"] for row in run.validations] == [baseline] * 3
    assert said == [f"the line to beat: f1 {baseline:.4g}, of {RULES['tag'].line}, as recorded"]


@pytest.mark.parametrize("task", SMALL)
def test_a_run_without_validation_learns_no_line(task: str, folder: Path) -> None:
    run, said = trained(recipe_of(task, folder, steps=1, valid=False), folder)
    assert not run.validations
    assert not said
