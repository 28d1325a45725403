"""Corpora of images to stores: read, decoded and resized on all cores, kept in the cache."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.cores import usable_cores
from heedful.base.errors import UserError, counted, suggestion
from heedful.base.files import read_bytes
from heedful.config.corpora.any import AnyCorpus
from heedful.config.data import Data, ImageForm
from heedful.config.model.images import ImageClassifierModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.corpora.files import check_files, content_key
from heedful.data.images.batches import LABEL, SIZE, image_streams, pixel_stream
from heedful.data.images.decoding import Channels, Pixels, fit_image
from heedful.data.images.encoded import EncodedPixels, decode_in_form
from heedful.data.images.reading import LabelledImage, read_images
from heedful.data.prepare.prepared import Prepared, tell_unreadable_tests
from heedful.data.prepare.text_stores import sort_labels
from heedful.data.token_store import FORMAT, Ragged, StreamType, TokenStore, open_store, write_store
from heedful.data.tokenize.vocabularies import Vocabularies

_CHUNK: Final = 256  # images that are decoded together
_MEBIBYTE: Final = 1 << 20
_GIBIBYTE: Final = 1 << 30
_BYTES: Final = StreamType(np.dtype(np.uint8))


def prepare_images(recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None) -> Prepared:
    """Find the classes, unless they are given, and decode training and validation corpora."""
    data, model = recipe.data, model_of(recipe, ImageClassifierModel)
    several = model.labels == "several"
    for corpus in (*data.train, *data.valid):
        check_files(corpus, data.folder)
    tell_unreadable_tests(data, progress)
    listed = {corpus: [*read_images(corpus, data.folder, several)] for corpus in (*data.train, *data.valid)}
    found = {label for corpus in data.train for image in listed[corpus] for label in image.labels}
    labels = given.labels if given else sort_labels(found, several)
    work = ImageStores(data, listed, labels, model.encoder.channels, progress, several)
    return Prepared.of(Vocabularies({}, labels), data, work.store)


@dataclass(frozen=True)
class ImageStores:
    """Turns corpora into stores, all with the same classes."""

    data: Data
    images: Mapping[AnyCorpus, list[LabelledImage]]
    labels: tuple[str, ...]
    channels: Channels
    progress: Say
    several: bool = False  # labels per image

    def store(self, corpus: AnyCorpus) -> TokenStore:
        """Return the decoded corpus, from the cache or made now."""
        images = self.images[corpus]
        if not images:
            raise UserError(f"{corpus.title} has no image to use.")
        classes = class_numbers(images, self.labels, corpus.title)
        form, encoded = self.data.images, self._too_large(images)
        key = key_of(
            {
                "format": FORMAT,
                "content": content_key(corpus, self.data.folder),
                "pictures": [image.content() for image in images if isinstance(image.source, Path)],
                "size": [form.size, form.fit if form.size else ""],
                "channels": self.channels,
                "labels": self.labels,
                "classes": classes if self.several else [only for (only,) in classes],
                **({"encoded": 1} if encoded else {}),
            }
        )

        def build(staged: Path) -> None:
            if encoded:
                self.progress(f"reading {corpus.title}: {counted(len(images), 'image')}{self._why_encoded(images)}")
                types = {"encoded": _BYTES, "size": SIZE, "label": LABEL}
                write_store(staged, key, types, self._encoded_streams(images, classes), Counter())
                return
            tell_size(self.progress, corpus.title, len(images), form, self.channels)
            types = {"pixels": pixel_stream(self.channels), "size": SIZE, "label": LABEL}
            write_store(staged, key, types, self._streams(images, classes), Counter())

        store = cached(cache_folder() / "pictures" / key, lambda folder: open_store(folder, key), build, self.progress)
        self.progress(f"{corpus.title}: {counted(len(store), 'image')}{', decoded in training' if encoded else ''}")
        return self._decoding(store) if encoded else store

    def _too_large(self, images: Sequence[LabelledImage]) -> bool:
        """Whether files would take more space decoded than the cache may have."""
        form = self.data.images
        files = all(isinstance(image.source, Path) for image in images)
        return files and form.size is not None and self._decoded_bytes(images) > form.cache_limit * _GIBIBYTE

    def _decoded_bytes(self, images: Sequence[LabelledImage]) -> int:
        height, width = self.data.images.size or (0, 0)
        return len(images) * height * width * self.channels

    def _why_encoded(self, images: Sequence[LabelledImage]) -> str:
        """Say what the files take in the cache, and why they are not stored decoded."""
        files = sum(image.source.stat().st_size for image in images if isinstance(image.source, Path))
        return (
            f", {files / _MEBIBYTE:,.0f} MiB in the cache; decoded they would take "
            f"{self._decoded_bytes(images) / _GIBIBYTE:,.1f} GiB, more than `data.images.cache_limit` "
            f"({self.data.images.cache_limit:g}), so they are decoded whenever they are shown"
        )

    def _encoded_streams(
        self, images: Iterable[LabelledImage], classes: Iterable[list[int]]
    ) -> Iterator[Mapping[str, Ragged]]:
        """Yield the bytes of files; each is decoded once, so that training finds none that cannot be."""
        form, labels, waiting = self.data.images, iter(classes), iter(images)

        def read(image: LabelledImage) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
            assert isinstance(image.source, Path)
            data = read_bytes(image.source)
            pixels = decode_in_form(data, str(image.source), form, self.channels)
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
        pixels = EncodedPixels(encoded.values, encoded.offsets, self.data.images, self.channels)
        others = {name: stream for name, stream in store.streams.items() if name != "encoded"}
        return replace(store, streams={"pixels": pixels, **others})

    def _streams(self, images: Iterable[LabelledImage], classes: Iterable[list[int]]) -> Iterator[Mapping[str, Ragged]]:
        decoded, labels = decode_all(images, self.data.images, self.channels), iter(classes)
        while chunk := list(islice(decoded, _CHUNK)):
            yield image_streams(chunk, list(islice(labels, len(chunk))))


def tell_size(progress: Say, title: str, count: int, form: ImageForm, channels: Channels) -> None:
    """Tell what the cache will take, before it is written; unknown while images keep their own sizes."""
    takes = ""
    if form.size is not None:
        takes = f", {count * form.size[0] * form.size[1] * channels / _MEBIBYTE:,.0f} MiB in the cache"
    progress(f"decoding {title}: {counted(count, 'image')}{takes}")


def decode_all(images: Iterable[LabelledImage], form: ImageForm, channels: Channels) -> Iterator[Pixels]:
    """Yield the pixels of images in order, in the size that a model reads; all cores decode, a chunk at a time."""

    def decode(image: LabelledImage) -> Pixels:
        pixels = image.pixels(channels, form.max_pixels)
        return pixels if form.size is None else fit_image(pixels, form.size, form.fit)

    waiting = iter(images)
    with ThreadPoolExecutor(usable_cores(), "heedful-decoding") as threads:  # decoding is outside of Python's lock
        while chunk := list(islice(waiting, _CHUNK)):
            yield from threads.map(decode, chunk)


def class_numbers(images: Sequence[LabelledImage], labels: tuple[str, ...], name: str) -> list[list[int]]:
    """Return the true classes of images by number; `name` is that of their corpus."""
    known = {label: number for number, label in enumerate(labels)}
    for image in images:
        unknown = next((label for label in image.labels if label not in known), None)
        if unknown is not None:
            raise UserError(
                f"{image.where or name} has the label `{unknown}`, which is not a class of the model."
                f"{suggestion(unknown, labels)}"
            )
    return [[known[label] for label in image.labels] for image in images]
