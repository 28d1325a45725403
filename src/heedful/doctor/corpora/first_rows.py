"""Reads the first rows of every corpus of a recipe as training does, in about a second and without torch.

What training or evaluation would refuse in them is refused here: columns, labels, numbers, encodings, images.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, NamedTuple

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import SPLITS, AlignedFiles, AnyCorpus, Builtin
from heedful.config.recipe import Recipe
from heedful.data.corpora.files import check_files, files_of
from heedful.data.corpora.formats.json_objects import place_words
from heedful.data.corpora.formats.lines import check_exists, locate, read_lines
from heedful.data.corpora.formats.rows import label_numbers
from heedful.data.corpora.pairs import read_pairs
from heedful.doctor.corpora.images import images_of, reads_images
from heedful.doctor.corpora.rows import form_of, labels_of_task, read_rows, split_labels
from heedful.doctor.corpora.text_faults import find_header
from heedful.doctor.findings import Finding, Part

_ROWS: Final = 20_000  # read from each corpus
_IMAGES: Final = 8  # decoded from each corpus
_LARGE: Final = 1 << 26  # bytes: of a larger file, a sample is not drawn, for which all of it must be read


@dataclass(frozen=True)
class FirstRows:
    """What was read of a corpus."""

    part: Part
    name: str
    rows: int
    unit: str  # what a row is, in the plural
    whole: bool  # whether the corpus has no more rows

    def __str__(self) -> str:
        noun = self.unit.removesuffix("s")
        of = f"{counted(self.rows, noun)} of" if self.whole else f"the first {counted(self.rows, noun)} of"
        return f"{self.part}: {of} {self.name}"


@dataclass
class CheckedRows:
    """The corpora of a recipe that can be read, what is wrong with others, and what looks wrong."""

    corpora: list[FirstRows] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # each with the key of its corpus
    warnings: list[Finding] = field(default_factory=list)


def check_first_rows(recipe: Recipe) -> CheckedRows:
    """Read the first rows of all corpora; labels of other parts must be among those of training, if all are known."""
    checked, known = CheckedRows(), _Labels()
    for split in SPLITS:
        corpora = getattr(recipe.data, split)
        for number, corpus in enumerate(corpora):
            table = f"data.{split}.{number}" if len(corpora) > 1 else f"data.{split}"
            missing = [*_missing(corpus, table, recipe.data.folder)]
            checked.errors += missing
            if missing:
                known.complete = False
                continue
            try:
                _check(split, corpus, recipe, checked, known)
            except UserError as error:
                checked.errors.append(f"`{table}`: {error}")
                known.complete = known.complete and split != "train"
        if split == "train" and corpora and known.complete and known.wanted(recipe) and len(known.found) < 2:
            what = f"one label, `{next(iter(known.found))}`" if known.found else "no label"
            if not (known.found and labels_of_task(recipe) == "several"):
                checked.errors.append(f"`data.train`: there is {what}, but there must be two to tell apart.")
    return checked


@dataclass
class _Labels:
    """The labels of the training data."""

    found: set[str] = field(default_factory=set)
    complete: bool = True  # whether all rows were read

    @staticmethod
    def wanted(recipe: Recipe) -> bool:
        """Whether rows have labels that the training data must have: answers about images may be new."""
        return recipe.rules.labels and "label" in recipe.rules.roles[0].needed


class _Labelled(NamedTuple):
    labels: Sequence[str]
    where: str


def _missing(corpus: AnyCorpus, table: str, folder: str) -> Iterator[str]:
    """Yield what is wrong with the files of a corpus, each with its key."""
    for key, name in corpus.named_files():
        try:
            check_exists(file := locate(name, folder))
            if file.member:
                next(read_lines(file), None)  # refuses one that its archive does not have
        except UserError as error:
            yield f"`{table}.{key}`: {error}"


def _check(part: Part, corpus: AnyCorpus, recipe: Recipe, checked: CheckedRows, known: _Labels) -> None:
    check_files(corpus, recipe.data.folder)
    if isinstance(corpus, Builtin):  # nothing can be wrong with it
        unit = form_of(corpus, None).unit if recipe.rules.vocabularies else "images"
        checked.corpora.append(FirstRows(part, corpus.title, corpus.count, unit, whole=True))
        known.complete = False
        return
    corpus = _without_large_sample(corpus, recipe.data.folder)
    for image in islice(images_of(corpus, recipe) if reads_images(recipe) else (), _IMAGES):
        image.pixels(3, recipe.data.images)
    if recipe.rules.vocabularies:
        labelled, first = _check_texts(part, corpus, recipe, checked)
    else:
        read = images_of(corpus, recipe)
        labelled = [_Labelled(image.labels, image.where) for image in islice(read, _ROWS)]
        first = FirstRows(part, corpus.title, len(labelled), "images", whole=next(read, None) is None)
    if known.wanted(recipe):
        if part == "train":
            known.found.update(label for row in labelled for label in row.labels)
            known.complete = known.complete and first.whole
        elif known.complete:
            unseen = "nothing in `data.train` has: correct it, or add such rows there"
            label_numbers(labelled, sorted(known.found), lambda row, _: row.where, unseen)
    checked.corpora.append(first)


def _check_texts(
    part: Part, corpus: AnyCorpus, recipe: Recipe, checked: CheckedRows
) -> tuple[list[_Labelled], FirstRows]:
    labels = labels_of_task(recipe)
    form, read = form_of(corpus, labels, recipe.rules.running), read_rows(corpus, recipe.data, labels)
    rows = [*islice(read, _ROWS)]
    more = next(read, None) is not None
    blank = sum(not row.first.strip() or (form.paired and not row.second.strip()) for row in rows)
    if blank == len(rows) and not more:
        why = f"all {blank:,} are blank" if blank else "it is empty"
        raise UserError(f"{corpus.title} has no {form.unit} to use: {why}.")
    count = len(rows)
    if more and isinstance(corpus, AlignedFiles):  # the files must have the same number of lines
        count, more = sum(1 for _ in read_pairs(corpus, recipe.data.folder)), False
    labelled = [
        _Labelled(
            split_labels(row.second, labels), f"{corpus.title}, {place_words(row.line)}" if row.line else corpus.title
        )
        for row in (rows if form.labelled else ())
        if row.first.strip()
    ]
    checked.warnings += find_header(part, corpus, rows, form, Counter(chain(*(row.labels for row in labelled))))
    return labelled, FirstRows(part, corpus.title, count, form.unit, whole=not more)


def _without_large_sample(corpus: AnyCorpus, folder: str) -> AnyCorpus:
    size = sum(file.path.stat().st_size for file in files_of(corpus, folder))
    return corpus.model_copy(update={"sample": None}) if getattr(corpus, "sample", None) and size > _LARGE else corpus
