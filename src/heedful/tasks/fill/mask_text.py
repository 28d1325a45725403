"""Text with masks in it: to pieces around them, and back with pieces in their places.

A person writes `[MASK]` or `<mask>`. The text is cut there, and what stands between is tokenized: tokenizers never
parse markers out of text. Around a mask, pieces are to be those of training, where a mask took the place of one piece
of a text; what that means differs from kind to kind.
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
_PRIVATE_USE: Final = range(0xE000, 0xF900)  # letters of Unicode that no text has a right to

TextParts = Sequence[str]  # of a text, around its masks: one more than there are masks


def split_at_masks(text: str) -> list[str]:
    """A text's parts."""
    return MARK.split(text.strip())


# --- kinds of tokenizers ----------------------------------------------------------------------------------------------


class _WholeWords:
    """Words by themselves, spaces or none around them: a mask is a word, or of WordPiece the first piece of one.

    WordPiece may propose to go on with the word before it ("##ing"), which takes the space away.
    """

    def before(self, part: str) -> str:
        """What is tokenized of a part that a mask follows."""
        return part

    def goes_on(self, part: str) -> bool:
        """Whether a part behind a mask begins inside a word, and inside is written otherwise than at the begin."""
        return False

    def breaks_off(self) -> bool:
        """Whether what a part before a mask ends with may be inside a word, and is written otherwise there."""
        return False

    def put(self, text: str, spelled: str, part: str) -> str:
        """A text, a piece as it is spelled between others, and the part behind it."""
        return (text if spelled.startswith(" ") else text.rstrip()) + spelled.strip() + part


class _Characters(_WholeWords):
    """Every character, spaces too, is a piece: a mask is one character."""

    def put(self, text: str, spelled: str, part: str) -> str:
        """A text, a piece as it is spelled between others, and the part behind it."""
        return text + spelled + part


class _Bytes(_Characters):
    """A word's piece holds the space before it: a mask behind a space stands for both."""

    def before(self, part: str) -> str:
        """What is tokenized of a part that a mask follows."""
        return part.removesuffix(" ")

    def put(self, text: str, spelled: str, part: str) -> str:
        """A text, a piece as it is spelled between others, and the part behind it."""
        return super().put(text, spelled if text else spelled.removeprefix(" "), part)


class _Unigram(_Bytes):
    """The same, and text without a space before it is given one: behind a mask it must not be."""

    def goes_on(self, part: str) -> bool:
        """Whether a part behind a mask begins inside a word, and inside is written otherwise than at the begin."""
        return not part.startswith(" ")


class _Bpe(_WholeWords):
    """A word's last piece has a mark. Without it, a piece in a mask's place takes the space behind it away."""

    def breaks_off(self) -> bool:
        """Whether what a part before a mask ends with may be inside a word, and is written otherwise there."""
        return True

    def put(self, text: str, spelled: str, part: str) -> str:
        """A text, a piece as it is spelled between others, and the part behind it."""
        return text + spelled.strip() + (part if spelled.endswith(" ") else part.lstrip())


_KINDS: Final[Mapping[str, _WholeWords]] = {
    "byte_bpe": _Bytes(),
    "bpe": _Bpe(),
    "wordpiece": _WholeWords(),
    "unigram": _Unigram(),
    "word": _WholeWords(),
    "char": _Characters(),
}


# --- there and back ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MaskTextCodec:
    """Texts with masks to pieces and back, for a tokenizer of one of the kinds that recipes name."""

    tokenizer: Tokenizer
    kind: str
    form: TextForm
    mask: int

    def encode(self, texts: Sequence[TextParts]) -> list[list[int]]:
        """The pieces of texts, without markers but with masks."""
        asked = [[self._asked(parts, place) for place in range(len(parts))] for parts in texts]
        encoded = iter(self.tokenizer.encode_batch([part.written for part in chain.from_iterable(asked)]))
        return [self._with_masks([self._own(part, next(encoded)) for part in parts]) for parts in asked]

    def filled(self, parts: TextParts, tokens: Sequence[int]) -> str:
        """A text with these pieces in the places of its masks."""
        kind = self._kind
        kept = [*map(kind.before, parts[:-1]), parts[-1]]
        text, run = kept[0], []  # masks without anything between are spelled together: they may share a character
        for number, (token, part) in enumerate(zip(tokens, kept[1:], strict=True), start=1):
            run.append(token)
            if part or number == len(tokens):
                text, run = kind.put(text, self.spelled([run])[0], part), []
        return text

    def spelled(self, runs: Sequence[Sequence[int]]) -> list[str]:
        """What pieces are between others, with the spaces that they bring along."""
        unknown = SPECIALS[UNKNOWN]
        between = self.tokenizer.decode_batch([[UNKNOWN, *run, UNKNOWN] for run in runs])
        return [text.removeprefix(unknown).removesuffix(unknown) for text in between]

    @property
    def _kind(self) -> _WholeWords:
        return _KINDS[self.kind]

    @cached_property
    def _stand_in(self) -> str:
        """A letter that the vocabulary does not have: what stands beside it is inside a word, and untouched by it."""
        letters = map(chr, _PRIVATE_USE)
        return next(letter for letter in letters if UNKNOWN in self.tokenizer.encode(letter))

    def _asked(self, parts: TextParts, place: int) -> "_Part":
        """What to tokenize for a part of a text, and where a letter stands in for a mask."""
        last = place == len(parts) - 1
        text = self.form(parts[place] if last else self._kind.before(parts[place]))
        goes_on = bool(text) and place > 0 and self._kind.goes_on(text)
        breaks_off = bool(text) and not last and self._kind.breaks_off()
        before, behind = self._stand_in if goes_on else "", self._stand_in if breaks_off else ""
        return _Part(text, before + text + behind, goes_on, breaks_off)

    def _own(self, part: "_Part", ids: list[int]) -> list[int]:
        """The pieces of a part without those that stand in for masks."""
        if part.goes_on:
            joined = UNKNOWN in self.tokenizer.encode(part.text[0])  # unknown letters side by side are one piece
            ids = ids[ids.index(UNKNOWN) + (not joined) :]
        return ids[:-1] if part.breaks_off else ids

    def _with_masks(self, parts: Sequence[list[int]]) -> list[int]:
        return [*parts[0], *chain.from_iterable([self.mask, *part] for part in parts[1:])]


@dataclass(frozen=True)
class _Part:
    """A part of a text, and what is tokenized for it."""

    text: str
    written: str
    goes_on: bool  # a letter stands in for the mask before it
    breaks_off: bool  # a letter stands in for the mask behind it
