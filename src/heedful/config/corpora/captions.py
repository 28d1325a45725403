"""Corpora of pictures with captions: tables of paths and sentences."""

from typing import Self

from pydantic import model_validator

from heedful.config.corpora.corpus import Column, Separator
from heedful.config.corpora.pictures import BuiltinPictures, PicturesCorpus


class CaptionsCorpus(PicturesCorpus):
    """Keys of every corpus of captions in files. All captions of a picture are chosen together."""

    @model_validator(mode="after")
    def _captions_differ(self) -> Self:
        picture, caption = getattr(self, "picture", None), getattr(self, "caption", None)
        if picture is not None and picture == caption:
            raise ValueError(f"`picture` and `caption` are both {picture!r}, but must be different")
        return self


class TsvCaptions(CaptionsCorpus):
    """Paths of pictures and their captions in columns of a tab-separated file; a picture may have several rows.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "TsvCaptions"
    file_keys = ("tsv",)

    tsv: str
    """File of tab-separated columns."""
    picture: Column
    """Column of the paths, relative to the folder of the file, by number or name."""
    caption: Column
    """Column of the captions, by number or name."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""


class CsvCaptions(CaptionsCorpus):
    """Paths of pictures and their captions in columns of a CSV file; a picture may have several rows.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "CsvCaptions"
    file_keys = ("csv",)

    csv: str
    """File of columns separated by commas; texts with commas, quotes or line breaks are in quotes."""
    picture: Column
    """Column of the paths, relative to the folder of the file, by number or name."""
    caption: Column
    """Column of the captions, by number or name."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""
    separator: Separator = ","
    """Character between columns."""


class JsonlCaptions(CaptionsCorpus):
    """Paths of pictures and their captions in fields of one JSON object per line; a picture may have several lines."""

    frozen_kind = "JsonlCaptions"
    file_keys = ("jsonl",)

    jsonl: str
    """File with one JSON object per line."""
    picture: str
    """Field of the paths, relative to the folder of the file."""
    caption: str
    """Field of the caption, or of a list of captions."""


FiledCaptions = TsvCaptions | CsvCaptions | JsonlCaptions
CaptionCorpus = FiledCaptions | BuiltinPictures
