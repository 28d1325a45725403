"""A task of one's own, in this file alone: reversing the words of a text, learned by an existing family."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from tests.conftest import animal_sentences
from tests.shared.refusals import refuses

import heedful
from heedful.config.corpora.containers import AnyCorpus, PlainText
from heedful.config.corpora.roles import Roles
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.edits import Reference
from heedful.tasks.translate.rules import TRANSLATE
from heedful.tasks.translate.task import TranslateTask

RECIPE = """
task = "reverse"
[data]
train = {{ text = "train.txt" }}
valid = {{ text = "valid.txt" }}
[tokenizer]
kind = "word"
[model]
width = 32
heads = 2
layers = 1
inner = 64
dropout = 0.0
[train]
steps = {steps}
checkpoint_every = 20
log_every = 1
precision = "float32"
schedule = {{ kind = "constant", lr = 0.005, warmup = 20 }}
"""


def reverse(text: str) -> str:
    return " ".join(reversed(text.split()))


def texts_of(corpus: AnyCorpus, folder: str) -> list[str]:
    assert isinstance(corpus, PlainText)
    return list(read_lines(locate(corpus.text, folder)))


class ReverseTask(TranslateTask):
    rules = TaskRules(
        name="reverse",
        does="reverses texts",
        verb="translate",
        learner="a reverser",
        families=TRANSLATE.families,
        metrics={"loss": "lower", "perplexity": "lower"},
        roles=(Roles(("text",)),),
        needs="a reverser learns from texts: give `text`",
        vocabularies=("source", "target"),
        searches=True,
    )

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        texts = [texts_of(corpus, recipe.data.folder) for corpus in (*recipe.data.train, *recipe.data.valid)]
        tokenizer = given["source"] if given else train_tokenizer(recipe.tokenizer, chain(*texts))
        sides = [(tokenizer.encode_batch(some), tokenizer.encode_batch([*map(reverse, some)])) for some in texts]
        stores = [replace(TokenStore.of(source=source, target=target), key="reversed") for source, target in sides]
        return Prepared(
            Vocabularies(dict.fromkeys(("source", "target"), tokenizer)), (stores[0],), (1.0,), (stores[1],)
        )

    def read_corpus(self, model: object, corpus: AnyCorpus, folder: str) -> list[tuple[str, Reference]]:
        return [(text, reverse(text)) for text in texts_of(corpus, folder)]


def losses(run: Path) -> list[float]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["part"] == "train"]


@pytest.mark.wide
def test_a_task_from_outside_trains_evaluates_saves_loads_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("\n".join(animal_sentences(300)))
    Path("valid.txt").write_text("\n".join(animal_sentences(30, seed=1)))
    for name, steps in (("half.toml", 80), ("whole.toml", 160)):
        Path(name).write_text(RECIPE.format(steps=steps))
    task = ReverseTask()
    whole = heedful.train("whole.toml", "whole", task=task)
    run = heedful.train("half.toml", "run", task=task)
    assert losses(heedful.train("whole.toml", run, resume=True, task=task).folder) == losses(whole.folder)
    model = heedful.load(run, device="cpu", task=task)
    scores = {score.name: score.value for score in task.evaluate(model, PlainText(text="valid.txt")).scores()}
    assert scores["exact_match"] > 0.5
    assert "heedful translate run" in (run / "README.md").read_text()
    with refuses('...`task` is "reverse", which is not a task of Heedful...passed in Python...'):
        heedful.load(run)
