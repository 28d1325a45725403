"""Arrays as text in a page: rounded to 8 or 16 bits, deflated, written as base64."""

import base64
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_MOST: Final = 2_000_000  # numbers of an array that is kept in 16 bits


def pack(values: NDArray[np.floating[Any]]) -> dict[str, Any]:
    """Return an array for `weights.js`: its shape, the range of its values, and the packed codes.

    16 bits are the range in equal steps, 8 bits in steps that grow from the least value on: code = 255 sqrt(share).
    """
    low, high = min(0.0, float(values.min(initial=0))), max(1.0, float(values.max(initial=1)))
    shares = (values.astype(np.float64) - low) / (high - low)
    if values.size <= _MOST:
        bits, codes = 16, np.round(65535 * shares).astype("<u2")
    else:
        bits, codes = 8, np.round(255 * np.sqrt(shares)).astype("u1")
    return {
        "shape": list(values.shape),
        "range": [low, high],
        "bits": bits,
        "packed": base64.b64encode(zlib.compress(codes.tobytes(), 6)).decode(),
    }
