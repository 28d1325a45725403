"""Images from files of PNG, JPEG or WebP: decoded by Pillow to rows of pixels, upright, of 8 bits.

The size is read from the header, so that an image that is too large is refused before it is decoded; all threads
together decode no more pixels at once than one image may have, and what large images took is given back to the system.
Palettes, 16 bits and CMYK are converted, transparent
parts become white, and the rotation in a camera's EXIF data is applied. JPEG is always decoded in full: its decoder
could make an image smaller at once, but with other pixels than those that models were trained on.
"""

import ctypes
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from heedful.base.cores import usable_cores
from heedful.base.errors import UserError
from heedful.base.files import read_bytes
from heedful.config.data import ImageForm
from heedful.data.token_store import Ragged, Values

Channels = Literal[1, 3]  # gray, or red, green and blue
Fit = Literal["stretch", "crop"]
Pixels = NDArray[np.uint8]  # height x width x channels
Size = tuple[int, int]  # height and width

MAX_PIXELS: Final = 50_000_000  # of one image, and of all that are decoded at once
_STRIP: Final = 1 << 20  # pixels that are converted at once
_LARGE: Final = 1 << 22  # pixels from which memory is given back: that takes some milliseconds, decoding a hundred
_PIXEL_BYTES: Final = 16  # of a file, for each pixel: four channels of 16 bits, and as much again
_FILE_BYTES: Final = 1 << 26  # of a file, for all else: profiles, comments, small images in large files
_MOST_SCANS: Final = 200  # of a progressive JPEG: programs write about ten, and each takes time for the whole image
_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".webp")
_OTHERS: Final[Mapping[bytes, str]] = {  # formats that are recognised, but not read
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"%PDF": "PDF",
    b"<svg": "SVG",
    b"\0\0\0\x0cJXL ": "JPEG XL",
}
_FAULTS: Final = (  # what Pillow raises for content that is damaged
    OSError,
    SyntaxError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    EOFError,
    OverflowError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
_ORIENTATION: Final = 0x0112  # the tag of EXIF
_UPRIGHT: Final[Mapping[int, Image.Transpose]] = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_MODES: Final[Mapping[int, str]] = {1: "L", 3: "RGB"}
_TRANSPARENT: Final = ("LA", "PA", "RGBA", "La", "RGBa")


def is_image_name(path: Path) -> bool:
    """Whether a file is an image by its name."""
    return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".")


def read_image(path: Path, channels: Channels, form: ImageForm | None = None) -> Pixels:
    """Read an image from a file, in the size of a form if one is given."""
    return decode_image(read_image_file(path, form), str(path), channels, form)


def read_image_file(path: Path, form: ImageForm | None = None) -> bytes:
    """Read the bytes of an image; refuse a file that is larger than the largest image that is decoded can be."""
    most = _PIXEL_BYTES * (form or ImageForm()).max_pixels + _FILE_BYTES
    size = path.stat().st_size if path.is_file() else 0
    if size > most:
        raise UserError(
            f"{path} has {size:,} bytes, more than an image has that is decoded ({most:,}): make it smaller, or raise "
            "`data.images.max_pixels`."
        )
    return read_bytes(path)


def decode_image(data: bytes, name: str, channels: Channels, form: ImageForm | None = None) -> Pixels:
    """Decode an image from the bytes of a file, in the size of a form if one is given; `name` is for messages."""
    form = form or ImageForm()
    kind = _kind_of(data, name)
    if kind is WebPImageFile:  # its decoder takes memory for the whole image as soon as it is made
        refuse_large(_webp_size(data), name, form.max_pixels)
    if kind is JpegImageFile and (scans := data.count(b"\xff\xda")) > _MOST_SCANS:
        raise UserError(f"{name} is a JPEG of {scans:,} scans, but at most {_MOST_SCANS} are decoded: save it again.")
    with _damage(name):
        opened = kind(BytesIO(data))
    size = opened.height, opened.width
    refuse_large(size, name, form.max_pixels)
    with _damage(name), _ROOM.of(size[0] * size[1]):
        opened.load()
        image = _turned(opened)
        del opened  # where the image was turned or converted, its memory is free from here on
        image = _converted(image, channels)
        pixels = _array(image if form.size is None else _resized(image, form.size, form.fit), channels)
        del image
        if size[0] * size[1] >= _LARGE:
            _give_back()
        return pixels


def _give_back() -> None:
    """Return free memory to the system, where the C library can: glibc keeps, for each thread, what one image took."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def pixels_of(image: Image.Image, channels: Channels) -> Pixels:
    """Return the pixels of an image of Pillow, of any mode, as they are stored: EXIF is not looked at."""
    return _array(_converted(image, channels), channels)


def _converted(image: Image.Image, channels: Channels) -> Image.Image:
    """Return an image in gray or in colour; a strip at a time, as some conversions take 30 bytes per pixel."""
    if image.mode == _MODES[channels] and "transparency" not in image.info:
        return image
    rows = max(1, _STRIP // max(1, image.width))
    if image.height <= rows:
        return _converted_strip(image, channels)
    converted = Image.new(_MODES[channels], image.size)
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        converted.paste(_converted_strip(strip, channels), (0, top))
    return converted


def _converted_strip(image: Image.Image, channels: Channels) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits per pixel; Pillow's own conversion would cut off all above 255
        wide = np.asarray(image).astype(np.int64)
        image = Image.fromarray(((np.clip(wide, 0, 65535) * 255 + 32767) // 65535).astype(np.uint8))
    if image.mode in _TRANSPARENT or "transparency" in image.info:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
    return image.convert(_MODES[channels])


def _array(image: Image.Image, channels: Channels) -> Pixels:
    return np.array(image).reshape(image.height, image.width, channels)


def fit_image(pixels: Pixels, size: Size, fit: Fit) -> Pixels:
    """Resize an image: "stretch" changes its proportions, "crop" cuts off what is too much on two sides."""
    height, width, channels = pixels.shape
    if (height, width) == size:
        return pixels
    image = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
    return np.array(_resized(image, size, fit)).reshape(*size, channels)


def _resized(image: Image.Image, size: Size, fit: Fit) -> Image.Image:
    height, width = image.height, image.width
    if (height, width) == size:
        return image
    box = (0.0, 0.0, float(width), float(height))
    if fit == "crop":
        scale = min(height / size[0], width / size[1])
        above, left = (height - size[0] * scale) / 2, (width - size[1] * scale) / 2
        box = (left, above, width - left, height - above)
    return image.resize((size[1], size[0]), Image.Resampling.BILINEAR, box)


class _Room:
    """Pixels that threads decode at once: a large image waits until others are done, and others wait for it."""

    def __init__(self, pixels: int) -> None:
        self._pixels, self._free, self._changed = pixels, pixels, threading.Condition()

    @contextmanager
    def of(self, pixels: int) -> Iterator[None]:
        """Take room for some pixels inside the block, or all room for an image of more."""
        taken = min(pixels, self._pixels)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= taken)
            self._free -= taken
        try:
            yield
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()


_ROOM: Final = _Room(MAX_PIXELS)


def convert_channels(pixels: Pixels, channels: Channels) -> Pixels:
    """Return pixels in gray or in colour."""
    if pixels.shape[2] == channels:
        return pixels
    return pixels_of(Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels), channels)


# --- headers ----------------------------------------------------------------------------------------------------------


def _kind_of(data: bytes, name: str) -> type[ImageFile]:
    """Return what decodes a file, by its first bytes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImageFile
    if data.startswith(b"\xff\xd8\xff"):
        return JpegImageFile
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return WebPImageFile
    if not data:
        raise UserError(f"{name} is empty, but must be an image: PNG, JPEG or WebP.")
    other = next((known for start, known in _OTHERS.items() if data.startswith(start)), None)
    if other is not None:
        raise UserError(f"{name} is an image of the format {other}: convert it to PNG, JPEG or WebP.")
    what = " but text" if _is_text(data[:1024]) else ""
    raise UserError(f"{name} is not an image{what}: it must be PNG, JPEG or WebP.")


def _is_text(data: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        return data[: len(data) - 3 if len(data) == 1024 else None].decode().isprintable() or b"\n" in data
    return False


def _webp_size(data: bytes) -> Size:
    """Return the size in the header of a WebP file; 0 if there is none, which its decoder will complain about."""
    kind, head = data[12:16], data[:30].ljust(30, b"\0")
    match kind:
        case b"VP8 ":
            width, height = (int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (26, 28))
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
        case _:
            width, height = 0, 0
    return height, width


def refuse_large(size: Size, name: str, max_pixels: int) -> None:
    """Refuse an image of this height and width if it has more pixels than are decoded."""
    height, width = size
    if height * width > max_pixels:
        raise UserError(
            f"{name} has {height:,} x {width:,} pixels, but at most {max_pixels:,} are decoded: make it smaller, or "
            "raise `data.images.max_pixels`."
        )


def _turned(image: Image.Image) -> Image.Image:
    """Return the image as its EXIF data says that it was taken."""
    exif = image.info.get("exif")
    turn = _UPRIGHT.get(_orientation(exif)) if isinstance(exif, bytes) else None
    return image if turn is None else image.transpose(turn)


def _orientation(exif: bytes) -> int:
    """Return the orientation in the first table of EXIF data; 0 if there is none, or if the data are damaged."""
    data = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(data[:2], "")
    with suppress(struct.error):
        (table,) = struct.unpack_from(f"{order}I", data, 4)
        (entries,) = struct.unpack_from(f"{order}H", data, table)
        for place in range(table + 2, table + 2 + 12 * entries, 12):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", data, place)
            if order and tag == _ORIENTATION:
                return int(value)
    return 0


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Turn what Pillow raises for damaged content into one line."""
    try:
        yield
    except _FAULTS as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{name} cannot be decoded ({reason}): copy or download it again.") from error


# --- images that stay as their files are: too many to be stored decoded, they are decoded whenever they are shown -----


@dataclass(frozen=True, eq=False)
class EncodedPixels(Ragged):
    """A stream of pixels whose rows are decoded from the bytes of their files; `values` holds these bytes."""

    form: ImageForm
    channels: Channels

    def __getitem__(self, index: int) -> Values:
        data = super().__getitem__(index).tobytes()
        pixels = decode_image(data, f"image {index + 1:,} in the cache", self.channels, self.form)
        return pixels.reshape(-1, self.channels)

    def decoded(self, rows: NDArray[np.int64]) -> Iterator[Values]:
        """Yield the pixels of some rows in order; all cores decode."""
        return _threads().map(self.__getitem__, rows.tolist())


def rows_of_pixels(stream: Ragged, rows: NDArray[np.int64]) -> Iterator[Values]:
    """Yield the pixels of some images in order, stored decoded or not."""
    return stream.decoded(rows) if isinstance(stream, EncodedPixels) else (stream[row] for row in rows)


def channels_of(stream: Ragged) -> int:
    """Return the number of values of a pixel."""
    return stream.channels if isinstance(stream, EncodedPixels) else stream.values.shape[1]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), "heedful-decoding")  # decoding is outside of Python's lock
