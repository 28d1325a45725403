"""Images with their captions from every kind of corpus that has them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from heedful.base.errors import UserError
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.captions import CaptionCorpus, CsvCaptions, JsonlCaptions, TsvCaptions
from heedful.config.corpora.images import BuiltinImages
from heedful.data.builtin.scenes import scenes
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.json_rows import field_of, json_object, text_field
from heedful.data.corpora.formats.lines import TextFile, read_lines
from heedful.data.corpora.formats.tables import read_columns
from heedful.data.corpora.subsets import choose
from heedful.data.images.reading import LabelledImage, path_of
from heedful.data.text_form import TextForm


@dataclass(frozen=True, eq=False)
class Captioned:
    """An image and its captions, of which each describes it; the numbers of their lines are 0 where there are none."""

    image: LabelledImage
    captions: tuple[str, ...]
    lines: tuple[int, ...] = ()

    def content(self) -> str:
        """Return the hash of the image."""
        return self.image.content()


def read_captioned(corpus: AnyCorpus, folder: str = "", form: TextForm | None = None) -> Iterator[Captioned]:
    """Yield the images of a corpus, not decoded yet, each with all its captions, in the order of their first rows.

    A blank caption stays blank; one that is longer than a line may be is blank too.
    """
    if not isinstance(corpus, CaptionCorpus):
        raise TypeError(f"{corpus.title} has no captions")
    form = form or TextForm()
    if isinstance(corpus, BuiltinImages):
        for number, scene in enumerate(select_lines(scenes(corpus.part, corpus.count), corpus), start=1):
            yield Captioned(
                LabelledImage(scene, where=f"{corpus.title}, image {number:,}"), (form.of_line(scene.sentence),), (0,)
            )
        return
    rows: dict[Path, list[tuple[str, int]]] = {}
    for path, caption, line in select_lines(_rows(corpus, folder), corpus):
        rows.setdefault(path, []).append((form.of_line(" ".join(caption.split())), line))
    found = (
        Captioned(
            LabelledImage(path, where=str(path)), tuple(text for text, _ in several), tuple(line for _, line in several)
        )
        for path, several in rows.items()
    )
    yield from choose(found, corpus, Captioned.content, "image")


def _rows(corpus: TsvCaptions | CsvCaptions | JsonlCaptions, folder: str) -> Iterator[tuple[Path, str, int]]:
    """Yield the path, the caption and the line of each row."""
    (file,) = files_of(corpus, folder)
    match corpus:
        case TsvCaptions() | CsvCaptions():
            for number, values in read_columns(corpus, file, ("image", "caption")):
                if values:
                    yield path_of(values[0], file, f"{file.name}, line {number:,}"), values[1], number
        case JsonlCaptions():
            yield from _json_rows(corpus, file)
        case _:
            assert_never(corpus)


def _json_rows(corpus: JsonlCaptions, file: TextFile) -> Iterator[tuple[Path, str, int]]:
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file.name}, line {number:,}"
        if not line.strip():
            continue
        row = json_object(line, where)
        path = path_of(text_field(row, corpus.image, where), file, where)
        found = field_of(row, corpus.caption, where)
        if isinstance(found, list) and not found:
            raise UserError(f"{where}: field `{corpus.caption}` is an empty list, but must have at least one text.")
        for one in found if isinstance(found, list) else [found]:
            yield path, text_field({corpus.caption: one}, corpus.caption, where), number
