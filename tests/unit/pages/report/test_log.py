"""Lines of a log that no run writes are left out, and noted once with the file and the first line."""

import json
import os
from pathlib import Path

import pytest
from tests.shared.refusals import like, refuses
from tests.unit.pages.report.conftest import WriteRun, logged, validated

from heedful.base.notes import listening
from heedful.pages.report.log import read_log
from heedful.pages.report.page import report_page
from heedful.pages.report.record import read_run

MEASURED = {"step": 1, "learning_rate": 0.1, "weights": []}
PART = {"layer": "encoder", "kind": "bias", "size": 3, "weight": 1.0, "gradient": None, "update": 0.5}
ODD = [
    ("metrics.jsonl", '{"step": 5, "part": "train"}', "`loss` is missing"),
    ("metrics.jsonl", '{"step": 5, "part": "train", "loss": "low"}', '`loss` is "low"'),
    ("metrics.jsonl", '{"step": 5, "part": "train", "loss": true}', "`loss` is true"),
    ("metrics.jsonl", '{"step": 5, "part": "train", "loss": 1e999}', "`loss` is Infinity"),
    ("metrics.jsonl", f'{{"step": 1{"0" * 400}, "part": "train", "loss": 1}}', f"`step` is 1{'0' * 39}..."),
    ("metrics.jsonl", f'{{"step": 5, "part": "train", "loss": 1{"0" * 400}}}', f"`loss` is 1{'0' * 39}..."),
    ("metrics.jsonl", f'{{"step": 1{"0" * 9999}, "part": "train", "loss": 1}}', "it is not JSON"),
    ("metrics.jsonl", '{"step": -1, "part": "train", "loss": 1}', "`step` is -1"),
    ("metrics.jsonl", '{"part": "train", "loss": 1}', "`step` is missing"),
    ("metrics.jsonl", '{"step": 5, "loss": 1}', "`part` is missing"),
    ("metrics.jsonl", '{"step": 5, "part": ["train"], "loss": 1}', '`part` is ["train"]'),
    ("metrics.jsonl", '{"step": 5, "part": "valid", "bleu": "\\u001b[2J"}', '`bleu` is "\\u001b[2J"'),
    ("metrics.jsonl", "[" * 100_000, "it is not JSON"),
    ("metrics.jsonl", '{"step": 5, "part": "tr', "it is not JSON"),
    ("metrics.jsonl", "\0" * 512, "it is not JSON"),
    ("metrics.jsonl", "[1]", "it is not an object"),
    (
        "metrics.jsonl",
        '{"step": 5, "part": "train", "loss": "' + "a" * (1 << 23),
        "it has over 8,388,608 bytes",
    ),
    ("samples.jsonl", '{"step": 5, "samples": [{"input": 1}]}', "`samples.0.input` is 1"),
    ("instruments.jsonl", '{"step": 5, "learning_rate": 1}', "`weights` is missing"),
    ("instruments.jsonl", json.dumps({**MEASURED, "weights": [{**PART, "size": None}]}), "`weights.0.size` is null"),
    (
        "instruments.jsonl",  # to add up such histograms would take all memory
        json.dumps({**MEASURED, "weights": [{**PART, "histogram": {"zeros": 0, "from": 1e9, "counts": []}}]}),
        "`weights.0.histogram.from` is 1000000000.0",
    ),
]


@pytest.mark.parametrize(("name", "line", "reason"), ODD, ids=range(len(ODD)))
def test_an_odd_line_is_left_out_and_noted_once(tmp_path: Path, name: str, line: str, reason: str) -> None:
    sound = {"metrics.jsonl": logged(1), "samples.jsonl": {"step": 1, "samples": []}, "instruments.jsonl": MEASURED}
    whole = json.dumps(sound[name])
    (tmp_path / name).write_text(f"{whole}\n\n{line}\n{whole}\n")
    noted: list[str] = []
    with listening(noted.append):
        assert [read_log(tmp_path / name) for _ in range(3)] == [[sound[name]] * 2] * 3
    assert noted == [f"{tmp_path / name}: line 3 is left out, as no run writes this: {reason}"]


def test_several_odd_lines_are_one_note(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(f"{line}\n" for name, line, _ in ODD if name == "metrics.jsonl"))
    noted: list[str] = []
    with listening(noted.append):
        assert read_log(tmp_path / "metrics.jsonl") == []
    (only,) = noted
    assert only == f"{tmp_path}/metrics.jsonl: line 1 and 16 more are left out, as no run writes this: {ODD[0][2]}"


def test_a_line_of_100_megabytes_is_not_read_into_memory(tmp_path: Path) -> None:
    with (tmp_path / "metrics.jsonl").open("wb") as log:
        log.seek(100_000_000)
        log.write(b"\n" + json.dumps(logged(2)).encode() + b"\n")
    assert read_log(tmp_path / "metrics.jsonl") == [logged(2)]


def test_lines_of_a_part_to_come_and_other_line_ends_are_sound(tmp_path: Path) -> None:
    lines = [{"step": 1, "part": "skipped", "file": "a.txt"}, logged(2, None, gradient_norm=0.5), validated(2, bleu=1)]
    text = "\ufeff" + "".join(json.dumps(line) + "\r\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_bytes(text.encode().rstrip())
    assert read_log(tmp_path / "metrics.jsonl") == lines


def test_what_is_not_a_file_is_left_out_of_a_run_and_refused_by_its_report(write_run: WriteRun) -> None:
    run = write_run(lines=[logged(1)])
    (run / "samples.jsonl").mkdir()
    os.mkfifo(run / "instruments.jsonl")
    noted: list[str] = []
    with listening(noted.append):
        assert "<h2" in report_page([read_run(run)])
    assert noted == [
        f"{run}/samples.jsonl: this is a folder, but must be a file. It is left out.",
        like(f"{run}/instruments.jsonl: this is a pipe or ... It is left out."),
    ]
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()
    with refuses(f"{run}/metrics.jsonl: this is a folder, but must be..."):
        read_run(run)


@pytest.mark.parametrize("loss", [1e306, -1e306, 5e-324, 0, None])
def test_any_number_can_be_shown(write_run: WriteRun, loss: float | None) -> None:
    extreme = {"loss": loss, "gradient_norm": loss, "tokens_per_second": loss, "data_wait": loss, "skipped": loss}
    lines = [logged(1), {**logged(2**53), **extreme, "epoch": loss}, validated(3, loss=loss), validated(4, loss=-1e306)]
    run = write_run(lines=lines)
    rows = [{**PART, "weight": loss, "gradient": loss, "update": 1e306}] * 2
    for step in (1, 2):
        with (run / "instruments.jsonl").open("a") as log:
            log.write(json.dumps({**MEASURED, "step": step, "weights": rows}) + "\n")
    assert "<h2" in report_page([read_run(run)])
