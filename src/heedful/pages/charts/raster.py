"""Many small cells as one image within an SVG: a PNG of 256 colours, which every browser draws."""

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.pages.charts.colours import MISSING, channels_of

_MIDDLE = 127  # code of 0; 0 is -1 and 254 is 1; 255 is not a number


def image_of_shares(shares: NDArray[np.floating[Any]]) -> str:
    """Return the address of an image whose pixels are the colours of shares from -1 to 1: rows x columns."""
    known = np.where(np.isfinite(shares), shares, 0)
    codes = np.round(_MIDDLE + _MIDDLE * np.clip(known, -1, 1)).astype(np.uint8)
    codes[~np.isfinite(shares)] = 255
    palette = bytes(channel for code in range(255) for channel in channels_of(code / _MIDDLE - 1))
    png = _png(codes, palette + bytes.fromhex(MISSING[1:]))
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _png(codes: NDArray[np.uint8], palette: bytes) -> bytes:
    """Return a PNG of palette indices, each row stored as it is."""
    height, width = codes.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), codes], axis=1)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
