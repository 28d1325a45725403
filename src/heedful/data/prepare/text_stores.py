"""Corpora of texts to token stores: read, tokenized, kept in the cache.

A row is a text, with the streams `text`, `second` where there are pairs, and `label`; or a document, with `text` and
`sentences`, the number of tokens of each sentence, `letters` and `spelled` where the letters of words are read, and
`label` where it has one; or a document of running text, with its markers.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from heedful.base.errors import UserError, counted
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.texts import TEXTS, PlainTexts, RowTexts
from heedful.config.data import Data
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.corpora.documents import read_documents
from heedful.data.corpora.running_text import read_running_text
from heedful.data.corpora.sentence_splitting import RULES
from heedful.data.corpora.texts import Text, classes_of, read_texts
from heedful.data.prepare.document_pieces import document_of, lettered_streams, to_encode
from heedful.data.prepare.letters import LETTERS, SPELLING
from heedful.data.prepare.prepared import Contents
from heedful.data.text_form import TextForm
from heedful.data.token_store import FORMAT, Ragged, StreamType, TokenStore, id_stream, id_type, open_store, write_store
from heedful.data.tokenize.encoding import ID, KnownWords, encode_running
from heedful.data.tokenize.pair_encoder import ragged
from heedful.data.tokenize.tokenizer import BEGIN, END, Tokenizer

_CHUNK: Final = 1024  # texts that are tokenized together, on all cores
_COUNTS: Final = StreamType(np.dtype(np.uint32))  # lengths, and numbers of classes
_UNSEEN: Final = "no text of `data.train` has: correct it, or add such texts there"
_WHOLE_NUMBER: Final = re.compile(r"-?\d{1,18}")

Streams = Mapping[str, Ragged]


@dataclass(frozen=True)
class TextStores:
    """Turns corpora into stores, all with the same tokenizer and the same classes."""

    data: Data
    tokenizer: Tokenizer
    contents: Contents
    progress: Say
    labels: tuple[str, ...] = ()
    several: bool = False  # labels per text
    documents: bool = False  # whether rows are documents of sentences
    running: bool = False  # whether rows are documents of running text, with their markers
    letters: bool = False  # whether documents have the letters of their words

    def store(self, corpus: AnyCorpus) -> TokenStore:
        """Return the tokenized corpus, from the cache or made now."""
        key = key_of(
            {
                "format": FORMAT,
                "content": self.contents[corpus],
                "form": TextForm.of(self.data).key(),
                "tokenizer": self.tokenizer.fingerprint,
                "labels": [self.labels, self.several],
                "documents": RULES if self.documents else 0,
                **({"running": 1} if self.running else {}),
                **({"letters": SPELLING} if self.letters else {}),
            }
        )

        def build(staged: Path) -> None:
            self.progress(f"tokenizing {corpus.title}")
            dropped: Counter[str] = Counter()
            write_store(staged, key, self._types(corpus), self._streams(corpus, dropped), dropped)

        store = cached(cache_folder() / "tokens" / key, lambda folder: open_store(folder, key), build, self.progress)
        what = "document" if self.documents or self.running else "text"
        empty, long = store.dropped.get("empty", 0), store.dropped.get("line", 0)
        too_long = f"{long:,} longer than `data.max_line` ({self.data.max_line:,} characters)" if long else ""
        if not len(store):
            why = f"all {empty:,} are blank" if empty else too_long or _why_empty(corpus)
            raise UserError(f"{corpus.title} has no {what} to use: {why}.")
        lost = ", ".join(filter(None, (f"{empty:,} empty" if empty else "", f"dropped {too_long}" if long else "")))
        self.progress(f"{corpus.title}: {counted(len(store), what)}" + (f", {lost}" if lost else ""))
        return store

    def _types(self, corpus: AnyCorpus) -> dict[str, StreamType]:
        types = {"text": id_stream(self.tokenizer.size)}
        if isinstance(corpus, RowTexts) and corpus.second is not None and not self.documents:
            types["second"] = types["text"]
        if self.letters:
            types |= {"letters": id_stream(LETTERS), "spelled": _COUNTS}
        return types | ({"sentences": _COUNTS} if self.documents else {}) | ({"label": _COUNTS} if self.labels else {})

    def _streams(self, corpus: AnyCorpus, dropped: Counter[str]) -> Iterator[Streams]:
        words = KnownWords(self.tokenizer)
        if self.running:
            assert isinstance(corpus, TEXTS)
            running = read_running_text(corpus, self.data.folder, TextForm.of(self.data), dropped)
            while some_texts := list(islice(running, _CHUNK)):
                yield self._running_streams(some_texts, words, is_whole_file(corpus))
            return
        if self.documents and not self.labels:
            assert isinstance(corpus, TEXTS)
            documents = read_documents(corpus, self.data.folder, TextForm.of(self.data), dropped)
            while some := list(islice(documents, _CHUNK)):
                yield self._document_streams(some, words)
            return
        form = TextForm.of(self.data)
        whole = TextForm(max_line=form.max_line)  # documents are normalised after the split into sentences
        texts = read_texts(corpus, self.data.folder, whole if self.documents else form, self.several)
        while chunk := list(islice(texts, _CHUNK)):
            full = [text for text in chunk if not text.blank]
            if len(full) < len(chunk):
                dropped.update("line" if text.too_long else "empty" for text in chunk if text.blank)
            if self.documents:
                streams = self._document_streams([document_of(text.text, form) for text in full], words)
            else:
                streams = self._text_streams(full, words, self._types(corpus))
            if self.labels:
                unknown_is = "is not a class of the model" if corpus in self.data.train else _UNSEEN
                classes = classes_of(full, self.labels, corpus.title, unknown_is)
                streams = {**streams, "label": Ragged.of(classes)}
            yield streams

    def _running_streams(self, texts: Sequence[str], words: KnownWords, endless: bool) -> Streams:
        """Return documents with their markers; a text that is a whole file has no end, as it might continue."""
        end = [] if endless else [END]
        rows = encode_running(texts, words, self.tokenizer.spells_spaces)
        marked = [np.concatenate(([BEGIN], row, end)).astype(id_type(self.tokenizer.size)) for row in rows]
        return {"text": Ragged.of_arrays(marked, id_stream(self.tokenizer.size))}

    def _text_streams(self, texts: Sequence[Text], words: KnownWords, types: Mapping[str, StreamType]) -> Streams:
        dtype = id_type(self.tokenizer.size)
        streams = {"text": ragged(words.encode([text.text for text in texts]), dtype)}
        if "second" in types:
            streams["second"] = ragged(words.encode([text.second or "" for text in texts]), dtype)
        return streams

    def _document_streams(self, documents: Sequence[Sequence[str]], words: KnownWords) -> Streams:
        if self.letters:
            return lettered_streams(documents, self.tokenizer)
        encoded = iter(words.encode(to_encode(documents, self.tokenizer)))
        sentences = [[next(encoded) for _ in document] for document in documents]
        lengths = [[len(ids) // ID.itemsize for ids in document] for document in sentences]
        return {
            "text": ragged([b"".join(document) for document in sentences], id_type(self.tokenizer.size)),
            "sentences": Ragged.of([[length for length in document if length] for document in lengths]),
        }


def is_whole_file(corpus: AnyCorpus) -> bool:
    """Whether a corpus is one document, its whole file."""
    return isinstance(corpus, PlainTexts) and corpus.documents == "file"


def _why_empty(corpus: AnyCorpus) -> str:
    part = getattr(corpus, "part", "")
    return f'none is in part "{part}"' if part else "it is empty"


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
