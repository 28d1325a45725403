"""Pairs of texts to token ids, a chunk at a time: the work of a tokenizing process, or of this one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from heedful.data.token_store import Ragged, id_type
from heedful.data.tokenize.encoding import ID, KnownWords
from heedful.data.tokenize.tokenizer import Tokenizer


@dataclass(frozen=True)
class Filters:
    """Which pairs are dropped besides those with an empty side; lengths count tokens, without markers and tags."""

    max_length: int | None = None
    max_ratio: float | None = None

    def objection(self, source: int, target: int, tag: int = 0) -> str | None:
        """Return the reason to drop a pair of these lengths, or None; a tag before the source counts too."""
        shorter, longer = sorted((source, target))
        if not shorter:
            return "empty"
        if self.max_length is not None and max(source + tag, target) > self.max_length:
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
    """Tokenizes both sides of pairs and drops what the filters object to; `tag` goes before every source."""

    def __init__(self, source: Tokenizer, target: Tokenizer, filters: Filters, tag: Sequence[int] = ()) -> None:
        self.source, self.target, self.filters, self.tag = source, target, filters, tag
        self._source = KnownWords(source)
        self._target = self._source if target is source else KnownWords(target)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Encoded:
        """Encode a chunk."""
        sources = self._source.encode([source for source, _ in pairs])
        targets = self._target.encode([target for _, target in pairs])
        objections = [
            self.filters.objection(len(source) // ID.itemsize, len(target) // ID.itemsize, len(self.tag))
            for source, target in zip(sources, targets, strict=True)
        ]
        kept = [not objection for objection in objections]
        tag = np.array(self.tag, ID).tobytes()
        streams = {
            "source": ragged([tag + ids for ids in compress(sources, kept)], id_type(self.source.size)),
            "target": ragged(list(compress(targets, kept)), id_type(self.target.size)),
        }
        return Encoded(streams, Counter(objection for objection in objections if objection))


def ragged(sentences: Sequence[bytes], dtype: np.dtype[np.unsignedinteger]) -> Ragged:
    """Put sentences of ids, given as bytes, end to end."""
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)) // ID.itemsize, out=offsets[1:])
    return Ragged(np.frombuffer(b"".join(sentences), ID).astype(dtype), offsets)
