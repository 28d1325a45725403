"""Losses and gradients that are not finite: never applied, named, and after several in a row left out for good."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.shared.refusals import refuses
from tests.unit.runs.run_folders import Make, same_bits, silent, told

from heedful.runs.training_run import train
from heedful.training.objectives import NextToken, Sums
from heedful.training.updates import ModelLoss

Harm = Callable[[Sums, Any], Sums]


def no_number(sums: Sums, model: Any) -> Sums:
    return replace(sums, loss=sums.loss * torch.nan)


def infinite_loss(sums: Sums, model: Any) -> Sums:
    """A loss that is infinite, with gradients that are not."""
    return replace(sums, loss=sums.loss + torch.inf)


def infinite_gradient(sums: Sums, model: Any) -> Sums:
    """A finite loss with the gradient of one weight infinite."""
    weight = next(model.parameters()).flatten()[0]
    return replace(sums, loss=sums.loss + (weight - weight.detach()).abs().sqrt())


HARMS = [no_number, infinite_loss, infinite_gradient]


class Injected:
    """Harms chosen micro-batches of a run, known by what is in them, and remembers all that are trained on."""

    def __init__(self, harm: Harm = no_number) -> None:
        self.harm, self.sick, self.seen = harm, set[tuple[int, ...]](), list[tuple[int, ...]]()
        self.from_step: int | None = None  # everything is sick from this micro-batch on

    def __call__(self, loss: ModelLoss[Any], batch: Any) -> Sums:
        sums, key = loss.objective(loss.model, batch), tuple(batch.labels.tolist())
        self.seen.append(key)
        sick = key in self.sick or (self.from_step is not None and len(self.seen) >= self.from_step)
        return self.harm(sums, loss.model) if sick else sums


@pytest.fixture
def injected(monkeypatch: pytest.MonkeyPatch) -> Injected:
    made = Injected()
    monkeypatch.setattr(ModelLoss, "__call__", lambda loss, batch: made(loss, batch))
    return made


def records(run: Path, part: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["part"] == part]


def timeless(run: Path) -> list[dict[str, Any]]:
    """What a run recorded, without times."""
    times = ("tokens_per_second", "data_wait")
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key not in times} for line in lines]


def plan(make: Make, injected: Injected, home: Path, **recipe: Any) -> list[tuple[int, ...]]:
    """The micro-batches of a run to which nothing happens, in order."""
    train(make(**{**recipe, "validation": {"every": 100}}), home / "plan", console=silent())
    seen, injected.seen = injected.seen, []
    return seen


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize(("step", "accumulate"), [(1, 1), (4, 1), (4, 2)])
def test_an_update_that_is_not_finite_is_not_applied_but_named(
    make: Make, tmp_path: Path, injected: Injected, harm: Harm, step: int, accumulate: int
) -> None:
    order = plan(make, injected, tmp_path, steps=step, accumulate=accumulate)
    injected.sick, injected.harm = {order[-1]}, harm
    console, recipe = silent(), {"accumulate": accumulate, "log_every": 1, "checkpoint_every": 1, "keep_checkpoints": 9}
    run = train(make(steps=step, **recipe), tmp_path / "run", console=console)
    assert [line["skipped"] for line in records(run, "train")] == [0] * (step - 1) + [1]
    ((told_of,),) = [line["updates"] for line in records(run, "not finite")]
    assert (told_of["update"], told_of["epoch"], len(told_of["micro_batches"])) == (step, 0, accumulate)
    names = told_of["examples"]
    assert len(names) > 20
    assert all(name.startswith("a.txt + b.txt, line ") for name in names), names[0]
    shown = f"Update {step:,} ({'; '.join(names[:3])} and {len(names) - 3} more) was not applied: its loss or gradient"
    assert f"{shown} is not finite." in told(console)
    before = tmp_path / "run/checkpoints" / f"step-{step - 1:08d}"
    if step > 1:
        same_bits(before / "model.safetensors", before.with_name(f"step-{step:08d}") / "model.safetensors")
    assert all(weight.isfinite().all() for weight in load_file(run / "model.safetensors").values())


def test_the_examples_to_blame_are_found_in_their_batch(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b.txt").write_text((tmp_path / "b.txt").read_text().replace("zero zero", "odd", 1))  # of line 1
    score = NextToken.score

    def harmed(objective: NextToken, predicted: Any, batch: Any) -> Sums:
        sums, odd = score(objective, predicted, batch), int(predicted.labels_N.max())
        return replace(sums, loss=sums.loss * torch.nan) if odd == 4 + 20 else sums  # the least frequent word

    monkeypatch.setattr(NextToken, "score", harmed)
    console = silent()
    train(make(steps=12, log_every=12, validation={"every": 100}), tmp_path / "run", console=console)
    assert " (a.txt + b.txt, line 1) was not applied: its loss or gradient is not finite." in told(console)


# --- several in a row -------------------------------------------------------------------------------------------------


MANY: dict[str, Any] = {
    "steps": 14, "log_every": 2, "checkpoint_every": 4, "validation": {"every": 3}, "moving_average": 0.9,
    "not_finite": {"in_a_row": 3, "returns": 2},
}  # fmt: skip


@pytest.mark.parametrize("accumulate", [1, 2])
def test_after_several_in_a_row_a_run_returns_and_leaves_their_batches_out(
    make: Make, tmp_path: Path, injected: Injected, accumulate: int
) -> None:
    recipe = {**MANY, "accumulate": accumulate}
    order = plan(make, injected, tmp_path, **recipe)
    injected.sick = {*order[6 * accumulate : 9 * accumulate]}  # of the updates 7 to 9, after the checkpoint of step 4
    console = silent()
    run = train(make(**recipe), tmp_path / "run", console=console)
    line = (
        "Back to step 4, as 3 updates in a row were not finite, 7 to 9: their batches will be left out (return 1 of 2,"
    )
    assert f"{line} `train.not_finite.returns`)." in told(console)
    (returned,) = records(run, "returned")
    assert (returned["step"], returned["from"], returned["to"]) == (6, 9, 4)
    first = [0, 6] if accumulate == 1 else [1, 0]  # an epoch has twelve micro-batches
    assert returned["left_out"] == [[first[0], first[1] + number] for number in range(3 * accumulate)]
    assert returned["examples"]
    assert [line["step"] for line in records(run, "train")] == [2, 4, 6, 8, 10, 12, 14]
    assert not any(line["skipped"] for line in records(run, "train"))
    assert not injected.sick & {*injected.seen[-10 * accumulate :]}  # the updates since: 5 to 14
    position = json.loads((run / "checkpoints/step-00000014/position.json").read_text())
    assert position["not_finite"]["returned"] == [[9, 4]]
    assert position["not_finite"]["left_out"] == returned["left_out"]


@pytest.mark.parametrize("stop", [3, 4, 5, 6, 9, 11, 13])
def test_a_run_that_is_stopped_around_a_return_ends_with_the_same_bits(
    make: Make, tmp_path: Path, injected: Injected, stop: int
) -> None:
    order = plan(make, injected, tmp_path, **MANY)
    injected.sick = {*order[6:9]}
    whole = train(make(**MANY), tmp_path / "whole", console=silent())
    with killed_at(injected, stop):
        train(make(**MANY), tmp_path / "run", console=silent())
    run = train(make(**MANY), tmp_path / "run", resume=True, console=silent())
    same_bits(whole / "model.safetensors", run / "model.safetensors")
    for name in ("model", "optimizer"):
        last = Path("checkpoints/step-00000014") / f"{name}.safetensors"
        same_bits(whole / last, run / last)
    assert timeless(run) == timeless(whole)


class Killed(BaseException):
    pass


@contextmanager
def killed_at(injected: Injected, call: int) -> Iterator[None]:
    """Let a run end as if it were killed, at a micro-batch that is counted from its begin, returns included."""
    count, harm = len(injected.seen) + call, injected.__class__.__call__

    def deadly(self: Injected, loss: ModelLoss[Any], batch: Any) -> Sums:
        if len(self.seen) >= count:
            raise Killed
        return harm(self, loss, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Injected, "__call__", deadly)
        try:
            yield
        except Killed:
            return
    raise AssertionError("it was not killed")


def test_returns_are_bounded_and_what_was_saved_stays(make: Make, tmp_path: Path, injected: Injected) -> None:
    injected.from_step = 7
    console = silent()
    with refuses("...last 4 updates (step 8) after 2 returns: lower..."):
        train(make(**MANY), tmp_path / "run", console=console)
    assert told(console).count("Back to step 4") == 2
    saved = load_file(tmp_path / "run/checkpoints/step-00000004/model.safetensors")
    assert all(weight.isfinite().all() for weight in saved.values())
    injected.from_step = None
    run = train(make(**MANY), tmp_path / "run", resume=True, console=silent())  # the way out
    assert (run / "checkpoints/step-00000014").exists()


def test_without_a_checkpoint_before_them_a_run_goes_on_if_it_can(
    make: Make, tmp_path: Path, injected: Injected
) -> None:
    order = plan(make, injected, tmp_path, **MANY)
    injected.sick = {*order[:3]}  # the first three updates of all, and then none
    console = silent()
    run = train(make(**MANY), tmp_path / "run", console=console)
    assert "Back to" not in told(console)
    assert [line["skipped"] for line in records(run, "train")] == [2, 1, 0, 0, 0, 0, 0]


def test_no_return_is_allowed_if_a_recipe_says_so(make: Make, tmp_path: Path, injected: Injected) -> None:
    injected.from_step = 7
    with refuses("...last 4 updates (step 10): lower..."):
        train(make(**{**MANY, "not_finite": {"in_a_row": 3, "returns": 0}}), tmp_path / "run", console=silent())
