"""Text to token ids: by remembered words, and running text with its line breaks.

Most words of a text came before, and a table is faster than a tokenizer. Every tokenizer that cuts text at spaces gives
a text's words one by one what it gives the whole text, provided that a word brings along the spaces before it. No
pre-tokenizer here looks back, and none lets a piece reach over the gap between a word and the space after it.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from heedful.data.token_store import Ragged, id_type
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
        known = self._known  # another thread may begin a new table at any time
        new = list(set(chain.from_iterable(words)).difference(known))
        for word, ids in zip(new, self._tokenizer.encode_batch(new), strict=True):
            known[word] = np.array(ids, ID).tobytes()
            self._used += len(word)
        return [b"".join([known[word] for word in text]) for text in words]


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


# --- running text as a tokenizer reads it: in pieces, with line breaks as letters or as words of their own ------------


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


# --- pairs of texts to token ids, a chunk at a time: the work of a tokenizing process, or of this one -----------------


@dataclass(frozen=True)
class Filters:
    """Which pairs are dropped besides those with an empty side; lengths count tokens, without markers and tags."""

    max_length: int | None = None
    max_ratio: float | None = None

    def objection(self, source: int, target: int, tag: int = 0, target_tag: int = 0) -> str | None:
        """Return the reason to drop a pair of these lengths, or None; tags before the sides count too."""
        shorter, longer = sorted((source, target))
        if not shorter:
            return "empty"
        if self.max_length is not None and max(source + tag, target + target_tag) > self.max_length:
            return "too long"
        if self.max_ratio is not None and longer > self.max_ratio * shorter:
            return "ratio"
        return None


@dataclass(frozen=True, eq=False)
class Encoded:
    """The pairs of a chunk that are kept, and the number dropped for each reason."""

    streams: Mapping[str, Ragged]
    dropped: Mapping[str, int]


class Encoder:
    """Tokenizes both sides of pairs and drops what the filters object to.

    `tag` goes before every source, and with `both` before every target.
    """

    def __init__(
        self, source: Tokenizer, target: Tokenizer, filters: Filters, tag: Sequence[int] = (), both: bool = False
    ) -> None:
        self.source, self.target, self.filters, self.tag, self.both = source, target, filters, tag, both
        self._source = KnownWords(source)
        self._target = self._source if target is source else KnownWords(target)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Encoded:
        """Encode a chunk."""
        sources = self._source.encode([source for source, _ in pairs])
        targets = self._target.encode([target for _, target in pairs])
        tags = len(self.tag)
        objections = [
            self.filters.objection(len(source) // ID.itemsize, len(target) // ID.itemsize, tags, tags * self.both)
            for source, target in zip(sources, targets, strict=True)
        ]
        kept = [not objection for objection in objections]
        tag = np.array(self.tag, ID).tobytes()
        first = tag if self.both else b""
        streams = {
            "source": ragged([tag + ids for ids in compress(sources, kept)], id_type(self.source.size)),
            "target": ragged([first + ids for ids in compress(targets, kept)], id_type(self.target.size)),
        }
        return Encoded(streams, Counter(objection for objection in objections if objection))


def ragged(sentences: Sequence[bytes], dtype: np.dtype[np.unsignedinteger]) -> Ragged:
    """Put sentences of ids, given as bytes, end to end."""
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)) // ID.itemsize, out=offsets[1:])
    return Ragged(np.frombuffer(b"".join(sentences), ID).astype(dtype), offsets)
