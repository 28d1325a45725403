"""`heedful train` as a user sees it: killed, interrupted, resumed, refused."""

import json
import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from tests.shared.patience import PATIENCE

from heedful.cli.main import run

RECIPE = """
[data]
train = { builtin = "english-spanish", part = "train", count = 500 }
valid = { builtin = "english-spanish", part = "valid", count = 20 }
batch_tokens = 600
[tokenizer]
kind = "word"
[model]
width = 16
heads = 2
layers = 1
inner = 32
dropout = 0.2
dropout_attention = 0.1
[train]
steps = 60
accumulate = 2
schedule = { kind = "constant", lr = 0.01 }
precision = "float32"
device = "cpu"
threads = 1
checkpoint_every = 7
log_every = 10
validation = { every = 20 }
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all runs: the corpus is made and encoded once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def recipe(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(cache))
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE)
    return path


def start(recipe: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "heedful", "train", str(recipe), "--out", str(out), *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_hang_ups)


def hear_hang_ups() -> None:
    """Tests may run under `nohup`, which children would follow: a hang-up would end none of them."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def wait_for_checkpoint(out: Path, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and not any((out / "checkpoints").glob("step-*")):
        time.sleep(0.01)


@pytest.mark.wide  # `make test` kills inside one process, at every file operation and between updates
def test_killed_at_random_moments_and_resumed_ends_with_the_same_bits(recipe: Path, tmp_path: Path) -> None:
    """SIGKILL, dropout on: the final weights equal those of a run that was never disturbed."""
    assert run(["train", str(recipe), "--out", str(tmp_path / "whole")]) == 0
    out = tmp_path / "killed"
    kills = 0
    process = start(recipe, out)
    for _ in range(2):
        wait_for_checkpoint(out, process)
        time.sleep(random.uniform(0, 0.3))
        if process.poll() is None:
            process.kill()
            kills += 1
        process.communicate()
        process = start(recipe, out, "--resume")
    process.communicate()
    assert process.returncode == 0
    assert kills, "the run ended before it could be killed: make it longer"
    whole, killed = load_file(tmp_path / "whole/model.safetensors"), load_file(out / "model.safetensors")
    assert all(whole[name].tobytes() == killed[name].tobytes() for name in whole)
    last = "checkpoints/step-00000060/optimizer.safetensors"
    assert (tmp_path / "whole" / last).read_bytes() == (out / last).read_bytes()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.wide),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.wide),
    ],
)
def test_a_signal_ends_after_the_step_with_a_checkpoint(
    number: signal.Signals, code: int, recipe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start(recipe, out, "--set", "train.steps=100000")
    wait_for_checkpoint(out, process)
    os.kill(process.pid, number)
    _, errors = process.communicate()
    assert process.returncode == code
    assert "checkpoint saved. Run the same command with --resume to continue." in errors


@pytest.mark.wide
def test_a_terminal_that_is_hung_up_ends_training_with_a_checkpoint(recipe: Path, tmp_path: Path) -> None:
    """As when a session is dropped: the live line has nowhere to go, and what has been trained is saved."""
    master, slave = pty.openpty()
    metrics, last = tmp_path / "run/metrics.jsonl", tmp_path / "run/checkpoints/last.json"
    command = [sys.executable, "-m", "heedful", "train", str(recipe), "--out", str(tmp_path / "run")]
    with subprocess.Popen([*command, "--set", "train.steps=100000"], stderr=slave, preexec_fn=hear_hang_ups) as process:
        os.close(slave)
        shown = b""
        while process.poll() is None and b"loss" not in shown:
            if select.select([master], [], [], 0.05)[0]:
                shown += os.read(master, 10_000)
        os.close(master)
        goal = recorded_steps(metrics) + 50
        while process.poll() is None and recorded_steps(metrics) < goal:
            time.sleep(0.01)  # it goes on
        process.send_signal(signal.SIGHUP)
    assert process.returncode == 129
    assert int(json.loads(last.read_text())["folder"].removeprefix("step-")) >= goal


def recorded_steps(metrics: Path) -> int:
    """The last step that a run has recorded."""
    return 10 * metrics.read_bytes().count(b'"train"') if metrics.exists() else 0


@pytest.mark.wide
def test_training_goes_on_when_nobody_reads_its_progress(recipe: Path, tmp_path: Path) -> None:
    """`heedful train ... 2>&1 | head -1`"""
    command = [sys.executable, "-m", "heedful", "train", str(recipe), "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE) == 0
    metrics = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in metrics if entry["part"] == "train"] == [10, 20, 30, 40, 50, 60]
    assert (tmp_path / "run/checkpoints/step-00000060").exists()


def test_a_damaged_checkpoint_costs_the_updates_since_the_one_before(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", str(recipe), "--out", str(tmp_path / "run")]
    assert run([*command, "--set", "train.steps=14"]) == 0
    checkpoints = tmp_path / "run/checkpoints"
    damaged = checkpoints / "step-00000014"
    (damaged / "model.safetensors").write_bytes(b"")
    capsys.readouterr()
    assert run([*command, "--set", "train.steps=21", "--resume"]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "falls back" in line] == [
        f"{damaged}/model.safetensors is damaged (its sha256 is not the manifest's): the run falls back on "
        "step-00000007, which costs 7 updates"
    ]
    assert sorted(path.name for path in checkpoints.glob("step-*")) == ["step-00000014", "step-00000021"]


@pytest.mark.parametrize("mode", ["--dry-run", "--out"])
def test_a_missing_test_file_is_told_and_training_goes_on(
    mode: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = f'data.test={{source="{tmp_path}/test.en", target="{tmp_path}/test.de"}}'
    where = [mode] if mode == "--dry-run" else [mode, str(tmp_path / "run")]
    assert run(["train", str(recipe), "--set", "train.steps=2", "--set", test, *where]) == 0
    errors = capsys.readouterr().err
    assert "test.en: no such file" in errors
    assert "Training does not need it, but `heedful evaluate` will." in errors
    assert "CPU, 1 thread," in errors


@pytest.mark.skipif(not Path("/proc").exists(), reason="a folder in which nobody can make another")
def test_a_run_folder_that_cannot_be_made_is_named(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", str(recipe), "--out", "/proc/x/run", "--set", "train.steps=2"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "heedful: error: /proc/x/run: cannot be written: there is no such folder, choose another."
    )


def test_a_run_folder_that_is_not_utf_8_is_refused(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", str(recipe), "--out", "runs/\udcff"]) == 2
    assert capsys.readouterr().err == (
        r"heedful: error: --out: the name of the folder 'runs/\udcff' is not UTF-8: choose another." + "\n"
    )


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("", "--out is empty: name a folder."),
        ("x" * 300, f"{'x' * 300}: the name is too long."),
        (
            "~nobody-here/run",
            "~nobody-here/run: there is no home folder ~nobody-here: write the path of the folder instead.",
        ),
    ],
)
def test_a_run_folder_that_no_folder_can_be_is_one_line(
    out: str, words: str, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", str(recipe), "--out", out]) == 2
    assert capsys.readouterr().err == f"heedful: error: {words}\n"


def test_a_model_whose_name_is_too_long_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "x" * 300]) == 2
    assert capsys.readouterr().err.endswith("xxx/config.json: the name is too long.\n")


def test_a_dry_run_prints_its_forecast(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", str(recipe), "--dry-run", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "target tokens/s" in printed
    assert "60 updates" in printed
    assert not (tmp_path / "run").exists()
    assert run(["train", str(recipe), "--dry-run", "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert set(json.loads(out)) >= {"parameters", "tokens_per_second", "seconds", "epochs"}
    assert err == ""


def test_json_is_the_result_of_a_run(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    short = ["--set", "train.steps=4", "--set", "train.validation.every=2", "--device", "cpu", "--precision", "float32"]
    assert run(["train", str(recipe), "--out", str(folder), "--json", *short]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["folder"], found["steps"], found["metric"]) == (str(folder), 4, "loss")
    assert found["best_step"] in (2, 4)
    assert set(found["best_scores"]) >= {"loss", "perplexity"}
    assert found["minutes"] >= 0
    assert found["next"] == f"heedful translate {folder} < text.txt"
    training = json.loads((folder / "config.json").read_text())["recipe"]["train"]
    assert (training["device"], training["precision"]) == ("cpu", "float32")


def test_a_folder_that_holds_a_run_is_refused(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    (tmp_path / "run/checkpoints/last.json").write_text('{"folder": "step-00000001"}')
    assert run(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    assert "already holds a run: add --resume" in capsys.readouterr().err


def test_a_run_may_start_from_a_trained_model(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fine-tuning on other sentences, with a recipe that leaves out the model and the tokenizer."""
    short = ["--set", "train.steps=4"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert run(["train", str(recipe), "--out", str(first), *short]) == 0
    sections = {part.split("]")[0]: part for part in RECIPE.split("[")[1:]}
    tuning = tmp_path / "tuning.toml"
    data, training = sections["data"].replace("500", "50"), sections["train"]
    tuning.write_text(f"[{data}[{training}start_from = '{first}'\n")
    assert run(["train", str(tuning), "--dry-run"]) == 0
    assert f"Starting from {first}: its weights and its vocabulary" in capsys.readouterr().err
    assert run(["train", str(tuning), "--out", str(second), *short]) == 0
    assert f"Starting from {first}: its weights and its vocabulary" in capsys.readouterr().err
    assert (second / "tokenizer.json").read_bytes() == (first / "tokenizer.json").read_bytes()
    assert run(["train", str(tuning), "--out", str(second), "--resume", "--set", "train.steps=6"]) == 0
    assert (second / "checkpoints/step-00000006").exists()
    assert run(["train", str(tuning), "--out", str(tmp_path / "third"), "--set", "model.width=32"]) == 2
    assert "`model.width` is 16 there and 32 in the recipe" in capsys.readouterr().err
    assert run(["train", str(tuning), "--out", str(tmp_path / "third"), "--set", "train.start_from=nowhere"]) == 2
    assert capsys.readouterr().err == (
        "heedful: error: `train.start_from` is nowhere, which is not a folder: train that model first.\n"
    )
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (None, b"x\n", "a.txt"),
        (b"one\ntwo\n", b"uno\n", "has 1 line"),
        (b"one\n\xff\xfe\n", b"uno\ndos\n", "line 2"),
        (b"", b"", "no pair"),
    ],
)
def test_bad_training_files_are_one_line_and_exit_code_2(
    source: bytes | None,
    target: bytes,
    message: str,
    recipe: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if source is not None:
        (tmp_path / "a.txt").write_bytes(source)
    (tmp_path / "b.txt").write_bytes(target)
    files = f'data.train={{source="{tmp_path}/a.txt", target="{tmp_path}/b.txt"}}'
    assert run(["train", str(recipe), "--out", str(tmp_path / "run"), "--set", files]) == 2
    errors = capsys.readouterr().err
    assert "heedful: error: " in errors
    assert message in errors
    assert "Traceback" not in errors


def test_a_gpu_that_is_not_there_is_named(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert run(["train", str(recipe), "--out", str(tmp_path / "run"), "--device", "cuda"]) == 2
    assert "finds no GPU: use `cpu`." in capsys.readouterr().err
