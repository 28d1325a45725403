"""Tokenizers of the caller's program: its ids, after the markers that every vocabulary of Heedful begins with.

A `tokenizers.Tokenizer` is stored in the bundle. Of any other object only its identity is: who loads the model passes
the object again.
"""

import json
from collections.abc import Mapping, Sequence
from reprlib import repr as shortened
from typing import Any, Final, Protocol, cast, runtime_checkable

import tokenizers
from tokenizers import decoders

from heedful.base.errors import UserError
from heedful.data.tokenize.checked_json import check_tokenizer_json
from heedful.data.tokenize.tokenizer import (
    SPECIALS,
    UNKNOWN,
    Tokenizer,
    refuse_other_than_unicode,
    tag_of,
    visible_piece,
)

_BEGINNING: Final = b'{"own_tokenizer": '  # of the JSON of every tokenizer of this kind
_MOST: Final = 10_000_000  # ids, as in a recipe
_WAY_OUT: Final = "only `heedful.load(..., tokenizer=...)` and `heedful.train(..., tokenizer=...)` can use it"


@runtime_checkable
class TextTokenizer(Protocol):
    """A tokenizer of your own: ids from 0 to `size - 1`, without markers, which Heedful adds before them."""

    @property
    def size(self) -> int:
        """Number of ids."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the ids: prepared data and models are known by it."""
        ...

    def encode(self, text: str) -> Sequence[int]:
        """Return the ids of a text."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        ...


AnyOwnTokenizer = TextTokenizer | tokenizers.Tokenizer


class _Library:
    """A `tokenizers.Tokenizer` in the form of the protocol; texts are neither cut nor padded."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self.inner = tokenizers.Tokenizer.from_str(inner.to_str())  # a copy: the caller's keeps its settings
        self.inner.no_padding()
        self.inner.no_truncation()
        self.size = max(self.inner.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.fingerprint = ""  # the whole tokenizer is its identity

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self.inner.decode(list(ids), skip_special_tokens=False)


class OwnTokenizer(Tokenizer):
    """A tokenizer of the caller's program, whose ids follow Heedful's markers: its id i is the id `markers` + i here.

    It knows nothing of unknown pieces, nor of where words begin.
    """

    def __init__(self, given: AnyOwnTokenizer, languages: Sequence[str] = ()) -> None:
        self._given: TextTokenizer = _Library(given) if isinstance(given, tokenizers.Tokenizer) else given
        self.tags: Mapping[str, int] = {language: len(SPECIALS) + n for n, language in enumerate(languages)}
        self.mask = None
        self._library = self._given.inner if isinstance(self._given, _Library) else None
        self.portable = self._library is not None

    def to_json(self) -> bytes:
        """Serialise: the whole tokenizer if it is one of the library, otherwise its identity."""
        described = {
            "own_tokenizer": 1,
            "size": self._given.size,
            "fingerprint": self._given.fingerprint,
            "languages": list(self.tags),
            "tokenizer": None if self._library is None else json.loads(self._library.to_str()),
        }
        return json.dumps(described, ensure_ascii=False).encode()

    @property
    def size(self) -> int:
        """The number of ids, markers included."""
        return self.markers + self._given.size

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, without markers."""
        return [self._encoded(text) if text else [] for text in texts]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids; markers are left out."""
        first = self.markers
        return [str(self._given.decode([token - first for token in ids if token >= first])) for ids in batch]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of ids as people read them: those of the library, or the text of each id."""
        return [visible_piece(self._piece(token)) for token in ids]

    def words(self, ids: Sequence[int]) -> list[int]:
        """Return the number of each piece's word, from 0; words are separated by spaces."""
        texts = self.decode_batch([ids[: number + 1] for number in range(len(ids))])
        return [max(0, len(text.split()) - 1) for text in texts]

    @property
    def spells_spaces(self) -> bool:
        """Whether spaces are spelled like letters: those of a byte-level vocabulary are, of others nothing is known."""
        return self._library is not None and isinstance(self._library.decoder, decoders.ByteLevel)

    def continues_word(self, token: int) -> bool:
        """Whether a piece continues the word of the piece before it: nothing is known of it."""
        return False

    def can_spell(self, letter: str) -> bool:
        """Whether a character occurs in the text of some pieces: nothing is known of it, so it may."""
        return True

    def _piece(self, token: int) -> str:
        if token < len(SPECIALS):
            return SPECIALS[token]
        if token < self.markers:
            return next(tag_of(language) for language, number in self.tags.items() if number == token)
        if self._library is None or isinstance(self._library.decoder, decoders.ByteLevel):
            return self.decode([token])
        return self._library.id_to_token(token - self.markers) or SPECIALS[UNKNOWN]

    def _encoded(self, text: str) -> list[int]:
        try:
            ids = self._given.encode(text)
        except (TypeError, UnicodeEncodeError):
            refuse_other_than_unicode([text])
            raise
        first, size = self.markers, self._given.size
        strange = next((token for token in ids if not 0 <= token < size), None)
        if strange is not None:
            raise UserError(
                f"`tokenizer` encodes {shortened(text)} with the id {strange}, but its `size` is {size:,}: ids must be "
                f"from 0 to {size - 1:,}."
            )
        return [first + int(token) for token in ids]


def check_own_tokenizer(given: object, name: str) -> AnyOwnTokenizer:
    """Return a tokenizer that a caller gave; refuse what cannot be one. `name` is its name in messages."""
    if isinstance(given, tokenizers.Tokenizer):
        return given
    lacking = [part for part in ("size", "fingerprint", "encode", "decode") if not hasattr(given, part)]
    if lacking:
        raise UserError(
            f"`{name}` is {shortened(given)}, but must be a `tokenizers.Tokenizer`, or have `size`, `fingerprint`, "
            f"`encode` and `decode`: `{lacking[0]}` is missing."
        )
    own = cast(TextTokenizer, given)
    if not isinstance(own.size, int) or not 1 <= own.size <= _MOST:
        raise UserError(f"`{name}.size` is {shortened(own.size)}, but must be a whole number from 1 to {_MOST:,}.")
    if not isinstance(own.fingerprint, str) or not own.fingerprint:
        raise UserError(f"`{name}.fingerprint` is {shortened(own.fingerprint)}, but must be a text, such as a hash.")
    return own


def read_tokenizer(data: bytes, where: str, given: AnyOwnTokenizer | None = None) -> Tokenizer:
    """Load what `to_json` of a tokenizer of either kind gave; `where` names the file in messages.

    `given` is the object that the caller passed again.
    """
    if not data.startswith(_BEGINNING):
        if given is not None:
            raise UserError(f"{where} is a tokenizer that Heedful trained: leave out `tokenizer`.")
        return Tokenizer.from_json(data, where)
    described = _described(data, where)
    if described["tokenizer"] is not None:
        stored: AnyOwnTokenizer = _tokenizer_of_library(described["tokenizer"], where)
    elif given is None:
        raise UserError(f"{where} is a tokenizer of the program that trained the model: {_WAY_OUT}.")
    else:
        stored = given
    if given is not None and OwnTokenizer(given, described["languages"]).to_json() != data:
        raise UserError(f"`tokenizer` is not the one that the model was trained with (see {where}): pass that one.")
    return OwnTokenizer(stored, described["languages"])


def _tokenizer_of_library(described: object, where: str) -> tokenizers.Tokenizer:
    """Return a tokenizer of the library from its description."""
    try:
        check_tokenizer_json(json.dumps(described).encode())
        inner = tokenizers.Tokenizer.from_str(json.dumps(described))
    except Exception as error:  # the library raises bare Exception
        reason = " ".join(str(error).split())
        raise UserError(f"{where} is not a tokenizer ({reason}): restore it from a copy.") from error
    if max(inner.get_vocab(with_added_tokens=True).values(), default=0) >= _MOST:
        raise UserError(f"{where} has an id of {_MOST:,} or more: restore it from a copy.")
    return inner


def _described(data: bytes, where: str) -> dict[str, Any]:
    try:
        described = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON ({error}): the file is damaged, restore it from a copy.") from error
    languages = described.get("languages")
    sound = (
        described.get("own_tokenizer") == 1
        and "tokenizer" in described
        and isinstance(languages, list)
        and all(isinstance(language, str) for language in languages)
    )
    if not sound:
        raise UserError(f"{where} is not a tokenizer that Heedful wrote: restore it from a copy.")
    return cast(dict[str, Any], described)
