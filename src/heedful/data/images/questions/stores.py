"""From the recipe of a model that answers questions about images to its tokenizer, its answers and its stores.

A row is an image, with its streams, and the streams `words` of all questions about it, `lengths` of each of them, and
`label`, the class of each answer; one more than there are classes for an answer that never occurs in training.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from heedful.base.errors import UserError, counted, suggestion
from heedful.config.corpora.any import AnyCorpus
from heedful.config.data import Data
from heedful.config.model.images import ImageAnswererModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.images.batches import SIZE, image_streams, pixel_stream
from heedful.data.images.decoding import Channels, Pixels
from heedful.data.images.questions.reading import AskedImage, ImageQuestion, read_asked_images
from heedful.data.images.stores import decode_all, tell_size
from heedful.data.prepare.prepared import Contents, Prepared, contents_of
from heedful.data.prepare.text_stores import sort_labels
from heedful.data.text_form import TextForm
from heedful.data.token_store import FORMAT, Ragged, StreamType, TokenStore, id_stream, open_store, write_store
from heedful.data.tokenize.cached import TokenizerTraining
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training_sample import described, evenly
from heedful.data.tokenize.vocabularies import Vocabularies

_VERSION: Final = 1  # raise it when the same corpus would give other rows
_CHUNK: Final = 256  # images that are decoded together
_COUNTS: Final = StreamType(np.dtype(np.uint32))


def prepare_image_questions(
    recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """Train the tokenizer and find the answers, unless they are given; decode training and validation corpora."""
    data = recipe.data
    contents = contents_of(data, progress)
    listed = {corpus: [*read_asked_images(corpus, data.folder)] for corpus in (*data.train, *data.valid)}
    for corpus, asked in listed.items():
        if not asked:
            raise UserError(f"{corpus.title} has no question to use.")
    if given is not None:
        vocabularies = given
    else:
        training = TokenizerTraining(recipe.tokenizer, TextForm.of(data), [contents[corpus] for corpus in data.train])
        questions = [
            question.question for corpus in data.train for asked in listed[corpus] for question in asked.questions
        ]
        sample = QuestionSample(questions, min(len(questions), recipe.tokenizer.sample), TextForm.of(data))
        tokenizer = training.tokenizer("text", "", lambda: sample, progress)
        vocabularies = Vocabularies({"text": tokenizer}, answers_in(listed[corpus] for corpus in data.train))
    work = AskedImageStores(
        data,
        listed,
        contents,
        vocabularies,
        model_of(recipe, ImageAnswererModel).encoder.channels,
        frozenset(data.train),
        progress,
    )
    return Prepared.of(vocabularies, data, work.store)


def answers_in(corpora: Iterable[Sequence[AskedImage]]) -> tuple[str, ...]:
    """Return all answers of corpora, sorted."""
    found = {question.answer for corpus in corpora for asked in corpus for question in asked.questions}
    if len(found) < 2:
        raise UserError(
            f"`data.train` has the answer `{next(iter(found))}` alone, but there must be two to choose from."
        )
    return sort_labels(found)


@dataclass(frozen=True)
class QuestionSample:
    """`taken` of all questions, at equal distances: what a tokenizer is trained on."""

    questions: Sequence[str]
    taken: int
    form: TextForm

    def __iter__(self) -> Iterator[str]:
        return (self.form(question) for question in evenly(self.questions, self.taken, len(self.questions)))

    @property
    def description(self) -> str:
        """The number of texts out of how many, in words; empty where all are taken."""
        return described(self.taken, len(self.questions))


@dataclass(frozen=True)
class AskedImageStores:
    """Turns corpora into stores, all with the same tokenizer and the same answers."""

    data: Data
    listed: Mapping[AnyCorpus, list[AskedImage]]
    contents: Contents
    vocabularies: Vocabularies
    channels: Channels
    trained: frozenset[AnyCorpus]  # corpora whose answers must be known
    progress: Say

    def store(self, corpus: AnyCorpus) -> TokenStore:
        """Return the decoded and tokenized corpus, from the cache or made now."""
        listed, form = self.listed[corpus], self.data.images
        files = [asked.image.content() for asked in listed if isinstance(asked.image.source, Path)]
        key = key_of(
            {
                "format": FORMAT,
                "version": _VERSION,
                "content": self.contents[corpus],
                "pictures": files,
                "size": [form.size, form.fit if form.size else ""],
                "channels": self.channels,
                "form": TextForm.of(self.data).key(),
                "tokenizer": self.vocabularies["text"].fingerprint,
                "labels": self.vocabularies.labels,
            }
        )
        answers = [question for asked in listed for question in asked.questions]
        unknown = [question for question in answers if question.answer not in self.vocabularies.labels]
        if unknown and corpus in self.trained:
            raise UserError(
                f"{unknown[0].where or corpus.title} has the answer `{unknown[0].answer}`, which the model does not "
                f"know.{suggestion(unknown[0].answer, self.vocabularies.labels)}"
            )

        def build(staged: Path) -> None:
            tell_size(self.progress, corpus.title, len(listed), form, self.channels)
            ids = id_stream(self.vocabularies["text"].size)
            types = {"pixels": pixel_stream(self.channels), "size": SIZE, "words": ids}
            types |= {"lengths": _COUNTS, "label": _COUNTS}
            write_store(staged, key, types, self._streams(listed), Counter())

        store = cached(cache_folder() / "pictures" / key, lambda folder: open_store(folder, key), build, self.progress)
        told = f"{corpus.title}: {counted(len(listed), 'image')}, {counted(len(answers), 'question')}"
        wrong = f", {counted(len(unknown), 'answer')} that training never has" if unknown else ""
        self.progress(told + wrong)
        return store

    def _streams(self, listed: Sequence[AskedImage]) -> Iterator[Mapping[str, Ragged]]:
        decoded, waiting = decode_all((asked.image for asked in listed), self.data.images, self.channels), listed
        for first in range(0, len(listed), _CHUNK):
            chunk = waiting[first : first + _CHUNK]
            pixels = list(islice(decoded, len(chunk)))
            streams = asked_streams(pixels, [asked.questions for asked in chunk], self.vocabularies["text"], self._form)
            yield {**streams, "label": self._labels(chunk)}

    @property
    def _form(self) -> TextForm:
        return TextForm.of(self.data)

    def _labels(self, chunk: Sequence[AskedImage]) -> Ragged:
        known = {answer: number for number, answer in enumerate(self.vocabularies.labels)}
        return Ragged.of([[known.get(question.answer, len(known)) for question in a.questions] for a in chunk])


def asked_streams(
    images: Sequence[Pixels],
    questions: Sequence[Sequence[ImageQuestion]],
    tokenizer: Tokenizer,
    form: TextForm,
) -> dict[str, Ragged]:
    """Return images, at least one, and the questions about each as rows of streams."""
    encoded = iter(tokenizer.encode_batch([form(question.question) for several in questions for question in several]))
    pieces = [[next(encoded) for _ in several] for several in questions]
    words = [[piece for ids in several for piece in ids] for several in pieces]
    lengths = [[len(ids) for ids in several] for several in pieces]
    return {**image_streams(images), "words": Ragged.of(words), "lengths": Ragged.of(lengths)}
