"""Protocol Buffers' wire format, as far as reading a message needs it: numbered fields, nothing of their meaning.

A message is a sequence of fields: a varint whose last three bits are the wire type and the others the field's number,
then the value. A varint has seven bits a byte, the lowest first; the eighth says that more follow.
https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Mapping

Fields = Mapping[int, list[int | bytes]]  # the values of each field, in the order they came

_FIXED = {1: 8, 5: 4}  # bytes of a fixed-size value, by wire type
_LONGEST = 10  # bytes of a varint


def read_fields(message: bytes) -> Fields:
    """The fields of a message: varints as integers, all else as bytes. ValueError where it is none."""
    fields: dict[int, list[int | bytes]] = {}
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        value: int | bytes
        match key & 7:
            case 0:
                value, place = _read_varint(message, place)
            case 2:
                size, place = _read_varint(message, place)
                value, place = _read_bytes(message, place, size)
            case 1 | 5 as fixed:
                value, place = _read_bytes(message, place, _FIXED[fixed])
            case other:
                raise ValueError(f"wire type {other} at byte {place}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """A number, and the place behind it."""
    number = 0
    for count, byte in enumerate(message[place : place + _LONGEST]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number, place + count + 1
    raise ValueError(f"a number without an end at byte {place}")


def _read_bytes(message: bytes, place: int, size: int) -> tuple[bytes, int]:
    """So many bytes, and the place behind them."""
    if place + size > len(message):
        raise ValueError(f"{size} bytes wanted at byte {place} of {len(message)}")
    return message[place : place + size], place + size
