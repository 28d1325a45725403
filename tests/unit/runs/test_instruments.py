"""Instruments of a run: they change nothing, are recorded exactly, and survive a resume."""

import json
from pathlib import Path

import pytest
from tests.unit.runs.run_folders import Make, same_bits, silent, told

from heedful.base.errors import UserError
from heedful.runs.progress import recorded_instruments
from heedful.runs.training_run import train
from heedful.training.schedules import build_run_rate

INSTRUMENTS = {"every": 4, "at": [1, 5]}


def test_a_measured_run_has_the_bits_of_one_that_is_not(make: Make, tmp_path: Path) -> None:
    plain = train(make(), tmp_path / "plain", console=silent())
    measured = train(make(instruments=INSTRUMENTS), tmp_path / "measured", console=silent())
    for name in ("model.safetensors", "checkpoints/step-00000012/optimizer.safetensors"):
        same_bits(plain / name, measured / name)
    assert not (plain / "instruments.jsonl").exists()
    assert [record["step"] for record in recorded_instruments(measured)] == [1, 4, 5, 8, 12]


def test_a_record_has_every_layer_and_kind_and_every_head(make: Make, tmp_path: Path) -> None:
    run = train(make(instruments={"every": 6}, steps=6), tmp_path / "run", console=silent())
    (record,) = recorded_instruments(run)
    assert {"version": 1, "step": 6, "learning_rate": 0.01}.items() <= record.items()
    kinds = {(row["layer"], row["kind"]) for row in record["weights"]}
    own = ("query", "key", "value", "output", "inner", "outer", "norm", "bias")
    cross = ("cross query", "cross key", "cross value", "cross output")
    assert kinds >= {(layer, kind) for layer in ("encoder.0", "decoder.0") for kind in own}
    assert kinds >= {("decoder.0", kind) for kind in cross}
    assert ("encoder", "embedding") in kinds
    for row in record["weights"]:
        assert row["update_to_weight"] == pytest.approx(row["update"] / row["weight"], rel=1e-4)
        assert sum(row["histogram"]["counts"]) + row["histogram"]["zeros"] == row["size"]
    assert [(head["layer"], head["kind"]) for head in record["attention"]] == [
        ("encoder.0", "self"), ("decoder.0", "self"), ("decoder.0", "cross"),
    ]  # fmt: skip
    for head in record["attention"]:
        assert len(head["entropy"]) == 2
        assert all(0 < entropy <= head["uniform"] + 1e-5 for entropy in head["entropy"])


def test_a_run_in_two_halves_records_what_a_whole_one_records(make: Make, tmp_path: Path) -> None:
    whole = train(make(instruments=INSTRUMENTS), tmp_path / "whole", console=silent())
    halves = train(make(instruments=INSTRUMENTS, steps=6), tmp_path / "halves", console=silent())
    with (halves / "instruments.jsonl").open("a") as file:  # what was recorded after the last checkpoint, then a crash
        file.write(json.dumps({"step": 8, "weights": []}) + '\n{"step": 1')
    train(make(instruments=INSTRUMENTS), tmp_path / "halves", resume=True, console=silent())
    assert (halves / "instruments.jsonl").read_bytes() == (whole / "instruments.jsonl").read_bytes()


def test_what_is_measured_may_change_on_resume(make: Make, tmp_path: Path) -> None:
    train(make(steps=6), tmp_path / "run", console=silent())
    light = {"every": 5, "histograms": False, "probe": False}
    run = train(make(instruments=light), tmp_path / "run", resume=True, console=silent())
    (record,) = recorded_instruments(run)
    assert (record["step"], record["attention"], record["distances"]) == (10, [], [])
    assert "histogram" not in record["weights"][0]


def test_a_loss_that_stays_above_its_best_is_told_once_with_the_layer(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Learning rates that are suddenly 300 times as high; a resumed run has said so already."""
    monkeypatch.setattr(
        "heedful.runs.run.build_run_rate",
        lambda *rest: lambda step: build_run_rate(*rest)(step) * (1 if step < 24 else 300),
    )
    console = silent()
    recipe = {"log_every": 1, "checkpoint_every": 40, "validation": {"every": 100}, "instruments": {"every": 5}}
    train(make(steps=40, **recipe), tmp_path / "run", console=console)
    lines = [line for line in told(console).splitlines() if line.startswith("The loss has been well above its best")]
    assert len(lines) == 1
    assert "The gradient has grown most in " in lines[0]
    assert "or start again, and lower the learning rate, " in lines[0]
    again = silent()
    train(make(steps=44, **recipe), tmp_path / "run", resume=True, console=again)
    assert "well above its best" not in told(again)


def test_a_run_that_diverges_says_where_and_since_when(make: Make, tmp_path: Path) -> None:
    recipe = make(schedule={"kind": "constant", "lr": 1e30}, log_every=1, validation={"every": 100})
    with pytest.raises(UserError, match=r"^The gradient was not finite in any of the last 5 updates \(step \d+\)") as e:
        train(recipe, tmp_path / "run", console=silent())
    assert "The first outputs that are not finite are those of encoder" in str(e.value)
    assert "It began with step " in str(e.value)
    assert "the learning rate is 1e+30. The checkpoints saved before are intact." in str(e.value)
