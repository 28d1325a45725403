"""Documents from running text and from texts in rows: as lists of sentences, or as texts with their line breaks."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import assert_never

from heedful.config.corpora.containers import AnyCorpus, PlainText
from heedful.data.corpora.files import choose, files_of, select_lines
from heedful.data.corpora.formats.lines import read_lines
from heedful.data.corpora.sentence_splitting import split_sentences
from heedful.data.corpora.texts import read_texts
from heedful.data.text_form import TextForm

Document = list[str]  # its sentences


def read_documents(
    corpus: AnyCorpus, folder: str, form: TextForm, dropped: Counter[str] | None = None
) -> Iterator[Document]:
    """Yield the sentences of each document, in order, as masked language models read them; what has none is left out.

    Each text of a row is a document. Sentences are normalised after the split, as capitals show where they begin.
    `dropped` counts, as "line", lines that are longer than the form allows.
    """
    lost = Counter[str]() if dropped is None else dropped
    if isinstance(corpus, PlainText):
        by_line = corpus.sentences == "line"
        found = (
            [part for line in lines for part in ([line.strip()] if by_line else split_sentences(line)) if part]
            for lines in _plain_documents(corpus, folder, form, lost, titles=False)
        )
        documents = choose(filter(None, found), corpus, "\n".join)
    else:
        documents = filter(None, map(split_sentences, _texts_of_rows(corpus, folder, form, lost)))
    for sentences in documents:
        yield [form(sentence) for sentence in sentences]


def read_running_text(
    corpus: AnyCorpus, folder: str, form: TextForm, dropped: Counter[str] | None = None
) -> Iterator[str]:
    """Yield the text of each document, in order, as language models read it; blank ones are left out.

    Every line of a file that is one document, and of one with headings, ends with a line break; otherwise line breaks
    separate the lines of a document. `dropped` counts, as "line", lines that are longer than the form allows.
    """
    lost = Counter[str]() if dropped is None else dropped
    if isinstance(corpus, PlainText):
        ended = corpus.documents in ("heading", "file")
        found = _plain_documents(corpus, folder, form, lost, titles=True)
        texts = choose(
            ("".join(f"{line}\n" for line in lines) if ended else "\n".join(lines) for lines in found), corpus, str
        )
    else:
        texts = _texts_of_rows(corpus, folder, form, Counter())
    return (form(text) for text in texts if text.strip())


def count_words(text: str) -> int:
    """Return the number of words between spaces, and of line breaks, each of which counts as a word."""
    return len(text.split()) + text.count("\n")


def _texts_of_rows(corpus: AnyCorpus, folder: str, form: TextForm, dropped: Counter[str]) -> Iterator[str]:
    """Yield each text, and the second text of a pair; labels and numbers are not read."""
    for row in read_texts(corpus, folder, TextForm(max_line=form.max_line), labelled=False):
        if row.too_long:
            dropped["line"] += 1
        yield row.text
        yield row.second or ""


def _plain_documents(
    corpus: PlainText, folder: str, form: TextForm, dropped: Counter[str], titles: bool
) -> Iterator[list[str]]:
    """Yield the lines of each document, which may have none."""
    whole = TextForm(max_line=form.max_line)
    lines = _short_lines(select_lines(read_lines(files_of(corpus, folder)[0]), corpus), whole, dropped)
    match corpus.documents:
        case "line":
            return ([line] for line in lines)
        case "blank_line":
            return _between_blank_lines(lines)
        case "heading":
            return _under_titles(lines, titles)
        case "file":
            return iter((list(lines),))
        case _:
            assert_never(corpus.documents)


def _short_lines(lines: Iterable[str], whole: TextForm, dropped: Counter[str]) -> Iterator[str]:
    """Yield the lines that are not too long; a longer one is not a blank line, which would end a document."""
    for line in lines:
        if whole.too_long(line):
            dropped["line"] += 1
        else:
            yield line


def _between_blank_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines of each document; blank lines separate documents."""
    document: list[str] = []
    for line in lines:
        if line.strip():
            document.append(line)
        elif document:
            yield document
            document = []
    yield document


def _under_titles(lines: Iterable[str], keep_titles: bool) -> Iterator[list[str]]:
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
