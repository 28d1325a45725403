"""A prepared corpus: ragged streams of token ids, or of other numbers such as images, mapped from files.

A stream has a type: the dtype of its numbers, and the shape of an item, which is () for token ids. A row is a sentence
of any number of tokens; an image is a row of one item of its shape, a sequence of vectors a row of several.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.base.files import json_bytes, read_json

FORMAT = 1  # of the files; part of every cache key
_META = "meta.json"
_SMALL_ID, _LARGE_ID = np.dtype(np.uint16), np.dtype(np.uint32)
_DTYPES = ("uint8", "uint16", "uint32", "float32")

Values = NDArray[Any]
Sentences = Sequence[Sequence[int]]


@dataclass(frozen=True)
class StreamType:
    """What the items of a stream are."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()  # of one item

    def __post_init__(self) -> None:
        if self.dtype.name not in _DTYPES:
            raise ValueError(f"a stream holds {', '.join(_DTYPES)}, not {self.dtype.name}")
        if not all(type(size) is int and size > 0 for size in self.shape):
            raise ValueError(f"the shape of an item must be positive whole numbers, not {self.shape}")

    @classmethod
    def of_meta(cls, meta: Mapping[str, Any]) -> "StreamType":
        """Read what `meta` wrote."""
        if meta["dtype"] not in _DTYPES:  # before numpy is asked, to which many words are a dtype
            raise ValueError(f"a stream holds {', '.join(_DTYPES)}, not {meta['dtype']}")
        return cls(np.dtype(meta["dtype"]), tuple(meta.get("shape", ())))

    def meta(self) -> dict[str, object]:
        """Return the type for a store's meta.json, as old stores have it where items are plain numbers."""
        return {"dtype": self.dtype.name, **({"shape": list(self.shape)} if self.shape else {})}


@dataclass(frozen=True, eq=False)
class Ragged:
    """The rows of one stream end to end: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Values  # items x shape
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sentences) -> "Ragged":
        """Hold sentences in memory."""
        offsets = np.zeros(len(sentences) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)), out=offsets[1:])
        return cls(np.fromiter(chain.from_iterable(sentences), _LARGE_ID, int(offsets[-1])), offsets)

    @classmethod
    def of_arrays(cls, rows: Sequence[Values], kind: StreamType) -> "Ragged":
        """Hold rows of items in memory: each row is an array of items x shape."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return cls(np.concatenate([np.empty((0, *kind.shape), kind.dtype), *rows], casting="no"), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Values:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the number of items of every row, or of some."""
        if rows is None:
            return np.diff(self.offsets)
        return self.offsets[rows + 1] - self.offsets[rows]

    def gather(self, rows: NDArray[np.int64]) -> tuple[Values, NDArray[np.int64]]:
        """Return the values of some rows end to end, and their lengths."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        ends = np.cumsum(lengths)
        places = np.repeat(starts - (ends - lengths), lengths) + np.arange(lengths.sum())
        return self.values[places], lengths


@dataclass(frozen=True, eq=False)
class TokenStore:
    """A corpus as streams of the same number of rows; what was dropped on the way, and the cache key."""

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
        """Return the number of tokens of every row, or of some, without markers."""
        return self.streams[stream].lengths(rows)

    def tokens(self, stream: str) -> int:
        """Return the number of tokens of all rows, without markers."""
        return len(self.streams[stream].values)

    def sentence(self, stream: str, index: int) -> Values:
        """Return the tokens of one row."""
        return self.streams[stream][index]

    def gather(self, stream: str, rows: NDArray[np.int64]) -> tuple[Values, NDArray[np.int64]]:
        """Return the tokens of some rows end to end, and their lengths."""
        return self.streams[stream].gather(rows)


def id_type(vocabulary: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest type that holds every id of a vocabulary."""
    return _SMALL_ID if vocabulary <= 1 << 16 else _LARGE_ID


def id_stream(vocabulary: int) -> StreamType:
    """Return the type of a stream of a vocabulary's ids."""
    return StreamType(id_type(vocabulary))


def write_store(
    folder: Path,
    key: str,
    types: Mapping[str, StreamType],
    chunks: Iterable[Mapping[str, Ragged]],
    dropped: Counter[str],
) -> None:
    """Write the files of a store into an existing folder, chunk by chunk; `dropped` may grow while chunks are read."""
    writers: dict[str, _StreamWriter] = {}
    with ExitStack() as stack:
        for stream, kind in types.items():
            writers[stream] = stack.enter_context(_StreamWriter(folder, stream, kind))
        for chunk in chunks:
            for stream, rows in chunk.items():
                writers[stream].add(rows)
    meta = {
        "format": FORMAT,
        "key": key,
        "dropped": dict(dropped),
        "streams": {stream: writer.meta() for stream, writer in writers.items()},
    }
    (folder / _META).write_bytes(json_bytes(meta))


def open_store(folder: Path, key: str) -> TokenStore | None:
    """Map a store's files, or return None where they are missing, damaged, of an unknown type or of another key."""
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
    """Appends rows to the two files of a stream; holds one chunk in memory."""

    def __init__(self, folder: Path, stream: str, kind: StreamType) -> None:
        self._kind = kind
        self._paths = (folder / f"{stream}.values", folder / f"{stream}.offsets")
        self._files: tuple[BinaryIO, BinaryIO] | None = None
        self._opened = ExitStack()
        self._rows = 0
        self._items = 0

    def __enter__(self) -> "_StreamWriter":
        with ExitStack() as opened:  # a full disk may fail any of them, and closing one must not leave the other open
            values, offsets = (opened.enter_context(path.open("wb")) for path in self._paths)
            offsets.write(np.zeros(1, np.int64).tobytes())
            self._files, self._opened = (values, offsets), opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add(self, rows: Ragged) -> None:
        """Append rows."""
        assert self._files is not None
        if rows.values.shape[1:] != self._kind.shape:
            raise ValueError(f"items of shape {rows.values.shape[1:]} in a stream of shape {self._kind.shape}")
        values, offsets = self._files
        values.write(rows.values.astype(self._kind.dtype, casting="same_kind", copy=False).tobytes())
        offsets.write((self._items + rows.offsets[1:]).tobytes())
        self._rows += len(rows)
        self._items += len(rows.values)

    def meta(self) -> dict[str, object]:
        """Return what a reader must know and can check."""
        return {**self._kind.meta(), "sentences": self._rows, "tokens": self._items}


def _open_stream(folder: Path, name: str, meta: Mapping[str, Any]) -> Ragged | None:
    kind = StreamType.of_meta(meta)
    values = _map(folder / f"{name}.values", kind.dtype, (meta["tokens"], *kind.shape))
    offsets = _map(folder / f"{name}.offsets", np.dtype(np.int64), (meta["sentences"] + 1,))
    if values is None or offsets is None or offsets[0] != 0 or offsets[-1] != len(values):
        return None
    return Ragged(values, offsets)


def _map(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    if path.stat().st_size != prod(shape) * dtype.itemsize:
        return None
    if not shape[0]:
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    return np.memmap(path, dtype, mode="r", shape=shape).view(np.ndarray)  # a plain array indexes faster
