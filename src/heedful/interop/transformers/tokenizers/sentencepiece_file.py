"""Reads a SentencePiece model from its .spm file: pieces with their scores, and how text is normalised first.

Field numbers are those of sentencepiece_model.proto.      Kudo and Richardson 2018
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final, Literal

from tokenizers import normalizers

from heedful.base.errors import UserError
from heedful.data.tokenize.checked_json import check_character_map

LONGEST_PIECE: Final = 1_000  # characters; sentencepiece makes pieces of 16 unless it is told otherwise
Fields = Mapping[int, list[int | bytes]]  # values of the numbered fields of a message, in order of appearance
Algorithm = Literal["unigram", "bpe"]
ALGORITHMS: Final[Mapping[int, Algorithm]] = {1: "unigram", 2: "bpe"}


class PieceType(IntEnum):
    """The role of a piece."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Normalisation:
    """How a text is normalised before it is split."""

    name: str  # name of the rules: "nmt_nfkc", "identity", ...
    rules: bytes  # as compiled by sentencepiece; empty if there are none
    dummy_prefix: bool  # a space is added before the text
    extra_spaces_removed: bool  # at both ends, and all but one between words


@dataclass(frozen=True)
class SentencePieceModel:
    """The contents of an .spm file."""

    algorithm: Algorithm
    scores: Mapping[str, float]  # of the pieces that text is split into
    byte_pieces: tuple[str, ...]  # "<0x00>" to "<0xFF>", which spell unknown characters; empty if there are none
    normalisation: Normalisation

    @cached_property
    def letters(self) -> frozenset[str]:
        """The characters that are pieces by themselves: all others are unknown."""
        return frozenset(piece for piece in self.scores if len(piece) == 1)


def read_sentencepiece(data: bytes, where: str) -> SentencePieceModel:
    """Read an .spm file; `where` names it in messages."""
    try:
        return _model(read_fields(data), where)
    except (ValueError, TypeError, struct.error) as error:
        raise UserError(f"{where} is not a SentencePiece model ({error}): copy it again.") from error


def _model(fields: Fields, where: str) -> SentencePieceModel:
    training, normaliser, denormaliser = (_message(fields, number) for number in (2, 3, 5))
    algorithm = _number(training, 3, default=1)
    if algorithm not in ALGORITHMS:
        raise UserError(
            f"{where} has model type {algorithm}, but Heedful reads {' and '.join(ALGORITHMS.values())} (1 and 2)."
        )
    if _number(training, 24, default=0):
        raise UserError(
            f"{where}: `treat_whitespace_as_suffix` is true, but Heedful supports only spaces before words."
        )
    if not _number(normaliser, 5, default=1):
        raise UserError(
            f"{where}: `escape_whitespaces` is false, but Heedful supports only pieces with `▁` for a space."
        )
    if _bytes(denormaliser, 2):
        raise UserError(f"{where} has rules that change its output text, which Heedful does not support.")
    pieces = [_piece(_as_bytes(piece)) for piece in fields.get(1, [])]
    longest = max((len(piece) for piece, _, _ in pieces), default=0)
    if longest > LONGEST_PIECE:
        raise ValueError(f"a piece has {longest:,} characters, but the longest may have {LONGEST_PIECE:,}")
    for piece, _, of_type in pieces:
        if of_type in (PieceType.USER_DEFINED, PieceType.UNUSED):
            raise UserError(f"{where}: the piece `{piece}` is {of_type.name}, which Heedful does not support.")
    scores = {piece: score for piece, score, of_type in pieces if of_type == PieceType.NORMAL}
    if not scores:
        raise ValueError("it has no pieces")
    spelled = bool(_number(training, 35, default=0))
    return SentencePieceModel(
        ALGORITHMS[algorithm],
        scores,
        tuple(piece for piece, _, of_type in pieces if of_type == PieceType.BYTE and spelled),
        Normalisation(
            _bytes(normaliser, 1).decode(),
            _rules(_bytes(normaliser, 2)),
            bool(_number(normaliser, 3, default=1)),
            bool(_number(normaliser, 4, default=1)),
        ),
    )


def _piece(message: bytes) -> tuple[str, float, PieceType]:
    fields = read_fields(message)
    (score,) = struct.unpack("<f", _bytes(fields, 2) or bytes(4))
    if not math.isfinite(score):
        raise ValueError("a score is not finite")
    return _bytes(fields, 1).decode(), score, PieceType(_number(fields, 3, default=PieceType.NORMAL))


def _rules(compiled: bytes) -> bytes:
    """Return the rules if the tokenizers library can read and apply them, or raise ValueError."""
    try:
        if compiled:
            check_character_map(compiled)
            normalizers.Precompiled(compiled)
    except Exception as error:  # the library raises bare Exception
        raise ValueError("its normalisation rules are damaged") from error
    return compiled


# --- fields and their defaults ----------------------------------------------------------------------------------------


def _message(fields: Fields, number: int) -> Fields:
    """Read a nested message; the format joins the parts of one that appears several times."""
    return read_fields(b"".join(map(_as_bytes, fields.get(number, []))))


def _bytes(fields: Fields, number: int) -> bytes:
    return _as_bytes(fields.get(number, [b""])[-1])


def _number(fields: Fields, number: int, default: int) -> int:
    value = fields.get(number, [default])[-1]
    if not isinstance(value, int):
        raise TypeError(f"field {number} is not a number")
    return value


def _as_bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"found the number {value} instead of bytes")
    return value


# --- the wire format of Protocol Buffers --------------------------------------------------------------------------
#
# A message is a sequence of fields: a varint whose last three bits are the wire type and the others the field's number,
# then the value. A varint has seven bits per byte, the lowest first; the eighth says that more bytes follow.
# https://protobuf.dev/programming-guides/encoding


_FIXED = {1: 8, 5: 4}  # size of a fixed-size value in bytes, by wire type
_LONGEST = 10  # bytes in a varint


def read_fields(message: bytes) -> Fields:
    """Read the fields of a message: varints as integers, all others as bytes. Raises ValueError if it is malformed."""
    fields: dict[int, list[int | bytes]] = {}
    offset = 0
    while offset < len(message):
        key, offset = _read_varint(message, offset)
        value: int | bytes
        match key & 7:
            case 0:
                value, offset = _read_varint(message, offset)
            case 2:
                size, offset = _read_varint(message, offset)
                value, offset = _read_bytes(message, offset, size)
            case 1 | 5 as fixed:
                value, offset = _read_bytes(message, offset, _FIXED[fixed])
            case other:
                raise ValueError(f"wire type {other} at byte {offset}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _read_varint(message: bytes, offset: int) -> tuple[int, int]:
    """Return a number and the offset after it."""
    number = 0
    for count, byte in enumerate(message[offset : offset + _LONGEST]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number, offset + count + 1
    raise ValueError(f"unterminated number at byte {offset}")


def _read_bytes(message: bytes, offset: int, size: int) -> tuple[bytes, int]:
    """Return `size` bytes and the offset after them."""
    if offset + size > len(message):
        raise ValueError(f"{size} bytes expected at byte {offset} of {len(message)}")
    return message[offset : offset + size], offset + size
