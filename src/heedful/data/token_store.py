"""A tokenized corpus: ragged streams of token ids ("source" and "target", or one "text"), mapped from files."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.files import json_bytes, read_json

FORMAT = 1  # of the files; part of every cache key
_META = "meta.json"
_SMALL_ID, _LARGE_ID = np.dtype(np.uint16), np.dtype(np.uint32)

Ids = NDArray[np.unsignedinteger]
Sentences = Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sentences of one stream end to end: sentence i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Ids
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sentences) -> "Ragged":
        """Hold sentences in memory."""
        offsets = np.zeros(len(sentences) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)), out=offsets[1:])
        return cls(np.fromiter(chain.from_iterable(sentences), _LARGE_ID, int(offsets[-1])), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The length of every sentence, or of some."""
        if rows is None:
            return np.diff(self.offsets)
        return self.offsets[rows + 1] - self.offsets[rows]

    def gather(self, rows: NDArray[np.int64]) -> tuple[Ids, NDArray[np.int64]]:
        """The values of some sentences end to end, and their lengths."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        ends = np.cumsum(lengths)
        places = np.repeat(starts - (ends - lengths), lengths) + np.arange(lengths.sum())
        return self.values[places], lengths


@dataclass(frozen=True, eq=False)
class TokenStore:
    """Sentences as token ids, aligned between the streams; what was dropped on the way, and the key of its making."""

    streams: Mapping[str, Ragged]
    key: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason -> pairs

    @classmethod
    def of(cls, **streams: Sentences) -> "TokenStore":
        """Hold sentences in memory: `TokenStore.of(source=[[5, 6]], target=[[7]])`."""
        return cls({name: Ragged.of(sentences) for name, sentences in streams.items()})

    def __len__(self) -> int:
        return len(next(iter(self.streams.values())))

    def lengths(self, stream: str, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The number of pieces of every sentence, or of some, without markers."""
        return self.streams[stream].lengths(rows)

    def tokens(self, stream: str) -> int:
        """The number of pieces of all sentences, without markers."""
        return len(self.streams[stream].values)

    def sentence(self, stream: str, index: int) -> Ids:
        """The pieces of one sentence."""
        return self.streams[stream][index]

    def gather(self, stream: str, rows: NDArray[np.int64]) -> tuple[Ids, NDArray[np.int64]]:
        """The pieces of some sentences end to end, and their lengths."""
        return self.streams[stream].gather(rows)


def id_type(vocabulary: int) -> np.dtype[np.unsignedinteger]:
    """The smallest type that holds every id of a vocabulary."""
    return _SMALL_ID if vocabulary <= 1 << 16 else _LARGE_ID


def write_store(
    folder: Path,
    key: str,
    vocabularies: Mapping[str, int],
    chunks: Iterable[Mapping[str, Ragged]],
    dropped: Counter[str],
) -> None:
    """Write the files of a store into an existing folder, chunk by chunk; `dropped` may grow while chunks are read."""
    writers: dict[str, _StreamWriter] = {}
    with ExitStack() as stack:
        for stream, vocabulary in vocabularies.items():
            writers[stream] = stack.enter_context(_StreamWriter(folder, stream, vocabulary))
        for chunk in chunks:
            for stream, sentences in chunk.items():
                writers[stream].add(sentences)
    meta = {
        "format": FORMAT,
        "key": key,
        "dropped": dict(dropped),
        "streams": {stream: writer.meta() for stream, writer in writers.items()},
    }
    (folder / _META).write_bytes(json_bytes(meta))


def open_store(folder: Path, key: str) -> TokenStore | None:
    """Map a store's files, or return None where they are missing, damaged or of another making."""
    try:
        meta: Any = read_json(folder / _META)
        if meta["format"] != FORMAT or meta["key"] != key:
            return None
        streams = {name: _open_stream(folder, name, stream) for name, stream in meta["streams"].items()}
        if None in streams.values() or len({len(stream) for stream in streams.values() if stream}) > 1:
            return None
        dropped = {str(reason): int(count) for reason, count in meta["dropped"].items()}
        return TokenStore({name: stream for name, stream in streams.items() if stream is not None}, key, dropped)
    except (UserError, FileNotFoundError, KeyError, TypeError, ValueError, AttributeError):
        return None


class _StreamWriter:
    """Appends sentences to the two files of a stream; holds one chunk in memory."""

    def __init__(self, folder: Path, stream: str, vocabulary: int) -> None:
        self._dtype = id_type(vocabulary)
        self._paths = (folder / f"{stream}.values", folder / f"{stream}.offsets")
        self._files: tuple[BinaryIO, BinaryIO] | None = None
        self._sentences = 0
        self._tokens = 0

    def __enter__(self) -> "_StreamWriter":
        values, offsets = self._paths
        self._files = values.open("wb"), offsets.open("wb")
        self._files[1].write(np.zeros(1, np.int64).tobytes())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._files is not None
        for file in self._files:
            file.close()

    def add(self, sentences: Ragged) -> None:
        """Append sentences."""
        assert self._files is not None
        values, offsets = self._files
        values.write(sentences.values.astype(self._dtype, copy=False).tobytes())
        offsets.write((self._tokens + sentences.offsets[1:]).tobytes())
        self._sentences += len(sentences)
        self._tokens += len(sentences.values)

    def meta(self) -> dict[str, object]:
        """What a reader must know and can check."""
        return {"dtype": self._dtype.name, "sentences": self._sentences, "tokens": self._tokens}


def _open_stream(folder: Path, name: str, meta: Mapping[str, Any]) -> Ragged | None:
    if meta["dtype"] not in ("uint16", "uint32"):
        return None
    values = _map(folder / f"{name}.values", np.dtype(meta["dtype"]), meta["tokens"])
    offsets = _map(folder / f"{name}.offsets", np.dtype(np.int64), meta["sentences"] + 1)
    if values is None or offsets is None or offsets[0] != 0 or offsets[-1] != len(values):
        return None
    return Ragged(values, offsets)


def _map(path: Path, dtype: np.dtype[Any], length: int) -> NDArray[Any] | None:
    if path.stat().st_size != length * dtype.itemsize:
        return None
    if not length:
        return np.empty(0, dtype)  # nothing cannot be mapped
    return np.memmap(path, dtype, mode="r", shape=(length,)).view(np.ndarray)  # a plain array indexes faster
