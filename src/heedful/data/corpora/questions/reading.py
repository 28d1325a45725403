"""Questions from every kind of corpus that has them: JSON lines, SQuAD's JSON and the built-in reports."""

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from heedful.base.errors import UserError
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.questions import BuiltinQuestions, JsonlQuestions, QuestionCorpus, SquadQuestions
from heedful.data.builtin.reports import report_questions
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.json_rows import checked_text, json_kind, json_object, text_field
from heedful.data.corpora.formats.lines import TextFile, read_lines
from heedful.data.corpora.questions.question import Question, make_question
from heedful.data.corpora.questions.squad import squad_questions
from heedful.data.corpora.subsets import choose


def read_questions(corpus: AnyCorpus, folder: str = "") -> Iterator[Question]:
    """Yield the questions of a corpus in order; blank lines are left out."""
    if not isinstance(corpus, QuestionCorpus):
        raise TypeError(f"{corpus.title} has no questions")
    rows = select_lines(_all_rows(corpus, folder), corpus)
    questions = (row for row in rows if row is not None)
    if isinstance(corpus, BuiltinQuestions):
        return questions
    return choose(questions, corpus, lambda question: question.text)  # questions about one text stay together


def question_of_row(row: dict[str, object], corpus: JsonlQuestions, where: str, answered: bool = True) -> Question:
    """Read a question from the fields of a JSON object; without `answered`, its answer is not looked at."""
    question, text = text_field(row, corpus.question, where), text_field(row, corpus.text, where)
    key = str(row.get("id", ""))
    if not answered:
        return make_question(question, text, where=where, key=key)
    answers, start = _answers(row, corpus.answer, where), _start(row, corpus.start, where)
    return make_question(question, text, answers, start, where, key)


def _all_rows(corpus: QuestionCorpus, folder: str) -> Iterator[Question | None]:
    match corpus:
        case JsonlQuestions():
            return _jsonl_rows(corpus, *files_of(corpus, folder))
        case SquadQuestions():
            return squad_questions(*files_of(corpus, folder))
        case BuiltinQuestions():
            drawn = report_questions(corpus.part, corpus.count, corpus.unanswerable)
            return (make_question(*row, where=f"{corpus.title}, question {n:,}") for n, row in enumerate(drawn, 1))
        case _:
            assert_never(corpus)


def _jsonl_rows(corpus: JsonlQuestions, file: TextFile) -> Iterator[Question | None]:
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file.name}, line {number:,}"
        row = json_object(line, where) if line.strip() else None
        yield None if row is None else replace(question_of_row(row, corpus, where), line=number)


def _answers(row: dict[str, object], field: str, where: str) -> tuple[str, ...]:
    """Return the acceptable answers in a field: text, a list of texts, or null."""
    if field not in row:
        text_field(row, field, where)  # says that it is missing
    value = row[field]
    values: list[object] = value if isinstance(value, list) else [] if value is None else [value]
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) < len(values):
        raise UserError(
            f"{where}: field `{field}` is {json_kind(value)}{' of other values' if value is values else ''}, "
            "but an answer is text, or a list of acceptable texts."
        )
    return tuple(checked_text(each, field, where) for each in texts)


def _start(row: dict[str, object], field: str, where: str) -> int | None:
    value = row.get(field)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise UserError(f"{where}: field `{field}` is {json_kind(value)}, but must be a whole number of characters.")
