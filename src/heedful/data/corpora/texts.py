"""Texts with their labels, single or in pairs, from tables and JSON lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import AnyCorpus, Csv, Jsonl, Tsv
from heedful.config.corpora.roles import TEXTS
from heedful.data.corpora.files import choose, select_lines
from heedful.data.corpora.formats.json_objects import place_words
from heedful.data.corpora.formats.rows import label_numbers, read_rows
from heedful.data.corpora.formats.settling import without_roles
from heedful.data.corpora.pairs import AS_IT_STANDS
from heedful.data.text_form import TOO_LONG, TextForm


@dataclass(frozen=True)
class Text:
    """One text, or two that are read together, with the names of its classes and its number where a corpus has them."""

    text: str
    second: str | None = None
    labels: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)  # its line in the file; 0 where there is no file
    number: float | None = None

    @property
    def sides(self) -> tuple[str, ...]:
        """The text, or the two of a pair."""
        return (self.text,) if self.second is None else (self.text, self.second)

    @property
    def blank(self) -> bool:
        """Whether there is nothing to read."""
        return not self.text.strip() or (self.second is not None and not self.second.strip())

    def formed(self, form: TextForm) -> "Text":
        """Return the text in the form that a model reads."""
        second = None if self.second is None else form.of_line(self.second)
        return replace(self, text=form.of_line(self.text), second=second)

    @property
    def too_long(self) -> bool:
        """Whether a text was longer than a line may be, and is blank for that reason."""
        return self.text is TOO_LONG or self.second is TOO_LONG


def read_texts(
    corpus: AnyCorpus, folder: str = "", form: TextForm = AS_IT_STANDS, several: bool = False, labelled: bool = True
) -> Iterator[Text]:
    """Yield the texts of a corpus in order, blank ones included; with `several`, commas separate a text's labels.

    Without `labelled`, labels and numbers are not read, whatever they are.
    """
    if corpus.row_kind is not TEXTS:
        raise TypeError(f"{corpus.title} has {corpus.row_kind.words}, not texts")
    assert isinstance(corpus, Tsv | Csv | Jsonl), "no other container has rows of texts"
    read = corpus if labelled else without_roles(corpus, ("label", "number"), folder)
    texts = select_lines(_all_texts(read, folder, several), corpus)
    if corpus.sample is not None:
        texts = (text for text in texts if not text.blank)  # blank texts do not count towards the sample
    texts = choose(texts, corpus, lambda text: text.text if text.second is None else f"{text.text}\t{text.second}")
    if form == AS_IT_STANDS:
        return texts
    return (text.formed(form) for text in texts)


def classes_of(
    texts: Sequence[Text], labels: Sequence[str], name: str, unknown_is: str = "is not a class of the model"
) -> list[list[int]]:
    """Return the true classes of texts by number; `name` is that of their corpus.

    `unknown_is` completes the refusal of a label that is not one of `labels`: "has the label `x`, which ...".
    """
    return label_numbers(
        texts, labels, lambda text, _: f"{name}, {place_words(text.line)}" if text.line else name, unknown_is
    )


def _all_texts(corpus: Tsv | Csv | Jsonl, folder: str, several: bool) -> Iterator[Text]:
    for row in read_rows(corpus, folder):
        if row is None:
            yield Text("")
            continue
        labels = row.labels(several) if "label" in row.places else ()
        yield Text(row.text("text"), row.optional_text("second"), labels, row.line, row.number())


def text_of_line(line: str, paired: bool, where: str) -> Text:
    """Read one text, or two separated by a tab; a blank line is a blank text. `where` names the line in messages."""
    if not (paired and line.strip()):
        return Text(line)
    columns = line.split("\t")
    if len(columns) != 2:
        raise UserError(
            f"{where} has {counted(len(columns), 'column')}, but this model reads pairs: two texts separated by a tab."
        )
    return Text(columns[0], columns[1])
