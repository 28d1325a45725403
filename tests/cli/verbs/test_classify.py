"""`heedful classify` as a user sees it, and what other verbs say of a classifier."""

import gzip
import io
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.models.text import (
    HIERARCHICAL,
    classifier_recipe,
    film_texts,
    fresh_classifier,
    fresh_masked_model,
    masked_recipe,
    trained_classifier,
    written,
)
from tests.shared.patience import PATIENCE
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.cli.output import progress_bar
from heedful.tasks.classify.model import Classification, TextClassifier, load_classifier

Capture = pytest.CaptureFixture[str]
PRAISE, BLAME = "The film was great .", "The plot was dull . The cast was awful ."
PAIRS = {"train": [{"tsv": "train.tsv", "label": 1, "text": 2, "second": 3}], "valid": [], "test": []}


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    return trained_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="module")
def trained(films: Path) -> TextClassifier:
    return load_classifier(films, "cpu")


def untrained(folder: Path, model: dict[str, Any], data: dict[str, Any] | None = None) -> TextClassifier:
    """A classifier of three classes in a folder."""
    recipe = classifier_recipe(folder, model, data=data or {}, train={"validation": {"metric": "loss"}})
    return load_classifier(written(fresh_classifier(recipe, ("a", "b", "c d")), folder), "cpu")


def classify(model: Path, *arguments: str | Path) -> int:
    return run(["classify", str(model), "--device", "cpu", *map(str, arguments)])


def type_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put bytes on standard input, which has no file descriptor then."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def file_of(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def line_of(found: Classification) -> str:
    return f"{found.label}\t{found.probabilities[found.label]:.4f}"


# --- lines in, lines out ----------------------------------------------------------------------------------------------


def test_files_give_one_line_a_line_in_order(
    films: Path, trained: TextClassifier, tmp_path: Path, capsys: Capture
) -> None:
    labels, texts = zip(*film_texts(15, seed=9), strict=True)
    first = file_of(tmp_path / "first", [*texts[:5], "", "  "])
    second = tmp_path / "second.gz"
    second.write_bytes(gzip.compress("\r\n".join(texts[5:]).encode()))  # and no newline at the end
    assert classify(films, first, second) == 0
    shown = capsys.readouterr()
    lines = shown.out.split("\n")
    assert [line.split("\t")[0] for line in lines] == [*labels[:5], "", "", *labels[5:], ""]
    answers = trained.classify(texts[:5])
    assert lines[:5] == [line_of(found) for found in answers]
    assert lines[5:7] == ["", ""]
    assert shown.err == ""


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_standard_input_is_the_default_and_a_dash(
    films: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: tuple[str, ...]
) -> None:
    type_in(monkeypatch, f"{PRAISE}\n\n{BLAME}\n".encode())
    assert classify(films, *arguments) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["pos", "", "neg"]


def test_no_lines_give_no_lines(films: Path, tmp_path: Path, capsys: Capture) -> None:
    assert classify(films, file_of(tmp_path / "in", [])) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.wide
def test_each_line_is_answered_before_the_next_is_written(films: Path) -> None:
    command = [sys.executable, "-m", "heedful", "classify", str(films), "--device", "cpu"]
    reader, writer = os.pipe()
    started = subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with started as process:
        os.close(reader)
        assert process.stdout
        try:
            for line, answer in ((PRAISE, b"pos\t"), ("", b"\n"), (BLAME, b"neg\t")):
                os.write(writer, f"{line}\n".encode())
                assert read_line(process.stdout.fileno()).startswith(answer)
        finally:
            os.close(writer)
        assert process.communicate(timeout=PATIENCE) == (b"", b"")
        assert process.returncode == 0


def read_line(descriptor: int, seconds: float = PATIENCE) -> bytes:
    seen, deadline = b"", time.monotonic() + seconds
    while not seen.endswith(b"\n"):
        assert time.monotonic() < deadline, f"nothing but {seen!r} came"
        if select.select([descriptor], [], [], 0.1)[0]:
            seen += os.read(descriptor, 1000)
    return seen


def test_texts_on_the_command_line_are_answered_like_lines(films: Path, tmp_path: Path, capsys: Capture) -> None:
    assert classify(films, PRAISE, "--text", "awful", file_of(tmp_path / "in", [BLAME]), "-o", tmp_path / "out") == 0
    labels = [line.split("\t")[0] for line in (tmp_path / "out").read_text().splitlines()]
    assert labels == ["pos", "neg", "neg"]
    assert capsys.readouterr().out == ""


# --- forms ------------------------------------------------------------------------------------------------------------


def test_all_classes_stand_in_one_line_the_likeliest_first(tmp_path: Path, capsys: Capture) -> None:
    classifier = untrained(tmp_path / "three", {})
    assert classify(tmp_path / "three", file_of(tmp_path / "in", [PRAISE, "", BLAME]), "--all") == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == [""]
    for found, columns in zip(classifier.classify([PRAISE, BLAME]), (lines[0], lines[2]), strict=True):
        shares = dict(zip(columns[::2], columns[1::2], strict=True))
        assert shares == {label: f"{share:.4f}" for label, share in found.probabilities.items()}
        assert columns[1::2] == sorted(columns[1::2], reverse=True)
        assert columns[0] == found.label


def test_json_is_one_object_a_line(films: Path, trained: TextClassifier, tmp_path: Path, capsys: Capture) -> None:
    assert classify(films, file_of(tmp_path / "in", [PRAISE, ""]), "--json") == 0
    spoken, blank = map(json.loads, capsys.readouterr().out.splitlines())
    shares = trained.classify(PRAISE).probabilities
    given = {"line": 1, "text": PRAISE, "label": "pos", "probability": pytest.approx(shares["pos"])}
    assert spoken == {**given, "probabilities": pytest.approx(shares)}
    assert list(spoken["probabilities"]) == ["neg", "pos"]
    assert blank == {"line": 2, "text": "", "label": None, "probability": None, "probabilities": {}}


def test_several_labels_have_a_probability_each(tmp_path: Path, capsys: Capture) -> None:
    classifier = untrained(tmp_path / "several", {"labels": "several"})
    texts = [text for _, text in film_texts(30, seed=4)]
    found = classifier.classify(texts)
    assert {len(one.labels) for one in found} >= {0, 2}
    path = file_of(tmp_path / "in", [*texts, ""])
    assert classify(tmp_path / "several", path) == 0
    *lines, blank = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert blank == ""
    for line, one in zip(lines, found, strict=True):
        labels, shares = line.split("\t")
        assert labels == ",".join(one.labels)
        assert shares == ",".join(f"{one.probabilities[label]:.4f}" for label in one.labels)
    assert "\t" in lines  # where none is said, two empty columns
    assert classify(tmp_path / "several", path, "--json") == 0
    *objects, nothing = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["labels"] for one in objects] == [list(one.labels) for one in found]
    assert nothing == {"line": 31, "text": "", "labels": [], "probabilities": {}}


@pytest.mark.parametrize("join", ["sequence", "parallel"])
def test_pairs_are_two_columns(tmp_path: Path, capsys: Capture, join: str) -> None:
    classifier = untrained(tmp_path / "pairs", {"join": join, "pool": None}, PAIRS)
    path = file_of(tmp_path / "in", [f"{PRAISE}\t{BLAME}", "", f"{BLAME}\t{PRAISE}", f"{PRAISE}\t "])
    assert classify(tmp_path / "pairs", path) == 0
    first, second = classifier.classify([PRAISE, BLAME], [BLAME, PRAISE])
    assert capsys.readouterr().out == f"{line_of(first)}\n\n{line_of(second)}\n\n"


def test_a_tab_in_a_single_text_is_white_space(films: Path, tmp_path: Path, capsys: Capture) -> None:
    assert classify(films, file_of(tmp_path / "in", [PRAISE, PRAISE.replace(" ", "\t")])) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_documents_are_classified(tmp_path: Path, capsys: Capture) -> None:
    classifier = untrained(tmp_path / "nested", {"encoder": HIERARCHICAL, "pool": None})
    assert classify(tmp_path / "nested", file_of(tmp_path / "in", [BLAME, PRAISE])) == 0
    expected = [line_of(found) for found in classifier.classify([BLAME, PRAISE])]
    assert capsys.readouterr().out.splitlines() == expected


def test_a_bar_counts_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shown in ((Screen(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar("classifying", 3) as progress:
            progress(3)
        assert ("classifying" in stream.getvalue()) == shown
        assert ("3/3" in stream.getvalue()) == shown


# --- mistakes ---------------------------------------------------------------------------------------------------------


def refused(capsys: Capture, *arguments: str | Path) -> str:
    assert run([*map(str, arguments)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("heedful: error: ")
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("heedful: error: ").rstrip("\n")


def test_a_missing_model_is_told_before_a_missing_file_and_both_without_torch(
    films: Path, tmp_path: Path, capsys: Capture
) -> None:
    missing = tmp_path / "missing.txt"
    assert refused(capsys, "classify", "no-model", missing).startswith("no-model is not a folder: ")
    assert refused(capsys, "classify", films, missing) == f"{missing}: no such file."
    assert refused(capsys, "classify", films, "great") == (
        "great: no such file (a text of one word is given with --text)."
    )


def test_quick_mistakes_are_told_before_the_model_is_loaded(tmp_path: Path, capsys: Capture) -> None:
    assert refused(capsys, "classify", "no-model", "--json", "--all") == (
        "--json has every class in every object: leave out --all."
    )
    assert refused(capsys, "classify", "no-model", "-t", PRAISE, "-o", tmp_path / "new" / "out") == (
        f"{tmp_path}/new/out: there is no folder {tmp_path}/new: create it with `mkdir -p {tmp_path}/new`, or choose "
        "another file."
    )


@pytest.mark.parametrize(("line", "columns"), [("alone", "1 column"), ("a\tb\tc", "3 columns")])
def test_a_line_that_is_no_pair_is_refused_after_the_lines_before_it(
    tmp_path: Path, capsys: Capture, line: str, columns: str
) -> None:
    untrained(tmp_path / "pairs", {}, PAIRS)
    path = file_of(tmp_path / "in", ["a\tb", line])
    assert classify(tmp_path / "pairs", path) == 2
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 1
    assert shown.err == like(f"heedful: error: {path}, line 2 has {columns}, but this model reads ...\n")


def test_models_that_do_not_classify_are_refused(
    reversing_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    type_in(monkeypatch, b"")
    assert refused(capsys, "classify", reversing_folder) == (
        f"{reversing_folder} is a model that translates: use `heedful translate`."
    )
    masked = written(fresh_masked_model(masked_recipe(tmp_path)), tmp_path / "masked")
    assert refused(capsys, "classify", masked) == f"{masked} is a model that fills masks: use `heedful fill`."


# --- what other verbs say of a classifier -----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["translate", "score"])
def test_a_classifier_is_refused_by_verbs_of_translators(
    films: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, verb: str
) -> None:
    type_in(monkeypatch, b"")
    assert refused(capsys, verb, films) == f"{films} is a model that classifies: use `heedful classify`."


def test_only_models_of_one_task_are_compared(
    films: Path, reversing_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert refused(capsys, "compare", reversing_folder, films) == (
        f"{films} is a model that classifies, but {reversing_folder} is one that translates: compare models of one "
        "task."
    )
    assert refused(capsys, "compare", films, reversing_folder) == (
        f"{reversing_folder} is a model that translates, but {films} is one that classifies: compare models of one "
        "task."
    )
    masked = written(fresh_masked_model(masked_recipe(tmp_path)), tmp_path / "masked")
    assert refused(capsys, "compare", masked, masked) == (
        f"{masked} is a model that fills masks, and such models cannot be compared item by item: use `heedful "
        "evaluate`."
    )


def test_checkpoints_of_a_classifier_are_averaged(films: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["average", str(films), "--last", "2", "--out", str(tmp_path / "mean")]) == 0
    capsys.readouterr()
    assert classify(tmp_path / "mean", file_of(tmp_path / "in", [PRAISE, BLAME])) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["pos", "neg"]
    assert "heedful classify mean < texts.txt" in (tmp_path / "mean/README.md").read_text()
