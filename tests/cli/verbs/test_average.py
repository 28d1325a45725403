"""`heedful average` as a user sees it."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.shared.refusals import like

from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]

RECIPE = """
[data]
train = { builtin = "english-spanish", part = "train", count = 200 }
valid = { builtin = "english-spanish", part = "valid", count = 10 }
batch_tokens = 300
[tokenizer]
kind = "word"
[model]
width = 16
heads = 2
layers = 1
inner = 16
[train]
steps = 6
schedule = { kind = "constant", lr = 0.01 }
precision = "float32"
device = "cpu"
threads = 1
checkpoint_every = 2
keep_checkpoints = 3
validation = { every = 3 }
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of other seeds."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tiny.toml").write_text(RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        for seed in (1, 2):
            out = str(folder / f"seed-{seed}")
            assert run(["train", str(folder / "tiny.toml"), "--out", out, "--set", f"train.seed={seed}"]) == 0
    return folder / "seed-1", folder / "seed-2"


def average(*arguments: str | int | Path) -> int:
    return run(["average", *map(str, arguments)])


def test_an_average_may_be_told_as_json(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert average(runs[0], "--last", 2, "-o", tmp_path / "mean", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == str(tmp_path / "mean")
    assert [Path(part).name for part in told["averaged"]] == ["step-00000004", "step-00000006"]


def is_mean(found: Path, *parts: Path) -> bool:
    loaded = [load_file(part / "model.safetensors") for part in parts]
    return all(
        np.array_equal(tensor, np.mean([part[name].astype(np.float64) for part in loaded], axis=0).astype(np.float32))
        for name, tensor in load_file(found / "model.safetensors").items()
    )


def test_the_checkpoints_of_a_run_become_a_model_that_translates(
    runs: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "mean"
    assert average(runs[0], "--last", 2, "--out", out) == 0
    assert capsys.readouterr().out == f"The average of step-00000004, step-00000006 is in {out}\n"
    assert is_mean(out, runs[0] / "checkpoints/step-00000004", runs[0] / "checkpoints/step-00000006")
    (tmp_path / "in").write_text("the dog\n")
    assert run(["translate", str(out), str(tmp_path / "in"), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_several_models_become_one(runs: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "mean"
    assert average(*runs, "--out", out) == 0
    shown = capsys.readouterr()
    assert shown.out == f"The average of seed-1, seed-2 is in {out}\n"
    assert (
        "heedful: these models may have started from different weights, whose average is most likely noise" in shown.err
    )
    assert is_mean(out, *runs)


def test_a_model_twice_is_refused(runs: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    message = refused(capsys, runs[0], runs[1], runs[0], "--out", tmp_path / "mean")
    assert message == f"{runs[0]} is given twice: name each model once."
    assert not (tmp_path / "mean").exists()


def test_other_files_in_the_way_are_refused(runs: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert refused(capsys, *runs, "--out", tmp_path) == f"{tmp_path} already holds files: choose another --out."
    assert (tmp_path / "notes.txt").read_text() == "mine"


def refused(capsys: Capture, *arguments: str | int | Path) -> str:
    assert average(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("heedful: error: ")
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("heedful: error: ").rstrip("\n")


def test_impossible_wishes_are_refused_in_one_line(runs: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    first, second = runs
    out = tmp_path / "mean"
    assert refused(capsys, first, "--out", out) == like(
        f"A single model has nothing ... --last N or --best N to average checkpoints of {first}."
    )
    assert refused(capsys, first, second, "--last", 2, "--out", out) == like(
        "--last and --best choose checkpoints of one ..."
    )
    assert refused(capsys, first, "--best", 2, "--out", out) == (
        f"{first} holds 1 checkpoint validated when saved, but 2 were requested: request fewer, or train "
        "with `train.keep_checkpoints` or `train.average` set to 2."
    )
    assert refused(capsys, *runs, "--out", second) == f"{second} already holds a model: choose another --out."
    assert refused(capsys, tmp_path, "--last", 2, "--out", out) == like(
        f"{tmp_path} holds no config.json: a model is a folder that ..."
    )
    assert "'--last': must be at least 2" in refused(capsys, first, "--last", 1, "--out", out)
    assert "Missing option '--out'" in refused(capsys, first, "--last", 2)
    assert not out.exists()


def test_a_damaged_checkpoint_is_named(runs: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    weights = runs[1] / "checkpoints/step-00000004/model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    try:
        message = refused(capsys, runs[1], "--last", 3, "--out", tmp_path / "mean")
    finally:
        weights.write_bytes(data)
    assert message.startswith(f"{weights} is damaged (its sha256 is")
    assert not (tmp_path / "mean").exists()
