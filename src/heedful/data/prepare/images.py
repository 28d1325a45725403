"""From the recipe of a model that reads images to its classes and its stores: decoded and resized on all cores."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, Generic

import numpy as np
from numpy.typing import NDArray

from heedful.base.cores import usable_cores
from heedful.base.errors import UserError, counted, suggestion
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.data import ImageForm
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.pooled import ImageClassifierModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.data.cache import Say
from heedful.data.corpora.formats.rows import label_numbers
from heedful.data.corpora.images import AskedImage, ImageQuestion, LabelledImage, read_asked_images, read_images
from heedful.data.images.decoding import Channels, EncodedPixels, Pixels, decode_image, read_image_file
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import WHOLE_NUMBERS, LabelStream, Row, Rows, Stream, Streams, Tokenized
from heedful.data.prepare.texts import sort_labels
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, StreamType, TokenStore, id_stream
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies

SIZE: Final = StreamType(np.dtype(np.uint32), (2,))  # height and width
CHUNK: Final = 256  # images that are decoded together
_BYTES: Final = StreamType(np.dtype(np.uint8))
_MEBIBYTE: Final = 1 << 20
_GIBIBYTE: Final = 1 << 30


def prepare_images(recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None) -> Prepared:
    """Find the classes, unless they are given, and decode training and validation corpora."""
    work, data, model = Preparation.of(recipe, progress, given), recipe.data, model_of(recipe, ImageClassifierModel)
    several = model.labels == "several"
    listed = {corpus: [*read_images(corpus, data.folder, several)] for corpus in (*data.train, *data.valid)}
    labels = work.labels(
        lambda: sort_labels(
            {label for corpus in work.labelled for image in listed[corpus] for label in image.labels}, several
        )
    )

    def store(corpus: AnyCorpus, training: bool) -> TokenStore:
        classes = class_numbers(listed[corpus], labels, corpus.title)
        key = {"labels": labels, "classes": classes if several else [only for (only,) in classes]}
        stream = LabelStream[LabelledImage](lambda images: class_numbers(images, labels, corpus.title), key)
        return image_store(work, corpus, listed[corpus], model.encoder.channels, [stream])

    return work.prepared(Vocabularies({}, labels), store)


def image_store(
    work: Preparation,
    corpus: AnyCorpus,
    images: Sequence[LabelledImage],
    channels: Channels,
    further: Sequence[Stream[LabelledImage]] = (),
) -> TokenStore:
    """Return the store of a corpus of images; `further` streams have what else belongs to an image.

    Files that would take more space decoded than the cache may have are stored as they are, and decoded in training.
    """
    form = work.data.images
    height, width = form.size or (0, 0)
    takes = len(images) * height * width * channels
    files = [image.source for image in images if isinstance(image.source, Path)]
    rows = image_rows(images, _itself, form, channels, further)
    if len(files) < len(images) or takes <= form.cache_limit * _GIBIBYTE:
        return work.store(corpus, rows)
    encoded = sum(path.stat().st_size for path in files) / _MEBIBYTE
    rows = replace(
        rows,
        streams=[FileStream(images, _itself, form, channels), *further],
        work="reading",
        size=f": {counted(len(images), 'image')}, {encoded:,.0f} MiB in the cache; decoded they would take "
        f"{takes / _GIBIBYTE:,.1f} GiB, more than `data.images.cache_limit` ({form.cache_limit:g}), so they are "
        "decoded whenever they are shown",
        facts=lambda store: [counted(len(store), "image"), "decoded in training"],
    )
    made = work.store(corpus, rows)
    stored = made.streams["encoded"]
    pixels = EncodedPixels(stored.values, stored.offsets, form, channels)
    others = {name: stream for name, stream in made.streams.items() if name != "encoded"}
    return replace(made, streams={"pixels": pixels, **others})


def image_rows(
    rows: Sequence[Row],
    image: Callable[[Row], LabelledImage],
    form: ImageForm,
    channels: Channels,
    further: Sequence[Stream[Row]] = (),
) -> Rows[Row]:
    """Return rows that have an image, decoded; `further` streams have what else belongs to it."""
    takes = ""
    if form.size is not None:  # unknown while images keep their own sizes
        takes = f", {len(rows) * form.size[0] * form.size[1] * channels / _MEBIBYTE:,.0f} MiB in the cache"
    return Rows(
        noun="image",
        read=lambda dropped: rows,
        streams=[ImageStream(rows, image, form, channels), *further],
        chunk=CHUNK,
        cache="pictures",
        work="decoding",
        size=f": {counted(len(rows), 'image')}{takes}",
    )


def _itself(image: LabelledImage) -> LabelledImage:
    return image


@dataclass(frozen=True, eq=False)
class ImageStream(Generic[Row]):
    """The pixels and the size of the image of each row."""

    rows: Sequence[Row]  # of the whole corpus: the content of their files decides a store
    image: Callable[[Row], LabelledImage]
    form: ImageForm
    channels: Channels

    @property
    def types(self) -> Mapping[str, StreamType]:
        """Pixels of 8 bits, and height and width."""
        return {"pixels": pixel_stream(self.channels), "size": SIZE}

    @property
    def key(self) -> Mapping[str, object]:
        """What decides the pixels."""
        images = map(self.image, self.rows)
        return {
            "pictures": [image.content() for image in images if isinstance(image.source, Path)],
            "size": [self.form.size, self.form.fit if self.form.size else ""],
            "channels": self.channels,
        }

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Decode the images."""
        return image_streams([*decode_all(map(self.image, rows), self.form, self.channels)])


class FileStream(ImageStream[Row]):
    """The bytes of the file of each image, and the size of the image."""

    @property
    def types(self) -> Mapping[str, StreamType]:
        """Bytes, and height and width."""
        return {"encoded": _BYTES, "size": SIZE}

    @property
    def key(self) -> Mapping[str, object]:
        """What decides the pixels, and that they are not decoded."""
        return {**super().key, "encoded": 1}

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Read the files; each is decoded once, so that training finds none that cannot be."""

        def read(row: Row) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
            path = self.image(row).source
            assert isinstance(path, Path)
            data = read_image_file(path, self.form)
            size = decode_image(data, str(path), self.channels, self.form).shape[:2]
            return np.frombuffer(data, np.uint8), np.array([size], np.uint32)

        with ThreadPoolExecutor(usable_cores(), "heedful-decoding") as threads:
            data, sizes = zip(*threads.map(read, rows), strict=True)
        return {"encoded": Ragged.of_arrays(data, _BYTES), "size": Ragged.of_arrays(sizes, SIZE)}


def pixel_stream(channels: int) -> StreamType:
    """Return the type of a stream whose items are pixels."""
    return StreamType(np.dtype(np.uint8), (channels,))


def image_streams(images: Sequence[Pixels], labels: Sequence[int | Sequence[int]] = ()) -> dict[str, Ragged]:
    """Return images, at least one, as rows of streams: their pixels, sizes, and classes if these are given."""
    channels = images[0].shape[2]
    flat = [image.reshape(-1, channels) for image in images]
    sizes = [np.array([image.shape[:2]], np.uint32) for image in images]
    streams = {"pixels": Ragged.of_arrays(flat, pixel_stream(channels)), "size": Ragged.of_arrays(sizes, SIZE)}
    rows = [[own] if isinstance(own, int) else own for own in labels]  # one class per image, or several
    return {**streams, "label": Ragged.of(rows)} if rows else streams


def decode_all(images: Iterable[LabelledImage], form: ImageForm, channels: Channels) -> Iterator[Pixels]:
    """Yield the pixels of images in order, in the size that a model reads; all cores decode, a chunk at a time."""
    waiting = iter(images)
    with ThreadPoolExecutor(usable_cores(), "heedful-decoding") as threads:  # decoding is outside of Python's lock
        while chunk := list(islice(waiting, CHUNK)):
            yield from threads.map(lambda image: image.pixels(channels, form), chunk)


def class_numbers(images: Sequence[LabelledImage], labels: tuple[str, ...], name: str) -> list[list[int]]:
    """Return the true classes of images by number; `name` is that of their corpus."""
    return label_numbers(images, labels, lambda image, _: image.where or name)


# --- questions about images ------------------------------------------------------------------------------------------
#
# A row is an image, with its streams, and the streams `words` of all questions about it, `lengths` of each of them, and
# `label`, the class of each answer; one more than there are classes for an answer that never occurs in training.


_VERSION: Final = 1  # raise it when the same corpus would give other rows


def prepare_image_questions(
    recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """Train the tokenizer and find the answers, unless they are given; decode training and validation corpora."""
    work, data = Preparation.of(recipe, progress, given), recipe.data
    channels = model_of(recipe, ImageAnswererModel).encoder.channels
    listed = {corpus: [*read_asked_images(corpus, data.folder)] for corpus in (*data.train, *data.valid)}
    for corpus, asked in listed.items():
        if not asked:
            raise UserError(f"{corpus.title} has no question to use.")
    tokenizer = work.tokenizer(
        lambda corpus: (work.form(question.question) for asked in listed[corpus] for question in asked.questions)
    )
    labels = work.labels(lambda: answers_in(listed[corpus] for corpus in data.train))
    known = {answer: number for number, answer in enumerate(labels)}

    def rows(corpus: AnyCorpus, training: bool) -> Rows[AskedImage]:
        questions = [question for asked in listed[corpus] for question in asked.questions]
        unknown = [question for question in questions if question.answer not in known]
        if unknown and training:
            raise UserError(
                f"{unknown[0].where or corpus.title} has the answer `{unknown[0].answer}`, which the model does not "
                f"know.{suggestion(unknown[0].answer, labels)}"
            )
        facts = [counted(len(listed[corpus]), "image"), counted(len(questions), "question")]
        if unknown:
            facts.append(f"{counted(len(unknown), 'answer')} that training never has")
        answers = LabelStream[AskedImage](
            lambda rows: [[known.get(each.answer, len(known)) for each in asked.questions] for asked in rows],
            {"labels": labels, "version": _VERSION},
        )
        further: list[Stream[AskedImage]] = [QuestionStream(tokenizer, work.form), answers]
        shown = image_rows(listed[corpus], lambda asked: asked.image, data.images, channels, further)
        return replace(shown, facts=lambda store: facts)

    return work.prepared(Vocabularies({"text": tokenizer}, labels), rows)


def answers_in(corpora: Iterable[Sequence[AskedImage]]) -> tuple[str, ...]:
    """Return all answers of corpora, sorted."""
    found = {question.answer for corpus in corpora for asked in corpus for question in asked.questions}
    if len(found) < 2:
        raise UserError(
            f"`data.train` has the answer `{next(iter(found))}` alone, but there must be two to choose from."
        )
    return sort_labels(found)


class QuestionStream(Tokenized):
    """The words of all questions about an image, and the length of each question."""

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary, and lengths."""
        return {"words": id_stream(self.tokenizer.size), "lengths": WHOLE_NUMBERS}

    def encode(self, rows: Sequence[AskedImage], dropped: Counter[str]) -> Streams:
        """Tokenize the questions."""
        return question_streams([asked.questions for asked in rows], self.tokenizer, self.form)


def asked_streams(
    images: Sequence[Pixels],
    questions: Sequence[Sequence[ImageQuestion]],
    tokenizer: Tokenizer,
    form: TextForm,
) -> dict[str, Ragged]:
    """Return images, at least one, and the questions about each as rows of streams."""
    return {**image_streams(images), **question_streams(questions, tokenizer, form)}


def question_streams(
    questions: Sequence[Sequence[ImageQuestion]], tokenizer: Tokenizer, form: TextForm
) -> dict[str, Ragged]:
    """Return the questions about each image as rows of streams."""
    encoded = iter(tokenizer.encode_batch([form(question.question) for several in questions for question in several]))
    pieces = [[next(encoded) for _ in several] for several in questions]
    words = [[piece for ids in several for piece in ids] for several in pieces]
    lengths = [[len(ids) for ids in several] for several in pieces]
    return {"words": Ragged.of(words), "lengths": Ragged.of(lengths)}
