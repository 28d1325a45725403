"""Pictures with their labels from every kind of corpus that has them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import assert_never

from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.pictures import (
    BuiltinPictures,
    CsvPictures,
    FolderPictures,
    IdxPictures,
    JsonlPictures,
    NpzPictures,
    PictureCorpus,
    TsvPictures,
)
from heedful.data.builtin.scenes import NUMBERS, Scene, scenes
from heedful.data.builtin.scenes_drawing import draw_scene
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.json_rows import json_object, text_field
from heedful.data.corpora.formats.lines import TextFile, locate, read_lines
from heedful.data.corpora.formats.tables import read_columns
from heedful.data.corpora.subsets import choose
from heedful.data.corpora.texts import labels_field, labels_of
from heedful.data.pictures.arrays import as_labels, as_pictures, read_idx, read_npz
from heedful.data.pictures.decoding import (
    MAX_PIXELS,
    Channels,
    Pixels,
    convert_channels,
    is_picture_name,
    read_picture,
)
from heedful.errors import UserError, counted
from heedful.files import read_bytes


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture in a file, or its pixels, and the names of its classes where the corpus has labels."""

    source: Path | Pixels | Scene
    labels: tuple[str, ...] = ()
    where: str = field(default="", compare=False)  # its place, for messages

    @property
    def label(self) -> str:
        """Its only label, or the first of several; an empty name where there is none."""
        return self.labels[0] if self.labels else ""

    def pixels(self, channels: Channels, max_pixels: int = MAX_PIXELS) -> Pixels:
        """Read, decode or draw the picture."""
        match self.source:
            case Path():
                return read_picture(self.source, channels, max_pixels)
            case Scene():
                return convert_channels(draw_scene(self.source), channels)
            case pixels:
                return convert_channels(pixels, channels)

    def content(self) -> str:
        """Return the hash of what the picture is stored as."""
        match self.source:
            case Path():
                return sha256(read_bytes(self.source)).hexdigest()
            case Scene():
                return sha256(self.source.sentence.encode()).hexdigest()
            case pixels:
                return sha256(pixels.tobytes()).hexdigest()


def read_pictures(corpus: AnyCorpus, folder: str = "", several: bool = False) -> Iterator[Picture]:
    """Yield the pictures of a corpus in order, not decoded yet; with `several`, a picture has any number of labels."""
    if not isinstance(corpus, PictureCorpus):
        raise TypeError(f"{corpus.title} has no pictures")
    rows = select_lines(_all_pictures(corpus, folder, several), corpus)
    return rows if isinstance(corpus, BuiltinPictures) else choose(rows, corpus, Picture.content, "picture")


def _all_pictures(corpus: PictureCorpus, folder: str, several: bool) -> Iterator[Picture]:
    match corpus:
        case FolderPictures():
            return _folder_pictures(locate(corpus.pictures, folder).path)
        case TsvPictures() | CsvPictures():
            return _table_pictures(corpus, files_of(corpus, folder)[0], several)
        case JsonlPictures():
            return _jsonl_pictures(corpus, files_of(corpus, folder)[0], several)
        case IdxPictures():
            return _idx_pictures(*files_of(corpus, folder))
        case NpzPictures():
            return _npz_pictures(corpus, files_of(corpus, folder)[0], several)
        case BuiltinPictures():
            return _scenes(corpus, several)
        case _:
            assert_never(corpus)


# --- files ------------------------------------------------------------------------------------------------------------


def pictures_in(folder: Path) -> list[Path]:
    """Return the pictures in a folder and in the folders in it, in the order of their names."""
    return sorted(path for path in folder.rglob("*") if is_picture_name(path) and path.is_file())


def _folder_pictures(folder: Path) -> Iterator[Picture]:
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    found = False
    for named in classes:
        for path in pictures_in(named):
            found = True
            yield Picture(path, (named.name,), str(path))
    if not found:
        loose = sum(is_picture_name(path) for path in folder.iterdir())
        has = f"{counted(loose, 'picture')}, but no folders with pictures" if loose else "no folders with pictures"
        raise UserError(
            f"{folder} has {has} (.png, .jpg or .webp): make one folder in it for each class, whose name is the label."
        )


def _table_pictures(corpus: TsvPictures | CsvPictures, file: TextFile, several: bool) -> Iterator[Picture]:
    for number, values in read_columns(corpus, file, ("picture", "label")):
        if values:
            where = f"{file.name}, line {number:,}"
            labels = labels_of(values[1], several, where, "picture") if values[0].strip() else ()
            yield _picture_at(values[0], labels, file, where)


def _jsonl_pictures(corpus: JsonlPictures, file: TextFile, several: bool) -> Iterator[Picture]:
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file.name}, line {number:,}"
        if line.strip():
            row = json_object(line, where)
            labels = labels_field(row, corpus.label, several, where, "picture")
            yield _picture_at(text_field(row, corpus.picture, where), labels, file, where)


def _picture_at(name: str, labels: tuple[str, ...], file: TextFile, where: str) -> Picture:
    """Return the picture at a path that a row of a file names, with its labels."""
    path = path_of(name, file, where)
    return Picture(path, labels, str(path))


def path_of(name: str, file: TextFile, where: str) -> Path:
    """Return the path of a picture that a row of a file names."""
    if not name.strip():
        raise UserError(f"{where} has no path of a picture: give one, or remove the row.")
    path = locate(name.strip(), str(file.path.parent)).path
    if not path.is_file():
        raise UserError(f"{where} names the picture {path}, which is not a file.")
    return path


# --- arrays -----------------------------------------------------------------------------------------------------------


def _idx_pictures(pictures: TextFile, labels: TextFile) -> Iterator[Picture]:
    values = as_pictures(read_idx(pictures.path), pictures.name)
    named = as_labels(read_idx(labels.path), len(values), labels.name)
    return _rows_of_arrays(values, [(label,) for label in named], pictures.name)


def _npz_pictures(corpus: NpzPictures, file: TextFile, several: bool) -> Iterator[Picture]:
    values = as_pictures(read_npz(file.path, corpus.picture), f"{file.name}: `{corpus.picture}`")
    labels = as_labels(read_npz(file.path, corpus.label), len(values), f"{file.name}: `{corpus.label}`")
    named = [labels_of(label, True, file.name) if several else (label,) for label in labels]
    return _rows_of_arrays(values, named, file.name)


def _rows_of_arrays(pictures: Pixels, labels: list[tuple[str, ...]], name: str) -> Iterator[Picture]:
    for number, (pixels, own) in enumerate(zip(pictures, labels, strict=True), start=1):
        yield Picture(pixels, own, f"{name}, picture {number:,}")


# --- generators -------------------------------------------------------------------------------------------------------


def _scenes(corpus: BuiltinPictures, several: bool) -> Iterator[Picture]:
    for number, scene in enumerate(scenes(corpus.part, corpus.count), start=1):
        things = scene.things if several else scene.things[:1]
        labels = {
            "shape": [thing.shape for thing in things],
            "colour": [thing.colour for thing in things],
            "number": [NUMBERS[len(scene.things)]],
        }
        yield Picture(scene, tuple(dict.fromkeys(labels[corpus.label])), f"{corpus.title}, picture {number:,}")
