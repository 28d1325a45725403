"""Text with masks: to the pieces around them, and back with pieces in place of the masks.

A user writes `[MASK]` or `<mask>`. The text is split there, and its parts are tokenized: tokenizers never parse markers
out of text. Around a mask, the pieces must be those of training, where a mask replaced one piece of a text; how to
ensure this depends on the kind of tokenizer.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

from heedful.data.text_form import TextForm
from heedful.data.tokenize.tokenizer import SPECIALS, UNKNOWN, Tokenizer

MARK: Final = re.compile(r"\[MASK\]|<mask>")
_PRIVATE_USE: Final = range(0xE000, 0xF900)  # Unicode characters that ordinary text does not use

TextParts = Sequence[str]  # the parts of a text around its masks: one more than there are masks


def split_at_masks(text: str) -> list[str]:
    """Split a text at its masks."""
    return MARK.split(text.strip())


# --- kinds of tokenizers ----------------------------------------------------------------------------------------------


class _WholeWords:
    """Words without their spaces: a mask stands for a word, or with WordPiece for the first piece of one.

    WordPiece may propose a piece that continues the previous word ("##ing"), which removes the space.
    """

    def before(self, part: str) -> str:
        """Return the text to tokenize for a part that is followed by a mask."""
        return part

    def continues(self, part: str) -> bool:
        """Whether a part after a mask continues a word, with pieces that differ from those at the start of a word."""
        return False

    def breaks_off(self) -> bool:
        """Whether a part before a mask may end inside a word, with pieces that differ from those at a word's end."""
        return False

    def put(self, text: str, spelled: str, part: str) -> str:
        """Join a text, a piece as it is spelled between others, and the part after it."""
        return (text if spelled.startswith(" ") else text.rstrip()) + spelled.strip() + part


class _Characters(_WholeWords):
    """Every character, spaces included, is a piece: a mask stands for one character."""

    def put(self, text: str, spelled: str, part: str) -> str:
        """Join a text, a piece as it is spelled between others, and the part after it."""
        return text + spelled + part


class _Bytes(_Characters):
    """A word's first piece includes the space before it: a mask after a space stands for both."""

    def before(self, part: str) -> str:
        """Return the text to tokenize for a part that is followed by a mask."""
        return part.removesuffix(" ")

    def put(self, text: str, spelled: str, part: str) -> str:
        """Join a text, a piece as it is spelled between others, and the part after it."""
        return super().put(text, spelled if text else spelled.removeprefix(" "), part)


class _Unigram(_Bytes):
    """As `_Bytes`, and a space is added to text that does not start with one, which must not happen after a mask."""

    def continues(self, part: str) -> bool:
        """Whether a part after a mask continues a word, with pieces that differ from those at the start of a word."""
        return not part.startswith(" ")


class _Bpe(_WholeWords):
    """A word's last piece has a mark. A piece without it, in place of a mask, removes the space after it."""

    def breaks_off(self) -> bool:
        """Whether a part before a mask may end inside a word, with pieces that differ from those at a word's end."""
        return True

    def put(self, text: str, spelled: str, part: str) -> str:
        """Join a text, a piece as it is spelled between others, and the part after it."""
        return text + spelled.strip() + (part if spelled.endswith(" ") else part.lstrip())


_KINDS: Final[Mapping[str, _WholeWords]] = {
    "byte_bpe": _Bytes(),
    "bpe": _Bpe(),
    "wordpiece": _WholeWords(),
    "unigram": _Unigram(),
    "word": _WholeWords(),
    "char": _Characters(),
}


# --- encoding and decoding --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MaskTextCodec:
    """Converts texts with masks to pieces and back, for a tokenizer of any kind."""

    tokenizer: Tokenizer
    kind: str
    form: TextForm
    mask: int

    def encode(self, texts: Sequence[TextParts]) -> list[list[int]]:
        """Return the pieces of texts, without markers but with masks."""
        asked = [[self._asked(parts, index) for index in range(len(parts))] for parts in texts]
        encoded = iter(self.tokenizer.encode_batch([part.written for part in chain.from_iterable(asked)]))
        return [self._with_masks([self._own(part, next(encoded)) for part in parts]) for parts in asked]

    def filled(self, parts: TextParts, tokens: Sequence[int]) -> str:
        """Return a text with these pieces in place of its masks."""
        kind = self._kind
        kept = [*map(kind.before, parts[:-1]), parts[-1]]
        text, run = kept[0], []  # adjacent masks are spelled together: they may share a character
        for number, (token, part) in enumerate(zip(tokens, kept[1:], strict=True), start=1):
            run.append(token)
            if part or number == len(tokens):
                text, run = kind.put(text, self.spelled([run])[0], part), []
        return text

    def spelled(self, runs: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of pieces between other pieces, with the spaces that they include."""
        unknown = SPECIALS[UNKNOWN]
        between = self.tokenizer.decode_batch([[UNKNOWN, *run, UNKNOWN] for run in runs])
        return [text.removeprefix(unknown).removesuffix(unknown) for text in between]

    @property
    def _kind(self) -> _WholeWords:
        return _KINDS[self.kind]

    @cached_property
    def _stand_in(self) -> str:
        """A letter that the vocabulary does not have: text next to it is inside a word, and tokenized independently."""
        letters = map(chr, _PRIVATE_USE)
        return next(letter for letter in letters if UNKNOWN in self.tokenizer.encode(letter))

    def _asked(self, parts: TextParts, index: int) -> "_Part":
        """Return the text to tokenize for a part of a text, and where a letter stands in for a mask."""
        last = index == len(parts) - 1
        text = self.form(parts[index] if last else self._kind.before(parts[index]))
        continues = bool(text) and index > 0 and self._kind.continues(text)
        breaks_off = bool(text) and not last and self._kind.breaks_off()
        before, after = self._stand_in if continues else "", self._stand_in if breaks_off else ""
        return _Part(text, before + text + after, continues, breaks_off)

    def _own(self, part: "_Part", ids: list[int]) -> list[int]:
        """Return the pieces of a part without those that stand in for masks."""
        if part.continues:
            joined = UNKNOWN in self.tokenizer.encode(part.text[0])  # adjacent unknown letters are one piece
            ids = ids[ids.index(UNKNOWN) + (not joined) :]
        return ids[:-1] if part.breaks_off else ids

    def _with_masks(self, parts: Sequence[list[int]]) -> list[int]:
        return [*parts[0], *chain.from_iterable([self.mask, *part] for part in parts[1:])]


@dataclass(frozen=True)
class _Part:
    """A part of a text, and the text that is tokenized for it."""

    text: str
    written: str
    continues: bool  # a letter stands in for the mask before it
    breaks_off: bool  # a letter stands in for the mask after it
