"""Corpora of questions about texts, and their answers."""

from typing import Literal

from heedful.config.corpora.corpus import GeneratedCorpus
from heedful.config.corpora.texts import TextsCorpus
from heedful.config.section import Share


class JsonlQuestions(TextsCorpus):
    """Questions about texts, and their answers, in fields of one JSON object per line."""

    frozen_kind = "JsonlQuestions"
    file_keys = ("jsonl",)

    jsonl: str
    """File with one JSON object per line."""
    question: str
    """Field of the questions."""
    text: str = "text"
    """Field of the texts that hold the answers."""
    answer: str = "answer"
    """Field of the answer, a span of the text, or of a list of acceptable ones; empty where there is none."""
    start: str = "start"
    """Field of the first answer's position in the text, in characters; by default where it first occurs."""


class SquadQuestions(TextsCorpus):
    """Questions about texts in the JSON form of SQuAD, version 1.1 or 2.0."""

    frozen_kind = "SquadQuestions"
    file_keys = ("squad",)

    squad: str
    """File in SQuAD's form."""


class BuiltinQuestions(GeneratedCorpus):
    """Questions about short reports from a generator that ships with Heedful."""

    frozen_kind = "BuiltinQuestions"

    builtin: Literal["reports"]
    unanswerable: Share = 0.0
    """Share of questions that the report does not answer."""


QuestionCorpus = JsonlQuestions | SquadQuestions | BuiltinQuestions
