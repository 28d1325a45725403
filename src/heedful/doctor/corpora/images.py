"""Checks the images of a recipe: classes, sizes, unreadable files, repeats by their pixels, odd images."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.cores import usable_cores
from heedful.base.errors import UserError
from heedful.config.corpora.containers import AnyCorpus, ImageFolder
from heedful.config.data import ImageForm
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.mixed import CaptionerModel
from heedful.config.model.pooled import ImageModel
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.corpora.formats.lines import locate
from heedful.data.corpora.images import LabelledImage, images_in, read_asked_images, read_captioned, read_images
from heedful.data.images.decoding import Channels, Pixels, Size, is_image_name
from heedful.doctor.corpora.classes import (
    SMALL,
    WholePart,
    find_dominant_class,
    find_number_problems,
    find_rare_classes,
    find_unknown_classes,
    with_held_out_classes,
)
from heedful.doctor.corpora.corpus_lint import far_from_all
from heedful.doctor.findings import IMAGE_KINDS, STRETCHED, Finding, Part, Severity, listed

_CHUNK: Final = 256  # images that are decoded together
_EXPECTED: Final = 5.0  # images of a class that another part should have, if it has none
_FLAT: Final = 2.0  # standard deviation of the brightness, of 255: less is nothing to see
_OTHER_LIGHT: Final = 3.0  # standard deviations between the brightness of two parts


@dataclass(frozen=True)
class Seen:
    """What is known of an image after it was decoded."""

    image: LabelledImage
    pixels: bytes  # hash
    size: Size
    mean: float  # of the brightness, 0 to 255
    deviation: float


@dataclass(frozen=True)
class CheckedImages:
    """A corpus of images, decoded once."""

    part: Part
    name: str
    seen: tuple[Seen, ...]
    unreadable: tuple[str, ...]  # what is wrong with each image that could not be decoded
    empty_classes: tuple[str, ...] = ()  # folders of classes without an image
    loose: tuple[str, ...] = ()  # names of images next to the folders of classes

    def __len__(self) -> int:
        return len(self.seen) + len(self.unreadable)

    def finding(self, severity: Severity, kind: str, what: str, advice: str, **more: Any) -> Finding:
        """Make a finding about the corpus."""
        return Finding(severity, kind, self.part, what, advice, self.name, **more)

    @property
    def labels(self) -> Counter[str]:
        """The number of images of each class."""
        return Counter(label for one in self.seen for label in one.image.labels)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The numbers of the images, where these have some."""
        return np.array([one.image.number for one in self.seen if one.image.number is not None])


def check_images(recipe: Recipe, progress: Say) -> tuple[list[CheckedImages], list[Finding]]:
    """Decode all images of a recipe, and return what was found in them, in the order of the data."""
    checked, found = [], list[Finding]()
    parts: tuple[tuple[Part, Sequence[AnyCorpus]], ...] = (
        ("train", recipe.data.train),
        ("valid", recipe.data.valid),
        ("test", recipe.data.test),
    )
    for part, corpora in parts:
        for corpus in corpora:
            progress(f"checking {corpus.title}")
            try:
                checked.append(_read(part, corpus, recipe))
            except UserError as error:
                if part != "test":
                    raise
                advice = "Training does not need it, but `heedful evaluate` does."
                found.append(Finding("warning", "unreadable", part, str(error), advice, corpus.title))
    for one in checked:
        found += _of_corpus(one, recipe)
    by_part = {part: [one for one in checked if one.part == part] for part, _ in parts}
    found += _repeats(by_part["train"])
    found += _overlaps(by_part)
    joined = {part: _joined(part, corpora) for part, corpora in by_part.items()}
    found += with_held_out_classes(_class_problems(joined), recipe.data)
    found += find_number_problems(joined) if "number" in recipe.rules.roles[0].needed else ()
    found += _other_light(by_part)
    return checked, found


# --- reading ----------------------------------------------------------------------------------------------------------


def _read(part: Part, corpus: AnyCorpus, recipe: Recipe) -> CheckedImages:
    model, form = recipe.model, recipe.data.images
    assert isinstance(model, ImageModel | CaptionerModel | ImageAnswererModel), "a model of images"
    seen, unreadable = list[Seen](), list[str]()
    for one in _decoded(images_of(corpus, recipe), model.encoder.channels, form):
        seen.append(one) if isinstance(one, Seen) else unreadable.append(one)
    found = CheckedImages(part, corpus.title, tuple(seen), tuple(unreadable))
    if not isinstance(corpus, ImageFolder):
        return found
    folder = locate(corpus.images, recipe.data.folder).path
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    empty = (path.name for path in classes if not path.name.startswith(".") and not images_in(path))
    loose = sorted(path.name for path in folder.iterdir() if is_image_name(path) and path.is_file())
    return replace(found, empty_classes=tuple(empty), loose=tuple(loose))


def reads_images(recipe: Recipe) -> bool:
    """Whether the rows of a task have an image."""
    return "image" in recipe.rules.roles[0].needed


def images_of(corpus: AnyCorpus, recipe: Recipe) -> Iterator[LabelledImage]:
    """Return the images of a corpus, as the recipe's task reads them."""
    match recipe.model:
        case CaptionerModel():
            return (row.image for row in read_captioned(corpus, recipe.data.folder))
        case ImageAnswererModel():
            return (row.image for row in read_asked_images(corpus, recipe.data.folder))
        case model:
            several = getattr(model, "labels", "one") == "several"
            return read_images(corpus, recipe.data.folder, several)


def _joined(part: Part, corpora: Sequence[CheckedImages]) -> WholePart:
    labels = sum((one.labels for one in corpora), Counter[str]())
    numbers = np.concatenate([np.zeros(0), *(one.numbers for one in corpora)])
    return WholePart(part, "image", sum(map(len, corpora)), ", ".join(one.name for one in corpora), "", labels, numbers)


def _decoded(images: Iterable[LabelledImage], channels: Channels, form: ImageForm) -> Iterator[Seen | str]:
    """Yield what is known of each image, or why it cannot be decoded; all cores decode, a chunk at a time."""
    as_they_are = ImageForm(max_pixels=form.max_pixels)

    def decode(image: LabelledImage) -> Seen | str:
        try:
            pixels = image.pixels(channels, as_they_are)
        except UserError as error:
            return str(error)
        height, width = pixels.shape[:2]
        content = sha256(f"{pixels.shape}".encode())
        content.update(np.ascontiguousarray(pixels).data)
        return Seen(image, content.digest(), (height, width), *_light(pixels))

    waiting = iter(images)
    with ThreadPoolExecutor(usable_cores(), "heedful-checking") as threads:
        while chunk := list(islice(waiting, _CHUNK)):
            yield from threads.map(decode, chunk)


def _light(pixels: Pixels) -> tuple[float, float]:
    """Return the brightness of an image, and the largest spread of a channel, which is 0 where all have one colour.

    Both come from the counts of values: means of a whole image would take many times its memory.
    """
    values, counts = np.arange(256.0), np.zeros((pixels.shape[2], 256))
    for row in pixels:
        for channel, of_channel in enumerate(counts):
            of_channel += np.bincount(row[:, channel], minlength=256)
    number = pixels.shape[0] * pixels.shape[1]
    means = counts @ values / number
    spreads = np.sqrt(((values - means[:, None]) ** 2 * counts).sum(axis=1) / number)
    return float(means.mean()), float(spreads.max())


# --- findings ---------------------------------------------------------------------------------------------------------


def _of_corpus(one: CheckedImages, recipe: Recipe) -> Iterator[Finding]:
    """Find what is wrong with single images."""
    if one.unreadable:
        yield one.finding(
            "problem" if one.part != "test" else "warning",
            "unreadable_images",
            f"images that cannot be decoded: {len(one.unreadable):,} of {len(one):,}",
            "Training refuses them: copy or download them again, or remove them.",
            count=len(one.unreadable),
            example=one.unreadable[0],
        )
    if one.empty_classes:
        yield one.finding(
            "warning",
            "empty_classes",
            f"folders of classes without an image: {listed([f'`{name}`' for name in one.empty_classes])}",
            "They are no classes of the model: put images (.png, .jpg or .webp) into them, or remove them.",
            count=len(one.empty_classes),
        )
    if one.loose:
        yield one.finding(
            "warning",
            "loose_images",
            f"images in no folder of a class: {len(one.loose):,}",
            "They are left out, as they have no label: move them into the folders of their classes.",
            count=len(one.loose),
            example=one.loose[0],
        )
    yield from _finding(one, "flat", [seen for seen in one.seen if seen.deviation < _FLAT])
    numbered = [seen for seen in one.seen if seen.image.number is not None]
    far = far_from_all(one.numbers)
    yield from _finding(one, "outlier", [seen for seen, outlies in zip(numbered, far, strict=True) if outlies])
    size = recipe.data.images.size
    if size is None:
        patch = getattr(getattr(recipe.model, "encoder", None), "patch", 1)
        yield from _finding(one, "small", [seen for seen in one.seen if min(seen.size) < patch])
    elif recipe.data.images.fit == "stretch":
        wanted = size[0] / size[1]
        yield from _finding(one, "stretched", [seen for seen in one.seen if _factor(seen.size, wanted) > STRETCHED])


def _factor(size: Size, wanted: float) -> float:
    factor = size[0] / size[1] / wanted
    return max(factor, 1 / factor)


def _finding(one: CheckedImages, kind: str, rows: Sequence[Seen], other: str = "") -> Iterator[Finding]:
    """Make the finding of a kind, if it is worth mentioning."""
    known = IMAGE_KINDS[kind]
    severity = known.severity(len(rows) / max(1, len(one))) if rows else None
    if severity is not None:
        yield one.finding(
            severity,
            kind,
            f"{known.what.format(other=other)}: {len(rows):,} of {len(one):,}",
            known.advice.format(other=other),
            count=len(rows),
            example=rows[0].image.where,
            of=len(one),
            keys=known.keys,
        )


def _repeats(train: Sequence[CheckedImages]) -> Iterator[Finding]:
    labels = defaultdict[bytes, set[tuple[object, ...]]](set)
    for one in train:
        for seen in one.seen:
            labels[seen.pixels].add((seen.image.number, *sorted(seen.image.labels)))
    known = set[bytes]()
    for one in train:
        repeated = []
        for seen in one.seen:
            if seen.pixels in known and len(labels[seen.pixels]) == 1:
                repeated.append(seen)
            known.add(seen.pixels)
        yield from _finding(one, "repeated", repeated)
        kind = "ambiguous_numbers" if len(one.numbers) else "ambiguous"
        yield from _finding(one, kind, [seen for seen in one.seen if len(labels[seen.pixels]) > 1])


def _overlaps(by_part: Mapping[Part, Sequence[CheckedImages]]) -> Iterator[Finding]:
    """Find images of one part that are in another; the model is trained on the first one that is named."""
    for part, other in (("valid", "train"), ("test", "train"), ("test", "valid")):
        there = {seen.pixels for one in by_part[other] for seen in one.seen}  # type: ignore[index]
        for one in by_part[part]:  # type: ignore[index]
            yield from _finding(one, "source_seen", [seen for seen in one.seen if seen.pixels in there], other)


def _class_problems(parts: Mapping[Part, WholePart]) -> Iterator[Finding]:
    train = parts["train"]
    if not train.labels:
        return
    for other in (parts["valid"], parts["test"]):
        advice = "The model cannot predict them: correct the labels, or add training images with them."
        yield from find_unknown_classes(other, train.labels, advice)
        missing = [
            label
            for label, count in train.labels.items()
            if label not in other.labels and count / train.size * other.size >= _EXPECTED
        ]
        if missing:
            names = [f"`{label}` ({train.labels[label]:,} in train)" for label in missing]
            yield other.finding(
                "warning",
                "missing_classes",
                f"classes without an image: {listed(names)}",
                "Scores say nothing about them: draw this part from the same images as the training data.",
                count=len(missing),
            )
    if train.size >= SMALL:
        yield from find_rare_classes(train)
        yield from find_dominant_class(train)


def _other_light(by_part: Mapping[Part, Sequence[CheckedImages]]) -> Iterator[Finding]:
    """Find a part whose images are much lighter or darker than those of the training data."""
    light = {part: np.array([seen.mean for one in ones for seen in one.seen]) for part, ones in by_part.items()}
    train = light["train"]
    for part in ("valid", "test"):
        values = light[part]
        if min(len(train), len(values)) < SMALL:
            continue
        mean, other = float(train.mean()), float(values.mean())
        if abs(mean - other) > _OTHER_LIGHT * max(1.0, float(train.std())):
            yield Finding(
                "warning",
                "other_light",
                part,
                f"the mean brightness of images is {other:.0f} of 255, but {mean:.0f} in the training data",
                "They may be inverted, or made in another way: look at some of both.",
                ", ".join(one.name for one in by_part[part]),
            )
