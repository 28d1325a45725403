"""A trained tokenizer: text to token ids and back. How it is trained is `tokenizer_training.py`.

Markers are never parsed out of text: a text that holds "</s>" is a text about markup, not the end of a sentence.
"""

import codecs
import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final

import tokenizers
from tokenizers import decoders

from heedful.base.errors import UserError
from heedful.base.files import is_unicode
from heedful.data.tokenize.checked_json import check_tokenizer_json

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")  # in the order of their ids
MASK: Final = "<mask>"  # comes after them in vocabularies of masked language models
_TAG = re.compile(r"<2(?P<language>.+)>")
_SPACE: Final = "▁"  # how a space inside a piece is shown
_BYTE_SPACE: Final = "Ġ"  # how byte-level vocabularies write it
_FALLBACK: Final = "<0x0A>"  # a piece of vocabularies that spell unknown characters by their bytes
_BYTE: Final = re.compile("<0x(?P<byte>[0-9A-F]{2})>")


def tag_of(language: str) -> str:
    """The piece that asks for a target language, put before the source      Johnson et al. 2017"""
    return f"<2{language}>"


class Tokenizer:
    """Text to ids and back; ids 0 to 3 are `<pad>`, `<s>`, `</s>` and `<unk>` in every vocabulary.

    After them may come `<mask>`, which masked language models fill in, and tags of target languages.
    """

    pad, begin, end, unknown = PAD, BEGIN, END, UNKNOWN
    portable: bool = True  # whether another process can be given the tokenizer, as JSON

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.encode_special_tokens = True  # not kept in the JSON
        self._inner = inner
        self.tags = _tags(inner)  # the languages that can be asked for, in the order of their ids
        self.mask = _mask(inner)

    @classmethod
    def from_json(cls, data: bytes, where: str) -> "Tokenizer":
        """Load what `to_json` gave; `where` names the file in messages."""
        try:
            check_tokenizer_json(data)
            inner = tokenizers.Tokenizer.from_str(data.decode())
        except Exception as error:  # the library raises bare Exception
            raise UserError(f"{where} is not a tokenizer ({_one_line(error)}): restore it from a copy.") from error
        for expected, special in enumerate(SPECIALS):
            if inner.token_to_id(special) != expected:
                raise UserError(
                    f"{where}: {special} has id {inner.token_to_id(special)}, but must have id {expected}: "
                    "it is not a tokenizer of Heedful."
                )
        if inner.truncation is not None or inner.padding is not None:
            raise UserError(f"{where} truncates or pads texts: it is not a tokenizer of Heedful.")
        if sorted(inner.get_vocab().values()) != list(range(inner.get_vocab_size())):
            raise UserError(
                f"{where}: its pieces do not have the ids from 0 to {inner.get_vocab_size() - 1:,}, each once: restore "
                "it from a copy."
            )
        tokenizer = cls(inner)
        after = [] if tokenizer.mask is None else [tokenizer.mask]
        if [*after, *tokenizer.tags.values()] != list(range(len(SPECIALS), tokenizer.markers)):
            raise UserError(
                f"{where}: its mask and tags do not come after its special tokens: it is not a tokenizer of Heedful."
            )
        return tokenizer

    def to_json(self) -> bytes:
        """Serialise; the same tokenizer always gives the same bytes."""
        return self._inner.to_str(pretty=False).encode()

    @cached_property
    def kept(self) -> frozenset[int]:
        """The ids of words that are never split."""
        added = self._inner.get_added_tokens_decoder().items()
        return frozenset(number for number, token in added if not token.special)

    @cached_property
    def fingerprint(self) -> str:
        """Return the sha256 of the JSON."""
        return hashlib.sha256(self.to_json()).hexdigest()

    @property
    def markers(self) -> int:
        """The number of special tokens and tags: text is made of the ids from here on, and of `<unk>`."""
        return len(SPECIALS) + (self.mask is not None) + len(self.tags)

    @property
    def size(self) -> int:
        """The number of ids, special ones included."""
        return self._inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without markers."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, without markers, on all cores."""
        with _library_faults(texts):
            encodings = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [_without_markers(encoding.ids, self.markers) for encoding in encodings]

    def encode_with_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return the ids of texts, without markers, and for each piece the characters of the text that it covers.

        A piece that is a part of a character covers all of it; several then cover the same one.
        """
        with _library_faults(texts):
            encodings = self._inner.encode_batch(list(texts), add_special_tokens=False)
        return [(_without_markers(encoding.ids, self.markers), encoding.offsets) for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; markers are left out, an unknown token shows as `<unk>`."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids; markers are left out, an unknown token shows as `<unk>`."""
        first = self.markers
        pieces = [[token for token in ids if token >= first or token == UNKNOWN] for ids in batch]
        with _library_faults():
            return self._inner.decode_batch(pieces, skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of ids as people read them, none with white space in it: a space can separate them.

        A space is shown as `▁`; other white space, a control character and a part of a character as their bytes:
        `<0x0A>`, `<0xC3>`. Marks of a word's begin, end or inside (`▁`, `</w>`, `##`) are the vocabulary's; where it
        has none, and pieces have spaces in them, a `▁` of the text is shown as its bytes.
        """
        return [self._shown(token) for token in ids]

    def words(self, ids: Sequence[int]) -> list[int]:
        """Return the number of each piece's word, from 0; words are separated by spaces."""
        reader = codecs.getincrementaldecoder("utf-8")("replace")
        numbers, begun, inside = [], 0, False
        for spelled in self.spelled(ids):
            text = reader.decode(spelled)
            if text:
                begun += len(text.split()) - (inside and not text[0].isspace())
                inside = not text[-1].isspace()
            waiting, _ = reader.getstate()  # the first bytes of a character: of a word, as far as one can tell
            numbers.append(max(0, begun + (bool(waiting) and not inside) - 1))
        return numbers

    @property
    def spells_spaces(self) -> bool:
        """Whether spaces are spelled like letters, so that a text that continues another begins with one."""
        return isinstance(self._inner.decoder, decoders.ByteLevel | decoders.Fuse)

    def can_spell(self, letter: str) -> bool:
        """Whether a character occurs in the text of some pieces; `<unk>` is not one."""
        if self._spells_bytes:
            return True
        of_bytes = isinstance(self._inner.decoder, decoders.ByteLevel)
        return all(part in self._letters for part in (_parts(letter.encode()) if of_bytes else [letter.encode()]))

    @cached_property
    def _letters(self) -> frozenset[bytes]:
        """The characters of all pieces, or the bytes of a byte-level vocabulary."""
        spelled = self.spelled(range(self.markers, self.size))
        if isinstance(self._inner.decoder, decoders.ByteLevel):
            return frozenset(part for piece in spelled for part in _parts(piece))
        return frozenset(letter.encode() for piece in spelled for letter in piece.decode())

    def continues_word(self, token: int) -> bool:
        """Whether a piece continues the word of the piece before it, by the marks of the vocabulary's kind."""
        piece = self._inner.id_to_token(token)
        if token < self.markers or piece is None:
            return False
        match self._inner.decoder:
            case decoders.ByteLevel():
                return not piece.startswith(_BYTE_SPACE)
            case decoders.WordPiece():
                return piece.startswith("##")
            case decoders.Metaspace():
                return not piece.startswith(_SPACE)
            case _:
                return False

    def tag(self, language: str) -> int:
        """Return the id that asks for a language; refuses one that the vocabulary does not have."""
        if language in self.tags:
            return self.tags[language]
        known = f"it has {', '.join(map(tag_of, self.tags))}" if self.tags else "it has no tags"
        raise UserError(f"{tag_of(language)} is not in the vocabulary: {known}.")

    def _shown(self, token: int) -> str:
        piece = self._inner.id_to_token(token)
        if token < self.markers or piece is None:
            return piece or SPECIALS[UNKNOWN]
        of_bytes = isinstance(self._inner.decoder, decoders.ByteLevel)
        hidden = _SPACE if self.spells_spaces else ""
        text = (_bytes(piece) if of_bytes else piece.encode()).decode(errors="surrogateescape")
        return visible_piece(text, hidden)

    def spelled(self, ids: Sequence[int]) -> list[bytes]:
        """Return the bytes that each piece adds to the text; spaces are their own pieces, or parts of a neighbour."""
        distinct = list(dict.fromkeys(ids))
        if isinstance(self._inner.decoder, decoders.ByteLevel):
            first = self.markers
            pieces = [self._inner.id_to_token(token) for token in distinct]
            spelled = [
                _bytes(piece) if piece and (token >= first or token == UNKNOWN) else b""
                for token, piece in zip(distinct, pieces, strict=True)
            ]
        else:  # a piece is spelled differently at an end of the text: so it is put between two of a known text
            neighbour = len(SPECIALS[UNKNOWN])
            after = len(self.decode([UNKNOWN, UNKNOWN])) - neighbour  # a space too, where it is the next piece's
            between = self.decode_batch([[UNKNOWN, token, UNKNOWN] for token in distinct])
            spelled = [text[neighbour : len(text) - after].encode() for text in between]
            spelled = [self._fallback(token) or text for token, text in zip(distinct, spelled, strict=True)]
        of = dict(zip(distinct, spelled, strict=True))
        return [of[token] for token in ids]

    def _fallback(self, token: int) -> bytes:
        """Return the byte of a piece that is one byte of a character; nothing for others."""
        found = _BYTE.fullmatch(self._inner.id_to_token(token) or "") if self._spells_bytes else None
        return bytes.fromhex(found["byte"]) if found else b""

    @property
    def _spells_bytes(self) -> bool:
        return self._inner.token_to_id(_FALLBACK) is not None


def visible_piece(piece: str, hidden: str = "") -> str:
    """Return a piece as people read it; `hidden` is a letter that is shown as its bytes."""
    return "".join(_visible(letter, hidden) for letter in piece)


def refuse_other_than_unicode(texts: Sequence[str]) -> None:
    """Refuse a text that is not Unicode."""
    strange = next((text for text in texts if not is_unicode(text)), None)
    if strange is not None:
        raise UserError(f"The text {strange[:60]!a} is not Unicode: give it in UTF-8.") from None


def _mask(inner: tokenizers.Tokenizer) -> int | None:
    """Return the id of the mask, where the vocabulary has one: a word "<mask>" of the text is not one."""
    return next((number for number, token in inner.get_added_tokens_decoder().items() if token.content == MASK), None)


def _tags(inner: tokenizers.Tokenizer) -> Mapping[str, int]:
    added = sorted(inner.get_added_tokens_decoder().items())
    found = [(_TAG.fullmatch(token.content), number) for number, token in added]
    return {match["language"]: number for match, number in found if match}


def _byte_letters() -> Mapping[str, int]:
    """The letter that byte-level vocabularies write each byte as      Radford et al. 2019

    What Latin-1 shows is written as itself, the other bytes as the letters from U+0100 on.
    """
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTE_LETTERS: Final = _byte_letters()


def _parts(spelled: bytes) -> list[bytes]:
    return [bytes((byte,)) for byte in spelled]


def _bytes(piece: str) -> bytes:
    """Return the bytes of a byte-level piece; a letter that represents no byte is itself."""
    if all(letter in _BYTE_LETTERS for letter in piece):
        return bytes(_BYTE_LETTERS[letter] for letter in piece)
    return piece.encode()


def _visible(letter: str, hidden: str) -> str:
    """Return a letter as it is shown, or a byte that is not one (given as a lone surrogate)."""
    if letter == " ":
        return _SPACE
    if letter == hidden or letter.isspace() or unicodedata.category(letter) in ("Cc", "Cs"):
        return "".join(f"<0x{byte:02X}>" for byte in letter.encode(errors="surrogateescape"))
    return letter


def _without_markers(ids: list[int], first: int) -> list[int]:
    """A word vocabulary finds the word "</s>" in its table: in text it is an unknown word."""
    if ids and min(ids) < first:
        return [token if token >= first else UNKNOWN for token in ids]
    return ids


@contextmanager
def _library_faults(texts: Sequence[str] = ()) -> Iterator[None]:
    """Refuse texts that are not Unicode, and a tokenizer that is damaged.

    For the latter the library raises a bare Exception, or where it panics, a BaseException of its own.
    """
    try:
        yield
    except TypeError:
        refuse_other_than_unicode(texts)
        raise
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise UserError(f"The tokenizer fails ({_one_line(error)}): restore it from a copy of the model.") from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
