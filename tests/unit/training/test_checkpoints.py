"""Checkpoints: what is read is what was written, and a damaged file is refused before anything changes."""

import copy
import shutil
from pathlib import Path

import pytest
import torch
from tests.shared.refusals import refuses
from torch import nn

from heedful.config.train.optimizers import Adam, AdamW, AnyOptimizer
from heedful.training.checkpoints import (
    Position,
    Retention,
    begin_checkpoints,
    best_checkpoints,
    checkpoint_weights,
    has_only_begun,
    last_checkpoint,
    last_checkpoints,
    load_checkpoint,
    save_checkpoint,
    seconds_trained,
    step_of,
)
from heedful.training.optimizers.build import build_optimizer


def small_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def train_a_little(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int, steps: int = 3) -> None:
    torch.manual_seed(seed)
    for _ in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("config", [Adam(), AdamW(kind="adamw")])
def test_a_model_and_its_optimizer_resume_exactly_from_a_checkpoint(config: AnyOptimizer, tmp_path: Path) -> None:
    model = small_model(0)
    optimizer = build_optimizer(config, model)
    train_a_little(model, optimizer, 1)
    save_checkpoint(tmp_path, model, optimizer, Position(step=3, facts={"threads": 2}), Retention(1))
    train_a_little(model, optimizer, 2)

    other = small_model(99)
    resumed = build_optimizer(config, other)
    path = last_checkpoint(tmp_path)
    assert path is not None
    position = load_checkpoint(path, other, resumed)
    train_a_little(other, resumed, 2)

    assert position == Position(step=3, facts={"threads": 2})
    for expected, found in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(expected, found)


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    model = small_model(0)
    optimizer = build_optimizer(Adam(), model)
    for step in range(1, 6):
        save_checkpoint(tmp_path, model, optimizer, Position(step=step), Retention(2))
    assert sorted(p.name for p in tmp_path.glob("step-*")) == ["step-00000004", "step-00000005"]
    assert last_checkpoint(tmp_path) == tmp_path / "step-00000005"


def test_there_is_no_checkpoint_before_one_is_saved(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "position.json"])
def test_a_damaged_checkpoint_is_refused_and_the_model_stays_as_it_was(name: str, tmp_path: Path) -> None:
    model = small_model(0)
    optimizer = build_optimizer(Adam(), model)
    train_a_little(model, optimizer, 1)
    path = save_checkpoint(tmp_path, model, optimizer, Position(step=3), Retention(1))
    data = bytearray((path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (path / name).write_bytes(data)
    before = copy.deepcopy(model.state_dict())
    with refuses(f"...{name} is damaged (its sha256 is not the manifest's): train again into another folder."):
        load_checkpoint(path, model, optimizer)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_missing_file_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    model = small_model(0)
    path = save_checkpoint(tmp_path, model, build_optimizer(Adam(), model), Position(step=3), Retention(1))
    for name in ("optimizer.safetensors", "manifest.json"):
        (path / name).unlink()
        refuse(path, model, f"{name} is missing: train again into another folder.")


@pytest.mark.parametrize("text", ["[]", "{}", '{"folder": "../elsewhere"}', '{"folder": "/step-00000003"}'])
def test_a_damaged_pointer_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "last.json").write_text(text)
    with refuses("...last.json does not name a checkpoint: the file is damaged. Restore it, or delete the run folder."):
        last_checkpoint(tmp_path)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    model = small_model(0)
    path = save_checkpoint(tmp_path, model, build_optimizer(Adam(), model), Position(step=3), Retention(1))
    for damaged in ("[]", "{}", '{"model', "[" * 100_000):
        (path / "manifest.json").write_text(damaged)
        refuse(path, model, "manifest.json is damaged: train again into another folder.")


def test_the_message_names_the_newest_other_checkpoint_if_there_is_one(tmp_path: Path) -> None:
    model = small_model(0)
    optimizer = build_optimizer(Adam(), model)
    for step in (100, 200, 300):
        path = save_checkpoint(tmp_path, model, optimizer, Position(step=step), Retention(3))
    (path / "position.json").write_text("{}")
    pointer = '{"folder": "step-00000200"}'
    refuse(path, model, f"delete {path}, write {pointer} into {tmp_path / 'last.json'} and resume from there.")
    shutil.rmtree(path)
    (tmp_path / "last.json").write_text(pointer)
    other = last_checkpoint(tmp_path)
    assert other is not None
    assert load_checkpoint(other, model, optimizer).step == 200


def refuse(path: Path, model: nn.Module, words: str) -> None:
    with refuses(f"...{words}"):
        load_checkpoint(path, model, build_optimizer(Adam(), model))


def test_a_run_that_begins_says_so_before_it_saves(tmp_path: Path) -> None:
    assert not has_only_begun(tmp_path)
    begin_checkpoints(tmp_path)
    assert (tmp_path / "last.json").read_text() == '{\n  "folder": null\n}\n'
    assert has_only_begun(tmp_path)
    assert last_checkpoint(tmp_path) is None
    save(tmp_path, Retention(), None)
    assert not has_only_begun(tmp_path)


# --- what is not ours ---------------------------------------------------------------------------------------------


def test_only_what_we_wrote_is_removed(tmp_path: Path) -> None:
    """Copies, notes and links stay, whatever they are called."""
    save(tmp_path, Retention(1), None)
    shutil.copytree(tmp_path / "step-00000001", tmp_path / "step-00000001-copy")
    shutil.copytree(tmp_path / "step-00000001", tmp_path / "step-1")
    (tmp_path / "step-00000500").mkdir()
    (tmp_path / "step-00000500" / "mine").touch()
    (tmp_path / "step-notes").touch()
    (tmp_path / ".step-notes").touch()
    shutil.copytree(tmp_path / "step-00000001", tmp_path / "elsewhere")
    (tmp_path / "step-00000002").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "step-00000900").symlink_to(tmp_path / "nowhere")
    save(tmp_path, Retention(1), None, first=5)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "step-00000001-copy", "step-1", "step-00000500", "step-notes", ".step-notes", "elsewhere", "step-00000002",
        "step-00000900", "step-00000005", "last.json",
    }  # fmt: skip
    assert (tmp_path / "elsewhere/manifest.json").exists()
    assert last_checkpoints(tmp_path, 9) == [tmp_path / "step-00000002", tmp_path / "step-00000005"]


def test_a_link_where_a_checkpoint_goes_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/mine").touch()
    (tmp_path / "step-00000001").symlink_to(tmp_path / "elsewhere")
    save(tmp_path, Retention(1), None)
    assert not (tmp_path / "step-00000001").is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["mine"]


def test_a_checkpoint_whose_position_is_damaged_does_not_end_a_run(tmp_path: Path) -> None:
    save(tmp_path, Retention(3), 1.0, 2.0)
    (tmp_path / "step-00000001/position.json").write_text("{")
    (tmp_path / "step-00000002/position.json").unlink()
    save(tmp_path, Retention(1, 2), 3.0, first=3)
    assert best(tmp_path, 2, higher_is_better=False) == [3]


# --- which stay, and which are the best -------------------------------------------------------------------------------


def save(folder: Path, retention: Retention, *scores: float | None, first: int = 1) -> list[int]:
    """Save a checkpoint a step with these scores; return the steps of those that stayed."""
    model = small_model(0)
    optimizer = build_optimizer(Adam(), model)
    for step, score in enumerate(scores, start=first):
        save_checkpoint(folder, model, optimizer, Position(step=step, score=score), retention)
    return list(map(step_of, last_checkpoints(folder, 99)))


def best(folder: Path, count: int, higher_is_better: bool) -> list[int]:
    return list(map(step_of, best_checkpoints(folder, count, higher_is_better)))


def test_the_best_are_the_lowest_or_the_highest_of_those_with_a_score(tmp_path: Path) -> None:
    save(tmp_path, Retention(9), 3.0, None, 0.0, 2.5, 7.0, None)
    assert best(tmp_path, 3, higher_is_better=False) == [3, 4, 1]
    assert best(tmp_path, 3, higher_is_better=True) == [5, 1, 4]
    assert best(tmp_path, 9, higher_is_better=True) == [5, 1, 4, 3]


@pytest.mark.parametrize("higher_is_better", [False, True])
def test_of_equal_scores_the_later_is_the_better(tmp_path: Path, higher_is_better: bool) -> None:
    save(tmp_path, Retention(9), 1.0, 1.0, 1.0, 1.0)
    assert best(tmp_path, 2, higher_is_better) == [4, 3]


@pytest.mark.parametrize("higher_is_better", [False, True])
def test_a_score_of_zero_is_a_score(tmp_path: Path, higher_is_better: bool) -> None:
    save(tmp_path, Retention(9), 0.0, None, 0.0)
    assert best(tmp_path, 5, higher_is_better) == [3, 1]


def test_the_last_come_oldest_first_and_all_where_there_are_fewer(tmp_path: Path) -> None:
    save(tmp_path, Retention(9), *[None] * 12)
    assert list(map(step_of, last_checkpoints(tmp_path, 3))) == [10, 11, 12]
    assert len(last_checkpoints(tmp_path, 99)) == 9
    assert last_checkpoints(tmp_path / "none", 3) == best_checkpoints(tmp_path / "none", 3, True) == []


def test_the_last_and_the_best_stay_together(tmp_path: Path) -> None:
    scores = [5.0, 1.0, 4.0, None, 2.0, 3.0, 6.0, 7.0]
    assert save(tmp_path / "lowest", Retention(2, 3), *scores) == [2, 5, 6, 7, 8]
    assert save(tmp_path / "highest", Retention(1, 2, higher_is_better=True), *scores) == [7, 8]
    assert save(tmp_path / "last", Retention(3), *scores) == [6, 7, 8]


def test_the_best_so_far_are_never_removed_too_early(tmp_path: Path) -> None:
    """At every step the best so far are there, whatever comes later."""
    scores = [3.0, 9.0, 2.0, 8.0, 1.0, 7.0]
    for step, score in enumerate(scores, start=1):
        stay = save(tmp_path, Retention(1, 2), score, first=step)
        lowest = sorted(range(1, step + 1), key=lambda s: scores[s - 1])[:2]
        assert stay == sorted({*lowest, step})


def test_a_checkpoint_between_regular_steps_is_removed_when_the_next_is_saved(tmp_path: Path) -> None:
    """A run that was stopped at step 7 keeps what an undisturbed one keeps."""
    retention = Retention(3, every=2)
    assert save(tmp_path, retention, None, first=4) == [4]
    assert save(tmp_path, retention, None, first=6) == [4, 6]
    assert save(tmp_path, retention, None, first=7) == [4, 6, 7]
    assert last_checkpoint(tmp_path) == tmp_path / "step-00000007"
    assert save(tmp_path, retention, None, first=8) == [4, 6, 8]
    assert save(tmp_path, retention, None, first=9) == [6, 8, 9]  # the last of a run may stand anywhere


def test_the_weights_of_a_checkpoint_are_read_without_the_rest_and_verified(tmp_path: Path) -> None:
    model = small_model(0)
    path = save_checkpoint(tmp_path, model, build_optimizer(Adam(), model), Position(step=3), Retention(1))
    (path / "optimizer.safetensors").unlink()
    weights = checkpoint_weights(path)
    assert weights.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(weights[name], parameter) for name, parameter in model.named_parameters())
    data = bytearray((path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "model.safetensors").write_bytes(data)
    with refuses(f"{path / 'model.safetensors'} is damaged (its ...): delete {path} to average without it."):
        checkpoint_weights(path)


def test_a_run_records_how_long_it_trained(tmp_path: Path) -> None:
    assert seconds_trained(tmp_path) is None
    model = small_model(0)
    optimizer = build_optimizer(Adam(), model)
    for step, seconds in ((1, 20.5), (2, 90.25)):
        path = save_checkpoint(tmp_path, model, optimizer, Position(step=step, seconds=seconds), Retention(2))
    assert seconds_trained(tmp_path) == 90.25
    (path / "position.json").write_text('{"step": 2}')  # of an earlier version
    assert seconds_trained(tmp_path) is None
    (path / "position.json").unlink()
    assert seconds_trained(tmp_path) is None


def steps_kept(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


def test_another_checkpoint_interval_does_not_remove_earlier_ones(tmp_path: Path) -> None:
    model = small_model(0)
    optimizer = build_optimizer(Adam(), model)
    for step in range(1000, 6000, 1000):
        save_checkpoint(tmp_path, model, optimizer, Position(step=step), Retention(5, every=1000))
    save_checkpoint(tmp_path, model, optimizer, Position(step=5600), Retention(5, every=700))
    assert steps_kept(tmp_path) == [2000, 3000, 4000, 5000, 5600]


def test_a_checkpoint_between_regular_ones_does_not_displace_the_best(tmp_path: Path) -> None:
    """A run that was stopped at 2500, and one that was not, keep the same in the end."""
    model = small_model(0)
    optimizer = build_optimizer(Adam(), model)
    for name, steps in (("whole", [1000, 2000, 3000]), ("stopped", [1000, 2000, 2500, 3000])):
        for step in steps:
            score = {1000: 3.0, 2000: 2.5, 2500: 2.0, 3000: 4.0}[step]
            save_checkpoint(
                tmp_path / name, model, optimizer, Position(step=step, score=score), Retention(1, 2, every=1000)
            )
    assert steps_kept(tmp_path / "whole") == steps_kept(tmp_path / "stopped") == [1000, 2000, 3000]
    assert [step_of(path) for path in best_checkpoints(tmp_path / "stopped", 2, higher_is_better=False)] == [2000, 1000]
