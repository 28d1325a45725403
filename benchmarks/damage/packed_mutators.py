"""Damage to packed files and images: inside of them, where their checks still fit, in their headers, and bombs."""

import binascii
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from random import Random
from typing import Final

from benchmarks.damage.mutators import (
    TEXT,
    change_json_line,
    duplicate_span,
    flip_bytes,
    insert_long_run,
    truncate,
)

_BOMBS: Final = ((b"\0", 1 << 27), (b"x", 1 << 27), (b"x ", 1 << 27), (b"\n", 1 << 25), (b"ab\n", 1 << 26))
_HUGE: Final = (0, 1, 2, 255, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


def _inside(chance: Random, data: bytes) -> bytes:
    return chance.choice((*TEXT, change_json_line))(chance, data)


def _bomb(chance: Random) -> bytes:
    """Return a line, or many, that pack well."""
    unit, size = chance.choice(_BOMBS)
    return unit * (size // len(unit))


# --- streams ----------------------------------------------------------------------------------------------------------


def change_gzip(chance: Random, data: bytes) -> bytes:
    """Change what is packed, add another stream or garbage, or pack far too much."""
    try:
        text = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return flip_bytes(chance, data)
    match chance.randrange(6):
        case 0:
            return data + chance.choice((data, b"\0" * 1000, b"x" * 100, data[:20]))
        case 1:
            return gzip.compress(_bomb(chance), 1, mtime=0)
        case 2:
            return gzip.compress(data, mtime=0)
        case 3:
            return data[:-8] + struct.pack("<II", chance.choice(_HUGE), chance.choice(_HUGE))
        case _:
            return gzip.compress(_inside(chance, text), mtime=0)


def change_xz(chance: Random, data: bytes) -> bytes:
    """Change what is packed, its header, or pack far too much."""
    try:
        text = lzma.decompress(data)
    except (lzma.LZMAError, EOFError):
        return flip_bytes(chance, data)
    match chance.randrange(5):
        case 0:
            return data + chance.choice((data, b"\0" * 1000, b"x" * 100))
        case 1:
            return lzma.compress(_bomb(chance), preset=0)
        case 2:  # a dictionary of gigabytes, which a reader must allocate
            filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": chance.choice((1 << 12, 1 << 16))}]
            packed = bytearray(lzma.compress(text, filters=filters))
            packed[16] = chance.choice((40, 39, 37, 30))  # the size, as a power of two
            packed[20:24] = struct.pack("<I", binascii.crc32(bytes(packed[12:20])))  # the header's own check fits
            return bytes(packed)
        case _:
            return lzma.compress(_inside(chance, text))


# --- zip --------------------------------------------------------------------------------------------------------------

_NAMES: Final = ("../../x", "/etc/x", "", "a/", "\0", "x" * 3000, "\x1b[2J", "C:\\x", "en", "de", "caf\udce9")


def change_zip(chance: Random, data: bytes) -> bytes:
    """Change a member, its name, or the archive's directory; or pack far too much."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError, zlib.error, EOFError, RuntimeError, NotImplementedError):
        return flip_bytes(chance, data)
    if not members:
        return flip_bytes(chance, data)
    name = chance.choice(sorted(members))
    match chance.randrange(9):
        case 0:
            members[name] = _bomb(chance)
        case 1:
            members[chance.choice(_NAMES)] = members.pop(name)
        case 2:
            members |= {f"{number}.txt": b"x" for number in range(chance.choice((10, 3000)))}
        case 3:
            members[name] = packed(members)
        case 4:
            return _claim(chance, data)
        case 5:
            return change_end(chance, data)
        case 6 if name.endswith(".npy"):
            members[name] = change_npy(chance, members[name])
        case _:
            change = change_npy if name.endswith(".npy") and chance.random() < 0.7 else _inside
            members[name] = change(chance, members[name])
    return packed(members)


def packed(members: dict[str, bytes]) -> bytes:
    """Return an archive, the same bytes whenever it is made."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            try:
                archive.writestr(zipfile.ZipInfo(name or "x", (2026, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
            except (ValueError, UnicodeEncodeError):
                continue
    return written.getvalue()


def _claim(chance: Random, data: bytes) -> bytes:
    """Claim other sizes, checks or methods in the central directory."""
    place = data.find(b"PK\1\2")
    changed = bytearray(data)
    offset, form = chance.choice(((10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (28, "<H"), (30, "<H"), (42, "<I")))
    most = 0xFFFF if form == "<H" else 0xFFFFFFFF
    changed[place + offset : place + offset + struct.calcsize(form)] = struct.pack(form, chance.choice(_HUGE) & most)
    return bytes(changed)


def change_end(chance: Random, data: bytes) -> bytes:
    """Change the last bytes, which say where everything is."""
    return data[:-22] + flip_bytes(chance, data[-22:])


# --- arrays -----------------------------------------------------------------------------------------------------------

_DESCRIBED: Final = (
    "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000000), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 4), }",
    "{'descr': '|u1', 'fortran_order': True, 'shape': (0,), }",
    "{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (24,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
    "{'descr': '<U1000000', 'fortran_order': False, 'shape': (24,), }",
    "{'descr': '|S0', 'fortran_order': False, 'shape': (24,), }",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (24,), }",
    "{'descr': '|V8', 'fortran_order': False, 'shape': (24,), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (" + "1," * 70 + "), }",
    "{'descr': '|u1', 'shape': (24,)}",
    "__import__('os').system('touch escaped')",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }",
    "(" * 2000 + ")" * 2000,
    "",
)


def change_npy(chance: Random, data: bytes) -> bytes:
    """Change the header of an array of NumPy, or its numbers."""
    if chance.random() < 0.3:
        return flip_bytes(chance, data)
    size = struct.unpack("<H", data[8:10])[0] if len(data) > 10 else 0
    header = chance.choice(_DESCRIBED).encode() + b"\n"
    written = struct.pack("<H", chance.choice((len(header), len(header), len(header), 0, 65535)))
    return data[:8] + written + header + data[10 + size :]


def change_idx(chance: Random, data: bytes) -> bytes:
    """Change the type, the number of axes or the sizes that an idx file claims."""
    changed = bytearray(data)
    if len(changed) < 8:
        return flip_bytes(chance, data)
    match chance.randrange(4):
        case 0:
            changed[2] = chance.choice((0, 8, 9, 11, 12, 13, 14, 255))
        case 1:
            changed[3] = chance.choice((0, 1, 2, 3, 4, 5, 255))
        case _:
            place = 4 + 4 * chance.randrange(max(1, changed[3] % 4))
            changed[place : place + 4] = struct.pack(">I", chance.choice(_HUGE))
    return bytes(changed)


# --- images -----------------------------------------------------------------------------------------------------------

_CHUNKS: Final = (b"IHDR", b"PLTE", b"tRNS", b"iCCP", b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"acTL", b"fdAT", b"IDAT")


def change_png(chance: Random, data: bytes) -> bytes:
    """Change a PNG where its checks still fit: its sizes, its kind, its chunks; or pack far too much into it."""
    chunks = list(_png_chunks(data))
    if not chunks:
        return flip_bytes(chance, data)
    match chance.randrange(6):
        case 0 | 1:
            kind, header = chunks[0]
            changed = bytearray(header.ljust(13, b"\0"))
            if chance.random() < 0.6:
                place = chance.choice((0, 4))
                changed[place : place + 4] = struct.pack(">I", chance.choice((*_HUGE, 1000, 30_000, 100_000)))
            else:
                changed[chance.randrange(8, 13)] = chance.randrange(256)
            chunks[0] = kind, bytes(changed)
        case 2:
            text = zlib.compress(b"x" * (1 << 27), 9)
            chunks.insert(1, (chance.choice((b"zTXt", b"iCCP")), b"x\0\0" + text))
        case 3:
            chunks.insert(chance.randrange(1, len(chunks) + 1), (chance.choice(_CHUNKS), chance.randbytes(40)))
        case 4:
            kind, body = chance.choice(chunks)
            chunks = [(k, flip_bytes(chance, b) if b is body else b) for k, b in chunks]
        case _:
            chunks = [(k, zlib.compress(b"\0" * (1 << 26)) if k == b"IDAT" else b) for k, b in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, body) for kind, body in chunks)


def _png_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    place, found = 8, []
    while data.startswith(b"\x89PNG") and place + 12 <= len(data):
        size = struct.unpack(">I", data[place : place + 4])[0]
        found.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + size]))
        place += 12 + size
    return found


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", binascii.crc32(kind + body))


def change_jpeg(chance: Random, data: bytes) -> bytes:
    """Change the sizes that a JPEG claims, or a byte after one of its marks."""
    changed = bytearray(data)
    marks = [place for place in range(len(data) - 9) if data[place] == 0xFF and data[place + 1] not in (0, 0xFF)]
    frames = [place for place in marks if data[place + 1] in (0xC0, 0xC2)]
    if frames and chance.random() < 0.5:
        place = frames[0] + chance.choice((5, 7))
        changed[place : place + 2] = struct.pack(">H", chance.choice((0, 1, 30_000, 65_535)))
    elif marks:
        place = chance.choice(marks)
        changed[place + chance.randrange(1, 9)] = chance.randrange(256)
    return bytes(changed)


def change_image(chance: Random, data: bytes) -> bytes:
    """Change an image of any format as bytes."""
    return chance.choice((flip_bytes, truncate, duplicate_span, insert_long_run))(chance, data)
