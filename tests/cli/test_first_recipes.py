"""The recipes that `heedful init` writes for files of people train, evaluate, and answer the files row by row."""

import json
import os
from pathlib import Path

import pytest
from tests.shared.people_files import PEOPLE_FILES, PeopleFile

from heedful.cli.main import run
from heedful.config.reading.load import load_recipe

_STACK = "family = 'transformer', width = 8, heads = 2, layers = 1, inner = 16"
_CONVOLUTIONS = "model.encoder={ family = 'convolutional', width = 8, stages = 2, depth = 1 }"
_PAIR = ("model.width=8", "model.heads=2", "model.layers=1", "model.inner=16", "tokenizer.size=300")
# Smaller than what training chooses, by task: the recipe is tried, not what it learns.
TINY = {
    "translate": (*_PAIR, "decode.max_extra=2"),
    "parse": (*_PAIR, "decode.max_extra=4"),
    "tag": (f"model.encoder={{ {_STACK} }}",),
    "answer": (f"model.encoder={{ {_STACK}, segments = 2 }}",),
    "classify_images": (_CONVOLUTIONS,),
    "regress_images": (_CONVOLUTIONS,),
    "answer_images": (_CONVOLUTIONS,),
    "caption": (_CONVOLUTIONS, f"model.decoder={{ {_STACK} }}", "decode.max_extra=2"),
    "generate": (f"model.decoder={{ {_STACK}, max_positions = 64 }}", "data.max_length=32", "data.batch_tokens=64"),
    "fill": (*_PAIR[:4], "data.max_length=32", "data.batch_tokens=64"),
}
PAIRS_OF_TEXTS = (f"model.encoder={{ {_STACK} }}", "tokenizer.size=300")

QUICK = ("no header", "two aligned files", "CoNLL-2003", "folder of class folders", "novel")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind.name in QUICK else [pytest.mark.wide]) for kind in PEOPLE_FILES],
    ids=str,
)
def test_a_first_recipe_trains_evaluates_and_answers(
    kind: PeopleFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    names = [os.path.relpath(path, tmp_path) for path in kind.make(tmp_path)]
    assert run(["init", *names, *kind.options, "-o", "recipe.toml"]) == 0, capfd.readouterr().err
    tiny = PAIRS_OF_TEXTS if kind.name == "labelled pairs" else TINY.get(kind.task, ())
    smaller = [word for key in ("train.steps=2", *tiny) for word in ("--set", key)]
    assert run(["train", "recipe.toml", "--out", "run", "--device", "cpu", *smaller]) == 0, capfd.readouterr().err
    assert run(["evaluate", "run", "--split", "valid", "--device", "cpu"]) == 0, capfd.readouterr().err
    if not kind.rows:
        return
    verb = load_recipe("recipe.toml").rules.verb
    answering = [verb, "run", "--data", names[0], "--format", "jsonl", "-o", "answers.jsonl", "--device", "cpu"]
    assert run(answering) == 0, capfd.readouterr().err
    answers = [json.loads(line) for line in Path("answers.jsonl").read_text(encoding="utf-8").splitlines()]
    answered = [answer for answer in answers if answer.get("text") != "" or answer.get("labels") is not None]
    assert len(answered) == kind.rows
    assert not [answer for answer in answered if None in (answer.get("label", ""), answer.get("translation", ""))]
    if kind.container not in ("text", "idx"):  # which have what is true in another file
        assert run(["evaluate", "run", "--data", names[0], "--device", "cpu"]) == 0, capfd.readouterr().err
