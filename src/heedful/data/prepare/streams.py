"""How what a row has becomes numbers: the streams that a store is made of.

A kind of stream says the type of its items, what of it decides the content of a store, and how rows are encoded. A task
lists those of its rows (`data.prepare.stores`); one that needs another kind writes it next to its other code.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, StreamType, id_stream, id_type
from heedful.data.tokenize.encoding import KnownWords, ragged
from heedful.data.tokenize.tokenizer import Tokenizer

Row = TypeVar("Row")
AnyRow = TypeVar("AnyRow", contravariant=True)
Streams = Mapping[str, Ragged]

WHOLE_NUMBERS: Final = StreamType(np.dtype(np.uint32))  # lengths, numbers of classes, and others from 0 on


class Stream(Protocol[AnyRow]):
    """One stream of a store, or several that are made together."""

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The type of each stream, by name."""
        ...

    @property
    def key(self) -> Mapping[str, object]:
        """What decides the numbers besides the rows: parts of the cache key, whose names are frozen."""
        ...

    def encode(self, rows: Sequence[AnyRow], dropped: Counter[str]) -> Streams:
        """Return the numbers of rows; rows that are left out here are counted in `dropped` by their reason."""
        ...


@dataclass(frozen=True, eq=False)
class Tokenized:
    """What all streams of token ids share: a tokenizer, and the form that texts were brought into."""

    tokenizer: Tokenizer
    form: TextForm

    @property
    def key(self) -> Mapping[str, object]:
        """The form of texts, and the tokenizer."""
        return {"form": self.form.key(), "tokenizer": self.tokenizer.fingerprint}

    @cached_property
    def words(self) -> KnownWords:
        """The tokenizer with a memory of words."""
        return KnownWords(self.tokenizer)


@dataclass(frozen=True, eq=False)
class TextStream(Tokenized, Generic[Row]):
    """Token ids of a text of each row; further streams of the same tokenizer have other texts of it."""

    texts: Mapping[str, Callable[[Row], str]]  # by the name of their stream

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary."""
        return dict.fromkeys(self.texts, id_stream(self.tokenizer.size))

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Tokenize the texts."""
        dtype = id_type(self.tokenizer.size)
        return {
            name: ragged(self.words.encode([text_of(row) for row in rows]), dtype)
            for name, text_of in self.texts.items()
        }


@dataclass(frozen=True, eq=False)
class LabelStream(Generic[Row]):
    """The numbers of the classes of each row: one, several or none."""

    numbers: Callable[[Sequence[Row]], Sequence[Sequence[int]]]
    key: Mapping[str, object] = field(default_factory=dict)
    name: str = "label"

    @property
    def types(self) -> Mapping[str, StreamType]:
        """Whole numbers."""
        return {self.name: WHOLE_NUMBERS}

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Look up the classes."""
        return {self.name: Ragged.of(self.numbers(rows))}


@dataclass(frozen=True, eq=False)
class NumberStream(Generic[Row]):
    """A number of each row, such as a rating or a price."""

    number: Callable[[Row], float]
    name: str = "number"

    @property
    def types(self) -> Mapping[str, StreamType]:
        """One number of 32 bits."""
        return {self.name: StreamType(np.dtype(np.float32))}

    @property
    def key(self) -> Mapping[str, object]:
        """That rows have a number, and in which form."""
        return {self.name: "float32"}

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Take the numbers."""
        values = np.fromiter(map(self.number, rows), np.float32, len(rows))
        return {self.name: Ragged(values, np.arange(len(rows) + 1))}
