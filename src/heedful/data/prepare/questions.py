"""From the recipe of a reader to its tokenizer and its tokenized questions, one row per window of a text.

A row has the streams `question`, `text` (the pieces of the window) and `answer`: its first and its last piece, or
nothing where the window has no answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from heedful.base.errors import UserError, counted
from heedful.config.corpora.any import AnyCorpus
from heedful.config.data import Data
from heedful.config.model.encoder_only import ReaderModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.corpora.questions.question import Question
from heedful.data.corpora.questions.reading import read_questions
from heedful.data.prepare.prepared import Contents, Prepared, contents_of
from heedful.data.prepare.question_windows import PiecedQuestion, Windowing, piece_questions
from heedful.data.text_form import TextForm
from heedful.data.token_store import FORMAT, Ragged, StreamType, TokenStore, id_stream, open_store, write_store
from heedful.data.tokenize.cached import TokenizerTraining
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training_sample import described, evenly
from heedful.data.tokenize.vocabularies import Vocabularies

_WINDOWS: Final = 1  # raise it when the same text would give other windows
_CHUNK: Final = 1024  # questions that are tokenized together, on all cores
_PLACES: Final = StreamType(np.dtype(np.uint32))


def prepare_questions(
    recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """Train the tokenizer, unless it is given, and tokenize training and validation corpora.

    `progress` gets a line of text for every longer piece of work.
    """
    data = recipe.data
    contents = contents_of(data, progress)
    if given is not None:
        tokenizer = given["text"]
    else:
        of_train = [contents[corpus] for corpus in data.train]
        training = TokenizerTraining(recipe.tokenizer, TextForm.of(data), of_train)
        tokenizer = training.tokenizer("text", "", lambda: QuestionSample.of(recipe), progress)
    work = QuestionStores(data, tokenizer, contents, progress, model_of(recipe, ReaderModel).no_answer)
    return Prepared.of(Vocabularies({"text": tokenizer}), data, work.store)


@dataclass(frozen=True)
class QuestionSample:
    """`taken` of all `count` questions and texts, at equal distances: what a tokenizer is trained on."""

    recipe: Recipe
    taken: int
    count: int

    @classmethod
    def of(cls, recipe: Recipe) -> "QuestionSample":
        """Take as many as the recipe allows."""
        count = sum(1 for _ in _all_texts(recipe))
        if not count:
            names = ", ".join(corpus.title for corpus in recipe.data.train)
            raise UserError(f"There is no text to train a tokenizer on in {names}: it has no questions.")
        return cls(recipe, min(count, recipe.tokenizer.sample), count)

    def __iter__(self) -> Iterator[str]:
        return evenly(_all_texts(self.recipe), self.taken, self.count)

    @property
    def description(self) -> str:
        """The number of texts out of how many, in words; empty where all are taken."""
        return described(self.taken, self.count)


def _all_texts(recipe: Recipe) -> Iterator[str]:
    """Yield every question of the training corpora, and every text once for a run of questions about it."""
    form = TextForm.of(recipe.data)
    for corpus in recipe.data.train:
        before = ""
        for question in read_questions(corpus, recipe.data.folder):
            yield form(question.question)
            if question.text != before and not form.too_long(question.text):
                yield form(question.text)
            before = question.text


@dataclass(frozen=True)
class QuestionStores:
    """Turns corpora into stores, all with the same tokenizer."""

    data: Data
    tokenizer: Tokenizer
    contents: Contents
    progress: Say
    no_answer: bool  # whether a question may have no answer

    def store(self, corpus: AnyCorpus) -> TokenStore:
        """Return the tokenized corpus, from the cache or made now."""
        key = key_of(
            {
                "format": FORMAT,
                "content": self.contents[corpus],
                "form": TextForm.of(self.data).key(),
                "tokenizer": self.tokenizer.fingerprint,
                "windows": [_WINDOWS, self.data.max_length, self.data.stride, self.no_answer],
            }
        )

        def build(staged: Path) -> None:
            self.progress(f"tokenizing {corpus.title}")
            dropped: Counter[str] = Counter()
            ids = id_stream(self.tokenizer.size)
            types = {"question": ids, "text": ids, "answer": _PLACES}
            write_store(staged, key, types, self._streams(corpus, dropped), dropped)

        store = cached(cache_folder() / "tokens" / key, lambda folder: open_store(folder, key), build, self.progress)
        lost = ", ".join(self._lost(store.dropped))
        if not len(store):
            raise UserError(f"{corpus.title} has no question to use: {lost or 'it is empty'}.")
        self.progress(f"{corpus.title}: {counted(len(store), 'window')}" + (f", {lost}" if lost else ""))
        return store

    def _lost(self, dropped: Mapping[str, int]) -> Iterator[str]:
        if long := dropped.get("line"):
            yield f"dropped {long:,} longer than `data.max_line` ({self.data.max_line:,} characters)"
        if cut := dropped.get("answer"):
            yield f"dropped {cut:,} whose answer is whole in no window: raise `data.max_length` or lower `data.stride`"

    def _streams(self, corpus: AnyCorpus, dropped: Counter[str]) -> Iterator[Mapping[str, Ragged]]:
        form = TextForm.of(self.data)
        questions = read_questions(corpus, self.data.folder)
        while chunk := list(islice(questions, _CHUNK)):
            fitting = [each for each in chunk if not (form.too_long(each.text) or form.too_long(each.question))]
            dropped["line"] += len(chunk) - len(fitting)
            for question in fitting:
                self._refuse_without_answer(question)
            pieced = [each for each in piece_questions(fitting, self.tokenizer, form) if each.text.ids]
            yield window_streams(pieced, Windowing(self.data.max_length, self.data.stride), dropped)[0]

    def _refuse_without_answer(self, question: Question) -> None:
        if not question.answers and not self.no_answer:
            raise UserError(
                f"{question.where} has no answer, which this model cannot learn: set `model.no_answer = true`, or "
                "remove the row."
            )


def window_streams(
    questions: Sequence[PiecedQuestion], windowing: Windowing, dropped: Counter[str] | None = None
) -> tuple[dict[str, Ragged], list[tuple[int, int]]]:
    """Return the rows of all windows, and for each the number of its question and its first piece in the text.

    Where `dropped` is given, questions whose answer is whole in no window are left out and counted there.
    """
    asked, texts, answers, owners = [], [], [], []
    for number, pieced in enumerate(questions):
        windows = list(windowing.windows(pieced))
        if dropped is not None and pieced.answer is not None and all(window.answer is None for window in windows):
            dropped["answer"] += 1
            continue
        for window in windows:
            asked.append(windowing.question(pieced.question))
            texts.append(pieced.text.ids[window.begin : window.end])
            answers.append(window.answer or ())
            owners.append((number, window.begin))
    return {"question": Ragged.of(asked), "text": Ragged.of(texts), "answer": Ragged.of(answers)}, owners
