"""Corpora of images with labels: folders, tables of paths, arrays, and the generator that ships with Heedful."""

from typing import ClassVar, Literal, Self

from pydantic import PositiveInt, model_validator

from heedful.config.corpora.corpus import Column, GeneratedCorpus, Separator
from heedful.config.corpora.texts import Part, TextsCorpus


class ImagesCorpus(TextsCorpus):
    """Keys of every corpus of images in files.

    Images are chosen by the sha256 of their content, so that neither their order nor another corpus changes the
    choice.
    """

    part: Part = ""
    """Subset of the images by hash: "0/10" is the first of ten parts, "1-9/10" the other nine."""
    sample: PositiveInt | None = None
    """Number of images to keep, those with the smallest hashes; by default all."""

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        image, label = getattr(self, "image", None), getattr(self, "label", None)
        if image is not None and image == label:
            raise ValueError(f"`image` and `label` are both {image!r}, but must be different")
        return self


class FolderImages(ImagesCorpus):
    """A folder of images with one folder for each class, whose name is the label."""

    frozen_kind = "FolderPictures"
    folder_keys: ClassVar[tuple[str, ...]] = ("images",)

    images: str
    """Folder with one folder of images (.png, .jpg, .webp) for each class."""

    def _untitled(self) -> str:
        return self.images


class TsvImages(ImagesCorpus):
    """Paths of images and their labels in columns of a tab-separated file.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "TsvPictures"
    file_keys = ("tsv",)

    tsv: str
    """File of tab-separated columns."""
    image: Column
    """Column of the paths, relative to the folder of the file, by number or name."""
    label: Column
    """Column of the labels, by number or name; several labels are separated by commas."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""


class CsvImages(ImagesCorpus):
    """Paths of images and their labels in columns of a CSV file.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "CsvPictures"
    file_keys = ("csv",)

    csv: str
    """File of columns separated by commas."""
    image: Column
    """Column of the paths, relative to the folder of the file, by number or name."""
    label: Column
    """Column of the labels, by number or name; several labels are separated by commas."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""
    separator: Separator = ","
    """Character between columns."""


class JsonlImages(ImagesCorpus):
    """Paths of images and their labels in fields of one JSON object per line."""

    frozen_kind = "JsonlPictures"
    file_keys = ("jsonl",)

    jsonl: str
    """File with one JSON object per line."""
    image: str
    """Field of the paths, relative to the folder of the file."""
    label: str = "label"
    """Field of the labels; several labels are a list."""


class IdxImages(ImagesCorpus):
    """Images and labels in two idx files, as MNIST has them, plain or packed (.gz)."""

    frozen_kind = "IdxPictures"
    file_keys = ("idx", "labels")

    idx: str
    """File of images."""
    labels: str
    """File of labels, one number per image."""


class NpzImages(ImagesCorpus):
    """Images and labels in two arrays of a file of NumPy."""

    frozen_kind = "NpzPictures"
    file_keys = ("npz",)

    npz: str
    """File of arrays."""
    image: str = "x"
    """Array of images: images x height x width, or images x height x width x 3, of bytes."""
    label: str = "y"
    """Array of labels: one whole number or text per image; in a text, several labels are separated by commas."""


class BuiltinImages(GeneratedCorpus):
    """Images of scenes from a generator that ships with Heedful: three to five shapes in 64 x 64 pixels.

    Each has a label and a sentence.
    """

    frozen_kind = "BuiltinPictures"

    builtin: Literal["scenes"]
    label: Literal["shape", "colour", "number"] = "number"
    """Label for a classifier: shape or colour of the first thing, at the top left, or the number of things.

    A classifier with several labels per image gets the shapes or colours of all things.
    """


ImageCorpus = FolderImages | TsvImages | CsvImages | JsonlImages | IdxImages | NpzImages | BuiltinImages
