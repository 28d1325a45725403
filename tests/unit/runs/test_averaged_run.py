"""The mean of checkpoints at the end of a run: which ones, where it is kept, and after an interruption."""

import json
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.shared.refusals import refuses
from tests.unit.runs.run_folders import Make, kept, same_bits, silent, told

from heedful.base.errors import Stopped
from heedful.runs import run as running
from heedful.runs.dry_run import dry_run
from heedful.runs.training_run import train
from heedful.tasks.shared.task import Validator
from heedful.tasks.translate.model import Translator
from heedful.training.trainer import StepMetrics

# Checkpoints and validations at steps 2, 4, ... 12.
OFTEN = {"checkpoint_every": 2, "validation": {"every": 2}}


def scores_of(run: Path) -> dict[int, float]:
    """The score of each checkpoint that is there."""
    return {
        step: json.loads((run / f"checkpoints/step-{step:08d}/position.json").read_text())["score"]
        for step in kept(run)
    }


def is_mean_of(run: Path, steps: Iterable[int]) -> bool:
    """Whether the mean, in the run folder or beside, is the float64 mean of these checkpoints."""
    parts = [load_file(run / f"checkpoints/step-{step:08d}/model.safetensors") for step in steps]
    found = load_file((run / "mean" if (run / "mean").exists() else run) / "model.safetensors")
    return all(
        np.array_equal(tensor, np.mean([part[name].astype(np.float64) for part in parts], axis=0).astype(np.float32))
        for name, tensor in found.items()
    )


def scored_by_hand(monkeypatch: pytest.MonkeyPatch, scores: Mapping[int, float]) -> None:
    """Judge models by a table: the next validation has the next score; all later ones, as the mean's, the last."""
    left = list(scores.values())
    monkeypatch.setattr(Validator, "__call__", lambda judge: {"loss": left.pop(0) if len(left) > 1 else left[0]})


def test_the_model_is_the_mean_of_exactly_the_last_checkpoints(make: Make, tmp_path: Path) -> None:
    console = silent()
    run = train(make(**OFTEN, keep_checkpoints=5, average={"last": 3}), tmp_path / "run", console=console)
    assert kept(run) == [4, 6, 8, 10, 12]
    assert is_mean_of(run, [8, 10, 12])
    assert not is_mean_of(run, [6, 8, 10, 12])
    assert "Averaged: the mean of 3 checkpoints, steps 8, 10, 12\n" in told(console)
    card = (run / "mean/README.md").read_text()
    assert "the mean of 3 checkpoints, steps 8, 10, 12." in card
    assert "| loss | " in card
    assert "heedful translate mean <" in card


@pytest.mark.parametrize(
    ("metric", "steps"), [("loss", [6, 10, 12]), ("bleu", [2, 4, 8])], ids=["lower is better", "higher is better"]
)
def test_the_model_is_the_mean_of_exactly_the_best_checkpoints(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, steps: list[int]
) -> None:
    scored_by_hand(monkeypatch, scores := {2: 5.0, 4: 4.0, 6: 0.0, 8: 4.0, 10: 1.0, 12: 1.0, 0: 0.5})
    validation = {"every": 2, "metric": metric}
    recipe = make(checkpoint_every=2, validation=validation, average={"best": 3})
    run = train(recipe, tmp_path / "run", console=silent())
    assert kept(run) == sorted({*steps, 10, 12})
    assert scores_of(run) == {step: scores[step] for step in kept(run)}
    assert is_mean_of(run, steps)


# The last one is the mean's, which is better than all before it; or worse.
BETTER_MEAN = {2: 9.0, 4: 3.0, 6: 4.0, 8: 4.0, 10: 4.0, 12: 4.0, 0: 1.0}
WORSE_MEAN = {**BETTER_MEAN, 0: 3.5}


def test_a_worse_mean_stands_beside_the_best_model(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored_by_hand(monkeypatch, WORSE_MEAN)
    console = silent()
    run = train(make(**OFTEN, keep_checkpoints=6, average={"last": 3}), tmp_path / "run", console=console)
    assert is_mean_of(run, [8, 10, 12])
    same_bits(run / "model.safetensors", run / "checkpoints/step-00000004/model.safetensors")
    assert not (run / "single").exists()
    assert (
        f"It is not better (loss 3.5; the best single model has 3): it is in {run / 'mean'}, and {run} keeps the best "
        "single model"
    ) in told(console)
    Translator.load(run / "mean", "cpu")


def test_a_mean_that_was_better_and_is_no_longer_gives_its_place_back(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored_by_hand(monkeypatch, BETTER_MEAN)
    run = train(make(**OFTEN, average={"last": 3}), tmp_path / "run", console=silent())
    best = files(run)["single/model.safetensors"]
    scored_by_hand(monkeypatch, {14: 4.0, 16: 4.0, 0: 3.5})
    train(make(**OFTEN, steps=16, average={"last": 3}), run, resume=True, console=silent())
    assert files(run)["model.safetensors"] == best
    assert not (run / "single").exists()
    assert is_mean_of(run, [12, 14, 16])
    assert f"heedful translate {run.name} <" in (run / "README.md").read_text()


def test_the_best_single_model_is_kept_beside_the_mean(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored_by_hand(monkeypatch, BETTER_MEAN)
    alone = train(make(**OFTEN), tmp_path / "alone", console=silent())
    scored_by_hand(monkeypatch, BETTER_MEAN)
    console = silent()
    run = train(make(**OFTEN, average={"last": 3}), tmp_path / "run", console=console)
    assert not (alone / "single").exists()
    assert not (run / "mean").exists()
    assert f"It is better (loss 1) and now the model in {run}; the best single one (3) is in {run}/single" in told(
        console
    )
    same_bits(alone / "model.safetensors", run / "single/model.safetensors")
    assert "the best single model, of 4 updates" in (run / "single/README.md").read_text()
    assert "heedful translate single <" in (run / "single/README.md").read_text()
    single, mean = Translator.load(run / "single", "cpu"), Translator.load(run, "cpu")
    assert single.translate(["1 2 3"]) == Translator.load(alone, "cpu").translate(["1 2 3"])
    assert not all(
        np.array_equal(a.detach(), b.detach())
        for a, b in zip(single.network.parameters(), mean.network.parameters(), strict=True)
    )


def test_what_is_to_be_averaged_and_what_is_to_be_kept_stay_together(make: Make, tmp_path: Path) -> None:
    assert kept(train(make(**OFTEN, average={"last": 4}), tmp_path / "a", console=silent())) == [6, 8, 10, 12]
    both = make(**OFTEN, keep_checkpoints=3, average={"last": 2})
    assert kept(train(both, tmp_path / "b", console=silent())) == [8, 10, 12]


def test_fewer_checkpoints_than_asked_for_are_all_averaged(make: Make, tmp_path: Path) -> None:
    console = silent()
    run = train(make(average={"last": 50}), tmp_path / "run", console=console)
    assert kept(run) == [5, 10, 12]
    assert is_mean_of(run, [5, 10, 12])
    assert "steps 5, 10, 12 (50 were requested, but there are no more)" in told(console)


@pytest.mark.parametrize("average", [{"last": 3}, {"best": 2}])
def test_resume_of_an_averaged_run_gives_the_same_bytes_again(
    make: Make, tmp_path: Path, average: dict[str, int]
) -> None:
    run = train(make(**OFTEN, average=average), tmp_path / "run", console=silent())
    before = files(run)
    train(make(**OFTEN, average=average), run, resume=True, console=silent())
    assert files(run) == before


def files(run: Path) -> dict[str, bytes]:
    """The weights in a run folder."""
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("model.safetensors")}


@pytest.mark.parametrize("moment", ["checkpoints_to_average", "copy_weights", "mean_weights"])
def test_killed_while_averaging_and_resumed_gives_the_model_of_an_undisturbed_run(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """After the last checkpoint, while the best single model is put aside, and before the mean takes its place."""
    recipe = make(**OFTEN, average={"last": 3})
    scored_by_hand(monkeypatch, BETTER_MEAN)
    whole = train(recipe, tmp_path / "whole", console=silent())
    scored_by_hand(monkeypatch, BETTER_MEAN)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(running, moment, killed)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, tmp_path / "run", console=silent())
    scored_by_hand(monkeypatch, {0: BETTER_MEAN[0]})
    run = train(recipe, tmp_path / "run", resume=True, console=silent())
    assert files(run) == files(whole)
    Translator.load(run / "single", "cpu")


def test_a_run_that_goes_on_after_averaging_is_as_one_that_went_so_far_at_once(make: Make, tmp_path: Path) -> None:
    """It finds better models, and another mean."""
    whole = train(make(**OFTEN, steps=20, average={"last": 3}), tmp_path / "whole", console=silent())
    run = train(make(**OFTEN, average={"last": 3}), tmp_path / "run", console=silent())
    early = files(run)["mean/model.safetensors"]
    train(make(**OFTEN, steps=20, average={"last": 3}), run, resume=True, console=silent())
    assert files(run) == files(whole)
    assert files(run)["mean/model.safetensors"] != early


def test_a_better_model_replaces_the_mean_at_once(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted before it is averaged again, the run folder holds the best model, and no older one beside it."""
    scored_by_hand(monkeypatch, BETTER_MEAN)
    run = train(make(**OFTEN, average={"last": 3}), tmp_path / "run", console=silent())
    scored_by_hand(monkeypatch, {14: 2.0, 16: 1.9, 18: 1.8, 20: 1.7})
    train(make(**OFTEN, steps=20), run, resume=True, console=silent())
    assert not (run / "single").exists()
    same_bits(run / "model.safetensors", run / "checkpoints/step-00000020/model.safetensors")


def test_a_run_that_goes_on_and_finds_no_better_model_keeps_the_single_one(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored_by_hand(monkeypatch, BETTER_MEAN)
    run = train(make(**OFTEN, average={"last": 2}), tmp_path / "run", console=silent())
    single = files(run)["single/model.safetensors"]
    console = silent()
    scored_by_hand(monkeypatch, {14: 4.0, 16: 4.0, 0: 1.0})
    train(make(**OFTEN, steps=16, average={"last": 2}), run, resume=True, console=console)
    assert files(run)["single/model.safetensors"] == single
    assert f"The best model, of step 4, is in {run / 'single'}" in told(console)
    assert f"the best single one (3) is in {run / 'single'}" in told(console)
    assert is_mean_of(run, [14, 16])


def test_a_stopped_run_averages_what_an_undisturbed_one_does(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal saves a checkpoint between two regular ones, which is no part of the mean."""
    recipe = make(checkpoint_every=3, log_every=1, average={"last": 3})
    whole = train(recipe, tmp_path / "whole", console=silent())

    def step_metrics(running: object, metrics: StepMetrics, logged: bool) -> None:
        if metrics.step == 8:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr("heedful.runs.run.RunObserver.step_metrics", step_metrics)
        with refuses("Stopped at step 8 of 12, checkpoint saved...", Stopped):
            train(recipe, tmp_path / "run", console=silent())
    assert kept(tmp_path / "run") == [3, 6, 8]
    run = train(recipe, tmp_path / "run", resume=True, console=silent())
    assert kept(run) == kept(whole) == [6, 9, 12]
    assert files(run) == files(whole)


def test_a_run_that_ended_early_and_goes_on_averages_what_a_whole_one_does(make: Make, tmp_path: Path) -> None:
    whole = train(make(checkpoint_every=3, average={"last": 3}), tmp_path / "whole", console=silent())
    run = train(make(checkpoint_every=3, steps=7, average={"last": 3}), tmp_path / "run", console=silent())
    assert kept(run) == [3, 6, 7]
    train(make(checkpoint_every=3, average={"last": 3}), run, resume=True, console=silent())
    same_bits(whole / "model.safetensors", run / "model.safetensors")


def test_a_run_out_of_patience_is_averaged_too(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored_by_hand(monkeypatch, {2: 1.0, 4: 2.0, 6: 3.0})
    recipe = make(checkpoint_every=2, validation={"every": 2, "patience": 2}, average={"best": 2})
    console = silent()
    run = train(recipe, tmp_path / "run", console=console)
    assert "Trained 6 steps" in told(console)
    assert "(no better model in 2 validations: stopped early)" in told(console)
    assert is_mean_of(run, [2, 4])
    before = files(run)
    train(recipe, run, resume=True, console=silent())
    assert files(run) == before


def test_a_run_that_was_not_averaged_can_be_when_it_is_resumed(make: Make, tmp_path: Path) -> None:
    run = train(make(**OFTEN, keep_checkpoints=4), tmp_path / "run", console=silent())
    best = files(run)["model.safetensors"]
    train(make(**OFTEN, keep_checkpoints=4, average={"last": 4}), run, resume=True, console=silent())
    assert is_mean_of(run, [6, 8, 10, 12])
    assert files(run)["model.safetensors"] == best


def test_where_no_checkpoint_was_validated_there_are_no_best_ones(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Validator, "__call__", lambda judge: {})
    console = silent()
    run = train(make(average={"best": 2}), tmp_path / "run", console=console)
    assert "No checkpoint was validated when it was saved: there is nothing to average" in told(console)
    assert not (run / "single").exists()


def test_without_validation_the_last_are_averaged_all_the_same(make: Make, tmp_path: Path) -> None:
    recipe = make(**OFTEN, average={"last": 2})
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"valid": ()})})
    console = silent()
    run = train(recipe, tmp_path / "run", console=console)
    assert is_mean_of(run, [10, 12])
    assert f"It is now the model in {run}; the best single one is in {run / 'single'}\n" in told(console)
    same_bits(run / "single/model.safetensors", run / "checkpoints/step-00000012/model.safetensors")


def test_a_forecast_counts_the_checkpoints_that_are_kept_to_be_averaged(make: Make) -> None:
    """Weights and two moments a checkpoint, and the weights of one model, or of the mean and the best single one."""
    plain = dry_run(make(keep_checkpoints=2), console=silent())
    assert plain.checkpoint_bytes == 4 * plain.parameters * (3 * 2 + 1)
    last = dry_run(make(keep_checkpoints=2, average={"last": 5}), console=silent())
    assert last.checkpoint_bytes == 4 * plain.parameters * (3 * 5 + 2)
    best = dry_run(make(keep_checkpoints=2, average={"best": 5}), console=silent())
    assert best.checkpoint_bytes == 4 * plain.parameters * (3 * 7 + 2)
