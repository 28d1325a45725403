"""Training from a recipe: what a run folder holds, what resumes, and what is refused."""

import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from safetensors.numpy import load_file

from heedful.api.training import dry_run, train
from heedful.config.load import recipe_from_json
from heedful.config.schema import Recipe
from heedful.errors import UserError

Make = Callable[..., Recipe]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A tiny recipe on files of its own: digits in, the same digits as words out."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    numbers = [f"{n * 7919 % 10**5:05d}" for n in range(300)]
    write(tmp_path / "a.txt", [" ".join(number) for number in numbers])
    write(tmp_path / "b.txt", [" ".join(words[int(digit)] for digit in number) for number in numbers])

    def made(**train: object) -> Recipe:
        return recipe_from_json(
            {
                "data": {
                    "folder": str(tmp_path),
                    "train": [{"source": "a.txt", "target": "b.txt"}],
                    "valid": [{"source": "a.txt", "target": "b.txt", "lines": "1-20"}],
                    "batch_tokens": 200,
                },
                "tokenizer": {"kind": "word"},
                "model": {"width": 16, "heads": 2, "layers": 1, "inner": 32, "dropout": 0.1},
                "train": {
                    "steps": 12,
                    "schedule": {"kind": "constant", "lr": 0.01},
                    "precision": "float32",
                    "device": "cpu",
                    "log_every": 5,
                    "checkpoint_every": 5,
                    "validation": {"every": 6},
                    **train,
                },
            },
            "test recipe",
        )

    return made


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def silent() -> Console:
    return Console(file=StringIO(), width=200)


def test_a_run_folder_holds_the_bundle_the_checkpoint_and_the_metrics(make: Make, tmp_path: Path) -> None:
    console = silent()
    run = train(make(), tmp_path / "run", console=console)
    assert {p.name for p in run.iterdir()} >= {
        "config.json", "tokenizer.json", "model.safetensors", "README.md", "checkpoints", "metrics.jsonl",
    }  # fmt: skip
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(e["step"], e["part"]) for e in entries] == [
        (5, "train"), (6, "valid"), (10, "train"), (12, "train"), (12, "valid"),
    ]  # fmt: skip
    assert [p.name for p in (run / "checkpoints").glob("step-*")] == ["step-00000012"]
    assert "heedful translate" in (run / "README.md").read_text()
    assert "Trained 12 steps" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_run_in_two_halves_ends_with_the_bits_and_the_metrics_of_a_whole_one(make: Make, tmp_path: Path) -> None:
    whole = train(make(), tmp_path / "whole", console=silent())
    train(make(steps=6), tmp_path / "halves", console=silent())
    halves = train(make(), tmp_path / "halves", resume=True, console=silent())
    same_bits(whole / "model.safetensors", halves / "model.safetensors")
    same_bits(
        whole / "checkpoints/step-00000012/optimizer.safetensors",
        halves / "checkpoints/step-00000012/optimizer.safetensors",
    )
    assert losses(whole)[-1] == losses(halves)[-1]


def same_bits(expected: Path, found: Path) -> None:
    tensors = load_file(expected), load_file(found)
    assert tensors[0].keys() == tensors[1].keys()
    assert all(tensors[0][name].tobytes() == tensors[1][name].tobytes() for name in tensors[0])


def losses(run: Path) -> list[float]:
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [entry["loss"] for entry in entries if entry["part"] == "valid"]


def test_a_second_run_into_the_same_folder_is_refused(make: Make, tmp_path: Path) -> None:
    train(make(), tmp_path / "run", console=silent())
    with pytest.raises(UserError, match=r"run already holds a run: add --resume to go on with it, or choose another"):
        train(make(), tmp_path / "run", console=silent())


def test_resume_with_another_recipe_names_the_first_difference(make: Make, tmp_path: Path) -> None:
    train(make(), tmp_path / "run", console=silent())
    with pytest.raises(
        UserError, match=r"was trained with `train.label_smoothing` = 0.1, but the recipe says 0.2: res"
    ):
        train(make(label_smoothing=0.2), tmp_path / "run", resume=True, console=silent())


def test_a_resumed_run_that_goes_further_says_so_in_its_config(make: Make, tmp_path: Path) -> None:
    train(make(steps=6), tmp_path / "run", console=silent())
    run = train(make(steps=8), tmp_path / "run", resume=True, console=silent())
    assert json.loads((run / "config.json").read_text())["recipe"]["train"]["steps"] == 8


def test_resume_where_nothing_was_saved_begins(make: Make, tmp_path: Path) -> None:
    run = train(make(), tmp_path / "run", resume=True, console=silent())
    assert (run / "model.safetensors").exists()


def test_a_model_without_checkpoints_is_never_trained_over(make: Make, tmp_path: Path) -> None:
    run = train(make(), tmp_path / "run", console=silent())
    before = (run / "model.safetensors").read_bytes()
    shutil.rmtree(run / "checkpoints")
    for resume in (False, True):
        with pytest.raises(UserError, match=r"already holds a model, and no checkpoint to go on from: choose another"):
            train(make(), run, resume=resume, console=silent())
    assert (run / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("out", ["a.txt", "a.txt/run"])
def test_a_file_in_the_way_of_the_run_folder_is_named(make: Make, tmp_path: Path, out: str) -> None:
    with pytest.raises(UserError, match=r"a.txt: a file stands where a folder must be: choose another --out"):
        train(make(), tmp_path / out, console=silent())


@pytest.mark.parametrize("metric", ["loss", "bleu"])
def test_a_model_that_diverged_is_not_kept(make: Make, tmp_path: Path, metric: str) -> None:
    recipe = make(schedule={"kind": "constant", "lr": 1e30}, validation={"every": 3, "metric": metric})
    with pytest.raises(UserError, match=r"not finite"):
        train(recipe, tmp_path / "run", console=silent())
    assert not (tmp_path / "run/model.safetensors").exists()


def test_resume_of_a_finished_run_says_so_and_changes_nothing(make: Make, tmp_path: Path) -> None:
    run = train(make(), tmp_path / "run", console=silent())
    before = (run / "model.safetensors").read_bytes()
    console = silent()
    train(make(), run, resume=True, console=console)
    assert "already at step 12 of 12: nothing to do." in console.file.getvalue()  # type: ignore[attr-defined]
    assert (run / "model.safetensors").read_bytes() == before


def test_resume_on_changed_data_is_refused(make: Make, tmp_path: Path) -> None:
    train(make(steps=6), tmp_path / "run", console=silent())
    lines = (tmp_path / "a.txt").read_text().splitlines()
    write(tmp_path / "a.txt", lines[::-1])
    with pytest.raises(
        UserError, match=r"The training data is not what .*step-00000006 was trained on: its order would"
    ):
        train(make(), tmp_path / "run", resume=True, console=silent())


def test_a_dry_run_forecasts_and_writes_nothing(make: Make, tmp_path: Path) -> None:
    before = {p.name for p in tmp_path.iterdir()}
    forecast = dry_run(make(steps=1000), console=silent())
    assert {p.name for p in tmp_path.iterdir()} - before <= {"cache"}
    assert forecast.parameters > 1000
    assert forecast.seconds > 0
    assert forecast.epochs > 1
    assert forecast.peak_gpu_bytes is None


def test_without_validation_data_the_last_model_is_kept(make: Make, tmp_path: Path) -> None:
    recipe = make()
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"valid": ()})})
    run = train(recipe, tmp_path / "run", console=silent())
    assert (run / "model.safetensors").exists()
    assert "not validated" in (run / "README.md").read_text()


def test_a_validation_pair_beyond_the_positions_is_refused_before_training(make: Make, tmp_path: Path) -> None:
    write(tmp_path / "long.txt", ["1 " * 80])
    recipe = make()
    model = recipe.model.model_copy(update={"positions": "learned", "max_positions": 50})
    valid = (recipe.data.valid[0].model_copy(update={"source": "long.txt", "target": "long.txt", "lines": ""}),)
    data = recipe.data.model_copy(update={"valid": valid, "max_length": 40})
    with pytest.raises(UserError, match=r"`data.valid` has a sentence of 81 tokens .* has positions for 50"):
        train(recipe.model_copy(update={"model": model, "data": data}), tmp_path / "run", console=silent())


def test_validation_by_bleu_translates_and_keeps_the_highest(make: Make, tmp_path: Path) -> None:
    run = train(make(validation={"every": 6, "metric": "bleu"}), tmp_path / "run", console=silent())
    scores = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all({"bleu", "chrf", "loss", "perplexity"} <= entry.keys() for entry in scores if entry["part"] == "valid")


def test_batches_of_a_cpu_come_in_few_sizes(make: Make, tmp_path: Path) -> None:
    """Kernels are compiled for every size: dummies, which count in no loss, round it up."""
    from heedful.api.training import _Job
    from heedful.train.progress import Progress

    with Progress(silent()) as progress:
        job = _Job.prepare(make(), None, progress)
    batches = [job.feed.batch(indices) for indices in job.feed.plan(0)]
    assert all(b.source.layout.tokens % 64 == 0 and b.target.layout.tokens % 64 == 0 for b in batches)
    assert sum(b.target_tokens for b in batches) == int((job.prepared.train[0].lengths("target") + 1).sum())
