"""Checkpoints: what is read is what was written, and a damaged file is refused before anything changes."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from heedful.config.schema import Adam, AdamW, AnyOptimizer
from heedful.errors import UserError
from heedful.train.checkpoints import Position, last_checkpoint, load_checkpoint, save_checkpoint
from heedful.train.optimizers import build_optimizer


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
def test_a_model_and_its_optimizer_go_on_from_a_checkpoint_to_the_same_bits(
    config: AnyOptimizer, tmp_path: Path
) -> None:
    model = small_model(0)
    optimizer = build_optimizer(config, model)
    train_a_little(model, optimizer, 1)
    save_checkpoint(tmp_path, model, optimizer, Position(step=3, facts={"threads": 2}), keep=1)
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
        save_checkpoint(tmp_path, model, optimizer, Position(step=step), keep=2)
    assert sorted(p.name for p in tmp_path.glob("step-*")) == ["step-00000004", "step-00000005"]
    assert last_checkpoint(tmp_path) == tmp_path / "step-00000005"


def test_there_is_no_checkpoint_where_none_was_saved(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "position.json"])
def test_a_damaged_checkpoint_is_refused_and_the_model_stays_as_it_was(name: str, tmp_path: Path) -> None:
    model = small_model(0)
    optimizer = build_optimizer(Adam(), model)
    train_a_little(model, optimizer, 1)
    path = save_checkpoint(tmp_path, model, optimizer, Position(step=3), keep=1)
    data = bytearray((path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (path / name).write_bytes(data)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(
        UserError, match=rf"{name} is damaged \(its sha256 is not the manifest's\): resume from another"
    ):
        load_checkpoint(path, model, optimizer)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_missing_file_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    model = small_model(0)
    path = save_checkpoint(tmp_path, model, build_optimizer(Adam(), model), Position(step=3), keep=1)
    (path / "optimizer.safetensors").unlink()
    with pytest.raises(UserError, match=r"optimizer.safetensors: no such file"):
        load_checkpoint(path, model, build_optimizer(Adam(), model))


def test_a_damaged_pointer_is_named(tmp_path: Path) -> None:
    (tmp_path / "last.json").write_text("[]")
    with pytest.raises(UserError, match=r"last.json names no checkpoint: the file is damaged"):
        last_checkpoint(tmp_path)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    model = small_model(0)
    path = save_checkpoint(tmp_path, model, build_optimizer(Adam(), model), Position(step=3), keep=1)
    for damaged in ("[]", "{}"):
        (path / "manifest.json").write_text(damaged)
        refuse(path, model)


def refuse(path: Path, model: nn.Module) -> None:
    with pytest.raises(UserError, match=r"manifest.json is damaged: resume from another checkpoint"):
        load_checkpoint(path, model, build_optimizer(Adam(), model))
