"""A trained reader from Python: answers are stretches of the text, over all windows, or none."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from tests.models.reading import PEOPLE, PLACES, fresh_reader, reader_recipe, report_rows, trained_reader
from tests.shared.refusals import refuses

import heedful
from heedful.tasks.answer.model import Reader

TEXT = "so so Ann lives in New York now ."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    return trained_reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def reader(folder: Path) -> Reader:
    return Reader.load(folder, "cpu")


@pytest.fixture(scope="module")
def doubting(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Reader:
    return Reader.load(trained_reader(tmp_path_factory.mktemp("doubting"), no_answer=True), "cpu")


def test_an_answer_is_a_stretch_of_the_text(reader: Reader) -> None:
    found = reader.answer("Where ?", TEXT)
    assert (found.text, found.start, found.end) == ("New York", 19, 27)
    assert TEXT[found.start : found.end] == found.text
    assert 0.5 < found.probability <= 1
    assert found.no_answer is None
    assert found.spans == (heedful.Span("New York", 19, 27, found.probability),)


def test_several_questions_about_one_text_or_each_about_its_own(reader: Reader) -> None:
    assert [found.text for found in reader.answer(["Who ?", "Where ?"], TEXT)] == ["Ann", "New York"]
    others = reader.answer(["Who ?", "Who ?"], [TEXT, "Bob lives in Rome now ."])
    assert [found.text for found in others] == ["Ann", "Bob"]
    assert reader.answer([], []) == []


def test_the_most_likely_stretches_come_best_first(reader: Reader) -> None:
    found = reader.answer("Where ?", TEXT, n_best=5, max_answer=1)
    shares = [span.probability for span in found.spans]
    assert len(shares) == 5
    assert shares == sorted(shares, reverse=True)
    assert len({(span.start, span.end) for span in found.spans}) == 5
    assert all(" " not in span.text and TEXT[span.start : span.end] == span.text for span in found.spans)


def test_probabilities_of_all_stretches_are_those_of_starts_and_ends(tmp_path: Path) -> None:
    torch.manual_seed(4)
    reader = Reader(fresh_reader(reader_recipe(tmp_path, {"no_answer": True})))
    found = reader.answer("Who ?", "Ann lives in Rome .", n_best=100)
    assert len(found.spans) == 15
    assert found.no_answer is not None
    assert sum(span.probability for span in found.spans) + found.no_answer <= 1 + 1e-6


def test_the_answer_in_a_long_text_is_found_in_whichever_window_it_is(reader: Reader) -> None:
    filler, told = "so " * 40, "Ann lives in Rome now ."
    for text in (f"{told} {filler}", f"{filler}{told}", f"{filler}{told} {filler}"):
        found = reader.answer("Where ?", text)
        assert found.text == "Rome"
        assert found.start == text.index("Rome")


def test_a_reader_of_unanswerable_questions_gives_none_or_the_best_by_its_threshold(doubting: Reader) -> None:
    text = "so nobody lives here now ."
    none = doubting.answer("Where ?", text)
    assert (none.text, none.start, none.end) == ("", None, None)
    assert none.no_answer is not None
    assert none.probability == none.no_answer > 0.5
    assert len(none.spans) == 1
    assert doubting.answer("Where ?", text, threshold=math.inf).text == none.spans[0].text
    assert doubting.answer("Where ?", TEXT).text == "New York"
    assert doubting.answer("Where ?", TEXT, threshold=-math.inf).text == ""


def test_neighbours_do_not_change_an_answer(reader: Reader) -> None:
    rows = report_rows(12, seed=9)
    together = reader.answer([str(row["question"]) for row in rows], [str(row["text"]) for row in rows])
    for row, found in zip(rows, together, strict=True):
        alone = reader.answer(str(row["question"]), str(row["text"]))
        assert (alone.text, alone.start) == (found.text, found.start)
        assert alone.probability == pytest.approx(found.probability, rel=1e-4)


def test_evaluation_in_memory_and_of_the_recipes_corpus_agree(reader: Reader, folder: Path) -> None:
    lines = (folder.parent / "test.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    here = reader.evaluate(rows)
    there = heedful.evaluate(folder, device="cpu")["1"]
    assert {score.name: score.value for score in here.scores()} == {s.name: s.value for s in there.scores()}
    assert here.result.exact_match > 0.9
    assert here.result.questions == 40
    tuples = [(row["question"], row["text"], row["answer"]) for row in rows]
    assert reader.evaluate(tuples).result == here.result
    assert here.to_json()["exact_match"] == here.result.exact_match
    assert json.loads(next(here.outputs()))["true"] == [rows[0]["answer"]]


def test_metrics_of_the_callers_program_get_answers_and_acceptable_answers(reader: Reader) -> None:
    def same(said: list[str], true: list[list[str]]) -> float:
        return sum(one in answers for one, answers in zip(said, true, strict=True)) / len(said)

    found = reader.evaluate([("Who ?", TEXT, ["Ann", "she"])], metrics={"same": same})
    assert found.own == {"same": 1.0}


def test_what_a_reader_says_of_itself(reader: Reader, doubting: Reader) -> None:
    assert re.match(r"<Reader: task answer, family reader, .* always answers, cpu in float32>", repr(reader))
    assert "may find no answer" in repr(doubting)
    assert reader.embed("Ann lives").shape == (1, 16)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((" ", TEXT), "`answer`: the question is empty: ..."),
        (("Who ?", "\n"), "`answer`: the text is empty: give ..."),
        ((["Who ?", ""], TEXT), "questions, line 2: the question is empty: ..."),
        (("Who ?", [TEXT]), "`questions` is one question, so `texts` must be one text."),
        ((["Who ?"], [TEXT, TEXT]), "1 question, but 2 texts: each question needs one."),
        ((3, TEXT), "`questions` is 3, but must be a text or a ..."),
        (("Who ?", 3), "`questions` is one ..."),
    ],
)
def test_each_mistake_is_told(reader: Reader, arguments: tuple[object, object], told: str) -> None:
    with refuses(told):
        reader.answer(*arguments)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_answer": 0}, "`max_answer` is 0, but must be 1 or more."),
        ({"n_best": 1.5}, "`n_best` is 1.5, but must be a whole number."),
        ({"threshold": "high"}, "`threshold` is 'high', but must be a number."),
    ],
)
def test_each_wrong_option_is_told(reader: Reader, options: dict[str, object], told: str) -> None:
    with refuses(told):
        reader.answer("Who ?", TEXT, **options)  # type: ignore[call-overload]


def test_a_text_beyond_the_longest_line_is_refused(tmp_path: Path) -> None:
    reader = Reader(fresh_reader(reader_recipe(tmp_path, data={"max_line": 30})))
    with refuses("`answer` has 33 characters, but this model..."):
        reader.answer("Who ?", TEXT)


def test_rows_in_memory_need_their_fields_and_a_start_that_fits(reader: Reader) -> None:
    with refuses("data, row 1 has 2 values, but must have `question`, `text`, `answer` and ..."):
        reader.evaluate([("Who ?", TEXT)])
    with refuses("data, row 1: `start` is '3', but must be a whole..."):
        reader.evaluate([("Who ?", TEXT, "Ann", "3")])
    with refuses("data, row 1: `start` is 3, where the text has `so`..."):
        reader.evaluate([("Who ?", TEXT, "Ann", 3)])
    with refuses("data has no question to answer."):
        reader.evaluate([])
    assert reader.evaluate([("Who ?", TEXT, "Ann", 6), ("Where ?", TEXT, None, None)]).result.questions == 2


def test_people_and_places_are_pieces_of_their_own() -> None:
    assert not set(PEOPLE) & set(PLACES)
