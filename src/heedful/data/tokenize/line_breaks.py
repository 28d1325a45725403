"""Running text as a tokenizer reads it: in pieces, with line breaks as letters or as words of their own."""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.data.tokenize.known_words import ID, KnownWords
from heedful.data.tokenize.tokenizer import Tokenizer

_SIGN: Final = "\N{SYMBOL FOR NEWLINE}"  # a line break, for tokenizers that read words only
_SHOWN: Final = re.compile(f" ?{_SIGN} ?")
# No pre-tokenizer joins a line break to a letter or digit before it, so the tokens are those of the whole text. Llama's
# joins it to punctuation.
_BEFORE_BREAKS: Final = re.compile(r"(?<=[^\W_])(?=\n)")


def running_pieces(text: str, spells_spaces: bool) -> list[str]:
    """Cut a text into pieces whose tokens, one after the other, are those of the text.

    A tokenizer that does not spell spaces like letters reads each line break as a word.
    """
    if spells_spaces:
        return _BEFORE_BREAKS.split(text)
    *lines, last = text.split("\n")
    return [f"{line} {_SIGN}" for line in lines] + ([last] if last else [])


def sign_of(letter: str) -> str:
    """Return a character as a tokenizer that reads words only reads it: a line break has a sign."""
    return _SIGN if letter == "\n" else letter


def encode_running(texts: Sequence[str], words: KnownWords, spells_spaces: bool) -> list[NDArray[np.uint32]]:
    """Return the ids of texts, without markers."""
    pieces = [running_pieces(text, spells_spaces) for text in texts]
    encoded = iter(words.encode([piece for of_text in pieces for piece in of_text]))
    return [np.frombuffer(b"".join([next(encoded) for _ in of_text]), ID) for of_text in pieces]


def encode_running_text(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return the ids of one text, without markers."""
    pieces = running_pieces(text, tokenizer.spells_spaces)
    return [token for ids in tokenizer.encode_batch(pieces) for token in ids]


def restore_breaks(text: str, tokenizer: Tokenizer) -> str:
    """Return a decoded text with its line breaks."""
    return text if tokenizer.spells_spaces else _SHOWN.sub("\n", text)
