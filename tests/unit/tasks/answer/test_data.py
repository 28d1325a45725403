"""Questions as token stores: every window is a row, and what cannot be learned is dropped with a word or refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.models.reading import reader_recipe, report_rows, write_rows
from tests.shared.refusals import refuses

from heedful.tasks.answer.data import prepare_questions

LONG = "so " * 30 + "Ann lives in Rome now ."


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))


def prepared(folder: Path, *rows: Mapping[str, object], model: dict[str, Any] | None = None, **data: object) -> Any:
    write_rows(folder / "train.jsonl", [*rows])
    write_rows(folder / "valid.jsonl", report_rows(3))
    said: list[str] = []
    made = prepare_questions(reader_recipe(folder, model or {}, data=data), said.append)
    return made, said


def test_each_window_of_a_long_text_is_a_row_with_its_answer(tmp_path: Path) -> None:
    row = {"question": "Who ?", "text": LONG, "answer": "Ann"}
    made, said = prepared(tmp_path, row, *report_rows(4), stride=8)
    (store,) = made.train
    texts = [store.sentence("text", number).tolist() for number in range(len(store))]
    answers = [store.sentence("answer", number).tolist() for number in range(len(store))]
    tokenizer = made.vocabularies["text"]
    assert len(store) > 5
    for text, answer in zip(texts, answers, strict=True):
        if answer:
            assert tokenizer.decode(text[answer[0] : answer[1] + 1]) in (
                "Ann", "Bob", "Cem", "Dora", "Rome", "New York", "Oslo", "Lima")  # fmt: skip
    assert sum(len(text) == 24 - 3 - 2 for text in texts) == 4  # windows at 0, 8, 16 and 17 of 36
    assert (
        sum(
            tokenizer.decode(text[a[0] : a[0] + 1]) == "Ann"
            for text, a in zip(texts[:4], answers[:4], strict=True)
            if a
        )
        == 2
    )
    assert said[-3] == f"train.jsonl: {len(store)} windows"
    again, told = prepared(tmp_path, row, *report_rows(4), stride=8)
    assert again.train[0].key == store.key
    assert "tokenizing train.jsonl" not in told


def test_an_answer_that_no_window_holds_is_dropped_and_counted(tmp_path: Path) -> None:
    row = {"question": "What ?", "text": LONG, "answer": LONG.strip()}
    made, said = prepared(tmp_path, row, *report_rows(4))
    assert len(made.train[0]) == 4
    assert said[-3] == (
        "train.jsonl: 4 windows, dropped 1 whose answer is whole in no window: raise `data.max_length` or lower "
        "`data.stride`"
    )
    with refuses("train.jsonl has no question to use: dropped 1 whose answer is whole in no..."):
        prepared(tmp_path, row)


def test_a_text_beyond_the_longest_line_is_dropped_and_counted(tmp_path: Path) -> None:
    row = {"question": "Who ?", "text": LONG, "answer": "Ann"}
    made, said = prepared(tmp_path, row, *report_rows(4), max_line=60)
    assert len(made.train[0]) == 4
    assert said[-3] == "train.jsonl: 4 windows, dropped 1 longer than `data.max_line` (60 characters)"


def test_a_question_without_an_answer_needs_a_model_that_may_find_none(tmp_path: Path) -> None:
    row = {"question": "Who ?", "text": "nobody lives here .", "answer": ""}
    message = (
        f"{tmp_path / 'train.jsonl'}, line 1 has no answer, which this model cannot learn: set "
        "`model.no_answer = true`, or remove the row."
    )
    with refuses(message):
        prepared(tmp_path, row)
    made, _ = prepared(tmp_path, row, model={"no_answer": True})
    assert made.train[0].sentence("answer", 0).tolist() == []


def test_a_file_without_questions_is_refused(tmp_path: Path) -> None:
    with refuses("...a tokenizer on in train.jsonl: it has no questions..."):
        prepared(tmp_path)
