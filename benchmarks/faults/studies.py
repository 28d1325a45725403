"""A study after a loss of power: every state that the disk may be in is read, and some are run to the end."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.faults.bad_savers import OURS
from benchmarks.faults.lost_power import Recording, choose_states, record
from benchmarks.faults.power_loss import Log, State
from benchmarks.faults.trained import Reached, Tally, ends_before_training, enter
from rich.console import Console

from heedful.lab.study.cell import begin_cell, run_cell
from heedful.lab.study.definition import Study, read_study
from heedful.lab.study.running import Ready, StudyRun
from heedful.lab.study.side_by_side import Task
from heedful.lab.study.summary import without_times

_FOLDER: Final = Path("study")
_READY: Final = "ready "
_FINISHED: Final = 4  # states that are run to the end
_RECIPE: Final = """
[data]
train = { builtin = "english-spanish", part = "train", count = 40 }
valid = { builtin = "english-spanish", part = "valid", count = 4 }
test = { builtin = "english-spanish", part = "test", count = 4 }
batch_tokens = 400
[tokenizer]
kind = "char"
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
checkpoint_every = 1
log_every = 1
validation = { every = 1 }
[decode]
beam = 1
max_extra = 2
"""
_STUDY: Final = """
title = "Two widths"
question = "Which is better?"
base = "tiny.toml"
seeds = [1]
[[cells]]
name = "wide"
set = ["model.width=12"]
"""


def lose_power_in_study(limit: int, home: Path, tally: Tally) -> None:
    """Record a study, and check what each loss of power leaves: all states are read, and some of them finished."""
    (home / "tiny.toml").write_text(_RECIPE)
    (home / "study.toml").write_text(_STUDY)
    study, results = read_study(home / "study.toml"), list[dict[str, Any]]()
    recording = record(lambda log: results.append(_run(study, log)), home / "recorded", OURS)
    found = _found(study)
    chosen = choose_states(recording.log, "study", limit)
    finished = set(Random(0).sample(range(len(chosen)), min(_FINISHED, len(chosen))))
    for number, state in enumerate(chosen):
        root = home / "state"
        state.tree.put(root)
        enter(root)
        problems = _check(study, recording, state, found)
        if number in finished and not problems and _run(study) != results[0]:
            problems = ["the results are not those of an undisturbed study"]
        tally.add("power_states")
        tally.add("power_trained", number in finished)
        if problems:
            where = f"study, after operation {state.after} ({recording.log.describe(state.after)}), {state.how}"
            tally.add("power_wrong", problem=f"{where}: {'; '.join(problems)}")
        shutil.rmtree(root)
        if tally.is_enough:
            return


def _run(study: Study, log: Log | None = None) -> dict[str, Any]:
    """Run a study, or what is left of it, with its cells in this process; note in a log when each is ready."""

    def launch(tasks: Sequence[Task], ready: Ready) -> None:
        for task in tasks:
            run_cell(Path(task.command[-1]), Console(quiet=True))
            if log is not None:
                log.mark(f"{_READY}{Path(task.command[-1]).name}", 1)
            ready(task, None)

    return without_times(StudyRun(study, _FOLDER).run(launch))


def _found(study: Study) -> dict[str, Any]:
    """Return what was measured, by the folder of its cell, without what depends on the clock."""
    running, found = StudyRun(study, _FOLDER), dict[str, Any]()
    for cell in study.cells:
        for seed in study.seeds:
            one = running.found(cell, seed)
            found[running.cell_folder(cell, seed).name] = one and {**one, "cost": {**one["cost"], "seconds": None}}
    return found


def _check(study: Study, recording: Recording, state: State, whole: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a state: what is ready must be right, and what is not must resume or begin again."""
    running, problems = StudyRun(study, _FOLDER), list[str]()
    try:
        waiting = running.waiting()
        for name, one in _found(study).items():
            if one is None and f"{_READY}{name}" in state.done:
                problems.append(f"{name} was ready and is not any more")
            if one is not None and one != whole[name]:
                problems.append(f"what was measured of {name} is not what it was")
        for cell, seed in waiting:
            folder = running.cell_folder(cell, seed)
            begin_cell(folder, running.job(cell, seed))
            try:
                with ends_before_training():
                    run_cell(folder, Console(quiet=True))
            except Reached as reached:
                if reached.digest != recording.digests.get(reached.key):
                    problems.append(f"what was loaded is not what was saved: {reached.key}")
    except Exception as error:
        problems.append(f"{type(error).__name__}: {error}")
    return problems
