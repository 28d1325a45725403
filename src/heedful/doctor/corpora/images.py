"""Checks the images of a recipe: classes, sizes, unreadable files, repeats by their pixels, odd images."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from heedful.base.cores import usable_cores
from heedful.base.errors import UserError
from heedful.config.corpora.containers import AnyCorpus, ImageFolder
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.mixed import CaptionerModel
from heedful.config.model.pooled import ImageClassifierModel
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.corpora.formats.lines import locate
from heedful.data.corpora.images import LabelledImage, images_in, read_asked_images, read_captioned, read_images
from heedful.data.images.decoding import Channels, Size, is_image_name
from heedful.doctor.corpora.classes import SMALL, find_dominant_class, find_rare_classes, rare_classes
from heedful.doctor.findings import Finding, FindingKind, Part, Severity, listed

_CHUNK: Final = 256  # images that are decoded together
_EXPECTED: Final = 5.0  # images of a class that another part should have, if it has none
_FLAT: Final = 2.0  # standard deviation of the brightness, of 255: less is nothing to see
_STRETCHED: Final = 2.0  # factor between the proportions of an image and those it is resized to
_OTHER_LIGHT: Final = 3.0  # standard deviations between the brightness of two parts

KINDS: Final[Mapping[str, FindingKind]] = {
    "flat": FindingKind(
        "images of a single colour",
        "There is nothing to see in them: look at them, and remove them.",
        warning=0.01,
        problem=0.5,
    ),
    "small": FindingKind(
        "images smaller than a patch of the encoder",
        "They are filled up with black: choose a smaller `model.encoder.patch`, or resize them by `data.images`.",
        warning=0.01,
        problem=0.5,
    ),
    "stretched": FindingKind(
        f"images whose proportions change by more than a factor of {_STRETCHED:.0f}",
        'Set `data.images.fit = "crop"`, or choose a height and width that suit them.',
        warning=0.2,
        note=0.05,
    ),
    "repeated": FindingKind(
        "images that repeat an earlier one, pixel by pixel",
        "Repeats are trained on as often as they occur: remove them, unless this is intended.",
        warning=0.05,
        note=0.01,
    ),
    "ambiguous": FindingKind(
        "images that occur with different labels",
        "The model cannot learn both: decide on one label, or remove them.",
        warning=0.01,
    ),
    "source_seen": FindingKind(
        "images that are also in {other}, pixel by pixel",
        "Scores on them are too optimistic: remove them from {other}, or mention it with the scores.",
        warning=0.01,
        problem=0.5,
    ),
}


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
    found += _class_problems(by_part)
    found += _other_light(by_part)
    return checked, found


# --- reading ----------------------------------------------------------------------------------------------------------


def _read(part: Part, corpus: AnyCorpus, recipe: Recipe) -> CheckedImages:
    model, form = recipe.model, recipe.data.images
    assert isinstance(model, ImageClassifierModel | CaptionerModel | ImageAnswererModel), "a model of images"
    seen, unreadable = list[Seen](), list[str]()
    for one in _decoded(_images_of(corpus, recipe), model.encoder.channels, form.max_pixels):
        seen.append(one) if isinstance(one, Seen) else unreadable.append(one)
    found = CheckedImages(part, corpus.title, tuple(seen), tuple(unreadable))
    if not isinstance(corpus, ImageFolder):
        return found
    folder = locate(corpus.images, recipe.data.folder).path
    return replace(found, empty_classes=_empty_classes(folder), loose=_loose_images(folder))


def _images_of(corpus: AnyCorpus, recipe: Recipe) -> Iterator[LabelledImage]:
    match recipe.model:
        case CaptionerModel():
            return (row.image for row in read_captioned(corpus, recipe.data.folder))
        case ImageAnswererModel():
            return (row.image for row in read_asked_images(corpus, recipe.data.folder))
        case model:
            several = getattr(model, "labels", "one") == "several"
            return read_images(corpus, recipe.data.folder, several)


def _empty_classes(folder: Path) -> tuple[str, ...]:
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    return tuple(path.name for path in classes if not path.name.startswith(".") and not images_in(path))


def _loose_images(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir() if is_image_name(path) and path.is_file()))


def _decoded(images: Iterable[LabelledImage], channels: Channels, max_pixels: int) -> Iterator[Seen | str]:
    """Yield what is known of each image, or why it cannot be decoded; all cores decode, a chunk at a time."""

    def decode(image: LabelledImage) -> Seen | str:
        try:
            pixels = image.pixels(channels, max_pixels)
        except UserError as error:
            return str(error)
        height, width = pixels.shape[:2]
        content = sha256(f"{pixels.shape}".encode() + pixels.tobytes()).digest()
        # Whether an image has one colour is known by each channel; its brightness by all of them.
        spread = max(float(pixels[..., channel].std()) for channel in range(pixels.shape[2]))
        return Seen(image, content, (height, width), float(pixels.mean()), spread)

    waiting = iter(images)
    with ThreadPoolExecutor(usable_cores(), "heedful-checking") as threads:
        while chunk := list(islice(waiting, _CHUNK)):
            yield from threads.map(decode, chunk)


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
    size = recipe.data.images.size
    if size is None:
        patch = getattr(getattr(recipe.model, "encoder", None), "patch", 1)
        yield from _finding(one, "small", [seen for seen in one.seen if min(seen.size) < patch])
    elif recipe.data.images.fit == "stretch":
        wanted = size[0] / size[1]
        yield from _finding(one, "stretched", [seen for seen in one.seen if _factor(seen.size, wanted) > _STRETCHED])


def _factor(size: Size, wanted: float) -> float:
    factor = size[0] / size[1] / wanted
    return max(factor, 1 / factor)


def _finding(one: CheckedImages, kind: str, rows: Sequence[Seen], other: str = "") -> Iterator[Finding]:
    """Make the finding of a kind, if it is worth mentioning."""
    known = KINDS[kind]
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
        )


def _repeats(train: Sequence[CheckedImages]) -> Iterator[Finding]:
    labels = defaultdict[bytes, set[tuple[str, ...]]](set)
    for one in train:
        for seen in one.seen:
            labels[seen.pixels].add(tuple(sorted(seen.image.labels)))
    known = set[bytes]()
    for one in train:
        repeated = []
        for seen in one.seen:
            if seen.pixels in known and len(labels[seen.pixels]) == 1:
                repeated.append(seen)
            known.add(seen.pixels)
        yield from _finding(one, "repeated", repeated)
        yield from _finding(one, "ambiguous", [seen for seen in one.seen if len(labels[seen.pixels]) > 1])


def _overlaps(by_part: Mapping[Part, Sequence[CheckedImages]]) -> Iterator[Finding]:
    """Find images of one part that are in another; the model is trained on the first one that is named."""
    for part, other in (("valid", "train"), ("test", "train"), ("test", "valid")):
        there = {seen.pixels for one in by_part[other] for seen in one.seen}  # type: ignore[index]
        for one in by_part[part]:  # type: ignore[index]
            yield from _finding(one, "source_seen", [seen for seen in one.seen if seen.pixels in there], other)


def _class_problems(by_part: Mapping[Part, Sequence[CheckedImages]]) -> Iterator[Finding]:
    counts = sum((one.labels for one in by_part["train"]), Counter[str]())
    total, name = sum(map(len, by_part["train"])), ", ".join(one.name for one in by_part["train"])
    if not counts:
        return
    for part in ("valid", "test"):
        yield from _of_other_part(part, by_part[part], counts, total)
    if total < SMALL:
        return
    if rare := find_rare_classes(counts):
        yield rare_classes(rare, name, "image")
    yield from find_dominant_class(counts, total, name, "image")


def _of_other_part(part: Part, corpora: Sequence[CheckedImages], known: Counter[str], total: int) -> Iterator[Finding]:
    counts, size = sum((one.labels for one in corpora), Counter[str]()), sum(map(len, corpora))
    name = ", ".join(one.name for one in corpora)
    unknown = sorted(counts.keys() - known.keys())
    if unknown:
        yield Finding(
            "problem",
            "unknown_classes",
            part,
            f"labels that no training image has: {listed([f'`{label}`' for label in unknown])}",
            "The model cannot predict them: correct the labels, or add training images with them.",
            name,
            count=len(unknown),
        )
    missing = [label for label, count in known.items() if label not in counts and count / total * size >= _EXPECTED]
    if missing:
        names = [f"`{label}` ({known[label]:,} in train)" for label in missing]
        yield Finding(
            "warning",
            "missing_classes",
            part,
            f"classes without an image: {listed(names)}",
            "Scores say nothing about them: draw this part from the same images as the training data.",
            name,
            count=len(missing),
        )


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
