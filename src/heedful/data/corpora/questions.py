"""Questions about texts, whose answers are spans of them, from every container that has them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AnyCorpus, Builtin, Csv, Jsonl, Squad, Tsv
from heedful.config.corpora.roles import QUESTIONS
from heedful.data.builtin.reports import report_questions
from heedful.data.corpora.files import choose, files_of, select_lines
from heedful.data.corpora.formats.json_objects import place_words
from heedful.data.corpora.formats.lines import TextFile, read_lines, read_whole
from heedful.data.corpora.formats.rows import field_of, json_kind, json_rows, read_rows, squad_answers, text_field

_SHOWN: Final = 60  # characters of a text in messages


@dataclass(frozen=True)
class Question:
    """A question, the text that it is about, and its acceptable answers; none where the text does not answer it."""

    question: str
    text: str
    answers: tuple[str, ...] = ()  # the first is the one that is learned
    start: int | None = None  # position of the first answer in the text, in characters; None without an answer
    where: str = field(default="", compare=False)  # its place in a file, for messages
    key: str = field(default="", compare=False)  # its name in the file, where it has one
    line: int = field(default=0, compare=False)  # its line in the file; 0 where there is none
    ambiguous: bool = field(default=False, compare=False)  # whether its answer occurs several times, and none is named

    @property
    def end(self) -> int | None:
        """Position after the last character of the first answer; None without an answer."""
        return None if self.start is None else self.start + len(self.answers[0])


def make_question(
    question: str, text: str, answers: tuple[str, ...] = (), start: int | None = None, where: str = "", key: str = ""
) -> Question:
    """Return a checked question; without `start`, its first answer is where it first occurs in the text."""
    if not question.strip():
        raise UserError(f"{where}: the question is empty: give one, or remove the row.")
    if not text.strip():
        raise UserError(f"{where}: the text is empty: give the text that the question is about, or remove the row.")
    answers = tuple(dict.fromkeys(answer for answer in answers if answer.strip()))
    if not answers:
        if start not in (None, -1):
            raise UserError(f"{where}: `start` is {start}, but there is no answer: leave it out, or give the answer.")
        return Question(question, text, (), None, where, key)
    first, ambiguous = answers[0], False
    if start is None:
        ambiguous = text.count(first) > 1
        start = text.find(first)
        if start < 0:
            raise UserError(
                f"{where}: the answer `{_short(first)}` does not occur in the text: an answer is a span of it, "
                "letter by letter. Correct it, or leave it empty if the text has none."
            )
    elif start < 0 or text[start : start + len(first)] != first:
        found = _short(text[start : start + len(first)]) if 0 <= start < len(text) else ""
        there = f"where the text has `{found}`" if found else f"which is not in the text of {len(text):,} characters"
        raise UserError(
            f"{where}: `start` is {start}, {there}, not the answer `{_short(first)}`: correct it (counted in "
            "characters from 0), or leave it out to take the first occurrence."
        )
    return Question(question, text, answers, start, where, key, ambiguous=ambiguous)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}..."


# --- reading ----------------------------------------------------------------------------------------------------------


def read_questions(corpus: AnyCorpus, folder: str = "", answered: bool = True) -> Iterator[Question]:
    """Yield the questions of a corpus in order; blank lines are left out.

    Without `answered`, the answers of SQuAD's form are not read, whatever they are.
    """
    if corpus.row_kind is not QUESTIONS:
        raise TypeError(f"{corpus.title} has {corpus.row_kind.words}, not questions about texts")
    rows = select_lines(_all_questions(corpus, folder, answered), corpus)
    questions = (row for row in rows if row is not None)
    if isinstance(corpus, Builtin):
        return questions
    assert isinstance(corpus, Tsv | Csv | Jsonl | Squad), "another container has no questions"
    return choose(questions, corpus, lambda question: question.text)  # questions about one text stay together


def _all_questions(corpus: AnyCorpus, folder: str, answered: bool) -> Iterator[Question | None]:
    match corpus:
        case Tsv() | Csv() | Jsonl():
            for row in read_rows(corpus, folder):
                if row is None:
                    yield None
                    continue
                key = str(row.values.get("id", "")) if row.json else ""
                question, text = row.text("question"), row.text("text")
                found = make_question(question, text, row.answers(), row.start(), row.where, key)
                yield replace(found, line=row.line)
        case Squad():
            (file,) = files_of(corpus, folder)
            yield from _squad_questions(file, answered)
        case Builtin():
            drawn = report_questions(corpus.part, corpus.count, corpus.unanswerable or 0.0)
            for number, made in enumerate(drawn, start=1):
                yield make_question(*made, where=f"{corpus.title}, question {number:,}")


def _squad_questions(file: TextFile, answered: bool) -> Iterator[Question]:
    """Yield the questions of a file in order; one that is impossible has no answers.

    {"data": [{"paragraphs": [{"context": "...", "qas": [{"id": "...", "question": "...", "answers": [{"text": "...",
    "answer_start": 17}, ...], "is_impossible": false}, ...]}, ...]}, ...]}
    Rajpurkar et al. 2016, and version 2.0: Rajpurkar et al. 2018

    Or, as Hugging Face has it, rows in JSON lines or in one array:
    {"id": "...", "context": "...", "question": "...", "answers": {"text": ["..."], "answer_start": [17]}}
    """
    if _has_rows(file):
        for number, row in json_rows(file):
            if row is not None:
                where = f"{file.name}, {place_words(number)}"
                text = text_field(row, "text" if "text" in row and "context" not in row else "context", where)
                yield replace(_squad_question(row, text, where, answered), line=number)
        return
    try:
        whole = json.loads(read_whole(file))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file.name} is not JSON: {error}.") from error
    for number, article in enumerate(_objects(whole, "data", file.name)):
        in_article = f"{file.name}, data[{number}]"
        for place, paragraph in enumerate(_objects(article, "paragraphs", in_article)):
            where = f"{in_article}.paragraphs[{place}]"
            text = text_field(paragraph, "context", where)
            for row in _objects(paragraph, "qas", where):
                key = str(row.get("id", ""))
                yield _squad_question(row, text, f"{file.name}, question {key}" if key else where, answered)


def _has_rows(file: TextFile) -> bool:
    """Whether a file has a question per row: it is an array, or its first line is an object with a question."""
    first = next((line for line in read_lines(file) if line.strip()), "").lstrip()
    if first.startswith("["):
        return True
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False  # an object over several lines, or nothing that is JSON
    return isinstance(row, dict) and "data" not in row and "question" in row


def _squad_question(row: dict[str, object], text: str, where: str, answered: bool) -> Question:
    key = str(row.get("id", ""))
    question = text_field(row, "question", where)
    if not answered or row.get("is_impossible") is True:
        return make_question(question, text, where=where, key=key)
    given = field_of(row, "answers", where)
    texts, start = squad_answers(given, where, "answers")
    if not isinstance(texts, list) or not isinstance(given, list | dict):
        raise UserError(
            f"{where}: field `answers` is {json_kind(given)}, but must be a list of objects with `text` and "
            "`answer_start`, or an object with lists of them."
        )
    answers = [text_field({"text": answer}, "text", f"{where}: answers[{n}]") for n, answer in enumerate(texts)]
    if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
        raise UserError(f"{where}: field `answer_start` is {json_kind(start)}, but must be a whole number.")
    return make_question(question, text, tuple(answers), start, where, key)


def _objects(value: Any, field: str, where: str) -> list[dict[str, object]]:
    """Return the list of objects in a field; refuse anything else as not being SQuAD's form."""
    rows = value.get(field) if isinstance(value, dict) else None
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        return rows
    raise UserError(
        f"{where} has no list `{field}` of objects, so this is not SQuAD's JSON: `data` holds articles with "
        "`paragraphs`, each with a `context` and `qas`. For one object per line use `jsonl` and "
        '`question = "question"`.'
    )
