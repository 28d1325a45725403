"""The form of text that a model reads and writes: normalised, lowercased, split by Moses' rules or not."""

import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from heedful.config.data import Data

if TYPE_CHECKING:
    from sacremoses import MosesDetokenizer, MosesTokenizer


@dataclass(frozen=True)
class TextForm:
    """What is done to every text before it is tokenized."""

    nfc: bool = False
    lowercase: bool = False

    @classmethod
    def of(cls, data: Data) -> "TextForm":
        """Return the form that a recipe asks for."""
        return cls(data.nfc, data.lowercase)

    def key(self) -> dict[str, bool]:
        """Return the form as a part of cache keys; a key added later may enter only where it is not at its default."""
        return {"nfc": self.nfc, "lowercase": self.lowercase}

    def __call__(self, text: str) -> str:
        """Bring a text into the form."""
        if self.nfc:
            text = unicodedata.normalize("NFC", text)
        return text.lower() if self.lowercase else text


def split_words(text: str, language: str) -> str:
    """Put spaces between words and punctuation by Moses' rules; nothing is escaped."""
    words: str = _tokenizer(language).tokenize(text, return_str=True, escape=False)
    return words


def join_words(text: str, language: str) -> str:
    """Undo `split_words`: make ordinary text of words and punctuation separated by spaces."""
    ordinary: str = _detokenizer(language).detokenize(text.split(), unescape=False)
    return ordinary


@cache
def _tokenizer(language: str) -> "MosesTokenizer":
    from sacremoses import MosesTokenizer

    return MosesTokenizer(language)


@cache
def _detokenizer(language: str) -> "MosesDetokenizer":
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(language)
