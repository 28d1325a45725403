"""Documents as lists of sentences, from running text and from texts in tables: what masked language models read."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import assert_never

from heedful.config.corpora.texts import AnyTexts, CsvTexts, JsonlTexts, PlainTexts, RowTexts, TsvTexts
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.lines import read_lines
from heedful.data.corpora.sentence_splitting import split_sentences
from heedful.data.corpora.subsets import choose
from heedful.data.corpora.texts import read_texts
from heedful.data.text_form import TextForm

Document = list[str]  # its sentences


def read_documents(
    corpus: AnyTexts, folder: str, form: TextForm, dropped: Counter[str] | None = None
) -> Iterator[Document]:
    """Yield the sentences of each document, in order; what has none is left out.

    Sentences are normalised after the split, as capitals show where they begin. `dropped` counts, as "line", lines that
    are longer than the form allows.
    """
    lost = Counter[str]() if dropped is None else dropped
    for sentences in _documents(corpus, folder, TextForm(max_line=form.max_line), lost):
        yield [form(sentence) for sentence in sentences]


def _documents(corpus: AnyTexts, folder: str, whole: TextForm, dropped: Counter[str]) -> Iterator[Document]:
    match corpus:
        case PlainTexts():
            return choose(_plain_documents(corpus, folder, whole, dropped), corpus, "\n".join)
        case TsvTexts() | CsvTexts() | JsonlTexts():
            return _documents_of_rows(corpus, folder, whole, dropped)
        case _:
            assert_never(corpus)


def _documents_of_rows(corpus: RowTexts, folder: str, whole: TextForm, dropped: Counter[str]) -> Iterator[Document]:
    """Yield each text as a document, and the second text of a pair as another; labels are not read."""
    for row in read_texts(corpus.model_copy(update={"label": None}), folder, whole):
        if row.too_long:
            dropped["line"] += 1
        for text in (row.text, row.second or ""):
            if sentences := split_sentences(text):
                yield sentences


# --- running text -----------------------------------------------------------------------------------------------------


def _plain_documents(corpus: PlainTexts, folder: str, whole: TextForm, dropped: Counter[str]) -> Iterator[Document]:
    lines = short_lines(select_lines(read_lines(files_of(corpus, folder)[0]), corpus), whole, dropped)
    for document in _grouped(lines, corpus):
        sentences = [sentence for line in document for sentence in _sentences(line, corpus)]
        if sentences:
            yield sentences


def short_lines(lines: Iterable[str], whole: TextForm, dropped: Counter[str]) -> Iterator[str]:
    """Yield the lines that are not too long; a longer one is not a blank line, which would end a document."""
    for line in lines:
        if whole.too_long(line):
            dropped["line"] += 1
        else:
            yield line


def _sentences(line: str, corpus: PlainTexts) -> list[str]:
    if corpus.sentences == "split":
        return split_sentences(line)
    return [stripped] if (stripped := line.strip()) else []


def _grouped(lines: Iterable[str], corpus: PlainTexts) -> Iterator[list[str]]:
    """Yield the lines of each document; a document may have none."""
    match corpus.documents:
        case "line":
            return ([line] for line in lines)
        case "blank_line":
            return between_blank_lines(lines)
        case "heading":
            return under_titles(lines)
        case "file":
            return iter((list(lines),))
        case _:
            assert_never(corpus.documents)


def between_blank_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines of each document; blank lines separate documents."""
    document: list[str] = []
    for line in lines:
        if line.strip():
            document.append(line)
        elif document:
            yield document
            document = []
    yield document


def under_titles(lines: Iterable[str], keep_titles: bool = False) -> Iterator[list[str]]:
    """Split as WikiText does: " = Title = " begins a document, and headings have more equals signs on both sides."""
    document: list[str] = []
    for line in lines:
        level = _heading_level(line)
        if level == 1:
            yield document
            document = []
        if level == 0 or keep_titles:
            document.append(line)
    yield document


def _heading_level(line: str) -> int:
    """Return the number of separate `=` at each end of a heading; 0 for a line that is not a heading."""
    words = line.split()
    level = next((place for place, word in enumerate(words) if word != "="), 0)
    title = words[level : len(words) - level]
    is_heading = bool(level and title) and words[-level:] == ["="] * level and title[-1] != "="
    return level if is_heading else 0
