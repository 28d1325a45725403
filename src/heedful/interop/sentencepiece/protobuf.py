"""A reader of the Protocol Buffers wire format: it returns numbered fields and knows nothing of their meaning.

A message is a sequence of fields: a varint whose last three bits are the wire type and the others the field's number,
then the value. A varint has seven bits per byte, the lowest first; the eighth says that more bytes follow.
https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Mapping

Fields = Mapping[int, list[int | bytes]]  # the values of each field, in order of appearance

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
