"""Questions from JSON lines, SQuAD's files and the built-in reports; each mistake in them is told in one line."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import AnyCorpus, Builtin, Jsonl, Squad, Tsv
from heedful.data.corpora.questions import Question, read_questions

TEXT = "Clara found two maps in the cave. 🗺️ The cave is old."
ROW = {"question": "Where?", "text": TEXT, "answer": "the cave"}


def jsonl(folder: Path, *rows: Any, **keys: Any) -> list[Question]:
    (folder / "q.jsonl").write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return list(read_questions(Jsonl(jsonl="q.jsonl", question="question", **keys), str(folder)))


def squad(folder: Path, content: object) -> list[Question]:
    (folder / "s.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return list(read_questions(Squad(squad="s.json"), str(folder)))


def in_squad(*rows: dict[str, object]) -> dict[str, object]:
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": TEXT, "qas": list(rows)}]}]}


def test_without_a_start_the_first_occurrence_is_meant(tmp_path: Path) -> None:
    (first,) = jsonl(tmp_path, ROW)
    assert (first.answers, first.start, first.end) == (("the cave",), 24, 32)
    assert first.where == f"{tmp_path / 'q.jsonl'}, line 1"
    (second,) = jsonl(tmp_path, {**ROW, "answer": ["cave", "old cave"], "start": TEXT.rindex("cave")})
    assert (second.answers, second.start) == (("cave", "old cave"), TEXT.rindex("cave"))


@pytest.mark.parametrize("answer", ["", None, []])
def test_a_question_may_have_no_answer_and_a_blank_line_no_question(answer: object, tmp_path: Path) -> None:
    questions = jsonl(tmp_path, {**ROW, "answer": answer}, "", ROW)
    assert [(question.answers, question.start) for question in questions] == [((), None), (("the cave",), 24)]
    assert questions[1].where.endswith("line 3")


def test_questions_about_one_text_are_in_one_part(tmp_path: Path) -> None:
    rows = [{**ROW, "text": f"{TEXT} {n // 3}", "question": f"{n}?"} for n in range(60)]
    parts = [jsonl(tmp_path, *rows, part=f"{n}/2") for n in (0, 1)]
    texts = [{question.text for question in part} for part in parts]
    assert len(parts[0]) + len(parts[1]) == 60
    assert not texts[0] & texts[1]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({**ROW, "answer": "the mine"}, "the answer `the mine` does not occur in the text: an answer is a span of "
         "it, letter by letter. Correct it, or leave it empty if the text has none."),
        ({**ROW, "start": 3}, "`start` is 3, where the text has `ra found`, not the answer `the cave`: correct it "
         "(counted in characters from 0), or leave it out to take the first occurrence."),
        ({**ROW, "start": 900}, "`start` is 900, which is not in the text of 53 characters, not the answer "
         "`the cave`: ..."),
        ({**ROW, "answer": "", "start": 3}, "`start` is 3, but there is no answer: leave it out, or give the answer."),
        ({**ROW, "start": "3"}, "field `start` is text, but must be a whole number of characters."),
        ({**ROW, "answer": 3}, "field `answer` is a number, but an answer is text, or a list of acceptable texts."),
        ({**ROW, "answer": [3]}, "field `answer` is a list of other values, but an answer is text, ..."),
        ({**ROW, "question": " "}, "the question is empty: ..."),
        ({**ROW, "text": "\n"}, "the text is empty: give the text that the question is about, or remove the row."),
        ({**ROW, "text": None}, "field `text` is null, but must be text."),
    ],
)  # fmt: skip
def test_each_mistake_in_a_row_is_told_with_its_line(row: dict[str, object], told: str, tmp_path: Path) -> None:
    with refuses(f"{tmp_path}/q.jsonl, line 2: {told}"):
        jsonl(tmp_path, ROW, row)


@pytest.mark.parametrize("field", ["question", "text", "answer"])
def test_a_missing_field_is_named(field: str, tmp_path: Path) -> None:
    with refuses(f"...q.jsonl, line 1 has no field `{field}`..."):
        jsonl(tmp_path, {key: value for key, value in ROW.items() if key != field})


def test_both_versions_of_squad_are_read(tmp_path: Path) -> None:
    answers = [{"text": "the cave", "answer_start": 24}, {"text": "cave", "answer_start": 28}]
    first, second = squad(
        tmp_path,
        in_squad(
            {"id": "7", "question": "Where?", "answers": answers},
            {"id": "8", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": answers},
        ),
    )
    assert (first.answers, first.start, first.key) == (("the cave", "cave"), 24, "7")
    assert (second.answers, second.start, second.key) == ((), None, "8")


def test_a_packed_squad_file_is_read(tmp_path: Path) -> None:
    content = json.dumps(in_squad({"id": "7", "question": "Where?", "answers": [{"text": "cave", "answer_start": 28}]}))
    (tmp_path / "s.json.gz").write_bytes(gzip.compress(content.encode()))
    (question,) = read_questions(Squad(squad="s.json.gz"), str(tmp_path))
    assert question.start == 28


NOT_SQUAD = (
    "so this is not SQuAD's JSON: `data` holds articles with `paragraphs`, each with a `context` and `qas`. For one "
    'object per line use `jsonl` and `question = "question"`.'
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", " is not JSON: ..."),
        ([ROW], ", item 1 has no field `answers`. Did you mean `answer`?"),
        ([3], ": item 1 of the array is a number, but must be an object."),
        ({"question": "Where?"}, ", line 1 has no field `context`. Known: question."),
        ({"data": [1]}, f" has no list `data` of objects, {NOT_SQUAD}"),
        ({"data": [{}]}, f", data[0] has no list `paragraphs` of objects, {NOT_SQUAD}"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, ", data[0].paragraphs[0] has no field `context`. Known: qas."),
        (in_squad({"id": "7", "question": "Where?"}), ", question 7 has no field `answers`. Known: id, question."),
        (in_squad({"question": "Where?", "answers": "cave"}),
         ", data[0].paragraphs[0]: field `answers` is text, but must be a list of objects with `text` and "
         "`answer_start`, or an object with lists of them."),
        (in_squad({"id": "7", "question": "Where?", "answers": [{"text": "cave", "answer_start": "28"}]}),
         ", question 7: field `answer_start` is text, but must be a whole number."),
        (in_squad({"id": "7", "question": "Where?", "answers": [{"text": "cave", "answer_start": 1}]}),
         ", question 7: `start` is 1, where the text has `lara`, not the answer `cave`..."),
    ],
)  # fmt: skip
def test_each_mistake_in_a_squad_file_is_told(content: object, told: str, tmp_path: Path) -> None:
    with refuses(f"{tmp_path / 's.json'}{told}"):
        squad(tmp_path, content)


def test_the_reports_are_a_corpus_of_questions() -> None:
    corpus = Builtin(builtin="reports", part="test", count=9)
    assert len(list(read_questions(corpus))) == 9
    with refuses("x.tsv has texts, not questions about texts", TypeError):
        read_questions(Tsv(tsv="x.tsv", text=1))


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ({"jsonl": "q.jsonl", "question": "q"}, Jsonl),
        ({"squad": "s.json"}, Squad),
        ({"builtin": "reports"}, Builtin),
    ],
)
def test_the_keys_of_a_table_choose_its_kind(table: dict[str, object], kind: type) -> None:
    corpus: object = TypeAdapter(AnyCorpus).validate_python(table)
    assert type(corpus) is kind
    assert TypeAdapter[object](AnyCorpus).validate_python(corpus) == corpus


HUGGING_FACE: list[dict[str, object]] = [
    {
        "id": "a",
        "title": "t",
        "context": TEXT,
        "question": "Where?",
        "answers": {"text": ["the cave", "cave"], "answer_start": [24, 28]},
    },
    {"id": "b", "title": "t", "context": TEXT, "question": "Why?", "answers": {"text": [], "answer_start": []}},
]


def squad_rows(folder: Path, text: str) -> list[Question]:
    (folder / "t").write_text(text)
    return list(read_questions(Squad(squad="t"), str(folder)))


def test_rows_of_hugging_face_are_read_as_squad_and_as_json_lines(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row) for row in HUGGING_FACE)
    expected = [Question("Where?", TEXT, ("the cave", "cave"), 24), Question("Why?", TEXT)]
    found = squad_rows(tmp_path, lines)
    assert found == expected
    assert [(one.key, one.line) for one in found] == [("a", 1), ("b", 2)]
    assert squad_rows(tmp_path, json.dumps(HUGGING_FACE)) == expected
    assert squad_rows(tmp_path, json.dumps(HUGGING_FACE, indent=2)) == expected
    (tmp_path / "q.jsonl").write_text(lines)
    corpus = Jsonl(jsonl="q.jsonl", question="question", text="context", answer="answers")
    assert list(read_questions(corpus, str(tmp_path))) == expected


def test_questions_of_a_squad_file_can_be_read_without_their_answers(tmp_path: Path) -> None:
    asked: list[dict[str, object]] = [
        {"id": "a", "question": "Where?", "answers": [{"text": "nowhere"}]},
        {"id": "b", "question": "Why?"},
    ]
    (tmp_path / "s.json").write_text(json.dumps(in_squad(*asked)))
    found = list(read_questions(Squad(squad="s.json"), str(tmp_path), answered=False))
    assert found == [Question("Where?", TEXT), Question("Why?", TEXT)]
    assert [one.key for one in found] == ["a", "b"]
    for field in ("context", "text"):
        (tmp_path / "q.jsonl").write_text(json.dumps({"question": "Why?", field: TEXT}) + "\n\n")
        assert list(read_questions(Squad(squad="q.jsonl"), str(tmp_path), answered=False)) == [Question("Why?", TEXT)]
