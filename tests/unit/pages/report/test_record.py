"""What a report reads from the folder of a run, and what it refuses."""

import json
from pathlib import Path

import pytest
from filelock import FileLock
from tests.shared.refusals import refuses
from tests.unit.pages.report.conftest import GOLDEN, WriteRun, logged, validated

from heedful.config.tasks import TASKS
from heedful.pages.report.curves import figures
from heedful.pages.report.page import report_page
from heedful.pages.report.record import read_run, read_runs, run_names


@pytest.mark.parametrize("task", TASKS)
def test_runs_of_every_task_have_a_report(write_run: WriteRun, task: str) -> None:
    rules = TASKS[task]
    metric = [*rules.metrics][-1]
    run = write_run(
        task=task,
        model={"family": rules.families[0]},
        train={"validation": {"metric": metric}},
        lines=[logged(10, 2.0, tokens_per_second=5.0), validated(10, **{metric: 0.25}), validated(20, **{metric: 0.5})],
    )
    record = read_run(run)
    assert record.task == task
    assert record.best is not None
    assert record.best["step"] == (20 if rules.metrics[metric] == "higher" else 10)
    assert f"{rules.tokens} per second" in report_page([record])


@pytest.mark.parametrize(("position", "best"), [({}, 20), ({"best_loss": 1.0}, 20), ({"step": 30}, 10)])
def test_the_loss_decides_between_equal_scores_as_in_training(
    write_run: WriteRun, position: dict[str, float], best: int
) -> None:
    """Runs of earlier versions, whose checkpoints have no loss of the best model, kept the first one."""
    lines = [validated(step, accuracy=0.5, loss=loss) for step, loss in [(10, 2.0), (20, 1.0), (30, 1.0)]]
    family = {"family": "classifier"}
    run = write_run(model=family, train={"validation": {"metric": "accuracy"}}, lines=lines, position=position)
    record = read_run(run)
    assert record.best is not None
    assert record.best["step"] == best


def test_a_run_of_a_task_that_is_not_ours_has_a_report(write_run: WriteRun) -> None:
    record = read_run(write_run(task="reverse", lines=[logged(10), validated(10, loss=1.0)]))
    assert (record.task, record.best) == ("reverse", None)
    assert "reverse" in report_page([record])


@pytest.mark.parametrize("name", ["bert", "classifier", "recurrent", "transformer"])
def test_runs_of_earlier_versions_have_a_report(name: str) -> None:
    record = read_run(GOLDEN / name / "run")
    assert (record.state, record.step, record.steps) == ("stopped", 10, 20)
    lines = [json.loads(line) for line in (GOLDEN / name / "run/metrics.jsonl").read_text().splitlines()]
    learned = {figure.name: figure for figure in figures([record])}["loss"]
    for series, part in zip(learned.series, ("train", "valid"), strict=True):
        expected = [(line["step"], line["loss"]) for line in lines if line["part"] == part]
        assert list(zip(series.x, series.y, strict=True)) == expected
    assert "Stopped at step 10 of 20" in report_page([record])


def test_a_run_without_some_metrics_shows_the_others(write_run: WriteRun) -> None:
    record = read_run(write_run(lines=[{"step": 5, "part": "train", "loss": 2.0}]))
    assert [figure.name for figure in figures([record])] == ["loss"]
    assert "<h2" in report_page([record])


def test_a_diverged_run_says_so_and_its_curve_has_a_gap(write_run: WriteRun) -> None:
    record = read_run(write_run(lines=[logged(10, 2.0), logged(20, None, skipped=10)]))
    assert (record.state, record.diverged) == ("stopped", True)
    assert {figure.name for figure in figures([record])} == {"loss", "skipped"}
    assert "training diverged" in report_page([record])


def test_a_line_that_a_crash_truncated_is_left_out(write_run: WriteRun) -> None:
    run = write_run(lines=[logged(10, 2.0)])
    with (run / "metrics.jsonl").open("a") as metrics:
        metrics.write('[1]\n{"part": "train"}\n{"step": 20, "part": "tra')
    assert [entry["step"] for entry in read_run(run).train] == [10]


def test_a_run_is_finished_at_its_last_step_or_without_patience(write_run: WriteRun) -> None:
    whole = write_run("whole", [logged(40)])
    early = write_run(
        "early", [logged(20)], {"validation": {"metric": "loss", "patience": 2}}, {"worse_since": 2, "seconds": 90}
    )
    assert [read_run(run).state for run in (whole, early)] == ["finished", "finished"]
    assert read_run(early).seconds == 90


def test_a_run_goes_on_while_a_process_has_its_lock(write_run: WriteRun) -> None:
    run = write_run(lines=[logged(40)])
    with FileLock(run / ".lock"):
        assert read_run(run).state == "running"
        assert '<meta http-equiv="refresh"' in report_page([read_run(run)])
    assert read_run(run).state == "finished"
    assert '<meta http-equiv="refresh"' not in report_page([read_run(run)])


def test_names_of_runs_are_those_of_their_folders_or_their_paths(write_run: WriteRun) -> None:
    folders = [write_run(name, [logged(10)]) for name in ("a/run", "b/run", "c")]
    records = read_runs(folders)
    assert run_names(records[1:]) == ["run", "c"]
    assert run_names(records) == [str(folder) for folder in folders]


def test_a_folder_that_is_not_a_run_is_refused(write_run: WriteRun, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, what in ((tmp_path / "empty", "holds no config.json"), (tmp_path / "none", "is not a folder")):
        with refuses(f"...{folder} {what}: a run is a folder that `heedful train` wrote..."):
            read_run(folder)
    damaged = write_run("damaged", [logged(10)])
    (damaged / "config.json").write_text("[]")
    with refuses("...config.json is not the config of a run: `recipe` is missing..."):
        read_run(damaged)


def test_a_folder_without_metrics_is_refused(write_run: WriteRun) -> None:
    begun, model = write_run("begun"), write_run("model")
    with refuses("...begun has no metrics yet, the first come at step 10 (`train.log_every`): try..."):
        read_run(begun)
    (model / "metrics.jsonl").unlink()
    with refuses("...model holds a model but no metrics.jsonl: only a run that `heedful train`..."):
        read_run(model)


def test_runs_of_different_tasks_and_a_run_given_twice_are_refused(write_run: WriteRun) -> None:
    first, other = write_run("first", [logged(10)]), write_run("other", [logged(10)], task="generate")
    with refuses("...other is a run of the task `generate`, but ...first of `translate`: their curv..."):
        read_runs([first, other])
    with refuses("...first is given twice: name each run once..."):
        read_runs([first, first / "../first"])
