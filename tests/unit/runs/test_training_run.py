"""Training from a recipe: what a run folder holds, what resumes, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.shared.refusals import refuses
from tests.unit.runs.run_folders import Make, same_bits, silent, told, write

from heedful.base.errors import on_command_line
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.models.bundle import read_description
from heedful.runs.dry_run import dry_run, time_updates
from heedful.runs.progress import RunProgress
from heedful.runs.training_run import prepare_job, train


def test_a_run_folder_holds_the_bundle_the_checkpoint_and_the_metrics(make: Make, tmp_path: Path) -> None:
    console = silent()
    with on_command_line():
        run = train(make(), tmp_path / "run", console=console)
    assert {p.name for p in run.iterdir()} >= {
        "config.json", "tokenizer.json", "model.safetensors", "README.md", "checkpoints", "metrics.jsonl",
        "report.html",
    }  # fmt: skip
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(e["step"], e["part"]) for e in entries] == [
        (5, "train"), (6, "valid"), (10, "train"), (12, "train"), (12, "valid"),
    ]  # fmt: skip
    assert sorted(p.name for p in (run / "checkpoints").glob("step-*")) == ["step-00000010", "step-00000012"]
    assert "heedful translate" in (run / "README.md").read_text()
    assert "Trained 12 steps" in told(console)
    assert told(console).rstrip().endswith(f"Next: heedful translate {run} < text.txt")


def test_a_run_in_two_halves_ends_with_the_bits_and_the_metrics_of_a_whole_one(make: Make, tmp_path: Path) -> None:
    whole = train(make(), tmp_path / "whole", console=silent())
    train(make(steps=6), tmp_path / "halves", console=silent())
    console = silent()
    halves = train(make(), tmp_path / "halves", resume=True, console=console)
    assert f"Resuming {halves} from step 6, epoch " in told(console)
    same_bits(whole / "model.safetensors", halves / "model.safetensors")
    same_bits(
        whole / "checkpoints/step-00000012/optimizer.safetensors",
        halves / "checkpoints/step-00000012/optimizer.safetensors",
    )
    assert losses(whole)[-1] == losses(halves)[-1]


def losses(run: Path) -> list[float]:
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [entry["loss"] for entry in entries if entry["part"] == "valid"]


def test_a_second_run_into_the_same_folder_is_refused(make: Make, tmp_path: Path) -> None:
    train(make(), tmp_path / "run", console=silent())
    with refuses("...run already holds a run: add `resume=True` to continue it, or choose another..."):
        train(make(), tmp_path / "run", console=silent())


def test_resume_with_another_recipe_names_the_first_difference(make: Make, tmp_path: Path) -> None:
    train(make(), tmp_path / "run", console=silent())
    with refuses("...was trained with `train.label_smoothing` = 0.1, but the recipe says 0.2: res..."):
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
        with refuses("...already holds a model, but..."):
            train(make(), run, resume=resume, console=silent())
    assert (run / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("out", ["a.txt", "a.txt/run"])
def test_a_file_in_the_way_of_the_run_folder_is_named(make: Make, tmp_path: Path, out: str) -> None:
    with refuses("...a.txt: a file exists where a..."):
        train(make(), tmp_path / out, console=silent())


@pytest.mark.parametrize("metric", ["loss", "bleu"])
def test_a_model_that_diverged_is_not_kept(make: Make, tmp_path: Path, metric: str) -> None:
    recipe = make(schedule={"kind": "constant", "lr": 1e30}, validation={"every": 3, "metric": metric})
    with refuses("...not finite..."):
        train(recipe, tmp_path / "run", console=silent())
    assert not (tmp_path / "run/model.safetensors").exists()


def test_resume_of_a_finished_run_says_so_and_changes_nothing(make: Make, tmp_path: Path) -> None:
    run = train(make(), tmp_path / "run", console=silent())
    before = (run / "model.safetensors").read_bytes()
    console = silent()
    train(make(), run, resume=True, console=console)
    assert "already at step 12 of 12: nothing to train." in told(console)
    assert (run / "model.safetensors").read_bytes() == before


def test_recording_is_refused_where_batches_have_many_shapes(make: Make, tmp_path: Path) -> None:
    with refuses("`train.capture` is true, but only batches of one shape can be captured, whi..."):
        train(make(capture=True), tmp_path / "run")
    train(make(capture=False), tmp_path / "run")  # nothing stands in the way


def test_whether_steps_are_recorded_or_compiled_may_change_on_resume(make: Make, tmp_path: Path) -> None:
    train(make(steps=5), tmp_path / "run")
    train(make(steps=6, capture=False, compile=False), tmp_path / "run", resume=True)
    assert (tmp_path / "run/checkpoints/step-00000006").exists()


def test_resume_on_changed_data_is_refused(make: Make, tmp_path: Path) -> None:
    train(make(steps=6), tmp_path / "run", console=silent())
    lines = (tmp_path / "a.txt").read_text().splitlines()
    write(tmp_path / "a.txt", lines[::-1])
    with refuses("...The training data is not the data that ...step-00000006 was trained on: its order would..."):
        train(make(), tmp_path / "run", resume=True, console=silent())


def test_a_dry_run_forecasts_and_writes_nothing(make: Make, tmp_path: Path) -> None:
    before = {p.name for p in tmp_path.iterdir()}
    forecast = dry_run(make(steps=1000), console=silent())
    assert {p.name for p in tmp_path.iterdir()} - before <= {"cache"}
    assert forecast.parameters > 1000
    assert forecast.seconds > 0
    assert forecast.epochs > 1
    assert forecast.peak_gpu_bytes is None


def test_stretches_of_updates_are_timed_and_nothing_is_written(make: Make, tmp_path: Path) -> None:
    before = {p.name for p in tmp_path.iterdir()}
    seconds = time_updates(make(steps=3), stretches=3, updates=2, console=silent())
    assert len(seconds) == 3
    assert all(one > 0 for one in seconds)
    assert {p.name for p in tmp_path.iterdir()} - before <= {"cache"}


def test_a_wait_without_momentum_begins_with_the_gradient_of_its_first_update(make: Make, tmp_path: Path) -> None:
    """The mean of gradients is 0.9 m + 0.1 g, where m settled in the wait, or 0.1 g alone."""

    def means(step: int, momentum: bool) -> dict[str, torch.Tensor]:
        folder = tmp_path / f"run-{momentum}"
        recipe = make(steps=step, warmup={"kind": "wait", "steps": 3, "momentum": momentum})
        train(recipe, folder, resume=True, console=silent())
        state = load_file(folder / "checkpoints" / f"step-{step:08d}" / "optimizer.safetensors")
        return {name: tensor for name, tensor in state.items() if name.endswith(".exp_avg")}

    settled, kept, begun = means(3, True), means(4, True), means(4, False)
    assert settled
    for name, mean in settled.items():
        assert torch.allclose(kept[name] - 0.9 * mean, begun[name], atol=1e-6), name
        assert begun[name].abs().max() > 0, name


def test_without_validation_data_the_last_model_is_kept(make: Make, tmp_path: Path) -> None:
    recipe = make()
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"valid": ()})})
    console = silent()
    run = train(recipe, tmp_path / "run", console=console)
    assert (run / "model.safetensors").exists()
    assert "not validated" in (run / "README.md").read_text()
    assert f"The last model is in {run}\n" in told(console)


def test_a_validation_pair_beyond_the_positions_is_refused_before_training(make: Make, tmp_path: Path) -> None:
    write(tmp_path / "long.txt", ["1 " * 80])
    recipe = make()
    model = recipe.model.model_copy(update={"positions": "learned", "max_positions": 50})
    valid = (recipe.data.valid[0].model_copy(update={"source": "long.txt", "target": "long.txt", "lines": ""}),)
    data = recipe.data.model_copy(update={"valid": valid, "max_length": 40})
    with refuses("...`data.valid` has a sentence of 81 tokens ... has positions for 50..."):
        train(recipe.model_copy(update={"model": model, "data": data}), tmp_path / "run", console=silent())


def test_a_validation_pair_too_long_to_score_is_refused_before_training(make: Make, tmp_path: Path) -> None:
    write(tmp_path / "long.txt", ["1 " * 10_000])
    recipe = make()
    valid = (recipe.data.valid[0].model_copy(update={"source": "long.txt", "target": "long.txt", "lines": ""}),)
    data = recipe.data.model_copy(update={"valid": valid})
    with refuses(
        "`data.valid` has a sentence of 10,001 tokens with its end marker, but at most 10,000 are scored: leave the "
        "pair out."
    ):
        train(recipe.model_copy(update={"data": data}), tmp_path / "run", console=silent())


def test_a_validation_source_too_long_to_translate_is_refused_before_training(make: Make, tmp_path: Path) -> None:
    write(tmp_path / "long.txt", ["1 " * 80])
    recipe = make(validation={"every": 6, "metric": "bleu"})
    valid = (recipe.data.valid[0].model_copy(update={"source": "long.txt", "target": "long.txt", "lines": ""}),)
    changed = {
        "data": recipe.data.model_copy(update={"valid": valid}),
        "decode": recipe.decode.model_copy(update={"max_source": 79}),
    }
    with refuses(
        "`data.valid` has a source of 80 tokens, but at most 79 are translated (`decode.max_source`): leave the pair "
        "out, or raise it."
    ):
        train(recipe.model_copy(update=changed), tmp_path / "run", console=silent())


def test_validation_by_bleu_translates_and_keeps_the_highest(make: Make, tmp_path: Path) -> None:
    run = train(make(validation={"every": 6, "metric": "bleu"}), tmp_path / "run", console=silent())
    scores = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all({"bleu", "chrf", "loss", "perplexity"} <= entry.keys() for entry in scores if entry["part"] == "valid")


def test_batches_of_a_cpu_come_in_few_sizes(make: Make, tmp_path: Path) -> None:
    """Kernels are compiled for every size: dummies, which count in no loss, round it up."""
    from heedful.runs.progress import RunProgress

    with RunProgress(silent()) as progress:
        job = prepare_job(make(), progress)
    batches = [job.feed.batch(indices) for indices in job.feed.plan(0)]
    assert all(b.source.layout.tokens % 64 == 0 and b.target.layout.tokens % 64 == 0 for b in batches)
    assert sum(b.target_tokens for b in batches) == int((job.prepared.train[0].lengths("target") + 1).sum())


def test_what_a_killed_run_left_is_cleared(make: Make, tmp_path: Path) -> None:
    run = train(make(), tmp_path / "run", console=silent())
    mark = "0123456789abcdef" * 2
    (run / f".single.{mark}").mkdir()
    (run / f".single.{mark}/config.json").write_text("{}")
    torn = [run / f".config.json.{mark}", run / f"checkpoints/.last.json.{mark}", run / f".model.safetensors.{mark}"]
    for path in torn:
        path.write_text("{")
    (run / ".notes.txt").write_text("mine")
    train(make(), run, resume=True, console=silent())
    assert not (run / f".single.{mark}").exists()
    assert not any(path.exists() for path in torn)
    assert (run / ".notes.txt").exists()


def test_a_run_tells_how_long_it_trained_over_all_its_parts(make: Make, tmp_path: Path) -> None:
    def seconds(run: Path, step: int) -> float:
        position = json.loads((run / f"checkpoints/step-{step:08d}/position.json").read_text())
        return float(position["seconds"])

    run = train(make(steps=6), tmp_path / "run", console=silent())
    first = seconds(run, 6)
    assert 0 < first < 60
    train(make(), run, resume=True, console=silent())
    assert seconds(run, 12) > first


# --- epochs -----------------------------------------------------------------------------------------------------------


def with_epochs(recipe: Recipe, epochs: float) -> Recipe:
    values = recipe_to_json(recipe)
    values["train"] = {key: value for key, value in values["train"].items() if key != "steps"} | {"epochs": epochs}
    return recipe_from_json(values, "test recipe")


def test_a_run_of_epochs_sees_all_its_batches_that_often(make: Make) -> None:
    with RunProgress(silent()) as progress:
        job = prepare_job(with_epochs(make(accumulate=5), 2), progress)
        job.begin()
    batches = len(list(job.feed.plan(0)))
    assert batches % 5 != 0  # the last update of an epoch is smaller
    assert (job.recipe.train.steps, job.recipe.train.epochs) == (2 * (batches // 5 + 1), None)


def test_a_run_that_is_resumed_for_more_epochs_is_the_longer_run(make: Make, tmp_path: Path) -> None:
    recipe = make(validation={"every": 1000}, checkpoint_every=1000)
    whole = train(with_epochs(recipe, 2), tmp_path / "whole", console=silent())
    train(with_epochs(recipe, 1), tmp_path / "parts", console=silent())
    parts = train(with_epochs(recipe, 2), tmp_path / "parts", resume=True, console=silent())
    same_bits(whole / "model.safetensors", parts / "model.safetensors")
    assert read_description(parts)[0].train.steps == read_description(whole)[0].train.steps > 2


def test_a_run_saves_the_average_and_resumes_exactly(make: Make, tmp_path: Path) -> None:
    whole = train(make(moving_average=0.5), tmp_path / "whole", console=silent())
    train(make(steps=6, moving_average=0.5), tmp_path / "halves", console=silent())
    halves = train(make(moving_average=0.5), tmp_path / "halves", resume=True, console=silent())
    same_bits(whole / "model.safetensors", halves / "model.safetensors")
    last = whole / "checkpoints/step-00000012"
    state, weights = load_file(last / "optimizer.safetensors"), load_file(last / "model.safetensors")
    saved = load_file(whole / "model.safetensors")
    names = [name for name in saved if f"{name}.average" in state]
    assert names
    assert all(torch.equal(saved[name], state[f"{name}.average"]) for name in names)
    assert not all(torch.equal(saved[name], weights[name]) for name in names)
