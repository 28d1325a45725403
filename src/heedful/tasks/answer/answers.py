"""How readers answer questions about texts: spans, as JSON, as columns and as lines."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from heedful.base.columns import one_column
from heedful.data.corpora.questions import make_question
from heedful.tasks.shared.answering.answers import Answers, Given

if TYPE_CHECKING:
    from heedful.tasks.answer.answer import Answer, Choice
    from heedful.tasks.answer.model import Reader


def answers_of(reader: "Reader", choice: "Choice") -> "Answers[Any]":
    """Return how a reader answers questions about texts."""

    def line(found: "Answer", given: Given) -> str:
        shown = [found] if len(found.spans) < 2 or not found.text else found.spans
        return "\t".join(f"{one_column(one.text)}\t{one.probability:.4f}" for one in shown)

    def fields(found: "Answer") -> dict[str, Any]:
        return {
            "answer": found.text,
            "start": found.start,
            "end": found.end,
            "probability": found.probability,
            **({} if found.no_answer is None else {"no_answer": found.no_answer}),
            "spans": [asdict(span) for span in found.spans],
            **({"nbest": [asdict(span) for span in found.spans]} if choice.n_best > 1 else {}),
        }

    return Answers(
        ("question", "text"),
        lambda values, where: make_question(values["question"], values["text"], where=where),
        partial(reader.stream_questions, choice=choice),
        fields,
        ("answer", "probability"),
        line,
        takes=("ready",),
    )
