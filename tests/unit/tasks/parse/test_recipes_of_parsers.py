"""What is said of a parser's recipe before training: by the doctor, a dry run, and `heedful config`."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.shared.parsers import recipe, write_trees
from tests.shared.refusals import refuses

from heedful.cli.main import run
from heedful.config.reading.load import load_recipe, recipe_to_json, recipe_to_toml
from heedful.config.reading.shipped_recipes import shipped_recipes
from heedful.doctor.examination import examine
from heedful.runs.dry_run import dry_run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_trees(tmp_path)
    return tmp_path


def test_the_doctor_counts_sentences_and_finds_two_trees_of_one(folder: Path) -> None:
    with (folder / "train.trees").open("a") as file:
        file.write("(ROOT (NP (DT an) (NN odd) (NN one)))\n" * 9 + "(ROOT (VP (DT an) (NN odd) (NN one)))\n" * 9)
    found = examine(recipe(folder))
    assert [(corpus.part, corpus.rows, corpus.unit) for corpus in found.corpora] == [
        ("train", 58, "sentences"),
        ("valid", 40, "sentences"),
    ]
    kinds = {finding.kind: finding.what for finding in found.findings}
    assert "sentences that occur with different trees" in kinds["ambiguous"]
    assert "sentences that repeat an earlier one with the same tree" in kinds["repeated"]
    assert [side.side for side in found.pieces.sides] == ["source", "target"]


@pytest.mark.wide
def test_a_dry_run_trains_and_saves_nothing(folder: Path) -> None:
    made = recipe(folder)
    assert dry_run(made, Console(file=StringIO())).tokens_per_second > 0


def test_config_checks_and_shows_the_recipe(folder: Path, capsys: Capture) -> None:
    Path("parser.toml").write_text(recipe_to_toml(recipe(folder)))
    assert run(["config", "check", "parser.toml"]) == 0
    capsys.readouterr()
    assert run(["config", "show", "parser.toml"]) == 0
    shown = capsys.readouterr().out
    assert 'task = "parse"' in shown
    assert 'leaves = "symbol"' in shown


SAID = {"task": "parse", "data": {"train": {"trees": "train.trees"}}}


@pytest.mark.parametrize("kind", ["byte_bpe", "word"])
@pytest.mark.parametrize("model", [{}, {"model": {"family": "recurrent"}}])
def test_the_target_vocabulary_of_a_parser_is_its_default(kind: str, model: dict[str, Any]) -> None:
    chosen = load_recipe({**SAID, **model, "tokenizer": {"kind": kind}})
    written = load_recipe({**SAID, **model, "tokenizer": {"kind": kind, "target": {"kind": "word"}}})
    assert recipe_to_json(chosen) == recipe_to_json(written)
    assert "target" not in chosen.tokenizer.model_fields_set
    assert recipe_to_json(load_recipe(chosen, {"tokenizer.size": 500}))["tokenizer"]["target"]["kind"] == "word"
    assert load_recipe(SAID).tokenizer.target == written.tokenizer.target


def test_a_target_vocabulary_that_a_recipe_sets_stays_as_it_is() -> None:
    separate = load_recipe({**SAID, "tokenizer": {"kind": "word", "joint": False}})
    assert separate.tokenizer.target is None
    sized = load_recipe({**SAID, "tokenizer": {"target": {"kind": "word", "size": 90}}})
    assert sized.tokenizer.target is not None
    assert sized.tokenizer.target.size == 90
    with refuses("the recipe: `tokenizer.target` must be `{ kind = ..."):
        load_recipe({**SAID, "tokenizer": {"kind": "word", "joint": True}})


def test_a_tree_that_is_not_closed_is_refused_with_its_line(folder: Path) -> None:
    with (folder / "train.trees").open("a") as file:
        file.write("(ROOT (NP (DT the) (NN dog))\n")
    with refuses("...train.trees, line 41: the tree that begins there has 1 bracket that ..."):
        examine(recipe(folder))


def test_recipes_of_parsers_ship() -> None:
    assert {"gum-parse", "gum-parse-silver", "wsj-parse"} <= shipped_recipes().keys()
