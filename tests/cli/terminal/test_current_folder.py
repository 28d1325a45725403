"""No process of ours executes a module of the current folder: that folder may be downloaded data."""

import ast
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.shared.patience import PATIENCE

from heedful.base.processes import child_environment, run_module
from heedful.config.tokenizer import ByteBpe
from heedful.data.tokenize.encoding import Encoder, Filters
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.worker_pool import Workers
from heedful.lab.study.side_by_side import Task, run_side_by_side

ROOT = Path(__file__).parents[3]
# Every name that can be imported here, so also every one that we import.
NAMES = sorted(
    name
    for name in {*sys.stdlib_module_names, *packages_distributions(), *(name.partition(".")[0] for name in sys.modules)}
    if name.isidentifier() and name not in ("__main__", "tests", "conftest")
)
# What `python -m` loads before the module that it is to run: nothing can be done about these, except by `-P`.
BEFORE_ANY_MODULE = "import sys; before = {*sys.modules}; import runpy; print(*{*sys.modules} - before)"
RECIPE = """
[data]
train = { builtin = "english-spanish", part = "train", count = 60 }
valid = { builtin = "english-spanish", part = "valid", count = 8 }
test = { builtin = "english-spanish", part = "test", count = 12 }
batch_tokens = 200
[tokenizer]
kind = "word"
[model]
width = 8
heads = 2
layers = 1
inner = 8
[train]
steps = 2
schedule = { kind = "constant", lr = 0.01 }
precision = "float32"
device = "cpu"
threads = 1
validation = { every = 2 }
[decode]
beam = 1
max_extra = 2
"""
STUDY = """
title = "Two widths"
question = "Which is better?"
base = "tiny.toml"
seeds = [1]
timed = ["cpu"]
[[cells]]
name = "wide"
set = ["model.width=12"]
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a module of every name, which leaves a file if it is executed."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("open(__file__ + '.executed', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def executed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.executed"))


def test_there_is_a_module_of_every_name_that_training_imports(hostile: Path) -> None:
    assert {"filelock", "torch", "json", "numpy", "rich", "heedful", "tensorboard", "safetensors"} <= {*NAMES}
    done = subprocess.run([sys.executable, "-c", "import filelock"], cwd=hostile)  # which imports from there
    assert done.returncode != 1 or executed(hostile)
    assert executed(hostile)


def test_a_process_that_tokenizes_executes_nothing_there(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(hostile))  # as the path of `python -m` and of a script in this folder is
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # and that of a prompt of Python
    tokenizer = train_tokenizer(ByteBpe(size=300), ["a b"], [])
    with Workers(Encoder(tokenizer, tokenizer, Filters()), 1) as workers:
        assert len([*workers.map([[("a", "b")]])]) == 1
    assert executed(hostile) == []


def test_a_cell_of_a_study_executes_nothing_there(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(hostile))
    failures: list[str | None] = []
    task = Task("timing", run_module("heedful.lab.study.timing", "cpu"), hostile / "log.txt")  # of no cells
    run_side_by_side([task], 1, PATIENCE, lambda task, failure: failures.append(failure))
    assert (failures, executed(hostile)) == ([None], [])


@pytest.mark.wide
def test_a_study_and_a_training_execute_nothing_there(hostile: Path) -> None:
    (hostile / "tiny.toml").write_text(RECIPE)
    (hostile / "mine.toml").write_text(STUDY)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for words in (("study", "mine.toml", "--out", "made"), ("train", "tiny.toml", "--out", "run")):
        command = [sys.executable, "-P", "-m", "heedful", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        assert executed(hostile) == [], words
    assert "Error" not in (hostile / "made/timing.txt").read_text()


def test_python_m_heedful_executes_nothing_there_but_what_python_m_itself_imports(hostile: Path) -> None:
    found = subprocess.run([sys.executable, "-P", "-c", BEFORE_ANY_MODULE], capture_output=True, text=True, check=True)
    unavoidable = {name.partition(".")[0] for name in found.stdout.split()} | {"heedful"}
    for name in unavoidable & {*NAMES}:
        (hostile / f"{name}.py").unlink()
    command = [sys.executable, "-m", "heedful", "recipes", "list"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert (done.returncode, done.stderr, executed(hostile)) == (0, "", [])


def test_the_current_folder_stays_on_the_path_where_the_package_itself_is_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(ROOT / "src")])
    monkeypatch.chdir(tmp_path)
    assert child_environment()["PYTHONPATH"] == str(ROOT / "src")
    monkeypatch.chdir(ROOT / "src")
    assert child_environment()["PYTHONPATH"] == os.pathsep.join([str(tmp_path), str(ROOT / "src")])


def test_every_interpreter_that_we_start_is_started_without_the_current_folder() -> None:
    """By `run_module`, or with `-P` as its first argument."""
    for top in ("src", "benchmarks", "scripts"):
        for file in (ROOT / top).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "sys.executable" in text else ():
                words = [ast.unparse(one) for one in node.elts[:2]] if isinstance(node, ast.List | ast.Tuple) else []
                assert words[:1] != ["sys.executable"] or words[1:] == ["'-P'"], f"{file}: {words}"
