"""Corpora of images with captions: tables of paths and sentences."""

from typing import Self

from pydantic import model_validator

from heedful.config.corpora.corpus import Column, Separator
from heedful.config.corpora.images import BuiltinImages, ImagesCorpus


class CaptionsCorpus(ImagesCorpus):
    """Keys of every corpus of captions in files. All captions of an image are chosen together."""

    @model_validator(mode="after")
    def _captions_differ(self) -> Self:
        image, caption = getattr(self, "image", None), getattr(self, "caption", None)
        if image is not None and image == caption:
            raise ValueError(f"`image` and `caption` are both {image!r}, but must be different")
        return self


class TsvCaptions(CaptionsCorpus):
    """Paths of images and their captions in columns of a tab-separated file; an image may have several rows.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "TsvCaptions"
    file_keys = ("tsv",)

    tsv: str
    """File of tab-separated columns."""
    image: Column
    """Column of the paths, relative to the folder of the file, by number or name."""
    caption: Column
    """Column of the captions, by number or name."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""


class CsvCaptions(CaptionsCorpus):
    """Paths of images and their captions in columns of a CSV file; an image may have several rows.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "CsvCaptions"
    file_keys = ("csv",)

    csv: str
    """File of columns separated by commas; texts with commas, quotes or line breaks are in quotes."""
    image: Column
    """Column of the paths, relative to the folder of the file, by number or name."""
    caption: Column
    """Column of the captions, by number or name."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""
    separator: Separator = ","
    """Character between columns."""


class JsonlCaptions(CaptionsCorpus):
    """Paths of images and their captions in fields of one JSON object per line; an image may have several lines."""

    frozen_kind = "JsonlCaptions"
    file_keys = ("jsonl",)

    jsonl: str
    """File with one JSON object per line."""
    image: str
    """Field of the paths, relative to the folder of the file."""
    caption: str
    """Field of the caption, or of a list of captions."""


FiledCaptions = TsvCaptions | CsvCaptions | JsonlCaptions
CaptionCorpus = FiledCaptions | BuiltinImages
