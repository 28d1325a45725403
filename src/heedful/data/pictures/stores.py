"""Corpora of pictures to stores: read, decoded and resized on all cores, kept in the cache."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.config.corpora.any import AnyCorpus
from heedful.config.data import Data, PictureForm
from heedful.config.recipe import Recipe
from heedful.config.rules.classify_pictures import picture_model
from heedful.cores import usable_cores
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.corpora.files import check_files, content_key
from heedful.data.pictures.batches import LABEL, SIZE, picture_streams, pixel_stream
from heedful.data.pictures.decoding import Channels, Pixels, fit_picture
from heedful.data.pictures.encoded import EncodedPixels, decode_in_form
from heedful.data.pictures.reading import Picture, read_pictures
from heedful.data.prepare.prepared import Prepared, tell_unreadable_tests
from heedful.data.prepare.text_stores import sort_labels
from heedful.data.token_store import FORMAT, Ragged, StreamType, TokenStore, open_store, write_store
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.errors import UserError, counted, suggestion
from heedful.files import read_bytes

_CHUNK: Final = 256  # pictures that are decoded together
_MEBIBYTE: Final = 1 << 20
_GIBIBYTE: Final = 1 << 30
_BYTES: Final = StreamType(np.dtype(np.uint8))


def prepare_pictures(
    recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """Find the classes, unless they are given, and decode training and validation corpora."""
    data, model = recipe.data, picture_model(recipe)
    several = model.labels == "several"
    for corpus in (*data.train, *data.valid):
        check_files(corpus, data.folder)
    tell_unreadable_tests(data, progress)
    listed = {corpus: [*read_pictures(corpus, data.folder, several)] for corpus in (*data.train, *data.valid)}
    found = {label for corpus in data.train for picture in listed[corpus] for label in picture.labels}
    labels = given.labels if given else sort_labels(found, several)
    work = PictureStores(data, listed, labels, model.encoder.channels, progress, several)
    return Prepared.of(Vocabularies({}, labels), data, work.store)


@dataclass(frozen=True)
class PictureStores:
    """Turns corpora into stores, all with the same classes."""

    data: Data
    pictures: Mapping[AnyCorpus, list[Picture]]
    labels: tuple[str, ...]
    channels: Channels
    progress: Say
    several: bool = False  # labels per picture

    def store(self, corpus: AnyCorpus) -> TokenStore:
        """Return the decoded corpus, from the cache or made now."""
        pictures = self.pictures[corpus]
        if not pictures:
            raise UserError(f"{corpus.title} has no picture to use.")
        classes = class_numbers(pictures, self.labels, corpus.title)
        form, encoded = self.data.pictures, self._too_large(pictures)
        key = key_of(
            {
                "format": FORMAT,
                "content": content_key(corpus, self.data.folder),
                "pictures": [picture.content() for picture in pictures if isinstance(picture.source, Path)],
                "size": [form.size, form.fit if form.size else ""],
                "channels": self.channels,
                "labels": self.labels,
                "classes": classes if self.several else [only for (only,) in classes],
                **({"encoded": 1} if encoded else {}),
            }
        )

        def build(staged: Path) -> None:
            if encoded:
                self.progress(
                    f"reading {corpus.title}: {counted(len(pictures), 'picture')}{self._why_encoded(pictures)}"
                )
                types = {"encoded": _BYTES, "size": SIZE, "label": LABEL}
                write_store(staged, key, types, self._encoded_streams(pictures, classes), Counter())
                return
            tell_size(self.progress, corpus.title, len(pictures), form, self.channels)
            types = {"pixels": pixel_stream(self.channels), "size": SIZE, "label": LABEL}
            write_store(staged, key, types, self._streams(pictures, classes), Counter())

        store = cached(cache_folder() / "pictures" / key, lambda folder: open_store(folder, key), build, self.progress)
        self.progress(f"{corpus.title}: {counted(len(store), 'picture')}{', decoded in training' if encoded else ''}")
        return self._decoding(store) if encoded else store

    def _too_large(self, pictures: Sequence[Picture]) -> bool:
        """Whether files would take more space decoded than the cache may have."""
        form = self.data.pictures
        files = all(isinstance(picture.source, Path) for picture in pictures)
        return files and form.size is not None and self._decoded_bytes(pictures) > form.cache_limit * _GIBIBYTE

    def _decoded_bytes(self, pictures: Sequence[Picture]) -> int:
        height, width = self.data.pictures.size or (0, 0)
        return len(pictures) * height * width * self.channels

    def _why_encoded(self, pictures: Sequence[Picture]) -> str:
        """Say what the files take in the cache, and why they are not stored decoded."""
        files = sum(picture.source.stat().st_size for picture in pictures if isinstance(picture.source, Path))
        return (
            f", {files / _MEBIBYTE:,.0f} MiB in the cache; decoded they would take "
            f"{self._decoded_bytes(pictures) / _GIBIBYTE:,.1f} GiB, more than `data.pictures.cache_limit` "
            f"({self.data.pictures.cache_limit:g}), so they are decoded whenever they are shown"
        )

    def _encoded_streams(
        self, pictures: Iterable[Picture], classes: Iterable[list[int]]
    ) -> Iterator[Mapping[str, Ragged]]:
        """Yield the bytes of files; each is decoded once, so that training finds none that cannot be."""
        form, labels, waiting = self.data.pictures, iter(classes), iter(pictures)

        def read(picture: Picture) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
            assert isinstance(picture.source, Path)
            data = read_bytes(picture.source)
            pixels = decode_in_form(data, str(picture.source), form, self.channels)
            return np.frombuffer(data, np.uint8), pixels.shape[:2]

        with ThreadPoolExecutor(usable_cores(), "heedful-decoding") as threads:
            while chunk := list(islice(waiting, _CHUNK)):
                files = list(threads.map(read, chunk))
                yield {
                    "encoded": Ragged.of_arrays([data for data, _ in files], _BYTES),
                    "size": Ragged.of_arrays([np.array([size], np.uint32) for _, size in files], SIZE),
                    "label": Ragged.of(list(islice(labels, len(chunk)))),
                }

    def _decoding(self, store: TokenStore) -> TokenStore:
        """Return a store whose pixels are decoded when they are asked for."""
        encoded = store.streams["encoded"]
        pixels = EncodedPixels(encoded.values, encoded.offsets, self.data.pictures, self.channels)
        others = {name: stream for name, stream in store.streams.items() if name != "encoded"}
        return replace(store, streams={"pixels": pixels, **others})

    def _streams(self, pictures: Iterable[Picture], classes: Iterable[list[int]]) -> Iterator[Mapping[str, Ragged]]:
        decoded, labels = decode_all(pictures, self.data.pictures, self.channels), iter(classes)
        while chunk := list(islice(decoded, _CHUNK)):
            yield picture_streams(chunk, list(islice(labels, len(chunk))))


def tell_size(progress: Say, title: str, count: int, form: PictureForm, channels: Channels) -> None:
    """Tell what the cache will take, before it is written; unknown while pictures keep their own sizes."""
    takes = ""
    if form.size is not None:
        takes = f", {count * form.size[0] * form.size[1] * channels / _MEBIBYTE:,.0f} MiB in the cache"
    progress(f"decoding {title}: {counted(count, 'picture')}{takes}")


def decode_all(pictures: Iterable[Picture], form: PictureForm, channels: Channels) -> Iterator[Pixels]:
    """Yield the pixels of pictures in order, in the size that a model reads; all cores decode, a chunk at a time."""

    def decode(picture: Picture) -> Pixels:
        pixels = picture.pixels(channels, form.max_pixels)
        return pixels if form.size is None else fit_picture(pixels, form.size, form.fit)

    waiting = iter(pictures)
    with ThreadPoolExecutor(usable_cores(), "heedful-decoding") as threads:  # decoding is outside of Python's lock
        while chunk := list(islice(waiting, _CHUNK)):
            yield from threads.map(decode, chunk)


def class_numbers(pictures: Sequence[Picture], labels: tuple[str, ...], name: str) -> list[list[int]]:
    """Return the true classes of pictures by number; `name` is that of their corpus."""
    known = {label: number for number, label in enumerate(labels)}
    for picture in pictures:
        unknown = next((label for label in picture.labels if label not in known), None)
        if unknown is not None:
            raise UserError(
                f"{picture.where or name} has the label `{unknown}`, which is not a class of the model."
                f"{suggestion(unknown, labels)}"
            )
    return [[known[label] for label in picture.labels] for picture in pictures]
