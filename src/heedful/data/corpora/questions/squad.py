"""Questions in the JSON form of SQuAD      Rajpurkar et al. 2016, and version 2.0: Rajpurkar et al. 2018

{"data": [{"paragraphs": [{"context": "...", "qas": [{"id": "...", "question": "...", "answers": [{"text": "...",
"answer_start": 17}, ...], "is_impossible": false}, ...]}, ...]}, ...]}
"""

import json
from collections.abc import Iterator
from typing import Any

from heedful.base.errors import UserError
from heedful.data.corpora.formats.json_rows import json_kind, text_field
from heedful.data.corpora.formats.lines import TextFile, read_lines
from heedful.data.corpora.questions.question import Question, make_question


def squad_questions(file: TextFile) -> Iterator[Question]:
    """Yield the questions of a file in order; one that is impossible has no answers."""
    try:
        whole = json.loads("\n".join(read_lines(file)))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file.name} is not JSON: {error}.") from error
    for number, article in enumerate(_objects(whole, "data", file.name)):
        in_article = f"{file.name}, data[{number}]"
        for place, paragraph in enumerate(_objects(article, "paragraphs", in_article)):
            where = f"{in_article}.paragraphs[{place}]"
            text = text_field(paragraph, "context", where)
            for row in _objects(paragraph, "qas", where):
                yield _question(row, text, where, file.name)


def _question(row: dict[str, object], text: str, where: str, name: str) -> Question:
    key = str(row.get("id", ""))
    where = f"{name}, question {key}" if key else where
    question = text_field(row, "question", where)
    if row.get("is_impossible") is True:
        return make_question(question, text, where=where, key=key)
    found = _objects(row, "answers", where)
    answers = [text_field(answer, "text", f"{where}: answers[{number}]") for number, answer in enumerate(found)]
    start = found[0].get("answer_start") if found else None
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
