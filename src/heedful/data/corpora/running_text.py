"""Documents as texts, with their line breaks: what language models read."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import assert_never

from heedful.config.corpora.texts import AnyTexts, CsvTexts, JsonlTexts, PlainTexts, TsvTexts
from heedful.data.corpora.documents import between_blank_lines, short_lines, under_titles
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.lines import read_lines
from heedful.data.corpora.subsets import choose
from heedful.data.corpora.texts import read_texts
from heedful.data.text_form import TextForm


def read_running_text(
    corpus: AnyTexts, folder: str, form: TextForm, dropped: Counter[str] | None = None
) -> Iterator[str]:
    """Yield the text of each document, in order; blank ones are left out.

    Every line of a file that is one document, and of one with headings, ends with a line break; otherwise line breaks
    separate the lines of a document. `dropped` counts, as "line", lines that are longer than the form allows.
    """
    lost = Counter[str]() if dropped is None else dropped
    match corpus:
        case PlainTexts():
            texts = choose(_plain(corpus, folder, form, lost), corpus, str)
        case TsvTexts() | CsvTexts() | JsonlTexts():
            rows = read_texts(corpus.model_copy(update={"label": None}), folder, TextForm(max_line=form.max_line))
            texts = (text for row in rows for text in (row.text, row.second or ""))
        case _:
            assert_never(corpus)
    return (form(text) for text in texts if text.strip())


def count_words(text: str) -> int:
    """Return the number of words between spaces, and of line breaks, each of which counts as a word."""
    return len(text.split()) + text.count("\n")


def _plain(corpus: PlainTexts, folder: str, form: TextForm, dropped: Counter[str]) -> Iterator[str]:
    whole = TextForm(max_line=form.max_line)
    lines = short_lines(select_lines(read_lines(files_of(corpus, folder)[0]), corpus), whole, dropped)
    match corpus.documents:
        case "line":
            return iter(lines)
        case "blank_line":
            return map("\n".join, between_blank_lines(lines))
        case "heading":
            return map(_with_breaks, under_titles(lines, keep_titles=True))
        case "file":
            return iter((_with_breaks(lines),))
        case _:
            assert_never(corpus.documents)


def _with_breaks(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
