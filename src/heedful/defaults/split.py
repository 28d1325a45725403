"""Validation data for a recipe that names none: some of its training rows are held out, chosen by their hash.

The parts are keys of the recipe's corpora like those that a user writes, so that whoever reads the recipe of the run
sees the same rows. A recipe that chooses rows itself, by `part` or `sample`, is left as it is, and so is one with
`valid = []`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from heedful.base.errors import HeedfulError, UserError
from heedful.config.checks import needs_validation
from heedful.config.corpora.containers import AnyCorpus, Builtin, PlainText
from heedful.config.corpora.corpus import Subsets
from heedful.config.corpora.roles import (
    CAPTIONS,
    IMAGE_NUMBERS,
    IMAGE_QUESTIONS,
    IMAGES,
    PAIRS,
    QUESTIONS,
    RUNNING_TEXT,
    SCENES,
    TAGGED,
    TEXTS,
    TREES,
    RowKind,
)
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.corpora.documents import read_documents, read_running_text
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.lines import read_lines
from heedful.data.corpora.images import read_asked_images, read_captioned, read_images
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.questions import read_questions
from heedful.data.corpora.tagged import read_tagged
from heedful.data.corpora.texts import read_texts
from heedful.data.text_form import TextForm

FEWEST: Final = 50  # rows: fewer are not split
_LEAST, _MOST = 20, 2_000  # rows to hold out, about
_PARTS: Final = 10  # usual number of parts
_FEWEST_PARTS: Final = 5  # of few rows
_LARGEST: Final = 0.3  # share of the rows that is held out, at most
_CLOSE: Final = 0.5  # by which a part may be larger or smaller than it should be, before another one is tried
_LONG: Final = 10_000  # characters: a text in few lines that is as long is split
_CERTAIN: Final = 10_000  # rows: with more, a part has the size that is expected, unless few texts have many questions

_NOUNS: Final[Mapping[RowKind, str]] = {
    PAIRS: "pairs",
    TREES: "trees",
    TEXTS: "texts",
    RUNNING_TEXT: "documents",
    TAGGED: "sentences",
    QUESTIONS: "questions",
    IMAGES: "images",
    IMAGE_NUMBERS: "images",
    CAPTIONS: "images",
    IMAGE_QUESTIONS: "images",
    SCENES: "images",
}


Table = Mapping[str, Any]  # of a corpus


def with_held_out_rows(recipe: Recipe) -> Recipe:
    """Return the recipe with validation corpora, unless it has or refuses them; unreadable data changes nothing."""
    if "valid" in recipe.data.model_fields_set:
        return recipe
    try:
        split = _split(recipe)
    except (HeedfulError, OSError, ValueError, TypeError):
        return recipe  # training says what is wrong with the data
    if split is None:
        if need := needs_validation(recipe.train):
            why = why_not_split(recipe)
            raise UserError(f"{need}. {why[0].upper()}{why[1:]}: name a validation corpus.")
        return recipe
    made = load_recipe(recipe, {"data.train": split.train, "data.valid": split.valid})
    made.hold_out(f"{split.words} as validation data: `data.valid` is not set")
    return made


def with_split_of(recipe: Recipe, run: Recipe) -> Recipe:
    """Return the recipe of a run that is resumed, with the rows held out that were so when it began."""
    ours, theirs = recipe.data.train, run.data.train
    if "valid" in recipe.data.model_fields_set or len(ours) != len(theirs):
        return recipe
    owners = [next((place for place, one in enumerate(theirs) if _same(one, held)), None) for held in run.data.valid]
    if not owners or None in owners:
        return recipe
    train = [_table(corpus, _choice(other)) for corpus, other in zip(ours, theirs, strict=True)]
    valid = [_held_out(ours[owner or 0], _choice(held)) for owner, held in zip(owners, run.data.valid, strict=True)]
    return load_recipe(recipe, {"data.train": train, "data.valid": valid})


def why_not_split(recipe: Recipe) -> str:
    """Return why a recipe without validation data gets none."""
    if "valid" in recipe.data.model_fields_set:
        return "`data.valid` is empty"
    if _by_hand(recipe):
        return "training corpora with `part` or `sample` are not split"
    texts = [corpus for corpus in recipe.data.train if isinstance(corpus, PlainText)]
    if len(texts) == len(recipe.data.train) == 1 and _has_one_line(texts[0], recipe):
        return f"{texts[0].title} is one line, and lines are not divided (`fold -s` breaks it into several)"
    return "there are too few rows to hold some out"


def _has_one_line(corpus: PlainText, recipe: Recipe) -> bool:
    with suppress(HeedfulError):
        return sum(1 for _ in islice(read_lines(files_of(corpus, recipe.data.folder)[0]), 2)) == 1
    return False


# --- which rows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Split:
    train: Sequence[Table]
    valid: Sequence[Table]
    words: str  # what was held out


@dataclass(frozen=True)
class _Counted:
    """A corpus in files, its rows, and how many of them are in a part."""

    corpus: Any
    rows: int
    held: Callable[[str], int]


def _by_hand(recipe: Recipe) -> bool:
    """Whether the recipe itself chooses its training rows."""
    return any(
        corpus.part != "train" if isinstance(corpus, Builtin) else isinstance(corpus, Subsets) and corpus.chosen
        for corpus in recipe.data.train
    )


def _split(recipe: Recipe) -> _Split | None:
    """Return a split of the training corpora; None if they are too small, or chosen by hand."""
    if _by_hand(recipe):
        return None
    generated = [corpus for corpus in recipe.data.train if isinstance(corpus, Builtin)]
    files = [corpus for corpus in recipe.data.train if not isinstance(corpus, Builtin)]
    of_files = (_by_hash(recipe, files) or _by_lines(recipe, files)) if files else None
    drawn = generated if sum(corpus.count for corpus in generated) >= FEWEST else []
    valid = [
        *(of_files.valid if of_files else ()),
        *(_held_out(one, {"part": "valid", "count": _share_of(one.count), "lines": ""}) for one in drawn),
    ]
    if not valid:
        return None
    parts = iter(of_files.train if of_files else map(_table, files))
    train = [_table(corpus) if isinstance(corpus, Builtin) else next(parts) for corpus in recipe.data.train]
    words = f"{sum(_share_of(one.count) for one in drawn):,} more {_noun(drawn)} are generated"
    return _Split(train, valid, of_files.words if of_files else words)


def _by_hash(recipe: Recipe, corpora: Sequence[AnyCorpus]) -> _Split | None:
    """Return a split into parts.

    All corpora are split alike, so that a row that is in two of them is on the same side in both. Rows that stay
    together may make a part much larger or smaller than it should be; another number of parts is tried then.
    """
    counted = [_count(corpus, recipe) for corpus in corpora]
    total = sum(one.rows for one in counted)
    found = _best_part(counted, total)
    if found is None:
        return None
    part, rest, held = found
    pairs = list(zip(counted, held, strict=True))
    about = "about " if any(one.rows > _CERTAIN for one in counted) else ""
    return _Split(
        [_table(one.corpus, {"part": rest} if number < one.rows else {}) for one, number in pairs],
        [_held_out(one.corpus, {"part": part}) for one, number in pairs if 0 < number < one.rows],
        f"{about}{sum(held):,} of {total:,} {_noun(corpora)} are held out",
    )


def part_to_hold_out(recipe: Recipe) -> tuple[str, str, list[int]] | None:
    """Return the part of the training rows to hold out, the other parts, and how many rows of each corpus are held out.

    None where they cannot be read or divided.
    """
    try:
        counted = [_count(corpus, recipe) for corpus in recipe.data.train]
    except (HeedfulError, OSError, ValueError, TypeError):
        return None  # whoever reads the data says what is wrong with it
    return _best_part(counted, sum(one.rows for one in counted))


def _best_part(counted: Sequence[_Counted], total: int) -> tuple[str, str, list[int]] | None:
    if total < FEWEST:
        return None
    usual = _parts_of(total)
    best = (float("inf"), "", "", list[int]())  # how far from the usual share, part, other parts, rows of each corpus
    for part, rest in _choices(usual):
        held = [one.held(part) for one in counted]
        share = sum(held) / total
        if 0 < share <= _LARGEST:
            best = min(best, (abs(share * usual - 1), part, rest, held))
        if best[0] <= _CLOSE:
            break
    return best[1:] if best[1] else None


def _choices(usual: int) -> Iterator[tuple[str, str]]:
    """Yield parts to hold out, each with the other ones: of the usual number of parts, then of others."""
    for count in sorted(range(max(4, usual - 3), usual + 6), key=lambda count: abs(count - usual)):
        yield f"0/{count}", f"1-{count - 1}/{count}"
        yield f"{count - 1}/{count}", f"0-{count - 2}/{count}"


def _by_lines(recipe: Recipe, corpora: Sequence[AnyCorpus]) -> _Split | None:
    """Return a split of running text in too few documents: its last lines are held out."""
    train, valid, total, held = list[Table](), list[Table](), 0, 0
    for corpus in corpora:
        if not isinstance(corpus, PlainText):
            return None
        if corpus.lines:
            first, last = corpus.line_range
        else:
            first, last = 1, sum(1 for _ in read_lines(files_of(corpus, recipe.data.folder)[0]))
        lines = last - first + 1
        kept = last - max(1, _share_of(lines))
        if lines < FEWEST and not _is_long(corpus, recipe, kept - first + 1):
            train.append(_table(corpus))
            continue
        total, held = total + lines, held + last - kept
        train.append(_table(corpus, {"lines": f"{first}-{kept}"}))
        valid.append(_held_out(corpus, {"lines": f"{kept + 1}-{last}"}))
    return _Split(train, valid, f"the last {held:,} of {total:,} lines are held out") if valid else None


def _is_long(corpus: PlainText, recipe: Recipe, kept: int) -> bool:
    """Whether few lines are long enough to be split after so many: each may be a whole paragraph or chapter."""
    sizes = [len(line) for line in select_lines(read_lines(files_of(corpus, recipe.data.folder)[0]), corpus)]
    return sum(sizes) >= _LONG and 0 < sum(sizes[kept:]) <= _LARGEST * sum(sizes)


def _parts_of(rows: int) -> int:
    """Return into how many parts rows are divided, of which one is held out."""
    if rows > _PARTS * _MOST:
        return -(-rows // _MOST)
    return min(_PARTS, max(_FEWEST_PARTS, rows // _LEAST))


def _share_of(rows: int) -> int:
    return rows // _parts_of(rows)


def _count(corpus: AnyCorpus, recipe: Recipe) -> _Counted:
    rows = sum(1 for _ in _rows(corpus, recipe))

    def held(part: str) -> int:
        if rows > _CERTAIN and corpus.row_kind is not QUESTIONS:
            return rows // int(part.partition("/")[2])
        return sum(1 for _ in _rows(corpus.model_copy(update={"part": part}), recipe))

    return _Counted(corpus, rows, held)


def _rows(corpus: AnyCorpus, recipe: Recipe) -> Iterator[object]:
    """Yield the rows of a corpus as its task reads them, blank ones left out."""
    folder, form, kind = recipe.data.folder, TextForm.of(recipe.data), corpus.row_kind
    if kind is RUNNING_TEXT:
        return (read_running_text if recipe.rules.running else read_documents)(corpus, folder, form)
    if kind is TAGGED or (kind is TEXTS and recipe.rules.words):
        return (text for text in read_tagged(corpus, folder) if not text.blank)
    if kind is TEXTS:
        return (text for text in read_texts(corpus, folder, labelled=False) if not text.blank)
    if kind in (PAIRS, TREES):
        return (pair for pair in read_pairs(corpus, folder) if pair[0].strip())
    return _READERS[kind](corpus, folder)


_READERS: Final[Mapping[RowKind, Callable[[AnyCorpus, str], Iterator[object]]]] = {
    QUESTIONS: read_questions,
    IMAGES: read_images,
    IMAGE_NUMBERS: read_images,
    CAPTIONS: read_captioned,
    IMAGE_QUESTIONS: read_asked_images,
}


def _noun(corpora: Sequence[AnyCorpus]) -> str:
    nouns = {_NOUNS[corpus.row_kind] for corpus in corpora}
    return nouns.pop() if len(nouns) == 1 else "rows"


# --- corpora ----------------------------------------------------------------------------------------------------------


def _table(corpus: AnyCorpus, changes: Table = MappingProxyType({})) -> dict[str, Any]:
    """Return the table of a corpus as a recipe writes it, with another choice of rows."""
    table = {**corpus.model_dump(mode="json", exclude_unset=True), **changes}
    return {key: value for key, value in table.items() if value != ""}


def _held_out(corpus: AnyCorpus, changes: Table) -> dict[str, Any]:
    return {key: value for key, value in _table(corpus, changes).items() if key != "weight"}


def _choice(corpus: AnyCorpus) -> dict[str, Any]:
    """Return the keys that choose rows of a corpus."""
    return {key: getattr(corpus, key) for key in ("part", "lines", "count") if key in type(corpus).model_fields}


def _same(one: AnyCorpus, other: AnyCorpus) -> bool:
    """Whether two corpora are the same but for the choice of their rows."""
    first, second = (
        corpus.model_dump(exclude={"weight", "part", "lines", "count"}) for corpus in (one, other)
    )  # fmt: skip
    return type(one) is type(other) and first == second
