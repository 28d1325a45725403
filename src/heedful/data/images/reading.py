"""Images with their labels from every kind of corpus that has them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import assert_never

from heedful.base.errors import UserError, counted
from heedful.base.files import read_bytes
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.images import (
    BuiltinImages,
    CsvImages,
    FolderImages,
    IdxImages,
    ImageCorpus,
    JsonlImages,
    NpzImages,
    TsvImages,
)
from heedful.data.builtin.scenes import NUMBERS, Scene, scenes
from heedful.data.builtin.scenes_drawing import draw_scene
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.json_rows import json_object, text_field
from heedful.data.corpora.formats.lines import TextFile, locate, read_lines
from heedful.data.corpora.formats.tables import read_columns
from heedful.data.corpora.subsets import choose
from heedful.data.corpora.texts import labels_field, labels_of
from heedful.data.images.arrays import as_images, as_labels, read_idx, read_npz
from heedful.data.images.decoding import (
    MAX_PIXELS,
    Channels,
    Pixels,
    convert_channels,
    is_image_name,
    read_image,
)


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """An image in a file, or its pixels, and the names of its classes where the corpus has labels."""

    source: Path | Pixels | Scene
    labels: tuple[str, ...] = ()
    where: str = field(default="", compare=False)  # its place, for messages

    @property
    def label(self) -> str:
        """Its only label, or the first of several; an empty name where there is none."""
        return self.labels[0] if self.labels else ""

    def pixels(self, channels: Channels, max_pixels: int = MAX_PIXELS) -> Pixels:
        """Read, decode or draw the image."""
        match self.source:
            case Path():
                return read_image(self.source, channels, max_pixels)
            case Scene():
                return convert_channels(draw_scene(self.source), channels)
            case pixels:
                return convert_channels(pixels, channels)

    def content(self) -> str:
        """Return the hash of what the image is stored as."""
        match self.source:
            case Path():
                return sha256(read_bytes(self.source)).hexdigest()
            case Scene():
                return sha256(self.source.sentence.encode()).hexdigest()
            case pixels:
                return sha256(pixels.tobytes()).hexdigest()


def read_images(corpus: AnyCorpus, folder: str = "", several: bool = False) -> Iterator[LabelledImage]:
    """Yield the images of a corpus in order, not decoded yet; with `several`, an image has any number of labels."""
    if not isinstance(corpus, ImageCorpus):
        raise TypeError(f"{corpus.title} has no images")
    rows = select_lines(_all_images(corpus, folder, several), corpus)
    return rows if isinstance(corpus, BuiltinImages) else choose(rows, corpus, LabelledImage.content, "image")


def _all_images(corpus: ImageCorpus, folder: str, several: bool) -> Iterator[LabelledImage]:
    match corpus:
        case FolderImages():
            return _folder_images(locate(corpus.images, folder).path)
        case TsvImages() | CsvImages():
            return _table_images(corpus, files_of(corpus, folder)[0], several)
        case JsonlImages():
            return _jsonl_images(corpus, files_of(corpus, folder)[0], several)
        case IdxImages():
            return _idx_images(*files_of(corpus, folder))
        case NpzImages():
            return _npz_images(corpus, files_of(corpus, folder)[0], several)
        case BuiltinImages():
            return _scenes(corpus, several)
        case _:
            assert_never(corpus)


# --- files ------------------------------------------------------------------------------------------------------------


def images_in(folder: Path) -> list[Path]:
    """Return the images in a folder and in the folders in it, in the order of their names."""
    return sorted(path for path in folder.rglob("*") if is_image_name(path) and path.is_file())


def _folder_images(folder: Path) -> Iterator[LabelledImage]:
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    found = False
    for named in classes:
        for path in images_in(named):
            found = True
            yield LabelledImage(path, (named.name,), str(path))
    if not found:
        loose = sum(is_image_name(path) for path in folder.iterdir())
        has = f"{counted(loose, 'image')}, but no folders with images" if loose else "no folders with images"
        raise UserError(
            f"{folder} has {has} (.png, .jpg or .webp): make one folder in it for each class, whose name is the label."
        )


def _table_images(corpus: TsvImages | CsvImages, file: TextFile, several: bool) -> Iterator[LabelledImage]:
    for number, values in read_columns(corpus, file, ("image", "label")):
        if values:
            where = f"{file.name}, line {number:,}"
            labels = labels_of(values[1], several, where, "image") if values[0].strip() else ()
            yield _image_at(values[0], labels, file, where)


def _jsonl_images(corpus: JsonlImages, file: TextFile, several: bool) -> Iterator[LabelledImage]:
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file.name}, line {number:,}"
        if line.strip():
            row = json_object(line, where)
            labels = labels_field(row, corpus.label, several, where, "image")
            yield _image_at(text_field(row, corpus.image, where), labels, file, where)


def _image_at(name: str, labels: tuple[str, ...], file: TextFile, where: str) -> LabelledImage:
    """Return the image at a path that a row of a file names, with its labels."""
    path = path_of(name, file, where)
    return LabelledImage(path, labels, str(path))


def path_of(name: str, file: TextFile, where: str) -> Path:
    """Return the path of an image that a row of a file names."""
    if not name.strip():
        raise UserError(f"{where} has no path of an image: give one, or remove the row.")
    path = locate(name.strip(), str(file.path.parent)).path
    if not path.is_file():
        raise UserError(f"{where} names the image {path}, which is not a file.")
    return path


# --- arrays -----------------------------------------------------------------------------------------------------------


def _idx_images(images: TextFile, labels: TextFile) -> Iterator[LabelledImage]:
    values = as_images(read_idx(images.path), images.name)
    named = as_labels(read_idx(labels.path), len(values), labels.name)
    return _rows_of_arrays(values, [(label,) for label in named], images.name)


def _npz_images(corpus: NpzImages, file: TextFile, several: bool) -> Iterator[LabelledImage]:
    values = as_images(read_npz(file.path, corpus.image), f"{file.name}: `{corpus.image}`")
    labels = as_labels(read_npz(file.path, corpus.label), len(values), f"{file.name}: `{corpus.label}`")
    named = [labels_of(label, True, file.name) if several else (label,) for label in labels]
    return _rows_of_arrays(values, named, file.name)


def _rows_of_arrays(images: Pixels, labels: list[tuple[str, ...]], name: str) -> Iterator[LabelledImage]:
    for number, (pixels, own) in enumerate(zip(images, labels, strict=True), start=1):
        yield LabelledImage(pixels, own, f"{name}, image {number:,}")


# --- generators -------------------------------------------------------------------------------------------------------


def _scenes(corpus: BuiltinImages, several: bool) -> Iterator[LabelledImage]:
    for number, scene in enumerate(scenes(corpus.part, corpus.count), start=1):
        things = scene.things if several else scene.things[:1]
        labels = {
            "shape": [thing.shape for thing in things],
            "colour": [thing.colour for thing in things],
            "number": [NUMBERS[len(scene.things)]],
        }
        yield LabelledImage(scene, tuple(dict.fromkeys(labels[corpus.label])), f"{corpus.title}, image {number:,}")
