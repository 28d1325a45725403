"""Messages between a process and those that tokenize for it: frames of a JSON header and raw bytes.

Nothing that is read from a pipe can run code, and nothing of the user's program is loaded on the other side.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Final

import numpy as np

from heedful.data.token_store import Ragged
from heedful.data.tokenize.encoding import Encoded, Encoder, Filters
from heedful.data.tokenize.own_tokenizer import read_tokenizer

OUT_OF_MEMORY: Final = 3  # the status with which a process ends that found no memory

_BEGINNING: Final = b"HFL\0"  # of every message: what anything else wrote into the pipe is not taken for one
_SIZE_BYTES: Final = 4  # of the header's size


@dataclass(frozen=True)
class Frame:
    """One message."""

    header: Mapping[str, Any]
    parts: Sequence[bytes]


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Send a message."""
    header = json.dumps({"sizes": [len(part) for part in frame.parts], **frame.header}).encode()
    stream.write(_BEGINNING)
    stream.write(len(header).to_bytes(_SIZE_BYTES, "little"))
    stream.write(header)
    for part in frame.parts:
        stream.write(part)
    stream.flush()


def read_frame(stream: BinaryIO) -> Frame | None:
    """Receive a message; None where the other side has closed the pipe, EOFError where it broke off.

    Other bytes are a RuntimeError: the first of them decide, so that nobody waits for the rest of a message.
    """
    beginning = stream.read(len(_BEGINNING))
    if not beginning:
        return None
    if not _BEGINNING.startswith(beginning):
        raise RuntimeError(f"a message between tokenizing processes begins with {beginning!r}, not {_BEGINNING!r}")
    size = int.from_bytes(_exactly(stream, _SIZE_BYTES), "little")
    header = json.loads(_exactly(stream, size))
    return Frame(header, [_exactly(stream, size) for size in header.pop("sizes")])


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("a message broke off")
    return data


# --- the messages -----------------------------------------------------------------------------------------------------


def encoder_frame(encoder: Encoder) -> Frame:
    """Return the first message to a process: how to encode."""
    header = {"filters": asdict(encoder.filters), "tag": list(encoder.tag), "both": encoder.both}
    sides = (encoder.source,) if encoder.source is encoder.target else (encoder.source, encoder.target)
    return Frame(header, [tokenizer.to_json() for tokenizer in sides])


def encoder_of(frame: Frame) -> Encoder:
    """Return what `encoder_frame` was given."""
    sides = [read_tokenizer(data, "the tokenizer") for data in frame.parts]
    return Encoder(sides[0], sides[-1], Filters(**frame.header["filters"]), frame.header["tag"], frame.header["both"])


def pairs_frame(pairs: Sequence[tuple[str, str]]) -> Frame:
    """Return a chunk of pairs as a message: their texts end to end, and the number of characters of each."""
    texts = [text for pair in pairs for text in pair]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return Frame({}, [lengths.tobytes(), "".join(texts).encode()])


def pairs_of(frame: Frame) -> list[tuple[str, str]]:
    """Return what `pairs_frame` was given."""
    ends = np.cumsum(np.frombuffer(frame.parts[0], np.int64)).tolist()
    joined = frame.parts[1].decode()
    texts = [joined[begin:end] for begin, end in pairwise((0, *ends))]
    return list(zip(texts[::2], texts[1::2], strict=True))


def encoded_frame(encoded: Encoded) -> Frame:
    """Return the answer to a chunk of pairs."""
    streams = {name: stream.values.dtype.name for name, stream in encoded.streams.items()}
    arrays = [array for stream in encoded.streams.values() for array in (stream.values, stream.offsets)]
    return Frame({"streams": streams, "dropped": dict(encoded.dropped)}, [array.tobytes() for array in arrays])


def encoded_of(frame: Frame) -> Encoded:
    """Return what `encoded_frame` was given."""
    named = zip(frame.header["streams"].items(), frame.parts[::2], frame.parts[1::2], strict=True)
    streams = {
        name: Ragged(np.frombuffer(values, dtype), np.frombuffer(offsets, np.int64))
        for (name, dtype), values, offsets in named
    }
    return Encoded(streams, frame.header["dropped"])
