"""Sentences of words with a label each: in columns as CoNLL has them, in tables, and in JSON lines."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import AlignedFiles, AnyCorpus, Conll, Csv, Jsonl, Tsv
from heedful.data.corpora.files import choose, files_of, select_lines
from heedful.data.corpora.formats.conll import column_names, place_of, settle_conll
from heedful.data.corpora.formats.json_objects import place_words
from heedful.data.corpora.formats.lines import TextFile, first_lines, read_lines
from heedful.data.corpora.formats.rows import label_numbers, read_rows
from heedful.data.corpora.pairs import AS_IT_STANDS, read_pairs
from heedful.data.text_form import TextForm

_START_OF_DOCUMENT: Final = "-DOCSTART-"
_RANGE: Final = re.compile(r"\d+[-.]\d+")  # the number of a word of several tokens, or of none, in CoNLL-U
_UNLABELLED: Final = "_"


@dataclass(frozen=True)
class TaggedText:
    """The words of a sentence, and the label of each where the corpus has labels."""

    words: tuple[str, ...]
    labels: tuple[str, ...] = ()
    lines: tuple[int, ...] = field(default=(), compare=False)  # the line of each word; none where there is no file
    too_long: bool = False  # whether it was longer than a line may be, and is blank for that reason
    written: tuple[str, ...] = field(default=(), compare=False)  # the words as they were given, where they were changed

    @property
    def blank(self) -> bool:
        """Whether there is nothing to read."""
        return not self.words

    @property
    def spelled(self) -> tuple[str, ...]:
        """The words as they were given: letters tell capitals where the text of the model is lowercased."""
        return self.written or self.words

    def formed(self, form: TextForm) -> "TaggedText":
        """Return the sentence in the form that a model reads; one that is too long becomes blank."""
        if form.max_line is not None and sum(map(len, self.words)) + len(self.words) - 1 > form.max_line:
            return TaggedText((), too_long=True)
        return replace(self, words=tuple(map(form, self.words)), written=self.spelled)

    def where(self, index: int, name: str) -> str:
        """Return where a word is, in a corpus of this name."""
        return f"{name}, {place_words(self.lines[index])}" if self.lines else f"{name}: word {index + 1:,}"


def read_tagged(corpus: AnyCorpus, folder: str = "", form: TextForm = AS_IT_STANDS) -> Iterator[TaggedText]:
    """Yield the sentences of a corpus in order, blank ones included."""
    match corpus:
        case AlignedFiles():  # a file of words and one of labels, as a command line names them
            return (text.formed(form) for text in _aligned(corpus, folder))
        case Conll():
            texts = _conll_texts(corpus, folder)
        case Tsv() | Csv() | Jsonl() if corpus.roles >= {"text", "label"}:
            texts = select_lines(_texts_of_rows(corpus, folder), corpus)
        case _:
            raise TypeError(f"{corpus.title} has {corpus.row_kind.words}, not words with labels")
    if corpus.sample is not None:
        texts = (text for text in texts if not text.blank)  # blank texts do not count towards the sample
    return (text.formed(form) for text in choose(texts, corpus, lambda text: " ".join(text.words)))


def tag_numbers(texts: Sequence[TaggedText], labels: Sequence[str], name: str) -> list[list[int]]:
    """Return the labels of all words by number; `name` is that of their corpus."""
    return label_numbers(texts, labels, lambda text, place: text.where(place, name), "is not a label of the model")


# --- one word per line ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """Where a file has words and labels, by number from 1 on, and whether its columns have names, as in CoNLL-U."""

    word: int
    label: int
    named: bool

    def row(self, line: str, where: str, first: bool) -> tuple[str, str] | None:
        """Return the word of a line and its label; None for a comment, and for what is not a word in CoNLL-U."""
        cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
        if first and line.startswith("#") and (self.named or self._is_comment(line, cells)):
            return None
        if len(cells) < max(self.word, self.label):
            asked = "word" if self.word > len(cells) else "label"
            raise UserError(
                f"{where} has {counted(len(cells), 'column')}, but `{asked}` is column {getattr(self, asked)}: columns "
                "are separated by tabs or spaces, and sentences by blank lines."
            )
        word, label = (cells[number - 1].strip() for number in (self.word, self.label))
        # Columns by number are read as they always were: an empty node that has a label is a word there.
        if _RANGE.fullmatch(cells[0]) and (self.named or (self.word > 1 and label == _UNLABELLED)):
            return None
        if not word or not label:
            raise UserError(f"{where} has no {'label' if word else 'word'}: every word needs a label.")
        return word, label

    def _is_comment(self, line: str, cells: Sequence[str]) -> bool:
        return "\t" not in line and (line[1:2] == " " or len(cells) < max(self.word, self.label))


def _columns(corpus: Conll, file: TextFile) -> _Columns:
    named = isinstance(corpus.word, str) or isinstance(corpus.label, str)
    names = column_names(first_lines(file)) if named else ()
    word, label = (
        place_of(column, names, file, key) for key, column in (("word", corpus.word), ("label", corpus.label))
    )
    return _Columns(word, label, named)


def conll_words(corpus: Conll, folder: str = "") -> Callable[[str, str, bool], str | None]:
    """Return what reads the word of a line, which needs no label; None for a line that has no word.

    It gets the line, its place, and whether it may be the first of a sentence.
    """
    (file,) = files_of(corpus, folder)
    settled = settle_conll(corpus, folder)
    columns = _columns(settled.model_copy(update={"label": settled.word}), file)
    columns = replace(columns, named=columns.named or columns.word > 1)  # without labels, ranges are told by numbers

    def word(line: str, where: str, first: bool) -> str | None:
        row = columns.row(line, where, first)
        return None if row is None else row[0]

    return word


def _conll_texts(corpus: Conll, folder: str) -> Iterator[TaggedText]:
    """Yield the sentences of the file; `lines` are those of the file, one per word."""
    (file,) = files_of(corpus, folder)
    columns = _columns(settle_conll(corpus, folder), file)
    found: list[tuple[str, str, int]] = []  # word, label, line
    for number, line in select_lines(enumerate(read_lines(file), start=1), corpus):
        if not line.strip() or line.startswith(_START_OF_DOCUMENT):
            if found:
                yield _of_columns(found)
            found = []
        elif (row := columns.row(line, f"{file.name}, line {number:,}", first=not found)) is not None:
            found.append((*row, number))
    if found:
        yield _of_columns(found)


def _of_columns(found: Sequence[tuple[str, str, int]]) -> TaggedText:
    words, labels, lines = zip(*found, strict=True)
    return TaggedText(words, labels, lines)


# --- one sentence per row ---------------------------------------------------------------------------------------------


def _texts_of_rows(corpus: Tsv | Csv | Jsonl, folder: str) -> Iterator[TaggedText]:
    for row in read_rows(corpus, folder):
        if row is None:
            yield TaggedText(())
        else:
            yield tagged_text(row.words("text"), row.words("label"), row.where, row.line)


def _aligned(corpus: AlignedFiles, folder: str) -> Iterator[TaggedText]:
    for number, (text, label) in enumerate(read_pairs(corpus, folder), start=1):
        yield tagged_text(text.split(), label.split(), f"{corpus.target}, line {number:,}", number)


def tagged_text(words: Iterable[str], labels: Iterable[str], where: str, line: int = 0) -> TaggedText:
    """Return a sentence whose words have one label each; `where` names its row in messages."""
    text = TaggedText(tuple(words), tuple(labels))
    if len(text.words) != len(text.labels):
        raise UserError(
            f"{where} has {counted(len(text.words), 'word')} but {counted(len(text.labels), 'label')}: each word needs "
            "one."
        )
    return replace(text, lines=(line,) * len(text.words) if line else ())
