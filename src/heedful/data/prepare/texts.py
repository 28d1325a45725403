"""From the recipe of a model that reads texts to its tokenizer, its classes and its tokenized texts.

A row is a text, with the streams `text`, `second` where there are pairs, and `label`; or a document, with `text` and
`sentences`, the number of tokens of each sentence, `letters` and `spelled` where the letters of words are read, and
`label` where it has one; or a document of running text, with its markers.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import AnyCorpus, PlainText
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.corpora.documents import read_documents, read_running_text
from heedful.data.corpora.sentence_splitting import RULES
from heedful.data.corpora.texts import Text, classes_of, read_texts
from heedful.data.prepare.documents import DocumentStream, document_of
from heedful.data.prepare.letters import SPELLING
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import LabelStream, Rows, Stream, Streams, TextStream, Tokenized
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, StreamType, TokenStore, id_stream
from heedful.data.tokenize.encoding import encode_running, running_pieces
from heedful.data.tokenize.tokenizer import BEGIN, END, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies

_UNSEEN: Final = "no text of `data.train` has: correct it, or add such texts there"
_WHOLE_NUMBER: Final = re.compile(r"-?\d{1,18}")


def prepare_texts(
    recipe: Recipe,
    progress: Say = lambda message: None,
    given: Vocabularies | None = None,
    *,
    labelled: Literal["one", "several"] | None = None,
    documents: bool = False,
    running: bool = False,
    mask: bool = False,
    letters: bool = False,
) -> Prepared:
    """Train the tokenizer and find the classes, unless they are given, and tokenize training and validation corpora.

    `progress` gets a line of text for every longer piece of work. `labelled` says how many labels a text has,
    `documents` whether rows are documents of sentences, `running` whether they are documents of running text, `mask`
    whether the vocabulary needs `<mask>`, and `letters` whether documents have the letters of their words.
    """
    work, several = Preparation.of(recipe, progress, given), labelled == "several"
    tokenizer = work.tokenizer(lambda corpus: texts_of(corpus, recipe, running), mask=mask, running=running)
    labels = given.labels if given else ()
    if labelled is not None:
        labels = work.labels(lambda: labels_in(work.labelled, work.data, several))
    kind = TextKind(labels, several, documents, running, letters)
    return work.prepared(
        Vocabularies({"text": tokenizer}, labels),
        lambda corpus, training: text_rows(corpus, work.data, tokenizer, kind, training=training),
    )


def texts_of(corpus: Any, recipe: Recipe, running: bool = False) -> Iterator[str]:
    """Yield every text of a corpus in the form of the recipe: of documents each sentence, of pairs both texts.

    With `running`, the texts are pieces of running text as the tokenizer will read them.
    """
    folder, form = recipe.data.folder, TextForm.of(recipe.data)
    if running:
        spells_spaces = recipe.tokenizer.kind in ("byte_bpe", "char")
        for text in read_running_text(corpus, folder, form):
            yield from running_pieces(text, spells_spaces)
    elif isinstance(corpus, PlainText):
        for document in read_documents(corpus, folder, form):
            yield from document
    else:
        for row in read_texts(corpus, folder, form, labelled=False):  # whatever their labels
            yield from (part for part in (row.text, row.second) if part and part.strip())


@dataclass(frozen=True)
class TextKind:
    """What a row of texts is: a text, with its classes if there are `labels`, or a document."""

    labels: tuple[str, ...] = ()
    several: bool = False  # labels per text
    documents: bool = False  # whether rows are documents of sentences
    running: bool = False  # whether rows are documents of running text, with their markers
    letters: bool = False  # whether documents have the letters of their words


def text_rows(
    corpus: Any,
    data: Data,
    tokenizer: Tokenizer,
    kind: TextKind,
    *,
    training: bool = True,
    further: Sequence[Stream[Text]] = (),
) -> Rows[Any]:
    """Return what the rows of a corpus of texts are; `further` streams have what else belongs to a text."""
    folder, form = data.folder, TextForm.of(data)
    unknown_is = "is not a class of the model" if training else _UNSEEN

    def texts(dropped: Counter[str]) -> Iterator[Text]:
        whole = TextForm(max_line=form.max_line)  # documents are normalised after the split into sentences
        return read_texts(corpus, folder, whole if kind.documents else form, kind.several)

    read: Callable[[Counter[str]], Iterable[Any]] = texts
    stream: Stream[Any]
    if kind.running:
        read = partial(read_running_text, corpus, folder, form)
        stream = RunningStream(tokenizer, form, corpus)
    elif kind.documents and not kind.labels and not further:
        read, stream = (
            partial(read_documents, corpus, folder, form),
            DocumentStream(tokenizer, form, list, kind.letters),
        )
    elif kind.documents:
        stream = DocumentStream[Text](tokenizer, form, lambda text: document_of(text.text, form), kind.letters)
    else:
        second = {"second": lambda text: text.second} if "second" in corpus.roles else {}
        stream = TextStream[Text](tokenizer, form, {"text": lambda text: text.text, **second})
    labels = LabelStream[Text](lambda rows: classes_of(rows, kind.labels, corpus.title, unknown_is))
    return Rows(
        noun="document" if kind.documents or kind.running else "text",
        read=read,
        streams=[stream, *([labels] if kind.labels else []), *further],
        key={
            "labels": [kind.labels, kind.several],
            "documents": RULES if kind.documents else 0,
            **({"running": 1} if kind.running else {}),
            **({"letters": SPELLING} if kind.letters else {}),
        },
        objection=_why_blank,
        dropped={"line": f"longer than `data.max_line` ({data.max_line:,} characters)"},
        facts=lambda store: [
            counted(len(store), "document" if kind.documents or kind.running else "text"),
            *([f"{store.dropped['empty']:,} empty"] if "empty" in store.dropped else []),
        ],
        empty=partial(_why_empty, corpus),
    )


@dataclass(frozen=True, eq=False)
class RunningStream(Tokenized):
    """The tokens of documents of running text, with their markers."""

    corpus: AnyCorpus

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary."""
        return {"text": id_stream(self.tokenizer.size)}

    def encode(self, rows: Sequence[str], dropped: Counter[str]) -> Streams:
        """Tokenize texts; one that is a whole file has no end, as it might continue."""
        end, ids = [] if is_whole_file(self.corpus) else [END], id_stream(self.tokenizer.size)
        encoded = encode_running(rows, self.words, self.tokenizer.spells_spaces)
        marked = [np.concatenate(([BEGIN], row, end)).astype(ids.dtype) for row in encoded]
        return {"text": Ragged.of_arrays(marked, ids)}


def is_whole_file(corpus: AnyCorpus) -> bool:
    """Whether a corpus is one document, its whole file."""
    return isinstance(corpus, PlainText) and corpus.documents == "file"


def _why_blank(row: Any) -> str | None:
    if not getattr(row, "blank", False):  # documents are never blank
        return None
    return "line" if row.too_long else "empty"


def _why_empty(corpus: AnyCorpus, store: TokenStore) -> str:
    if empty := store.dropped.get("empty", 0):
        return f"all {empty:,} are blank"
    part = getattr(corpus, "part", "")
    return f'none is in part "{part}"' if part and not store.dropped.get("line") else ""


def labels_in(corpora: Iterable[AnyCorpus], data: Data, several: bool) -> tuple[str, ...]:
    """Return the names of all classes in corpora, sorted."""
    found = {
        label
        for corpus in corpora
        for text in read_texts(corpus, data.folder, several=several)
        if not text.blank
        for label in text.labels
    }
    return sort_labels(found, several)


def sort_labels(found: Collection[str], several: bool = False) -> tuple[str, ...]:
    """Return the names of classes, sorted: numbers by their value; refuse too few to tell apart."""
    if len(found) < 2 and not (several and found):
        one = f"the label `{next(iter(found))}` alone" if found else "no label"
        raise UserError(f"`data.train` has {one}, but a classifier needs two classes to tell apart.")
    numbers = all(_WHOLE_NUMBER.fullmatch(label) for label in found)
    return tuple(sorted(found, key=(lambda label: (int(label), label)) if numbers else None))


def counts_of(stores: Sequence[TokenStore], classes: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the number of texts of each class."""
    return sum(np.bincount(store.streams["label"].values, minlength=classes) for store in stores)  # type: ignore[return-value]


def listed_classes(prepared: Prepared, called: str) -> str:
    """Return the number of classes, and the first ten with their numbers of training rows, in words."""
    labels = prepared.vocabularies.labels
    counts = counts_of(prepared.train, len(labels))
    listed = [f"{label} ({count:,})" for label, count in zip(labels, counts, strict=True)]
    return f"{len(labels)} {called}: " + ", ".join(listed[:10]) + (", ..." if len(listed) > 10 else "")
