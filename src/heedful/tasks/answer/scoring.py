"""Scores of a reader: the best spans of each question's text, over all of its windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from heedful.config.model.encoder_only import ReaderModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.data.batches.questions import QuestionBatch, QuestionCollator
from heedful.data.collate import CPU_MULTIPLE
from heedful.data.corpora.questions import Question
from heedful.data.epochs.plan import batches_by_length
from heedful.data.token_store import TokenStore
from heedful.models.bundle import Bundle
from heedful.models.networks import SpanReader
from heedful.nn.decoding.spans import IMPOSSIBLE, best_spans, log_ends, possible_of_rows
from heedful.tasks.answer.answer import Answer, Choice, Span
from heedful.tasks.answer.data import PiecedQuestion, Windowing, window_streams
from heedful.tasks.answer.metrics import AnswerResult, score_answers

_SPARE = 4  # spans per window besides those that are asked for: several may cover the same characters


@dataclass
class Reading:
    """What a reader finds in the windows of one question."""

    spans: dict[tuple[int, int], float] = field(default_factory=dict)  # (first, last) piece of the text -> log P
    none: float = 0.0  # log P that the text has no answer: that of the window in which it is least likely
    windows: int = 0
    loss: float = 0.0  # -log P of the true start and end, their mean, summed over windows


def read_windows(
    bundle: Bundle[SpanReader],
    questions: Sequence[PiecedQuestion],
    choice: Choice,
    advance: Callable[[int], None] = lambda finished: None,
) -> list[Reading]:
    """Read every window of questions; the model must be in `eval` mode. `advance` counts finished questions."""
    recipe = bundle.recipe
    streams, owners = window_streams(questions, windowing_of(recipe))
    store, collator = TokenStore(streams), collator_of(recipe)
    plan = batches_by_length(collator.costs([store], np.arange(len(store))), batch_tokens=recipe.data.batch_tokens)
    readings = [Reading() for _ in questions]
    left = np.bincount([number for number, _ in owners], minlength=len(questions))
    for rows in plan:
        _read(
            bundle.model,
            collator.batch([store], rows, multiple=CPU_MULTIPLE),
            choice,
            [(readings[owners[row][0]], owners[row][1]) for row in rows],
        )
        before = np.count_nonzero(left)
        np.subtract.at(left, [owners[row][0] for row in rows], 1)
        advance(int(before - np.count_nonzero(left)))
    return readings


@torch.inference_mode()
def _read(model: SpanReader, batch: QuestionBatch, choice: Choice, owners: Sequence[tuple[Reading, int]]) -> None:
    """Read a batch of windows, and enter what is found into the readings of their questions."""
    placed, rows = batch.to(next(model.parameters()).device), batch.sentences
    starts_BL, ends_BL = log_ends(model(placed.text), placed.possible, placed.text.layout)
    text_BL = possible_of_rows(placed.possible, placed.text.layout).clone()
    text_BL[:, 0] = False  # <s>
    spans = best_spans(starts_BL, ends_BL, text_BL, choice.max_answer, choice.n_best + _SPARE)
    scores, firsts, lasts = (values[:rows].tolist() for values in spans)
    none = (starts_BL[:rows, 0] + ends_BL[:rows, 0]).tolist()
    true = [
        logs_BL[:rows].gather(1, places[:rows, None])[:, 0]
        for logs_BL, places in ((starts_BL, placed.starts), (ends_BL, placed.ends))
    ]
    losses = (-(true[0] + true[1]) / 2).tolist()
    begins = text_BL[:rows].float().argmax(1).tolist()  # the first token of the text in each row
    for row, (reading, begin) in enumerate(owners):
        shift = begin - begins[row]
        for score, first, last in zip(scores[row], firsts[row], lasts[row], strict=True):
            if score > IMPOSSIBLE / 2:
                key = (first + shift, last + shift)
                reading.spans[key] = max(score, reading.spans.get(key, score))
        reading.none = none[row] if not reading.windows else min(reading.none, none[row])
        reading.windows += 1
        reading.loss += losses[row]


def choose_answer(
    reading: Reading, question: Question, pieced: PiecedQuestion, choice: Choice, no_answer: bool
) -> Answer:
    """Return the best span as it is in the text; none where `no_answer` allows it and it is more likely."""
    found: dict[tuple[int, int], float] = {}
    for (first, last), score in sorted(reading.spans.items(), key=lambda item: (-item[1], item[0])):
        found.setdefault(pieced.text.characters(first, last), score)
    ranked = [(place, score) for place, score in found.items() if place[0] < place[1]][: choice.n_best]
    spans = tuple(Span(question.text[a:b], a, b, float(np.exp(score))) for (a, b), score in ranked)
    none = float(np.exp(reading.none)) if no_answer else None
    if not ranked or (no_answer and reading.none - ranked[0][1] > choice.threshold):
        return Answer("", None, None, none or 0.0, spans, none)
    best = spans[0]
    return Answer(best.text, best.start, best.end, best.probability, spans, none)


def compare_answers(said: Sequence[str], questions: Sequence[Question], readings: Sequence[Reading]) -> AnswerResult:
    """Compare the answers that were chosen from readings with the acceptable ones."""
    loss = sum(reading.loss for reading in readings) / sum(reading.windows for reading in readings)
    return score_answers(said, [question.answers for question in questions], loss)


def collator_of(recipe: Recipe) -> QuestionCollator:
    """Return the collator that makes the model's input."""
    return QuestionCollator(model_of(recipe, ReaderModel).mark_matches)


def windowing_of(recipe: Recipe) -> Windowing:
    """Return how the texts of a recipe are cut into windows."""
    return Windowing(recipe.data.max_length, recipe.data.stride)
