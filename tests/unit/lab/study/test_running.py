"""Studies run in their folders: resumed, with failures, and refused where the folder or the device does not fit."""

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.shared.refusals import refuses

from heedful.base.errors import HeedfulError, UserError
from heedful.base.files import write_bytes
from heedful.cli.main import run as run_command
from heedful.lab.study import cell as cells
from heedful.lab.study import running, timing
from heedful.lab.study.cell import measure
from heedful.lab.study.definition import Study, StudyCell, read_study
from heedful.lab.study.figures import curve_charts, length_chart
from heedful.lab.study.page import study_page
from heedful.lab.study.running import PAGE, RESULTS, TABLE, Launch, Ready, StudyRun, rewrite_page
from heedful.lab.study.side_by_side import Task
from heedful.lab.study.summary import without_times
from heedful.runs.callbacks import Callback
from heedful.runs.training_run import train

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
steps = 6
schedule = { kind = "constant", lr = 0.01 }
precision = "float32"
device = "cpu"
threads = 1
checkpoint_every = 2
log_every = 2
validation = { every = 3 }
[decode]
beam = 1
max_extra = 2
"""
STUDY = """
title = "Two widths"
question = "Which is better?"
base = "tiny.toml"
seeds = [1, 2]
by_length = true
sentence = "the dog sleeps"
[[cells]]
name = "wide"
set = ["model.width=12"]
"""
MINE = "mine.toml"


class KilledError(Exception):
    """What a kill is here: it ends a cell at once."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One cache for all cells: the corpus is made and encoded once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, and the study run in `whole`."""
    home = tmp_path_factory.mktemp("study")
    (home / "tiny.toml").write_text(RECIPE)
    (home / MINE).write_text(STUDY)
    StudyRun(read_study(home / MINE), home / "whole").run(in_process)
    return home


def in_process(tasks: Sequence[Task], ready: Ready) -> None:
    """Run cells one after the other in this process."""
    for task in tasks:
        try:
            cells.run_cell(Path(task.command[-1]), Console(quiet=True))
        except HeedfulError as error:
            ready(task, str(error))
        else:
            ready(task, None)


def results_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / RESULTS).read_text())
    return found


def test_a_study_has_scores_tests_curves_costs_and_an_alignment_of_every_cell(home: Path) -> None:
    found = results_of(home / "whole")
    base, wide = found["cells"]
    assert (base["name"], wide["name"], found["base"], found["metric"]) == ("base", "wide", "base", "bleu")
    assert base["against_base"] is None
    assert 0 < wide["against_base"]["p"] <= wide["against_base"]["p_adjusted"] <= 1
    assert len(wide["scores"]["bleu"]["values"]) == 2
    assert wide["cost"]["parameters"] > base["cost"]["parameters"]
    assert wide["cost"]["flop"] > base["cost"]["flop"]
    assert wide["curves"][1]["valid"]["step"] == [3, 6]
    assert sum(one["sentences"] for one in wide["by_length"]) == 12
    assert len(wide["alignment"]["weights"][0]) == len(wide["alignment"]["source"]) == 4
    rows = list(csv.DictReader((home / "whole" / TABLE).read_text().splitlines()))
    assert [(row["cell"], row["seed"]) for row in rows] == [("base", "1"), ("base", "2"), ("wide", "1"), ("wide", "2")]


def test_the_page_needs_nothing_but_itself(home: Path) -> None:
    page = (home / "whole" / PAGE).read_text()
    assert page == study_page(results_of(home / "whole"))
    assert page.count("<svg") >= 5  # differences, lengths, two alignments, curves
    for word in ("Two widths", "Which is better?", "model.width=12", "the base"):
        assert word in page
    assert "<script" not in page
    assert 'src="http' not in page


def test_killed_at_any_moment_a_study_ends_with_the_same_page_but_for_times(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = read_study(home / MINE, seeds=[1])
    copytree(home / "whole" / "cells", tmp_path / "whole" / "cells")
    before = without_times(StudyRun(study, tmp_path / "whole").write())
    moments: list[str] = []

    def die(at: str) -> None:
        if at in moments:
            raise KilledError

    class Observed(Callback):
        def on_step(self, step: int) -> None:
            if step == 5:
                die("training")

    def observed(*given: Any, **named: Any) -> Any:
        named["callbacks"] = [Observed()]
        return train(*given, **named)

    def measured(*given: Any) -> Any:
        die("measuring")
        return measure(*given)

    def written(*given: Any) -> None:
        die("writing")
        write_bytes(*given)

    for name, changed in (("train", observed), ("measure", measured), ("write_bytes", written)):
        monkeypatch.setattr(cells, name, changed)
    for moment in ("training", "measuring", "writing"):
        moments[:] = [moment]
        with pytest.raises(KilledError):
            StudyRun(study, tmp_path / "killed").run(in_process)
    moments.clear()
    after = without_times(StudyRun(study, tmp_path / "killed").run(in_process))
    assert after == before
    assert study_page(after) == study_page(before)


def test_what_is_ready_is_not_run_again(home: Path) -> None:
    said: list[str] = []
    again = StudyRun(read_study(home / MINE), home / "whole", said.append)
    assert again.waiting() == []
    moved = read_study(home / MINE, ["data.folder=elsewhere"])  # where the data lies is no part of a study
    assert StudyRun(moved, home / "whole").waiting() == []


def test_an_update_of_every_cell_is_timed_alone_after_all_runs(home: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    (tmp_path / MINE).write_text('timed = ["cuda", "cpu"]\nequal_tokens = true\n' + STUDY)
    copytree(home / "whole" / "cells", tmp_path / "out" / "cells")
    for job in (tmp_path / "out" / "cells").glob("*/*.json"):  # the same recipe in another folder
        job.write_text(job.read_text().replace(str(home), str(tmp_path)))
    said: list[str] = []
    run = StudyRun(read_study(tmp_path / MINE), tmp_path / "out", said.append)
    assert run.waiting() == []
    assert [folder.name for folder in run.untimed()] == ["base-1", "wide-1"]

    def time_first(tasks: Sequence[Task], ready: Ready) -> None:
        (task,) = tasks
        devices, first, _ = task.command[-3:]
        timing.time_cell(Path(first), ["cpu"] if devices == "cuda,cpu" else [], Console(quiet=True))
        ready(task, "exit code 3: the GPU's memory is full")

    found = run.time(time_first)
    assert said == ["timing an update of 2 cells, alone", "timing: exit code 3: the GPU's memory is full"]
    base, wide = found["cells"]
    times = base["timed"]["cpu"]
    assert 0 < times["low"] <= times["ms"] <= times["high"]
    assert wide["timed"] is None
    assert [folder.name for folder in run.untimed()] == ["wide-1"]
    page = (tmp_path / "out" / PAGE).read_text()
    assert "one update alone, CPU" in page
    assert "alone, GPU" not in page
    assert "An update was timed when nothing else ran" in page
    assert ">tokens of all batches, at most, in millions</text>" in page
    rows = list(csv.DictReader((tmp_path / "out" / TABLE).read_text().splitlines()))
    assert [(row["update_ms_cuda"], bool(row["update_ms_cpu"])) for row in rows] == [("", True)] * 2 + [("", False)] * 2
    assert without_times(found)["cells"][0]["timed"] is None


def test_a_cell_that_cannot_be_timed_leaves_the_others(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path, devices: list[str]) -> None:
        timed.append((folder.name, *devices))
        if folder.name == "a":
            raise UserError("a.en: no such file.")

    timed: list[tuple[str, ...]] = []
    monkeypatch.setattr(timing, "time_cell", fail)
    assert timing.main(["cuda,cpu", "a", "b"]) == 2
    assert timed == [("a", "cuda", "cpu"), ("b", "cuda", "cpu")]
    assert capsys.readouterr().err == "a.en: no such file.\n"


def test_a_cell_that_fails_is_shown_and_stops_no_other(home: Path, tmp_path: Path) -> None:
    study = read_study(home / MINE)

    def fail_second(tasks: Sequence[Task], ready: Ready) -> None:
        ready(tasks[0], None)
        ready(tasks[1], "exit code 3: the GPU's memory is full")

    run = StudyRun(study, tmp_path / "out")
    found = run.run(fail_second)
    assert found["cells"][0]["failed"] == [{"seed": 2, "reason": "exit code 3: the GPU's memory is full"}]
    page = (tmp_path / "out" / PAGE).read_text()
    assert "base, seed 2: failed: exit code 3: the GPU&#x27;s memory is full" in page
    assert "wide, seed 1: not ready yet" in page
    assert "memory is full" in (tmp_path / "out" / TABLE).read_text()


def test_a_study_whose_runs_all_fail_ends_with_an_error(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(failing: int) -> Callable[[int], Launch]:
        def run_all(tasks: Sequence[Task], ready: Ready) -> None:
            for number, task in enumerate(tasks):
                ready(task, "exit code 3: the disk is full" if number < failing else None)

        return lambda jobs: run_all

    out = tmp_path / "out"
    command = ["study", str(home / MINE), "--out", str(out), "--jobs", "1"]
    monkeypatch.setattr(running, "run_cells", launch(failing=4))
    assert run_command(command) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    why = f"All 4 runs failed: {out / PAGE} shows why, and so does log.txt in the folder of each."
    assert shown.err.splitlines()[-1] == f"heedful: error: {why}"
    assert "failed: exit code 3: the disk is full" in (out / PAGE).read_text()
    monkeypatch.setattr(running, "run_cells", launch(failing=1))
    assert run_command(command) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{out / PAGE}\n"
    assert "1 run failed: the page shows why, and so does log.txt in its folder." in shown.err


def test_the_words_of_a_finished_study_can_be_changed(home: Path, tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_bytes((home / "whole" / RESULTS).read_bytes())
    other = tmp_path / MINE
    (tmp_path / "tiny.toml").write_text(RECIPE)
    other.write_text('conclusion = "Wide is <wide>.\\n\\nThat is all."\n' + STUDY)
    rewrite_page(read_study(other), tmp_path)  # of the study's files, it needs the results alone
    page = (tmp_path / PAGE).read_text()
    assert "Wide is &lt;wide&gt;.</p>" in page
    assert "That is all." in page


def test_the_page_tells_what_the_command_line_set_and_how_many_seeds_are_ready(home: Path) -> None:
    study = read_study(home / MINE, ["data.folder=elsewhere", "train.steps=6"])
    results = results_of(home / "whole")
    assert "command line" not in study_page(results)
    told = study_page({**results, "overrides": list(study.overrides)})
    assert "<li><code>train.steps=6</code></li>" in told.partition("command line")[2]
    assert "elsewhere" not in told
    partial = [{**cell, "seeds": cell["seeds"][:1], "waiting": [2]} for cell in results["cells"]]
    assert "<b>wide</b> <small>1 of 2 seeds</small>" in study_page({**results, "cells": partial})


def test_charts_of_many_cells_share_their_axes_and_have_the_base_in_each(home: Path) -> None:
    results = results_of(home / "whole")
    base, wide = results["cells"]
    many = {**results, "cells": [base, *({**wide, "name": f"wide {number}"} for number in range(10))]}
    first, second = (chart for chart in curve_charts(many) if "Loss in training" in chart)
    assert [[f">{name}</text>" in chart for name in ("base", "wide 0", "wide 9")] for chart in (first, second)] == [
        [True, True, False], [True, False, True]
    ]  # fmt: skip
    for chart in (first, second):
        assert re.findall(r'text-anchor="end"[^>]*>([^<]+)<', chart) == re.findall(
            r'text-anchor="end"[^>]*>([^<]+)<', first
        )
    assert not [chart for chart in curve_charts(results) if "Learning rate" in chart]
    faster = {**wide, "curves": [{**c, "train": {**c["train"], "learning_rate": [1.0] * 3}} for c in wide["curves"]]}
    assert [chart for chart in curve_charts({**results, "cells": [base, faster]}) if "Learning rate in" in chart]


def test_the_chart_by_length_leaves_out_lengths_of_few_sentences(home: Path) -> None:
    results = results_of(home / "whole")
    spans = [{**results["cells"][0]["by_length"][0], "length": 5.0 * (n + 1), "span": f"span {n}", "sentences": count}
             for n, count in enumerate((25, 30, 1))]  # fmt: skip
    drawn = length_chart({**results, "cells": [{**cell, "by_length": spans} for cell in results["cells"]]})
    assert drawn.count("<circle") == 2 * len(results["cells"])
    assert "span 2 words (1)" in drawn


# --- refusals -------------------------------------------------------------------------------------------------------


def test_the_folder_of_another_study_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    (tmp_path / "other.toml").write_text(STUDY)
    (tmp_path / MINE).write_text(STUDY.replace("width=12", "width=16"))
    with refuses("...holds the study `mine`, not `other`: choose another folder..."):
        StudyRun(read_study(tmp_path / "other.toml"), home / "whole").waiting()
    with refuses("...`model.width` of the cell `wide` was 12 and is 16 now: choose another..."):
        StudyRun(read_study(tmp_path / MINE), home / "whole").waiting()
    with refuses("...run holds a model, not a study: choose another folder..."):
        StudyRun(read_study(tmp_path / MINE), home / "whole" / "cells" / "base-1" / "run").waiting()
    (tmp_path / "study.json").write_text("[]")
    with refuses("...study.json is not the file of a study: choose another folder."):
        StudyRun(read_study(tmp_path / MINE), tmp_path).waiting()
    (tmp_path / "study.json").unlink()
    with refuses("...holds no study: run it first, without `page`..."):
        rewrite_page(read_study(tmp_path / MINE), tmp_path)


def test_a_cell_whose_data_cannot_be_read_is_named_before_anything_is_trained(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(cell: StudyCell, seed: int, device: torch.device) -> float:
        raise UserError("a.en: no such file.")

    monkeypatch.setattr(running, "memory_of", missing)
    with refuses("mine, cell `base`: a.en: no such file."):
        running.cells_at_once(read_study(home / MINE))


def test_a_device_too_small_for_one_cell_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study: Study = read_study(home / MINE)
    monkeypatch.setattr(running, "free_memory", lambda device: 1 << 28)
    with refuses(
        "mine: the cell `wide` needs about 1.0 GiB of memory, but cpu has 0.2 GiB free: lower `data.batch_tokens`, or "
        "make its model smaller."
    ):
        running.cells_at_once(study)
    monkeypatch.setattr(running, "free_memory", lambda device: 5 << 29)  # 2.5 GiB
    monkeypatch.setattr(running, "usable_cores", lambda: 16)
    assert running.cells_at_once(study) == 2
    assert (running.free_memory(torch.device("cpu")) or 1) > 0


def test_the_command_lists_runs_and_refuses(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["study", "--list"]) == 0
    assert "ladder      From RNNs to Transformers\n" in capsys.readouterr().out
    assert run_command(["study", str(home / MINE), "--out", str(home / "whole"), "--page"]) == 0
    assert capsys.readouterr().out == f"{home / 'whole' / PAGE}\n"
    assert run_command(["study", str(home / MINE), "--out", str(home / "whole")]) == 0
    capsys.readouterr()
    assert run_command(["study", str(home / MINE), "--out", str(home / "whole"), "--page", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["page"] == str(home / "whole" / PAGE)
    assert found["results"] == json.loads((home / "whole" / RESULTS).read_text())
    assert run_command(["study"]) == 0
    shown = capsys.readouterr()
    assert "ladder      From RNNs to Transformers\n" in shown.out
    assert shown.err == "heedful: `heedful study NAME` runs one of these, or a study in a file of yours.\n"
    assert run_command(["study", "--list", "--json"]) == 0
    assert "ladder" in {json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()}
    assert run_command(["study", "ladder", "--seeds", "one"]) == 2
    assert "--seeds one: must be whole numbers with commas between them, such as 1,2,3." in capsys.readouterr().err
