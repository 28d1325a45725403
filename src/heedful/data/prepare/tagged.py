"""Corpora of words with labels to token stores: each word in pieces, long sentences cut between words.

A row is a sentence, or a part of a long one, with the streams `text`, the pieces of all words; `words`, the number of
pieces of each word; `label`, the label of each word; and `part`, the row's number within its sentence. Where a model
reads letters, there are `letters`, those of all words, and `spelled`, the number of letters of each word.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Final

import numpy as np

from heedful.base.errors import UserError, counted
from heedful.config.corpora.any import AnyCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.corpora.tagged import TaggedText, label_numbers, read_tagged
from heedful.data.prepare.letters import SPELLING, letters_of
from heedful.data.prepare.prepared import Contents, Prepared, contents_of
from heedful.data.prepare.texts import TextSample
from heedful.data.text_form import TextForm
from heedful.data.token_store import FORMAT, Ragged, StreamType, TokenStore, id_stream, open_store, write_store
from heedful.data.tokenize.cached import TokenizerTraining
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies

MARKERS: Final = 2  # `<s>` and `</s>`
_CHUNK: Final = 1024  # sentences that are tokenized together, on all cores
_COUNTS: Final = StreamType(np.dtype(np.uint32))  # pieces of words, numbers of labels, parts and letters
_ROOM: Final = 400_000  # words that are remembered

Word = tuple[int, ...]  # its pieces


def prepare_tagged(recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None) -> Prepared:
    """Train the tokenizer and find the labels, unless they are given, and tokenize training and validation corpora.

    `progress` gets a line of text for every longer piece of work.
    """
    data = recipe.data
    contents = contents_of(data, progress)
    if given is not None:
        tokenizer = given["text"]
    else:
        training = TokenizerTraining(recipe.tokenizer, TextForm.of(data), [contents[corpus] for corpus in data.train])
        tokenizer = training.tokenizer("text", "", lambda: TextSample.of(recipe), progress)
    labels = (given.labels if given else ()) or labels_of_words(data.train, data)
    letters = getattr(recipe.model, "letters", None) is not None
    work = TaggedStores(data, tokenizer, contents, progress, labels, letters)
    return Prepared.of(Vocabularies({"text": tokenizer}, labels), data, work.store)


def labels_of_words(corpora: Iterable[AnyCorpus], data: Data) -> tuple[str, ...]:
    """Return the names of all labels in corpora, sorted."""
    found = {label for corpus in corpora for text in read_tagged(corpus, data.folder) for label in text.labels}
    if len(found) < 2:
        one = f"the label `{next(iter(found))}` alone" if found else "no label"
        raise UserError(f"`data.train` has {one}, but a tagger needs two labels to tell apart.")
    return tuple(sorted(found))


@dataclass(frozen=True)
class TaggedStores:
    """Turns corpora into stores, all with the same tokenizer and the same labels."""

    data: Data
    tokenizer: Tokenizer
    contents: Contents
    progress: Say
    labels: tuple[str, ...]
    letters: bool = False  # whether words are spelled too

    def store(self, corpus: AnyCorpus) -> TokenStore:
        """Return the tokenized corpus, from the cache or made now."""
        key = key_of(
            {
                "format": FORMAT,
                "content": self.contents[corpus],
                "form": TextForm.of(self.data).key(),
                "tokenizer": self.tokenizer.fingerprint,
                "tagged": [self.labels, self.data.max_length],
                "letters": SPELLING if self.letters else 0,
            }
        )

        def build(staged: Path) -> None:
            self.progress(f"tokenizing {corpus.title}")
            dropped: Counter[str] = Counter()
            names = ("words", "label", "part", *(("letters", "spelled") if self.letters else ()))
            types = {"text": id_stream(self.tokenizer.size), **dict.fromkeys(names, _COUNTS)}
            write_store(staged, key, types, self._streams(corpus, dropped), dropped)

        store = cached(cache_folder() / "tokens" / key, lambda folder: open_store(folder, key), build, self.progress)
        long = store.dropped.get("line", 0)
        too_long = f"{long:,} longer than `data.max_line` ({self.data.max_line:,} characters)" if long else ""
        if not len(store):
            raise UserError(f"{corpus.title} has no sentence to use: {too_long or 'it has no words'}.")
        self.progress(f"{corpus.title}: {', '.join(self._facts(store, too_long))}")
        return store

    def _facts(self, store: TokenStore, too_long: str) -> Iterator[str]:
        parts = store.streams["part"].values
        yield counted(int((parts == 0).sum()), "sentence")
        yield counted(store.tokens("words"), "word")
        if (parts > 0).any():
            yield f"{int((parts == 1).sum()):,} cut between words to `data.max_length` ({self.data.max_length})"
        if empty := store.dropped.get("no pieces", 0):
            yield f"{counted(empty, 'word')} without pieces read as `<unk>`"
        if too_long:
            yield f"dropped {too_long}"

    def _streams(self, corpus: AnyCorpus, dropped: Counter[str]) -> Iterator[Mapping[str, Ragged]]:
        texts = read_tagged(corpus, self.data.folder, TextForm.of(self.data))
        words = WordPieces(self.tokenizer)
        while chunk := list(islice(texts, _CHUNK)):
            dropped["line"] += sum(text.too_long for text in chunk)
            full = [text for text in chunk if not text.blank]
            labels = label_numbers(full, self.labels, corpus.title)
            yield tagged_streams(full, words, self.data.max_length, labels, self.letters)
        dropped["no pieces"] = words.empty


@dataclass
class WordPieces:
    """A tokenizer that reads words one by one, as they are in a text, and remembers them.

    A word that has no pieces, such as a character that the tokenizer removes, is `<unk>`: it has a label all the same.
    """

    tokenizer: Tokenizer
    empty: int = 0  # words without pieces so far
    _known: dict[str, Word] = field(default_factory=dict)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[list[Word]]:
        """Return the pieces of each word of sentences, at least one for each."""
        before = " " if self.tokenizer.spells_spaces else ""
        written = [[*words[:1], *(f"{before}{word}" for word in words[1:])] for words in sentences]
        if len(self._known) > _ROOM:
            self._known.clear()
        new = list(set(chain.from_iterable(written)).difference(self._known))
        self._known.update(zip(new, map(tuple, self.tokenizer.encode_batch(new)), strict=True))
        found = [[self._known[word] for word in words] for words in written]
        self.empty += sum(not word for words in found for word in words)
        return [[word or (UNKNOWN,) for word in words] for words in found]


def cut_between_words(lengths: Sequence[int], room: int) -> list[int]:
    """Return where the parts of a sentence begin, by the pieces of its words: as many words as fit into the room.

    A word that has more pieces than the room is a part of its own, and must be cut.
    """
    starts, used = [0], 0
    for number, length in enumerate(lengths):
        if used and used + length > room:
            starts.append(number)
            used = 0
        used += length
    return starts


def tagged_streams(
    texts: Sequence[TaggedText],
    words: WordPieces,
    max_length: int,
    labels: Sequence[Sequence[int]] | None = None,
    letters: bool = False,
) -> dict[str, Ragged]:
    """Tokenize sentences, none of them blank, and cut the long ones between words; labels stay with their words."""
    room = max_length - MARKERS
    rows: defaultdict[str, list[Sequence[int]]] = defaultdict(list)
    for number, sentence in enumerate(words.encode([text.words for text in texts])):
        pieces = [word[:room] for word in sentence]
        starts = cut_between_words([len(word) for word in pieces], room)
        for part, (start, end) in enumerate(zip(starts, [*starts[1:], len(pieces)], strict=True)):
            rows["text"].append([*chain.from_iterable(pieces[start:end])])
            rows["words"].append([len(word) for word in pieces[start:end]])
            rows["part"].append([part])
            if labels:
                rows["label"].append(labels[number][start:end])
            if letters:
                spelled = [letters_of(word) for word in texts[number].spelled[start:end]]
                rows["letters"].append([*chain.from_iterable(spelled)])
                rows["spelled"].append([len(word) for word in spelled])
    return {name: Ragged.of(row) for name, row in rows.items()}


def sentences_of(store: TokenStore) -> list[range]:
    """Return the rows of each sentence of a store."""
    starts = np.flatnonzero(store.streams["part"].values == 0).tolist()
    return [range(start, end) for start, end in zip(starts, [*starts[1:], len(store)], strict=True)]
