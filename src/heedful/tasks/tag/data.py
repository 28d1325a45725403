"""Corpora of words with labels to token stores: each word in pieces, long sentences cut between words.

A row is a sentence, or a part of a long one, with the streams `text`, the pieces of all words; `words`, the number of
pieces of each word; `label`, the label of each word; and `part`, the row's number within its sentence. Where a model
reads letters, there are `letters`, those of all words, and `spelled`, the number of letters of each word.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.corpora.tagged import TaggedText, read_tagged, tag_numbers
from heedful.data.prepare.letters import SPELLING, letters_of
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import WHOLE_NUMBERS, Rows, Streams, Tokenized
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, StreamType, TokenStore, id_stream
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies

MARKERS: Final = 2  # `<s>` and `</s>`
_ROOM: Final = 400_000  # words that are remembered

Word = tuple[int, ...]  # its pieces


def prepare_tagged(recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None) -> Prepared:
    """Train the tokenizer and find the labels, unless they are given, and tokenize training and validation corpora.

    `progress` gets a line of text for every longer piece of work.
    """
    work, data = Preparation.of(recipe, progress, given), recipe.data
    tokenizer = work.tokenizer(
        lambda corpus: (" ".join(text.words) for text in read_tagged(corpus, data.folder, work.form) if not text.blank)
    )
    labels = work.labels(lambda: labels_of_words(work.labelled, data))
    letters = getattr(recipe.model, "letters", None) is not None
    return work.prepared(
        Vocabularies({"text": tokenizer}, labels),
        lambda corpus, training: tagged_rows(corpus, data, tokenizer, labels, letters),
    )


def labels_of_words(corpora: Iterable[AnyCorpus], data: Data) -> tuple[str, ...]:
    """Return the names of all labels in corpora, sorted."""
    found = {label for corpus in corpora for text in read_tagged(corpus, data.folder) for label in text.labels}
    if len(found) < 2:
        one = f"the label `{next(iter(found))}` alone" if found else "no label"
        raise UserError(f"`data.train` has {one}, but a tagger needs two labels to tell apart.")
    return tuple(sorted(found))


def tagged_rows(
    corpus: AnyCorpus, data: Data, tokenizer: Tokenizer, labels: tuple[str, ...], letters: bool
) -> Rows[TaggedText]:
    """Return what the rows of a corpus of words with labels are."""
    form = TextForm.of(data)

    def facts(store: TokenStore) -> Iterator[str]:
        parts = store.streams["part"].values
        yield counted(int((parts == 0).sum()), "sentence")
        yield counted(store.tokens("words"), "word")
        if (parts > 0).any():
            yield f"{int((parts == 1).sum()):,} cut between words to `data.max_length` ({data.max_length})"
        if empty := store.dropped.get("no pieces", 0):
            yield f"{counted(empty, 'word')} without pieces read as `<unk>`"

    def objection(text: TaggedText) -> str | None:
        return "line" if text.too_long else "blank" if text.blank else None

    return Rows(
        noun="sentence",
        read=lambda dropped: read_tagged(corpus, data.folder, form),
        streams=[TaggedStream(tokenizer, form, labels, data.max_length, letters, corpus.title)],
        objection=objection,
        dropped={"line": f"longer than `data.max_line` ({data.max_line:,} characters)"},
        facts=facts,
        empty=lambda store: "" if store.dropped.get("line") else "it has no words",
    )


@dataclass(frozen=True, eq=False)
class TaggedStream(Tokenized):
    """Sentences of words with a label each, in parts of at most `max_length` tokens."""

    labels: tuple[str, ...]
    max_length: int
    letters: bool  # whether words are spelled too
    name: str  # of the corpus, in messages

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary; pieces of words, numbers of labels, parts and letters."""
        names = ("words", "label", "part", *(("letters", "spelled") if self.letters else ()))
        return {"text": id_stream(self.tokenizer.size), **dict.fromkeys(names, WHOLE_NUMBERS)}

    @property
    def key(self) -> Mapping[str, object]:
        """What decides pieces, labels and parts."""
        spelling = SPELLING if self.letters else 0
        return {**super().key, "tagged": [self.labels, self.max_length], "letters": spelling}

    @cached_property
    def pieces(self) -> "WordPieces":
        """The tokenizer with a memory of words."""
        return WordPieces(self.tokenizer)

    def encode(self, rows: Sequence[TaggedText], dropped: Counter[str]) -> Streams:
        """Tokenize sentences, and count words without pieces."""
        labels = tag_numbers(rows, self.labels, self.name)
        streams = tagged_streams(rows, self.pieces, self.max_length, labels, self.letters)
        dropped["no pieces"] = self.pieces.empty
        return streams


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
            self._known = {}
        known = self._known  # another thread may begin a new table at any time
        new = list(set(chain.from_iterable(written)).difference(known))
        known.update(zip(new, map(tuple, self.tokenizer.encode_batch(new)), strict=True))
        found = [[known[word] for word in words] for words in written]
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
