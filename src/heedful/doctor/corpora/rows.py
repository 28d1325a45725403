"""Reads the corpora of every task as rows of one or two texts, so that one set of checks serves all of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from heedful.config.corpora.containers import AnyCorpus, Builtin, PlainText, Tmx, Trees, Xliff
from heedful.config.corpora.corpus import Subsets
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.data.corpora.documents import read_documents
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.lines import read_lines
from heedful.data.corpora.formats.settling import settle
from heedful.data.corpora.images import read_asked_images, read_captioned
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.questions import read_questions
from heedful.data.corpora.tagged import read_tagged
from heedful.data.corpora.texts import read_texts
from heedful.data.corpora.trees import numbered_trees, tree_pair
from heedful.data.text_form import TextForm
from heedful.doctor.findings import FINDING_KINDS, LINE_KINDS, NUMBERED_TEXT_KINDS, TEXT_KINDS, TREE_KINDS, FindingKind

Labels = Literal["one", "several", "words", "number"] | None  # of a text: one per word, or None if the task reads none

_BETWEEN: Final = " ||| "  # the two texts of a row that a model reads together
_COMMA: Final = ", "  # between the labels of a text


class Row(NamedTuple):
    """One row: source and target, text and label, or a text alone."""

    first: str
    second: str
    line: int  # in its file, from 1; 0 where that is unknown


@dataclass(frozen=True)
class RowForm:
    """What the rows of a corpus are called, and what can be said about them."""

    unit: str  # their name in the plural
    sides: tuple[str, ...]  # names of their texts
    kinds: Mapping[str, FindingKind]
    shortest: int = 1  # characters: shorter rows are not compared with others
    overlong: int = 2000  # characters

    @property
    def paired(self) -> bool:
        """Whether a row has a text in two languages."""
        return "target" in self.sides

    def without(self, *kinds: str) -> "RowForm":
        """Return the form of rows of which some kinds of problems are not told."""
        return replace(self, kinds={kind: how for kind, how in self.kinds.items() if kind not in kinds})

    @property
    def labelled(self) -> bool:
        """Whether a row has a label."""
        return "label" in self.sides

    @property
    def numbered(self) -> bool:
        """Whether a row has a number."""
        return "number" in self.sides


_WITHOUT_LENGTHS: Final = {kind: how for kind, how in TEXT_KINDS.items() if kind not in ("overlong", "cut")}
_PAIRS: Final = RowForm("pairs", ("source", "target"), FINDING_KINDS)
_GENERATED_PAIRS: Final = _PAIRS.without("ratio", "digits")  # lengths and numbers differ as they should
_VARIANTS: Final = _PAIRS.without("ambiguous")
_LABELLED: Final = RowForm("texts", ("text", "label"), TEXT_KINDS, overlong=20_000)
_NUMBERED: Final = RowForm("texts", ("text", "number"), NUMBERED_TEXT_KINDS, overlong=20_000)
_TEXTS: Final = RowForm("texts", ("text",), TEXT_KINDS, overlong=20_000)
_TAGGED: Final = RowForm("sentences", ("text", "label"), _WITHOUT_LENGTHS)  # long sentences are cut between words
_DOCUMENTS: Final = RowForm("texts", ("text",), _WITHOUT_LENGTHS)  # windows are cut from texts of any length
_TREES: Final = RowForm("sentences", ("text",), TREE_KINDS)
_QUESTIONS: Final = RowForm("questions", ("text",), _WITHOUT_LENGTHS)  # with their texts
_CAPTIONS: Final = RowForm("captions", ("text",), _WITHOUT_LENGTHS).without(  # images may be described alike
    "repeated", "source_seen", "pair_seen"
)
_ASKED: Final = RowForm("questions", ("text",), _CAPTIONS.kinds)  # about images, of which many are asked alike
_LINES: Final = RowForm("lines", ("text",), LINE_KINDS, shortest=20)  # headings and short replies recur


def labels_of_task(recipe: Recipe) -> Labels:
    """Return which labels the texts of a recipe have, or that they have numbers."""
    if "number" in recipe.rules.roles[0].needed:
        return "number"
    if not recipe.rules.labels or recipe.rules.images:  # images have them, and not their questions
        return None
    if recipe.rules.words:
        return "words"
    return "several" if getattr(recipe.model, "labels", "one") == "several" else "one"


def form_of(corpus: AnyCorpus, labels: Labels, running: bool = False) -> RowForm:
    """Return the form of a corpus's rows; `running` says whether the task reads texts in windows."""
    if "target" in corpus.roles:
        if isinstance(corpus, Builtin):
            return _GENERATED_PAIRS
        return _VARIANTS if getattr(corpus, "variants", False) else _PAIRS
    if isinstance(corpus, PlainText):
        return _LINES
    if {"image", "question"} <= corpus.roles:
        return _ASKED
    for role, form in {"question": _QUESTIONS, "tree": _TREES, "image": _CAPTIONS}.items():
        if role in corpus.roles:
            return form
    if running:
        return _DOCUMENTS
    if labels == "words":
        return _TAGGED
    if labels == "number":
        return _NUMBERED
    return _TEXTS if labels is None else _LABELLED


def read_rows(corpus: AnyCorpus, data: Data, labels: Labels) -> Iterator[Row]:
    """Yield the rows of a corpus in order, blank ones included, in the form that the model reads."""
    corpus = settle(corpus, data.folder)
    form, header = TextForm.of(data), int(corpus.has_header)
    first = int(corpus.lines.partition("-")[0] or 1) + header
    if isinstance(corpus, Trees) and not corpus.chosen:
        trees = select_lines(numbered_trees(corpus, data.folder), corpus)  # which may extend over several lines
        sides = ((("", "") if tree is None else tree_pair(tree, corpus.leaves), line) for line, tree in trees)
        return (Row(form.of_line(source), form.of_line(target), line) for (source, target), line in sides)
    if corpus.roles & {"target", "tree"}:
        numbered = not (isinstance(corpus, Tmx | Xliff) or (isinstance(corpus, Subsets) and corpus.chosen))  # by line
        pairs = enumerate(read_pairs(corpus, data.folder, form), first)
        return (Row(source, target, line if numbered else 0) for line, (source, target) in pairs)
    if isinstance(corpus, PlainText):
        return _lines(corpus, data, form, first)
    if {"image", "question"} <= corpus.roles:
        return (
            Row(form.of_line(question.question), "", 0)
            for asked in read_asked_images(corpus, data.folder)
            for question in asked.questions
        )
    if "question" in corpus.roles:
        return (
            Row(_one_line(form.of_line(asked.question), form.of_line(asked.text)), "", asked.line)
            for asked in read_questions(corpus, data.folder)
        )
    if "image" in corpus.roles:
        return (
            Row(text, "", line)
            for one in read_captioned(corpus, data.folder, form)
            for text, line in zip(one.captions, one.lines, strict=True)
        )
    if labels == "words":
        return (
            Row(" ".join(text.words), " ".join(text.labels), text.lines[0] if text.lines else 0)
            for text in read_tagged(corpus, data.folder, form)
        )
    return (
        Row(
            _one_line(text.text, text.second),
            _COMMA.join(text.labels) if text.number is None else f"{text.number:.17g}",
            text.line,
        )
        for text in read_texts(corpus, data.folder, form, labels == "several", labels is not None)
    )


def split_labels(joined: str, labels: Labels) -> list[str]:
    """Return the labels of a row."""
    names = joined.split() if labels == "words" else joined.split(_COMMA) if labels == "several" else [joined]
    return [name for name in names if name]


def _one_line(text: str, second: str | None) -> str:
    """Join a pair of texts; a line break inside a cell of a table is as good as a space."""
    whole = text if second is None else f"{text}{_BETWEEN}{second}" if text.strip() and second.strip() else ""
    return " ".join(whole.splitlines()) if "\n" in whole or "\r" in whole else whole


def cells_of(row: Row) -> list[str]:
    """Return what would be the names of columns if the row were a header."""
    parts = [cell for text in row.first.split(_BETWEEN) for cell in text.split("\t")]
    return [cell.strip().strip("\"'").casefold() for cell in (*parts, *([row.second] if row.second else []))]


def _lines(corpus: PlainText, data: Data, form: TextForm, first: int) -> Iterator[Row]:
    """Yield the lines of running text; of a part or a sample, which consists of whole documents, the sentences."""
    if corpus.chosen:
        documents = read_documents(corpus, data.folder, form)
        return (Row(sentence, "", 0) for document in documents for sentence in document)
    lines = select_lines(read_lines(files_of(corpus, data.folder)[0]), corpus)
    headed = corpus.documents == "heading"  # headings are not read as text
    return (
        Row("" if headed and line.strip()[:1] == "=" == line.strip()[-1:] else form.of_line(line), "", number)
        for number, line in enumerate(lines, first)
    )
