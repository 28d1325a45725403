"""`heedful.train`: recipes in every form, corpora in memory, and the run that it returns."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared.refusals import refuses
from tests.unit.runs.run_folders import Make, same_bits, silent, told

import heedful
from heedful.base.errors import MachineError, UserError
from heedful.config.reading.load import recipe_to_json

WORDS = {"1": "one", "2": "two", "3": "three"}
PAIRS = [(f"{a} {b}", f"{WORDS[a]} {WORDS[b]}") for a in WORDS for b in WORDS] * 5
TINY: dict[str, Any] = {
    "tokenizer": {"kind": "word"},
    "model": {"width": 8, "heads": 2, "layers": 1, "inner": 8},
    "train": {
        "steps": 4,
        "schedule": {"kind": "constant", "lr": 0.01},
        "precision": "float32",
        "device": "cpu",
        "log_every": 2,
        "validation": {"every": 2},
    },
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


# --- recipes ----------------------------------------------------------------------------------------------------------


def test_a_recipe_is_a_file_a_dictionary_or_a_recipe(make: Make, tmp_path: Path) -> None:
    recipe = make(steps=4, validation={"every": 4})
    values = recipe_to_json(recipe)
    written = heedful.train(recipe, "written", quiet=True)
    given = heedful.train({**values, "data": {**values["data"], "folder": tmp_path}}, Path("given"), quiet=True)
    changed = heedful.train(make(validation={"every": 4}), "changed", {"train.steps": 4}, quiet=True)
    for run in (given, changed):
        same_bits(written / "model.safetensors", run / "model.safetensors")
    assert changed.recipe.train.steps == 4


def test_a_dictionary_may_extend_a_shipped_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[heedful.Recipe] = []

    def train(recipe: heedful.Recipe, out: Path, **options: object) -> Path:
        seen.append(recipe)
        return out

    monkeypatch.setattr("heedful.runs.training_run.train", train)
    heedful.train({"extends": "demo-en-es", "train": {"steps": 7}}, "run")
    heedful.train("demo-en-es", "run", ["train.steps=7"])
    assert seen[0] == seen[1]
    assert seen[0].train.steps == 7


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        (None, (), "The recipe is None, but must be a path, a dictionary or a `heedful.Recipe`."),
        ({"modle": {}}, {"data.train": {"source": "a", "target": "b"}}, "the recipe: `modle` is not a key."),
        ("demo-en-es", "train.steps=4", '`overrides` is "train.steps=4", but must be a list such as'),
        ("demo-en-es", {"train.step": 4}, 'override "train.step": `train.step` is not a key of the table `train`.'),
    ],
)
def test_a_recipe_of_another_form_is_refused(recipe: Any, overrides: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        heedful.train(recipe, "run", overrides)
    assert str(caught.value).startswith(message[:40])


def test_a_run_needs_a_folder() -> None:
    with refuses("`out` is '', but must be a path."):
        heedful.train("demo-en-es", "")


# --- corpora in memory ------------------------------------------------------------------------------------------------


def test_pairs_in_memory_are_trained_on_and_resumed_exactly() -> None:
    whole = heedful.train(TINY, "whole", train=PAIRS, valid=PAIRS[:5], quiet=True)
    half = heedful.train(TINY, "run", {"train.steps": 2}, train=PAIRS, valid=PAIRS[:5], quiet=True)
    rest = heedful.train(TINY, half, resume=True, train=iter(PAIRS), valid=PAIRS[:5], quiet=True)
    same_bits(whole / "model.safetensors", rest / "model.safetensors")
    assert [corpus.title for corpus in whole.recipe.data.train] == ["train"]


def test_rows_are_known_by_their_hash_after_the_cache_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = heedful.train(TINY, "whole", train=PAIRS, valid=PAIRS[:5], quiet=True)
    heedful.train(TINY, "run", {"train.steps": 2}, train=PAIRS, valid=PAIRS[:5], quiet=True)
    shutil.rmtree(tmp_path / "cache")
    lost = (
        r"^`data\.train` was given in memory, and its copy in the cache, .*, is gone: pass the same rows again, as `tra"
    )
    with pytest.raises(UserError, match=lost):
        heedful.train(heedful.Run("run").recipe, "run", {"train.steps": 4}, resume=True, quiet=True)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "elsewhere"))
    rest = heedful.train(TINY, "run", resume=True, train=PAIRS, valid=PAIRS[:5], quiet=True)
    same_bits(whole / "model.safetensors", rest / "model.safetensors")
    assert str(tmp_path / "elsewhere") in rest.recipe.data.train[0].files()[0]
    assert str(tmp_path) not in (rest / "config.json").read_text()


def test_warnings_speak_of_rows_in_memory_by_their_argument() -> None:
    console = silent()
    heedful.train(TINY, "run", {"train.steps": 1}, train=PAIRS, valid=[("", ""), *PAIRS[:5]], console=console)
    assert "warning: valid, row 2: pairs whose source is also in train: 5 of 6 (83.33%)." in told(console)
    assert "in_memory" not in told(console)


def test_other_rows_are_not_taken_for_the_same_data() -> None:
    heedful.train(TINY, "run", {"train.steps": 2}, train=PAIRS, quiet=True)
    with refuses("run was trained with `data.train.0.jsonl` = ..."):
        heedful.train(TINY, "run", resume=True, train=PAIRS[1:], quiet=True)


def test_a_full_memory_is_one_line_with_the_key_and_its_value(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("heedful.runs.run.RunObserver.to_the_end", full)
    with refuses(
        "the GPU's memory is full: `data.batch_tokens = 200` is too much for this model: lower it (and raise "
        "`train.accumulate = 1` by the same factor), or make the model smaller.",
        MachineError,
    ):
        heedful.train(make(), "run", quiet=True)


# --- the run ----------------------------------------------------------------------------------------------------------


def test_a_run_has_its_history_its_best_score_and_its_model(make: Make) -> None:
    run = heedful.train(make(), "run", quiet=True)
    assert [entry["step"] for entry in run.history] == [5, 10, 12]
    assert {"loss", "perplexity", "learning_rate", "tokens_per_second"} <= run.history[0].keys()
    assert [entry["step"] for entry in run.validations] == [6, 12]
    losses = {entry["step"]: entry["loss"] for entry in run.validations}
    assert (run.metric, run.best_score, run.best_step) == (
        "loss",
        min(losses.values()),
        min(losses, key=losses.__getitem__),
    )
    assert run.steps == 12
    assert isinstance(run.model, heedful.Translator)
    assert run.model is run.model
    assert repr(run) == f"<Run run: 12 of 12 steps, best loss {run.best_score:.4g} at step {run.best_step}>"


def test_of_equal_scores_the_run_keeps_the_model_with_the_lower_loss(make: Make) -> None:
    run = heedful.train(make(validation={"every": 6, "metric": "bleu"}), "run", quiet=True)
    assert [entry["bleu"] for entry in run.validations] == [0.0, 0.0]
    first, second = (entry["loss"] for entry in run.validations)
    assert first > second
    assert run.best_step == 12
    assert "12 updates" in (run / "README.md").read_text()
    position = run / "checkpoints/step-00000012/position.json"
    written = json.loads(position.read_text())
    assert written["best_loss"] == second
    del written["best_loss"]  # as in a run of an earlier version, which kept the first
    position.write_text(json.dumps(written))
    assert heedful.Run("run").best_step == 6


def test_a_run_is_a_path(make: Make) -> None:
    run = heedful.train(make(steps=2, validation={"every": 2}), "run", quiet=True)
    assert os.fspath(run) == str(run) == "run"
    assert json.loads((run / "config.json").read_text())["format"] == 1
    assert isinstance(heedful.load(run, device="cpu"), heedful.Translator)
    assert heedful.Run("run").history == run.history


def test_a_folder_that_is_not_a_run_says_so() -> None:
    with refuses("nowhere is not a folder: a model is a folder that..."):
        heedful.Run("nowhere").recipe  # noqa: B018
    assert heedful.Run("nowhere").history == []


def test_quiet_shows_nothing_and_records_everything(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    run = heedful.train(make(steps=2, validation={"every": 2}), "run", quiet=True)
    assert capfd.readouterr() == ("", "")
    assert run.validations
    console = silent()
    heedful.train(make(steps=2, validation={"every": 2}), "other", console=console)
    assert "Trained 2 steps" in told(console)
    assert told(console).endswith('Next: heedful.load("other").translate(["..."])\n')


def test_a_recipe_is_checked_before_the_rows_that_it_is_given(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"model": {"family": "classifier"}, "trian": {"steps": 3}}
    with refuses("the recipe: `trian` is not a key. Did you mean `train`?"):
        heedful.train(wrong, tmp_path / "run", train=[("one",), 2], quiet=True)
    pairs = {"model": {"family": "classifier", "join": "parallel"}}  # what joins two texts is known with the rows
    with refuses("train, row 1 has 1 values, but ..."):
        heedful.train(pairs, tmp_path / "run", train=[("one",)], quiet=True)
    with refuses("the recipe: `extends` names `mine`, which is neither a file in . nor a shipped recipe. ..."):
        heedful.train({"extends": "mine"}, tmp_path / "run")
