"""The doctor finds each fault that was planted in a sound corpus, in every task, and says where it is."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.shared.sound_corpora import CORPORA, Lines, recipe_of, write
from tests.unit.doctor.said_of_faults import SAID

from heedful.config.recipe import Recipe
from heedful.doctor.corpora.data import check_data
from heedful.doctor.findings import Finding
from heedful.doctor.schedule import find_schedule_problems
from heedful.doctor.token_statistics import count_tokens, find_token_problems
from heedful.tasks.loading import find_task

Plant = Callable[[Lines], Mapping[str, Any] | None]  # changes the files, and returns changes of the recipe's tables


def silent(message: str) -> None:
    """Say nothing."""


def findings(recipe: Recipe) -> list[Finding]:
    return [*check_data(recipe, silent).findings, *find_schedule_problems(recipe)]


def every(lines: list[str], step: int, change: Callable[[str], str]) -> None:
    lines[::step] = [change(line) for line in lines[::step]]


def drop_line(files: Lines, name: str) -> None:
    """Lose a line at the start, and double the last, so that the number of lines stays."""
    files[name] = [*files[name][1:], files[name][-1]]


def relabel(lines: list[str], step: int, label: str) -> None:
    every(lines, step, lambda line: f"{line.split(chr(9))[0]}\t{label}")


def swap_columns(line: str) -> str:
    return "\t".join(reversed(line.split("\t")))


# --- faults of every task -------------------------------------------------------------------------------------------


def warmup(files: Lines) -> Mapping[str, Any]:
    return {"train": {"schedule": {"kind": "noam", "warmup": 4000}}}


def validation(files: Lines) -> Mapping[str, Any]:
    return {"train": {"validation": {"every": 1000}}}


def patience(files: Lines) -> Mapping[str, Any]:
    return {"train": {"validation": {"every": 50, "patience": 8}}}


# --- translation ----------------------------------------------------------------------------------------------------


def pair_header(files: Lines) -> None:
    files["train.en"].insert(0, "source")
    files["train.es"].insert(0, "target")


def pair_leak(files: Lines) -> None:
    for side in ("en", "es"):
        files[f"valid.{side}"][10:20] = files[f"train.{side}"][100:110]


def source_leak(files: Lines) -> None:
    files["test.en"][5:10] = files["train.en"][40:45]


def shifted(files: Lines) -> None:
    drop_line(files, "train.es")


def shifted_by_two_above(files: Lines) -> None:
    files["train.es"] = ["Bienvenidos a todos.", "Muchas gracias.", *files["train.es"][:-2]]


def repeated_pairs(files: Lines) -> None:
    for side in ("en", "es"):
        files[f"train.{side}"] += files[f"train.{side}"][:40]


def swapped(files: Lines) -> None:
    english, spanish = files["train.en"], files["train.es"]
    for n in range(0, 200, 20):
        english[n], spanish[n] = spanish[n], english[n]


def copied(files: Lines) -> None:
    files["train.es"][::10] = files["train.en"][::10]


def empty_side(files: Lines) -> None:
    every(files["train.es"], 20, lambda line: "")


def mojibake_pairs(files: Lines) -> None:
    files["train.es"] = [line.encode().decode("latin-1") for line in files["train.es"]]


TRANSLATE: Mapping[str, tuple[Plant, str, str]] = {
    "header": (pair_header, "header", "train.en, train.es"),
    "pairs of train in valid": (pair_leak, "pair_seen", "valid.en, valid.es"),
    "sources of train in test": (source_leak, "source_seen", "test.en, test.es"),
    "shifted by a line": (shifted, "shifted", "train.en, train.es"),
    "shifted by two lines": (shifted_by_two_above, "shifted", "train.en, train.es"),
    "repeats": (repeated_pairs, "repeated", "train.en, train.es"),
    "swapped sides": (swapped, "swapped", "train.en, train.es"),
    "source copied": (copied, "identical", "train.en, train.es"),
    "empty side": (empty_side, "empty", "train.en, train.es"),
    "mojibake": (mojibake_pairs, "mojibake", "train.es"),
    "warm-up": (warmup, "warmup", ""),
    "late validation": (validation, "late_validation", ""),
    "idle patience": (patience, "idle_patience", ""),
}

# --- classification -------------------------------------------------------------------------------------------------


AS_A_ROW = {"data": {"train": [{"tsv": "train.tsv", "text": 1, "label": 2, "header": False}]}}  # otherwise it is found


def text_header(files: Lines) -> Mapping[str, Any]:
    files["train.tsv"].insert(0, "text\tlabel")
    return AS_A_ROW


def odd_header(files: Lines) -> Mapping[str, Any]:
    for lines in files.values():
        lines[:] = [f"{line.split(chr(9))[0]}\t{len(line) % 2}" for line in lines]
    files["train.tsv"].insert(0, "phrase\tgold")
    return AS_A_ROW


def rare(files: Lines) -> None:
    files["train.tsv"][7] = "Nobody knows why.\tmystery"


def dominant(files: Lines) -> None:
    files["train.tsv"] = [f"{line.split(chr(9))[0]}\tnews" for line in files["train.tsv"]]
    relabel(files["train.tsv"], 50, "praise")
    for part in ("valid", "test"):
        files[f"{part}.tsv"] = [line.replace("\tblame", "\tnews") for line in files[f"{part}.tsv"]]


def doubled(files: Lines) -> None:
    files["train.tsv"] = [
        line.replace("\tnews", "\tNews ") if n % 2 else line for n, line in enumerate(files["train.tsv"])
    ]


def text_leak(files: Lines) -> None:
    files["valid.tsv"][10:20] = files["train.tsv"][100:110]


def text_leak_in_test(files: Lines) -> None:
    files["test.tsv"] = [line.split("\t")[0] + "\tnews" for line in files["valid.tsv"]]


def unknown_class(files: Lines) -> None:
    files["test.tsv"][3] = "A strange thing happened today.\tsport"


def sorted_and_cut(files: Lines) -> None:
    relabel(files["valid.tsv"], 1, "praise")


def contradictions(files: Lines) -> None:
    files["train.tsv"] += [line.split("\t")[0] + "\tother" for line in files["train.tsv"][:20]]


def wrong_columns(files: Lines) -> None:
    for name in files:
        files[name] = [swap_columns(line) for line in files[name]]


def repeated_texts(files: Lines) -> None:
    files["train.tsv"] += files["train.tsv"][:40]


def entities(files: Lines) -> None:
    every(files["train.tsv"], 20, lambda line: f"Tom &amp; Ann: {line}")


def too_long(files: Lines) -> None:
    files["train.tsv"] = ["so it goes on " * 20 + line for line in files["train.tsv"]]


CLASSIFY: Mapping[str, tuple[Plant, str, str]] = {
    "header": (text_header, "header", "train.tsv"),
    "header over numbers": (odd_header, "header", "train.tsv"),
    "rare class": (rare, "rare_classes", "train.tsv"),
    "dominant class": (dominant, "dominant_class", "train.tsv"),
    "class in two spellings": (doubled, "doubled_classes", "train.tsv"),
    "texts of train in valid": (text_leak, "source_seen", "valid.tsv"),
    "texts of valid in test": (text_leak_in_test, "source_seen", "test.tsv"),
    "unknown class": (unknown_class, "unknown_classes", "test.tsv"),
    "one class in valid": (sorted_and_cut, "one_class", "valid.tsv"),
    "contradicting labels": (contradictions, "ambiguous", "train.tsv"),
    "wrong columns": (wrong_columns, "many_classes", "train.tsv"),
    "repeats": (repeated_texts, "repeated", "train.tsv"),
    "entities": (entities, "entities", "train.tsv (text)"),
    "cut texts": (too_long, "cut", "train.tsv (text)"),
    "warm-up": (warmup, "warmup", ""),
    "idle patience": (patience, "idle_patience", ""),
}

# --- running text ---------------------------------------------------------------------------------------------------


def line_header(files: Lines) -> None:
    files["train.txt"].insert(0, "text")


def line_leak(files: Lines) -> None:
    files["valid.txt"][20:40] = files["train.txt"][100:120]


def line_leak_in_test(files: Lines) -> None:
    files["test.txt"] = files["train.txt"][:60]


def repeated_lines(files: Lines) -> None:
    files["train.txt"] += files["train.txt"][:60]


def no_blank_lines(files: Lines) -> None:
    files["train.txt"] = [line for line in files["train.txt"] if line]


def no_headings(files: Lines) -> Mapping[str, Any]:
    headed = {"text": "train.txt", "documents": "heading"}
    return {"data": {"train": [headed]}, "model": {"next_sentence": False}}


def lone_sentences(files: Lines) -> None:
    files["train.txt"] = [gap for line in files["train.txt"] if line for gap in (line, "")]


def whole_documents(files: Lines) -> Mapping[str, Any]:
    sentences = [line for line in files["train.txt"] if line]
    files["train.txt"] = [" ".join(sentences[n : n + 20]) for n in range(0, 400, 10)]
    return {"data": {"train": [{"text": "train.txt", "sentences": "line"}]}, "model": {"next_sentence": False}}


def hardly_any_lines(files: Lines) -> None:
    files["train.txt"] = files["train.txt"][:20]


def wrapped(files: Lines) -> Mapping[str, Any]:
    words = " ".join(line for line in files["train.txt"] if line).split()
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 70:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    files["train.txt"] = lines
    return {"model": {"next_sentence": False}}


def mojibake_lines(files: Lines) -> None:
    every(files["train.txt"], 20, lambda line: line + " Más".encode().decode("latin-1"))


def tags(files: Lines) -> None:
    every(files["train.txt"], 20, lambda line: f"<p>{line}</p>")


def control(files: Lines) -> None:
    files["train.txt"][12] = "a form\x0cfeed"


FILL: Mapping[str, tuple[Plant, str, str]] = {
    "header": (line_header, "header", "train.txt"),
    "lines of train in valid": (line_leak, "source_seen", "valid.txt"),
    "lines of train in test": (line_leak_in_test, "source_seen", "test.txt"),
    "repeats": (repeated_lines, "repeated", "train.txt"),
    "no blank lines": (no_blank_lines, "one_document", "train.txt"),
    "no headings": (no_headings, "one_document", "train.txt"),
    "one sentence per document": (lone_sentences, "lone_sentences", "train.txt"),
    "a line per document": (whole_documents, "long_sentences", "train.txt"),
    "hardly any lines": (hardly_any_lines, "few_sentences", "train.txt"),
    "wrapped lines": (wrapped, "wrapped", "train.txt"),
    "mojibake": (mojibake_lines, "mojibake", "train.txt"),
    "tags": (tags, "tags", "train.txt"),
    "control characters": (control, "control", "train.txt"),
    "warm-up": (warmup, "warmup", ""),
    "late validation": (validation, "late_validation", ""),
}

# --- running text in windows ----------------------------------------------------------------------------------------


def headings_that_are_not_there(files: Lines) -> Mapping[str, Any]:
    return {"data": {"train": [{"text": "train.txt", "documents": "heading"}]}}


def entities_in_lines(files: Lines) -> None:
    every(files["train.txt"], 20, lambda line: f"{line} &amp; so on")


def lost_characters(files: Lines) -> None:
    every(files["train.txt"], 20, lambda line: f"{line}\N{REPLACEMENT CHARACTER}")


def invisible_characters(files: Lines) -> None:
    every(files["train.txt"], 20, lambda line: f"\N{ZERO WIDTH SPACE}{line}")


def one_line_of_text(files: Lines) -> None:
    files["train.txt"] = ["A short line of text."]


GENERATE: Mapping[str, tuple[Plant, str, str]] = {
    "header": (line_header, "header", "train.txt"),
    "lines of train in valid": (line_leak, "source_seen", "valid.txt"),
    "lines of train in test": (line_leak_in_test, "source_seen", "test.txt"),
    "repeats": (repeated_lines, "repeated", "train.txt"),
    "no headings": (headings_that_are_not_there, "one_document", "train.txt"),
    "hardly any lines": (hardly_any_lines, "few_windows", "train.txt"),
    "not one window": (one_line_of_text, "few_windows", "train.txt"),
    "mojibake": (mojibake_lines, "mojibake", "train.txt"),
    "tags": (tags, "tags", "train.txt"),
    "control characters": (control, "control", "train.txt"),
    "entities": (entities_in_lines, "entities", "train.txt"),
    "lost characters": (lost_characters, "replacement", "train.txt"),
    "invisible characters": (invisible_characters, "invisible", "train.txt"),
    "warm-up": (warmup, "warmup", ""),
    "late validation": (validation, "late_validation", ""),
    "idle patience": (patience, "idle_patience", ""),
}

FAULTS = {"translate": TRANSLATE, "classify": CLASSIFY, "fill": FILL, "generate": GENERATE}
ALL = [(task, fault) for task, faults in FAULTS.items() for fault in faults]


@pytest.mark.parametrize(("task", "fault"), ALL, ids=[f"{task}: {fault}" for task, fault in ALL])
def test_a_planted_fault_is_found_where_it_is(task: str, fault: str, tmp_path: Path) -> None:
    plant, kind, file = FAULTS[task][fault]
    files = CORPORA[task]()
    tables = plant(files) or {}
    write(tmp_path, files)
    found = [finding for finding in findings(recipe_of(task, tmp_path, **tables)) if finding.kind == kind]
    assert found, f"{fault} was not found"
    assert file in {finding.file for finding in found}
    assert all(finding.severity in ("warning", "problem") for finding in found)
    assert all(finding.what and finding.advice.endswith(".") for finding in found)
    if (task, fault) in SAID:
        assert (found[0].what, found[0].advice) == SAID[task, fault]


def test_every_task_has_at_least_twelve_faults() -> None:
    assert all(len(faults) >= 12 for faults in FAULTS.values())


@pytest.mark.parametrize("task", FAULTS)
def test_a_vocabulary_smaller_than_asked_for_is_found(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    write(tmp_path, CORPORA[task]())
    recipe = recipe_of(task, tmp_path, tokenizer={"kind": "word", "size": 9000})
    prepared = find_task(recipe).prepare(recipe, None, silent)
    sample = check_data(recipe, silent).linted[0].sample
    (found,) = (
        finding
        for finding in find_token_problems(count_tokens(recipe, prepared, ["corpus"], sample))
        if finding.kind == "small_vocabulary"
    )
    size = next(iter(prepared.vocabularies.sizes.values()))
    assert found.what == f"the vocabulary has {size:,} pieces, not the 9,000 asked for"


def test_a_shift_in_the_middle_of_a_corpus_is_found_behind_it(tmp_path: Path) -> None:
    files = CORPORA["translate"]()
    files["train.en"], files["train.es"] = files["train.en"] * 4, files["train.es"] * 4
    order = random.Random(3).sample(range(1600), 1600)
    files = {**files, **{name: [files[name][n] for n in order] for name in ("train.en", "train.es")}}
    del files["train.en"][700]
    files["train.en"].append("And that is all.")
    write(tmp_path, files)
    (found,) = (finding for finding in findings(recipe_of("translate", tmp_path)) if finding.kind == "shifted")
    assert found.what == "the sides are shifted: each source line fits the target 1 line below it"
    assert found.lines[0] > 400
