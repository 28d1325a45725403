"""Pairs of sentences from every kind of corpus that a recipe can name."""

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from operator import itemgetter
from typing import Final

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import AlignedFiles, AnyCorpus, Builtin, Csv, Jsonl, Tmx, Trees, Tsv, Xliff
from heedful.config.corpora.corpus import Subsets
from heedful.config.corpora.roles import PAIRS
from heedful.data.builtin.dates import date_pairs
from heedful.data.builtin.english_spanish import sentence_pairs
from heedful.data.corpora.files import choose, files_of, select_lines
from heedful.data.corpora.formats.lines import TextFile, check_exists, count_lines, read_lines
from heedful.data.corpora.formats.rows import read_rows
from heedful.data.corpora.formats.tables import read_columns
from heedful.data.corpora.formats.translations import read_translations
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
    if isinstance(corpus, Subsets):
        if corpus.sample is not None:
            pairs = (pair for pair in pairs if pair[0].strip())  # blank sources do not count towards the sample
        # By the source alone: variants stay together, and further references are those of the same rows.
        pairs = choose(pairs, corpus, itemgetter(0), "pair")
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
    references = corpus.references if isinstance(corpus, AlignedFiles) else ()
    variants: bool = getattr(corpus, "variants", False)
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
    if isinstance(corpus, Trees):
        return (("", "") if tree is None else tree_pair(tree, corpus.leaves) for tree in all_trees(corpus, folder))
    if corpus.row_kind is PAIRS:
        match corpus:
            case AlignedFiles():
                return _aligned_lines(*files_of(corpus, folder)[:2])
            case Builtin():
                return _GENERATORS[corpus.builtin](corpus.part, corpus.count)
            case Tsv() | Csv() | Jsonl():
                return _pairs_of_rows(corpus, folder)
            case Tmx() | Xliff():
                return read_translations(corpus, folder)
    raise TypeError(f"{corpus.title} has {corpus.row_kind.words}, not pairs")


def _aligned_lines(source: TextFile, target: TextFile) -> Iterator[Pair]:
    check_exists(source)
    check_exists(target)
    rows = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(rows, start=1):
        if left is None or right is None:
            short, long = (source, target) if left is None else (target, source)
            total = count_lines(long) if long.path.is_file() else number + sum(1 for _ in rows)
            raise UserError(
                f"{short.name} has {counted(number - 1, 'line')} but {long.name} has {total:,}: line n of one belongs "
                "to line n of the other."
            )
        yield left, right


def _pairs_of_rows(corpus: Tsv | Csv | Jsonl, folder: str) -> Iterator[Pair]:
    """Yield the pairs of each row; a field with several targets needs `variants`."""
    if not isinstance(corpus, Jsonl):  # corpora of millions of pairs: without an object for each row
        for _, values in read_columns(corpus, folder, ("source", "target")):
            yield (values[0], values[1]) if values else ("", "")
        return
    for row in read_rows(corpus, folder):
        if row is None:
            yield "", ""
            continue
        source = row.text("source")
        if not isinstance(row.value("target"), list):
            yield source, row.text("target")
            continue
        if not corpus.variants:
            raise UserError(
                f"{row.where}: field `{corpus.target}` is a list, but must be text unless `variants` is true."
            )
        yield from ((source, target) for target in row.texts("target"))
