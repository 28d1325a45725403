"""The files of a checkpoint: keys that never change, optimizer state by name, and files from earlier versions."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.config.train.optimizers import Adam, AdamW, AnyOptimizer
from heedful.training.checkpoints import Position, Retention, load_checkpoint, save_checkpoint
from heedful.training.optimizers.build import build_optimizer

optimizers = pytest.mark.parametrize("config", [Adam(), AdamW(kind="adamw")])


class Pair(nn.Module):
    """Two attributes of equal shapes, in either order."""

    def __init__(self, reordered: bool = False) -> None:
        super().__init__()
        for name in ("second", "first") if reordered else ("first", "second"):
            self.add_module(name, nn.Linear(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.get_submodule("second")(self.get_submodule("first")(x).relu())
        return y


def trained(config: AnyOptimizer, model: nn.Module, steps: int = 3) -> torch.optim.Optimizer:
    """Train a little, and return the optimizer."""
    optimizer = build_optimizer(config, model)
    train(model, optimizer, steps)
    return optimizer


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    torch.manual_seed(1)
    for _ in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def state_by_name(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}.{part}": tensor
        for name, parameter in model.named_parameters()
        for part, tensor in optimizer.state[parameter].items()
    }


def equal(some: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    return some.keys() == others.keys() and all(torch.equal(some[name], others[name]) for name in some)


def rewrite(path: Path, name: str, data: bytes) -> None:
    """Replace a file of a checkpoint, and its hash in the manifest."""
    (path / name).write_bytes(data)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest[name] = hashlib.sha256(data).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest))


def number_parameters(path: Path, optimizer: torch.optim.Optimizer) -> None:
    """Write the optimizer state as earlier versions did: numbered in the order of the optimizer's groups."""
    tensors = {
        f"{index}.{part}": tensor
        for index, parts in optimizer.state_dict()["state"].items()
        for part, tensor in parts.items()
    }
    save_file(tensors, path / "numbered")
    rewrite(path, "optimizer.safetensors", (path / "numbered").read_bytes())
    (path / "numbered").unlink()


# --- optimizer state --------------------------------------------------------------------------------------------------


@optimizers
def test_optimizer_state_is_written_by_parameter_name(config: AnyOptimizer, tmp_path: Path) -> None:
    model = Pair()
    optimizer = trained(config, model)
    path = save_checkpoint(tmp_path, model, optimizer, Position(step=3), Retention())
    assert equal(load_file(path / "optimizer.safetensors"), state_by_name(model, optimizer))


@optimizers
def test_reordered_attributes_of_equal_shape_keep_their_own_moments(config: AnyOptimizer, tmp_path: Path) -> None:
    model = Pair()
    optimizer = trained(config, model)
    path = save_checkpoint(tmp_path, model, optimizer, Position(step=3), Retention())
    other = Pair(reordered=True)
    resumed = build_optimizer(config, other)
    load_checkpoint(path, other, resumed)
    assert equal(state_by_name(other, resumed), state_by_name(model, optimizer))
    assert not torch.equal(
        state_by_name(model, optimizer)["first.weight.exp_avg"],
        state_by_name(model, optimizer)["second.weight.exp_avg"],
    )


@optimizers
def test_optimizer_state_by_number_from_earlier_versions_is_still_read(config: AnyOptimizer, tmp_path: Path) -> None:
    model = Pair()
    optimizer = trained(config, model)
    path = save_checkpoint(tmp_path, model, optimizer, Position(step=3), Retention())
    number_parameters(path, optimizer)
    assert load_file(path / "optimizer.safetensors").keys() >= {"0.exp_avg", "3.step"}
    other = Pair()
    resumed = build_optimizer(config, other)
    load_checkpoint(path, other, resumed)
    assert equal(state_by_name(other, resumed), state_by_name(model, optimizer))


def test_parameters_whose_names_begin_with_numbers_are_not_taken_for_numbered_ones(tmp_path: Path) -> None:
    model, other = (nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)) for _ in range(2))
    optimizer, resumed = trained(Adam(), model), build_optimizer(Adam(), other)
    load_checkpoint(save_checkpoint(tmp_path, model, optimizer, Position(step=3), Retention()), other, resumed)
    assert equal(state_by_name(other, resumed), state_by_name(model, optimizer))


def test_a_parameter_without_a_gradient_has_no_state_and_needs_none(tmp_path: Path) -> None:
    model, other = Pair(), Pair()
    model.get_submodule("first").requires_grad_(False)
    optimizer, resumed = trained(Adam(), model), build_optimizer(Adam(), other)
    path = save_checkpoint(tmp_path, model, optimizer, Position(step=3), Retention())
    load_checkpoint(path, other, resumed)
    assert {key.split(".")[0] for key in state_by_name(other, resumed)} == {"second"}


@pytest.mark.parametrize("owner", ["third.weight", "4"])
def test_optimizer_state_of_an_unknown_parameter_is_refused(owner: str, tmp_path: Path) -> None:
    model = Pair()
    path = save_checkpoint(tmp_path, model, trained(Adam(), model), Position(step=3), Retention())
    save_file({f"{owner}.exp_avg": torch.zeros(3, 3)}, path / "unknown")
    rewrite(path, "optimizer.safetensors", (path / "unknown").read_bytes())
    message = (
        f"{path / 'optimizer.safetensors'} has the state of `{owner}`, which is not a parameter of this model: resume "
        "with the recipe and the version of Heedful that wrote it."
    )
    with refuses(message):
        load_checkpoint(path, model, build_optimizer(Adam(), model))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"first.weight.exp_avg": torch.zeros(2, 3)},
            "`first.weight.exp_avg` is (2, 3) of float32, but must be (3, 3)",
        ),
        (
            {"first.bias.exp_avg_sq": torch.zeros(3, dtype=torch.int8)},
            "`first.bias.exp_avg_sq` is (3,) of int8, but mu",
        ),
        ({"second.bias.step": torch.zeros(4)}, "`second.bias.step` is (4,) of float32, but must be () of float32: tra"),
        ({"second.bias.momentum": torch.zeros(3)}, "`second.bias.momentum` is (3,) of float32, but must be absent: tr"),
        ({"second.bias.step": None}, "`second.bias.step` is missing, but must be () of float32: train again into ano"),
    ],
)
def test_optimizer_state_of_another_shape_type_or_part_is_refused_and_nothing_changes(
    changed: dict[str, Tensor | None], words: str, tmp_path: Path
) -> None:
    model, other = Pair(), Pair()
    path = save_checkpoint(tmp_path, model, trained(Adam(), model), Position(step=3), Retention())
    tensors = load_file(path / "optimizer.safetensors") | changed
    rewrite(path, "optimizer.safetensors", save({key: value for key, value in tensors.items() if value is not None}))
    before = {name: parameter.clone() for name, parameter in other.named_parameters()}
    with refuses(f"...optimizer.safetensors: {words}..."):
        load_checkpoint(path, other, build_optimizer(Adam(), other))
    assert equal(dict(other.named_parameters()), before)


def test_optimizer_state_that_is_not_safetensors_is_refused(tmp_path: Path) -> None:
    model = Pair()
    path = save_checkpoint(tmp_path, model, trained(Adam(), model), Position(step=3), Retention())
    rewrite(path, "optimizer.safetensors", b"\xff" * 100)
    with refuses("...optimizer.safetensors is damaged (...): restore it from a copy or train agai..."):
        load_checkpoint(path, model, build_optimizer(Adam(), model))


# --- position.json ----------------------------------------------------------------------------------------------------

WRITTEN = {
    "step": 3,
    "epoch": 1,
    "micro_batch": 2,
    "target_tokens": 99,
    "best_step": 2,
    "best_score": 1.5,
    "worse_since": 1,
    "score": 2.5,
    "regular": True,
    "seconds": 4.5,
    "facts": {"threads": 2},
    "best_loss": 1.25,
    "meter": {},
}
DAMAGED = "the checkpoint is damaged, train again into another folder."


def read(tmp_path: Path, content: Any) -> Position:
    """Read a checkpoint whose position.json holds this."""
    model = Pair()
    path = save_checkpoint(tmp_path, model, build_optimizer(Adam(), model), Position(step=3), Retention())
    rewrite(path, "position.json", json.dumps(content).encode())
    return load_checkpoint(path, model, build_optimizer(Adam(), model))


def test_the_keys_of_a_position_never_change(tmp_path: Path) -> None:
    position = Position(3, 1, 2, 99, 2, 1.5, 1, 2.5, True, 4.5, {"threads": 2}, 1.25)
    model = Pair()
    path = save_checkpoint(tmp_path, model, build_optimizer(Adam(), model), position, Retention())
    assert json.loads((path / "position.json").read_text()) == WRITTEN


def test_every_key_of_a_position_is_read(tmp_path: Path) -> None:
    position = read(tmp_path, WRITTEN)
    assert position == Position(3, 1, 2, 99, 2, 1.5, 1, 2.5, True, 4.5, {"threads": 2}, 1.25)
    assert (position.regular, position.seconds) == (True, 4.5)  # which `==` does not compare


def test_keys_that_an_earlier_version_did_not_write_have_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, {"step": 3, "epoch": 1, "micro_batch": 2}) == Position(3, 1, 2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], f"does not hold a JSON object: {DAMAGED}"),
        ({"epoch": 0, "micro_batch": 0}, f"does not have the key `step`: {DAMAGED}"),
        (
            {**WRITTEN, "temperature": 1},
            "has the key `temperature`, which this version of Heedful does not know: resume with the version that "
            "wrote it, or a later one.",
        ),
    ],
)
def test_a_position_that_cannot_be_understood_is_refused(content: Any, words: str, tmp_path: Path) -> None:
    with refuses(f"{tmp_path}...position.json {words}"):
        read(tmp_path, content)


WHOLE = "a whole number from 0"


@pytest.mark.parametrize(
    ("key", "value", "here", "must"),
    [
        ("step", -1, "-1", WHOLE),
        ("step", "3", '"3"', WHOLE),
        ("epoch", 2.5, "2.5", WHOLE),
        ("epoch", 10**30, "1000000000000000000000000000000", WHOLE),
        ("micro_batch", True, "true", WHOLE),
        ("target_tokens", None, "null", WHOLE),
        ("best_step", [], "[]", f"{WHOLE} or null"),
        ("best_score", "good", '"good"', "a number or null"),
        ("best_loss", "low", '"low"', "a number or null"),
        ("worse_since", -2, "-2", WHOLE),
        ("score", {}, "{}", "a number or null"),
        ("regular", 1, "1", "true or false"),
        ("seconds", -0.5, "-0.5", "a number from 0"),
        ("seconds", float("inf"), "Infinity", "a number from 0"),
        ("facts", ["x" * 100], '["' + "x" * 38 + "...", "an object"),
    ],
)
def test_a_value_of_a_position_that_no_run_writes_is_refused(
    key: str, value: Any, here: str, must: str, tmp_path: Path
) -> None:
    words = f"position.json: `{key}` is {here}, but must be {must}: {DAMAGED}"
    with refuses(f"...{words}"):
        read(tmp_path, {**WRITTEN, key: value})


def test_scores_may_be_whole_numbers_or_none_at_all(tmp_path: Path) -> None:
    assert read(tmp_path, {**WRITTEN, "best_score": 0, "score": None}).best_score == 0


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000])
def test_a_position_that_is_not_json_is_refused(data: bytes, tmp_path: Path) -> None:
    model = Pair()
    path = save_checkpoint(tmp_path, model, build_optimizer(Adam(), model), Position(step=3), Retention())
    rewrite(path, "position.json", data)
    with refuses(f"...position.json does not hold a JSON object: {DAMAGED}"):
        load_checkpoint(path, model, build_optimizer(Adam(), model))


# --- the state of an objective ----------------------------------------------------------------------------------------


class Counting:
    """An objective that carries a count from batch to batch."""

    def __init__(self, count: int = 0) -> None:
        self.count = torch.tensor(count)

    def __call__(self, model: Any, batch: Any) -> Any: ...
    def units(self, batch: Any) -> int:
        return 1

    def tokens(self, batch: Any) -> int:
        return 1

    def state_dict(self) -> dict[str, Tensor]:
        return {"count": self.count} if self.count else {}

    def load_state_dict(self, tensors: Any) -> None:
        self.count = tensors.get("count", torch.tensor(0))


def test_the_state_of_an_objective_is_stored_only_if_there_is_one(tmp_path: Path) -> None:
    model = Pair()
    optimizer = build_optimizer(Adam(), model)
    for step, (objective, stored) in enumerate([(None, False), (Counting(), False), (Counting(7), True)], start=1):
        path = save_checkpoint(tmp_path, model, optimizer, Position(step=step), Retention(), objective)
        assert (path / "objective.safetensors").exists() == stored
        loaded = Counting(99)
        load_checkpoint(path, model, optimizer, loaded)
        assert loaded.count == (7 if stored else 0)
        assert load_checkpoint(path, model, optimizer).step == step


def test_a_damaged_state_of_an_objective_is_refused(tmp_path: Path) -> None:
    model = Pair()
    optimizer = build_optimizer(Adam(), model)
    path = save_checkpoint(tmp_path, model, optimizer, Position(step=3), Retention(), Counting(7))
    (path / "objective.safetensors").write_bytes(b"")
    with refuses("...objective.safetensors is damaged (its sha256 is..."):
        load_checkpoint(path, model, optimizer, Counting())


def test_the_state_of_another_objective_is_refused(tmp_path: Path) -> None:
    class Other(Counting):
        def load_state_dict(self, tensors: Any) -> None:
            self.count = tensors["hidden"]

    model = Pair()
    optimizer = build_optimizer(Adam(), model)
    path = save_checkpoint(tmp_path, model, optimizer, Position(step=3), Retention(), Counting(7))
    with refuses("...objective.safetensors is not the state of this objective ('hidden'): train again into ano..."):
        load_checkpoint(path, model, optimizer, Other())
