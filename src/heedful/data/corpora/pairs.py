"""Pairs of sentences from every kind of corpus that a recipe can name."""

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Final, assert_never

from heedful.base.errors import UserError, counted
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.captions import CsvCaptions, JsonlCaptions, TsvCaptions
from heedful.config.corpora.image_questions import (
    BuiltinImageQuestions,
    CsvImageQuestions,
    JsonlImageQuestions,
    TsvImageQuestions,
)
from heedful.config.corpora.images import (
    BuiltinImages,
    CsvImages,
    FolderImages,
    IdxImages,
    JsonlImages,
    NpzImages,
    TsvImages,
)
from heedful.config.corpora.pairs import BuiltinCorpus, CsvCorpus, FiledPairs, JsonlCorpus, TextCorpus, TsvCorpus
from heedful.config.corpora.questions import BuiltinQuestions, JsonlQuestions, SquadQuestions
from heedful.config.corpora.texts import ConllTexts, CsvTexts, JsonlTexts, PlainTexts, TsvTexts
from heedful.config.corpora.trees import TreeCorpus
from heedful.data.builtin.dates import date_pairs
from heedful.data.builtin.english_spanish import sentence_pairs
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.json_rows import json_object, text_field
from heedful.data.corpora.formats.lines import TextFile, check_exists, read_lines
from heedful.data.corpora.formats.tables import read_columns
from heedful.data.corpora.trees import all_trees, tree_pair
from heedful.data.text_form import TOO_LONG, TextForm

Pair = tuple[str, str]
_GENERATORS: Final[Mapping[str, Callable[[str, int], Iterator[Pair]]]] = {
    "english-spanish": sentence_pairs,
    "dates": date_pairs,
}
AS_IT_STANDS: Final = TextForm()


def read_pairs(corpus: AnyCorpus, folder: str = "", form: TextForm = AS_IT_STANDS) -> Iterator[Pair]:
    """Yield the (source, target) pairs of a corpus in order, blank ones included."""
    pairs = select_lines(_all_pairs(corpus, folder), corpus)
    if form == AS_IT_STANDS:
        return pairs
    return ((form.of_line(source), form.of_line(target)) for source, target in pairs)


def read_references(
    corpus: AnyCorpus, folder: str = "", form: TextForm = AS_IT_STANDS
) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    """Yield each source of a corpus with its reference, or with all of them if the corpus may have several.

    Targets of one source are references of it if the corpus has `variants`; sources then come in the order in which
    they occur first, and blank pairs are left out. Those of further files (`references`) are so line by line.
    """
    references = corpus.references if isinstance(corpus, TextCorpus) else ()
    variants = isinstance(corpus, FiledPairs) and corpus.variants
    if not references and not variants:
        yield from read_pairs(corpus, folder, form)
        return
    others = [corpus.model_copy(update={"target": name, "references": ()}) for name in references]
    rows = zip(*(read_pairs(one, folder, form) for one in (corpus, *others)), strict=True)
    found = ((pairs[0][0], tuple(target for _, target in pairs)) for pairs in rows)
    if not variants:
        yield from found
        return
    targets: dict[str, dict[str, None]] = {}
    for source, several in found:
        if source.strip():
            targets.setdefault(source, {}).update(dict.fromkeys(target for target in several if target.strip()))
    yield from ((source, tuple(several)) for source, several in targets.items() if several)


def is_blank(pair: Pair) -> bool:
    """Whether a side is blank."""
    return not pair[0].strip() or not pair[1].strip()


def why_blank(pair: Pair) -> str:
    """Return why a blank pair is dropped: "empty", or "line" where a side was longer than a line may be."""
    return "line" if any(side is TOO_LONG for side in pair) else "empty"


def _all_pairs(corpus: AnyCorpus, folder: str) -> Iterator[Pair]:
    match corpus:
        case TextCorpus():
            return _text_pairs(*files_of(corpus, folder)[:2])
        case TsvCorpus() | CsvCorpus():
            return _table_pairs(corpus, *files_of(corpus, folder))
        case JsonlCorpus():
            return _jsonl_pairs(corpus, *files_of(corpus, folder))
        case BuiltinCorpus():
            return _GENERATORS[corpus.builtin](corpus.part, corpus.count)
        case TreeCorpus():
            return _tree_pairs(corpus, folder)
        case TsvTexts() | CsvTexts() | JsonlTexts() | ConllTexts() | PlainTexts():
            raise TypeError(f"{corpus.title} has texts, not pairs")
        case JsonlQuestions() | SquadQuestions() | BuiltinQuestions():
            raise TypeError(f"{corpus.title} has questions, not pairs")
        case TsvImageQuestions() | CsvImageQuestions() | JsonlImageQuestions() | BuiltinImageQuestions():
            raise TypeError(f"{corpus.title} has questions about images, not pairs")
        case (
            FolderImages()
            | TsvImages()
            | CsvImages()
            | JsonlImages()
            | TsvCaptions()
            | CsvCaptions()
            | JsonlCaptions()
            | IdxImages()
            | NpzImages()
            | BuiltinImages()
        ):
            raise TypeError(f"{corpus.title} has images, not pairs")
        case _:
            assert_never(corpus)


def _text_pairs(source: TextFile, target: TextFile) -> Iterator[Pair]:
    check_exists(source)
    check_exists(target)
    rows = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(rows, start=1):
        if left is None or right is None:
            short, long = (source, target) if left is None else (target, source)
            total = number + sum(1 for _ in rows)
            raise UserError(
                f"{short.name} has {counted(number - 1, 'line')} but {long.name} has {total:,}: line n of one belongs "
                "to line n of the other."
            )
        yield left, right


def _table_pairs(corpus: TsvCorpus | CsvCorpus, file: TextFile) -> Iterator[Pair]:
    for _, values in read_columns(corpus, file, ("source", "target")):
        yield (values[0], values[1]) if values else ("", "")


def _jsonl_pairs(corpus: JsonlCorpus, file: TextFile) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file.name}, line {number:,}"
        if not line.strip():
            yield "", ""
            continue
        row = json_object(line, where)
        source = text_field(row, corpus.source, where)
        yield from ((source, target) for target in _targets(corpus, row, where))


def _targets(corpus: JsonlCorpus, row: dict[str, object], where: str) -> list[str]:
    """Return the target of a row, or those of a list, which a corpus with `variants` may have."""
    found = row.get(corpus.target)
    if not isinstance(found, list):
        return [text_field(row, corpus.target, where)]
    if not corpus.variants:
        raise UserError(f"{where}: field `{corpus.target}` is a list, but must be text unless `variants` is true.")
    if not found:
        raise UserError(f"{where}: field `{corpus.target}` is an empty list, but must have at least one text.")
    return [text_field({corpus.target: one}, corpus.target, where) for one in found]


def _tree_pairs(corpus: TreeCorpus, folder: str) -> Iterator[Pair]:
    for tree in all_trees(corpus, folder):
        yield ("", "") if tree is None else tree_pair(tree, corpus.leaves)
