"""Text to token ids by remembered words: most words of a text came before, and a table is faster than a tokenizer.

Every tokenizer that cuts text at spaces gives a text's words one by one what it gives the whole text, provided that a
word brings along the spaces before it. No pre-tokenizer here looks back, and none lets a piece reach over the gap
between a word and the space after it.
"""

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, Final

import numpy as np

from heedful.data.tokenize.tokenizer import Tokenizer

ID: Final = np.dtype(np.uint32)  # of the encoded bytes

_CUT_AT_SPACES: Final = ("ByteLevel", "WhitespaceSplit", "BertPreTokenizer", "Metaspace")
_BEFORE_SPACES: Final = re.compile(r"(?<=\S)(?= )")
_ROOM: Final = 4_000_000  # characters of remembered words, in all processes together: some 100 MB


class KnownWords:
    """A tokenizer that remembers words, and forgets them all when there is no more room for new ones."""

    sharers: ClassVar[int] = 1  # processes that divide the room among them; a tokenizing process sets it at its start

    def __init__(self, tokenizer: Tokenizer, room: int = _ROOM) -> None:
        self._tokenizer, self._room, self._used = tokenizer, room // self.sharers, 0
        self._known: dict[str, bytes] = {}
        self._words = _words if _cuts_at_spaces(tokenizer) else _whole

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """Return the ids of texts, without markers, each as bytes."""
        words = [self._words(text) for text in texts]
        if self._used > self._room:
            self._known, self._used = {}, 0
        known = self._known
        self._learn(list(set(chain.from_iterable(words)).difference(known)))
        return [b"".join([known[word] for word in text]) for text in words]

    def _learn(self, words: list[str]) -> None:
        for word, ids in zip(words, self._tokenizer.encode_batch(words), strict=True):
            self._known[word] = np.array(ids, ID).tobytes()
            self._used += len(word)


def _cuts_at_spaces(tokenizer: Tokenizer) -> bool:
    described = json.loads(tokenizer.to_json())
    if "pre_tokenizer" not in described:  # of the caller's program: nothing is known of it
        return False
    cutter = described["pre_tokenizer"] or {"type": ""}
    return described["normalizer"] is None and cutter["type"] in _CUT_AT_SPACES


def _words(text: str) -> list[str]:
    """Words with the spaces before them; the first way is the faster one and takes nearly all texts."""
    if " ".join(text.split()) == text:
        return text.replace(" ", "\n ").split("\n")  # such a text has no other white space
    return _BEFORE_SPACES.split(text)


def _whole(text: str) -> list[str]:
    return [text]
