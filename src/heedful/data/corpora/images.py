"""Images with their labels, numbers, captions or questions from every container that has them, not decoded yet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from PIL import Image

from heedful.base.arguments import check_path
from heedful.base.errors import UserError, counted
from heedful.base.files import sha256_of_file
from heedful.config.corpora.containers import AnyCorpus, Builtin, Csv, Idx, ImageFolder, Jsonl, Npz, Tsv
from heedful.config.corpora.corpus import Subsets
from heedful.config.data import ImageForm
from heedful.data.builtin.scenes import NUMBERS, Scene, scenes
from heedful.data.builtin.scenes_drawing import draw_scene
from heedful.data.corpora.files import choose, files_of, select_lines
from heedful.data.corpora.formats.lines import locate
from heedful.data.corpora.formats.rows import Row, labels_of, read_rows
from heedful.data.images.arrays import as_images, as_labels, as_numbers, read_idx, read_npz
from heedful.data.images.decoding import (
    MAX_PIXELS,
    Channels,
    Pixels,
    convert_channels,
    decode_image,
    fit_image,
    is_image_name,
    pixels_of,
    read_image,
    refuse_large,
)
from heedful.data.text_form import TextForm


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """An image in a file, its bytes or pixels, with the names of its classes and its number where a corpus has them."""

    source: Path | bytes | Pixels | Scene
    labels: tuple[str, ...] = ()
    where: str = field(default="", compare=False)  # its place, for messages
    number: float | None = None

    @property
    def label(self) -> str:
        """Its only label, or the first of several; an empty name where there is none."""
        return self.labels[0] if self.labels else ""

    def pixels(self, channels: Channels, form: ImageForm | None = None) -> Pixels:
        """Read, decode or draw the image, in the size of a form if one is given."""
        form = form or ImageForm()
        match self.source:
            case Path():
                return read_image(self.source, channels, form)
            case bytes():
                return decode_image(self.source, self.where, channels, form)
            case Scene():
                pixels = convert_channels(draw_scene(self.source), channels)
            case given:
                refuse_large((given.shape[0], given.shape[1]), self.where, form.max_pixels)
                pixels = convert_channels(given, channels)
        return pixels if form.size is None else fit_image(pixels, form.size, form.fit)

    def content(self) -> str:
        """Return the hash of what the image is stored as."""
        match self.source:
            case Path():
                return sha256_of_file(self.source)
            case bytes():
                return sha256(self.source).hexdigest()
            case Scene():
                return sha256(self.source.sentence.encode()).hexdigest()
            case pixels:
                return sha256(pixels.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Captioned:
    """An image and its captions, of which each describes it; the numbers of their lines are 0 where there are none."""

    image: LabelledImage
    captions: tuple[str, ...]
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class ImageQuestion:
    """A question about an image, and its answer and kind where they are known."""

    question: str
    answer: str = ""
    kind: str = ""
    where: str = field(default="", compare=False)  # its place, for messages


@dataclass(frozen=True, eq=False)
class AskedImage:
    """An image and all questions about it, at least one."""

    image: LabelledImage
    questions: tuple[ImageQuestion, ...]


def make_image_question(question: str, answer: str = "", kind: str = "", where: str = "") -> ImageQuestion:
    """Return a checked question."""
    if not question.strip():
        raise UserError(f"{where}: the question is empty: give one, or remove the row.")
    return ImageQuestion(question, answer.strip(), kind.strip(), where)


# --- labels and numbers -----------------------------------------------------------------------------------------------


def read_images(corpus: AnyCorpus, folder: str = "", several: bool = False) -> Iterator[LabelledImage]:
    """Yield the images of a corpus in order; with `several`, an image has any number of labels."""
    if "image" not in corpus.roles or not corpus.roles & {"label", "number"}:
        raise TypeError(f"{corpus.title} has {corpus.row_kind.words}, not images with labels")
    rows = select_lines(_all_images(corpus, folder, several), corpus)
    return rows if isinstance(corpus, Builtin) else _chosen(rows, corpus)


def unlabelled_images(corpus: Idx | Npz, folder: str = "") -> Iterator[LabelledImage]:
    """Yield the images of arrays in order; what is known of them is not read."""
    file = files_of(corpus, folder)[0]
    if isinstance(corpus, Idx):
        pixels = as_images(read_idx(file.path), file.name)
    else:
        pixels = as_images(read_npz(file.path, corpus.image), f"{file.name}: `{corpus.image}`")
    return _images_of_arrays(pixels, [()] * len(pixels), file.name)


def images_in(folder: Path) -> list[Path]:
    """Return the images in a folder and in the folders in it, in the order of their names."""
    return sorted(path for path in folder.rglob("*") if is_image_name(path) and path.is_file())


def locate_image(name: str, folder: str, where: str) -> Path:
    """Return the file of an image that a row names by a path, relative to a folder."""
    if not name.strip():
        raise UserError(f"{where} has no path of an image: give one, or remove the row.")
    path = locate(name.strip(), folder).path
    if not path.is_file():
        raise UserError(f"{where} names the image {path}, which is not a file.")
    return path


def _image_of(row: Row) -> Path:
    return locate_image(row.text("image"), str(row.file.path.parent), row.where)


def _all_images(corpus: AnyCorpus, folder: str, several: bool) -> Iterator[LabelledImage]:
    match corpus:
        case Tsv() | Csv() | Jsonl():
            for row in read_rows(corpus, folder):
                if row is not None:
                    named = bool(row.text("image").strip())
                    labels = row.labels(several, "image") if named and "label" in row.places else ()
                    path = _image_of(row)
                    yield LabelledImage(path, labels, str(path), row.number())
        case ImageFolder():
            yield from _images_of_folder(locate(corpus.images, folder).path)
        case Idx():
            file, of_labels = files_of(corpus, folder)
            pixels = as_images(read_idx(file.path), file.name)
            names = as_labels(read_idx(of_labels.path), len(pixels), of_labels.name)
            yield from _images_of_arrays(pixels, [(name,) for name in names], file.name)
        case Npz():
            yield from _images_of_npz(corpus, folder, several)
        case Builtin():
            for scene, where in _scenes(corpus):
                things = scene.things if several else scene.things[:1]
                found = {
                    "shape": [thing.shape for thing in things],
                    "colour": [thing.colour for thing in things],
                    "number": [NUMBERS[len(scene.things)]],
                }
                labels = tuple(dict.fromkeys(found[corpus.label or "number"]))
                yield LabelledImage(scene, labels, where, len(scene.things))


def _images_of_folder(folder: Path) -> Iterator[LabelledImage]:
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


def _images_of_npz(corpus: Npz, folder: str, several: bool) -> Iterator[LabelledImage]:
    (file,) = files_of(corpus, folder)
    pixels = as_images(read_npz(file.path, corpus.image), f"{file.name}: `{corpus.image}`")
    labels: list[tuple[str, ...]] = [()] * len(pixels)
    numbers: Sequence[float | None] = [None] * len(pixels)
    if corpus.label is not None:
        names = as_labels(read_npz(file.path, corpus.label), len(pixels), f"{file.name}: `{corpus.label}`")
        labels = [labels_of(name, True, file.name) if several else (name,) for name in names]
    if corpus.number is not None:
        numbers = as_numbers(read_npz(file.path, corpus.number), len(pixels), f"{file.name}: `{corpus.number}`")
    for image, number in zip(_images_of_arrays(pixels, labels, file.name), numbers, strict=True):
        yield replace(image, number=number)


def _images_of_arrays(images: Pixels, labels: list[tuple[str, ...]], name: str) -> Iterator[LabelledImage]:
    for number, (pixels, own) in enumerate(zip(images, labels, strict=True), start=1):
        yield LabelledImage(pixels, own, f"{name}, image {number:,}")


def _scenes(corpus: Builtin) -> Iterator[tuple[Scene, str]]:
    """Yield the scenes of the generator, each with its place for messages."""
    for number, scene in enumerate(scenes(corpus.part, corpus.count), start=1):
        yield scene, f"{corpus.title}, image {number:,}"


# --- captions ---------------------------------------------------------------------------------------------------------


def read_captioned(corpus: AnyCorpus, folder: str = "", form: TextForm | None = None) -> Iterator[Captioned]:
    """Yield the images of a corpus, each with all its captions, in the order of their first rows.

    A blank caption stays blank; one that is longer than a line may be is blank too.
    """
    form = form or TextForm()
    match corpus:
        case Tsv() | Csv() | Jsonl() if "caption" in corpus.roles:
            rows: dict[Path, list[tuple[str, int]]] = {}
            for path, caption, line in select_lines(_caption_rows(corpus, folder), corpus):
                rows.setdefault(path, []).append((form.of_line(" ".join(caption.split())), line))
            for image in _chosen((LabelledImage(path, where=str(path)) for path in rows), corpus):
                captions, lines = zip(*rows[Path(image.where)], strict=True)
                yield Captioned(image, captions, lines)
        case Builtin() if "caption" in corpus.roles:
            for scene, where in select_lines(_scenes(corpus), corpus):
                yield Captioned(LabelledImage(scene, where=where), (form.of_line(scene.sentence),), (0,))
        case _:
            raise TypeError(f"{corpus.title} has {corpus.row_kind.words}, not images with captions")


def _caption_rows(corpus: Tsv | Csv | Jsonl, folder: str) -> Iterator[tuple[Path, str, int]]:
    """Yield the path, the caption and the line of each caption."""
    for row in read_rows(corpus, folder):
        if row is not None:
            path = _image_of(row)
            yield from ((path, caption, row.line) for caption in row.texts("caption"))


# --- questions --------------------------------------------------------------------------------------------------------


def read_asked_images(corpus: AnyCorpus, folder: str = "") -> Iterator[AskedImage]:
    """Yield the images of a corpus, each with all questions about it, in the order of their first questions."""
    match corpus:
        case Tsv() | Csv() | Jsonl() if corpus.roles >= {"image", "question"}:
            found: dict[Path, list[ImageQuestion]] = {}
            for row in select_lines(read_rows(corpus, folder), corpus):
                if row is not None:
                    path, question = _asked_in(row)
                    found.setdefault(path, []).append(question)
            for image in _chosen((LabelledImage(path, where=str(path)) for path in found), corpus):
                yield AskedImage(image, tuple(found[Path(image.where)]))
        case Builtin() if corpus.roles >= {"image", "question"}:
            yield from select_lines(_asked_scenes(corpus), corpus)
        case _:
            raise TypeError(f"{corpus.title} has {corpus.row_kind.words}, not questions about images")


def _asked_in(row: Row) -> tuple[Path, ImageQuestion]:
    """Return the file of the image that a row names, and its question."""
    name, question, answer = row.text("image"), row.text("question"), row.name("answer")
    kind = row.optional_text("group") or ""
    if not answer.strip():
        raise UserError(f"{row.where} has no answer: every question needs one.")
    asked = make_image_question(question, answer, kind, row.where)
    return locate_image(name, str(row.file.path.parent), row.where), asked


def _asked_scenes(corpus: Builtin) -> Iterator[AskedImage]:
    """Yield scenes with their questions.

    A question in training whether there is a thing of a held-out pair would always be answered by no, which would teach
    an answer without a look at the image: only "test" has such questions.
    """
    for scene, where in _scenes(corpus):
        fair = [asked for asked in scene.questions if corpus.part == "test" or not asked.held_out]
        questions = [ImageQuestion(asked.question, asked.answer, asked.kind, where) for asked in fair]
        if questions:
            yield AskedImage(LabelledImage(scene, where=where), tuple(questions[: corpus.questions]))


def _chosen(images: Iterator[LabelledImage], corpus: AnyCorpus) -> Iterator[LabelledImage]:
    """Yield the images of the corpus's `part` and `sample`."""
    assert isinstance(corpus, Subsets), f"{corpus.title} has no `part`"
    return choose(images, corpus, LabelledImage.content, "image")


# --- images of a program ----------------------------------------------------------------------------------------------

OneImage = str | PathLike[str] | bytes | BinaryIO | Image.Image  # which cannot be several
AnyImage = OneImage | np.ndarray[Any, Any]
_SHAPES: Final = "height x width, or height x width x 3"


def image_of(given: object, where: str, channels: Channels, max_pixels: int = MAX_PIXELS) -> LabelledImage:
    """Return an image that a program gave; `where` names it in messages.

    An image of Pillow may not have been decoded yet: one of more than `max_pixels` never is.
    """
    match given:
        case str() | PathLike():
            path = check_path(where, given)
            return LabelledImage(path, where=str(path))
        case bytes() | bytearray() | memoryview():
            return LabelledImage(bytes(given), where=where)
        case Image.Image():
            refuse_large((given.height, given.width), where, max_pixels)
            return LabelledImage(pixels_of(given, channels), where=where)
        case np.ndarray():
            if given.ndim not in (2, 3):
                shape = " x ".join(map(str, given.shape)) or "a single number"
                raise UserError(f"{where} has the shape {shape}, but must be {_SHAPES}.")
            return LabelledImage(as_images(given[None], where, _SHAPES)[0], where=where)
        case _ if callable(getattr(given, "read", None)):
            return LabelledImage(_bytes_of(given, where), where=where)
        case _:
            raise UserError(
                f"{where} is {type(given).__name__}, but must be a path, the bytes of a file, an open file, an array "
                "of pixels, or an image of Pillow."
            )


def _bytes_of(file: Any, where: str) -> bytes:
    """Return what an open file holds from where it stands."""
    try:
        data = file.read()
    except (OSError, ValueError) as error:  # closed, or open for writing
        raise UserError(f'{where} is a file that cannot be read ({error}): open it with mode "rb".') from error
    if not isinstance(data, bytes):
        raise UserError(f'{where} is a file that is open as text: open it with mode "rb".')
    return data


def is_one_image(images: object) -> bool:
    """Whether an argument is one image, and not several."""
    if isinstance(images, np.ndarray):
        return images.ndim < 3 or (images.ndim == 3 and images.shape[2] in (1, 3))
    return isinstance(images, str | PathLike | bytes | bytearray | memoryview | Image.Image) or callable(
        getattr(images, "read", None)
    )
