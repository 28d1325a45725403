"""Images in files: every kind that cameras and programs write is read, and everything else is refused in one line."""

import io
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from tests.shared.patience import PATIENCE
from tests.shared.refusals import refuses

from heedful.config.data import ImageForm
from heedful.data.images import decoding
from heedful.data.images.decoding import (
    Channels,
    Fit,
    Pixels,
    decode_image,
    fit_image,
    is_image_name,
    pixels_of,
    read_image,
)

RED, BLUE = (200, 0, 0), (0, 0, 250)


def _half_red() -> Image.Image:
    """An image of 6 rows and 8 columns, red on the left and blue on the right."""
    pixels = np.zeros((6, 8, 3), np.uint8)
    pixels[:, :4], pixels[:, 4:] = RED, BLUE
    return Image.fromarray(pixels)


def _bytes(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _decode(data: bytes, channels: Channels = 3, most: int = 1000) -> Pixels:
    return decode_image(data, "it.png", channels, ImageForm(max_pixels=most))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_every_format_gives_the_pixels_that_were_written(kind: str) -> None:
    exact: dict[str, dict[str, object]] = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}
    found = _decode(_bytes(_half_red(), kind, **exact.get(kind, {})))
    assert found.shape == (6, 8, 3)
    assert found.dtype == np.uint8
    assert np.abs(found.astype(int) - np.asarray(_half_red())).max() <= (4 if kind == "JPEG" else 0)


def test_gray_is_the_brightness_of_colours_and_colour_is_gray_three_times() -> None:
    gray = _decode(_bytes(_half_red()), channels=1)
    assert gray.shape == (6, 8, 1)
    assert abs(int(gray[0, 0, 0]) - round(0.299 * 200)) <= 1
    again = _decode(_bytes(Image.fromarray(gray[..., 0])))
    assert (again == gray).all()


def test_a_palette_gives_its_colours() -> None:
    assert (_decode(_bytes(_half_red().quantize(4))) == np.asarray(_half_red())).all()


def test_sixteen_bits_are_scaled_to_eight_instead_of_cut_off() -> None:
    wide = np.array([[0, 255, 32768, 65535]], np.uint16)
    assert _decode(_bytes(Image.fromarray(wide)), channels=1)[0, :, 0].tolist() == [0, 1, 128, 255]


def test_cmyk_becomes_red_green_and_blue() -> None:
    found = _decode(_bytes(_half_red().convert("CMYK"), "JPEG", quality=100, subsampling=0)).astype(int)
    assert np.abs(found[0, 0] - RED).max() < 8
    assert np.abs(found[0, -1] - BLUE).max() < 8


def test_transparent_parts_become_white() -> None:
    clear = _half_red().convert("RGBA")
    clear.putalpha(Image.fromarray(np.repeat(np.array([[255] * 4 + [0] * 4], np.uint8), 6, axis=0)))
    found = _decode(_bytes(clear))
    assert tuple(found[0, 0]) == RED
    assert tuple(found[0, -1]) == (255, 255, 255)


def test_the_first_image_of_an_animation_is_read() -> None:
    other = Image.new("RGB", (8, 6), "white")
    data = _bytes(_half_red(), "WEBP", lossless=True, save_all=True, append_images=[other], duration=100)
    assert tuple(_decode(data)[0, 0]) == RED


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_the_rotation_that_a_camera_noted_is_applied(kind: str, orientation: int) -> None:
    """The left half of the sensor's image: where it is when the image is upright, by the standard's own words."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = _decode(_bytes(_half_red(), kind, exif=exif, quality=100)).astype(int)
    left_edge_is = {1: "left", 2: "right", 3: "right", 4: "left", 5: "top", 6: "top", 7: "bottom", 8: "bottom"}
    assert found.shape == ((8, 6, 3) if orientation >= 5 else (6, 8, 3))
    halves = {"left": found[:, :2], "right": found[:, -2:], "top": found[:2], "bottom": found[-2:]}
    assert np.abs(halves[left_edge_is[orientation]] - RED).max() < 30


def test_damaged_exif_data_are_ignored() -> None:
    data = _bytes(_half_red(), "WEBP", lossless=True, exif=b"Exif\0\0II*\0\xff\xff\xff\x7f")
    assert (_decode(data) == np.asarray(_half_red())).all()


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_truncated_image_is_refused(kind: str, share: float) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))
    data = _bytes(noise, kind)
    with refuses("it.png cannot be decoded (...): copy or download it again."):
        _decode(data[: int(len(data) * share)])


def _png_of_size(width: int, height: int) -> bytes:
    """A PNG whose header promises a size, and whose data are few."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content).to_bytes(4, "big")
        return len(content).to_bytes(4, "big") + kind + content + check

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")


def _webp_of_size(width: int, height: int) -> bytes:
    """A WebP whose header promises a size."""
    chunk = b"VP8X" + (10).to_bytes(4, "little") + bytes(4)
    chunk += (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + (4 + len(chunk)).to_bytes(4, "little") + b"WEBP" + chunk


@pytest.mark.parametrize("data", [_png_of_size(100_000, 30_000), _webp_of_size(100_000, 30_000)], ids=["png", "webp"])
def test_a_gigantic_image_is_refused_by_its_header(data: bytes) -> None:
    with refuses(
        "it.png has 30,000 x 100,000 pixels, but at most 1,000 are decoded: make it smaller, or raise "
        "`data.images.max_pixels`."
    ):
        _decode(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("lossless", [True, False])
def test_the_limit_counts_the_pixels_of_every_format(kind: str, lossless: bool) -> None:
    data = _bytes(_half_red(), kind, **({"lossless": lossless} if kind == "WEBP" else {}))
    assert _decode(data, most=48).shape == (6, 8, 3)
    with refuses("...has 6 x 8 pixels, but at most 47 are decoded..."):
        _decode(data, most=47)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it.png is empty, but must be an image: PNG, JPEG or WebP."),
        (b"GIF89a...", "it.png is an image of the format GIF: convert it to PNG, JPEG or WebP."),
        (b"BM...", "it.png is an image of the format BMP: convert it to PNG, JPEG or WebP."),
        (b"label,path\n", "it.png is not an image but text: it must be PNG, JPEG or WebP."),
        ("Grüße aus Köln ".encode() * 100, "it.png is not an image but text: it must be PNG, JPEG or WebP."),
        (b"\x00\xfe\x01\xff" * 9, "it.png is not an image: it must be PNG, JPEG or WebP."),
    ],
)
def test_what_is_not_an_image_is_refused_by_what_it_is(data: bytes, why: str) -> None:
    with refuses(why):
        _decode(data)


def test_a_missing_file_is_refused_by_its_name(tmp_path: Path) -> None:
    with refuses("...none.png: no such file."):
        read_image(tmp_path / "none.png", 3)


# --- size -------------------------------------------------------------------------------------------------------------


def test_stretching_keeps_everything_and_cropping_keeps_proportions() -> None:
    pixels = np.zeros((10, 30, 1), np.uint8)
    pixels[:, 10:20] = 200  # the middle third
    stretched, cropped = fit_image(pixels, (10, 10), "stretch"), fit_image(pixels, (10, 10), "crop")
    assert stretched.shape == cropped.shape == (10, 10, 1)
    assert (cropped == 200).all()
    assert stretched[0, 0, 0] == 0
    assert stretched[0, 5, 0] == 200


def test_an_image_of_the_wanted_size_stays_as_it_is() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert fit_image(pixels, (5, 7), "stretch") is pixels


def test_images_are_recognised_by_their_names() -> None:
    names = ["a.png", "b.JPG", "c.jpeg", "d.WebP", "e.txt", ".f.png", "png"]
    assert [name for name in names if is_image_name(Path(name))] == names[:4]


# --- memory -----------------------------------------------------------------------------------------------------------


MODES = ("RGB", "RGBA", "LA", "P", "L", "1", "I;16", "CMYK")


def _of_mode(mode: str, side: int) -> Image.Image:
    """An image of noise, in a mode; that of a palette has a transparent colour."""
    noise = np.random.default_rng(1).integers(0, 256, (side, side, 4), dtype=np.uint8)
    if mode == "I;16":
        return Image.fromarray(noise[..., 0].astype(np.uint16) * 250)
    image = Image.fromarray(noise, "RGBA")
    if mode == "P":
        image = image.convert("RGB").quantize(16)
        image.info["transparency"] = 3
        return image
    return image.convert("L").convert("LA") if mode == "LA" else image.convert(mode)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_strips_have_the_pixels_of_the_whole(mode: str, channels: Channels, monkeypatch: pytest.MonkeyPatch) -> None:
    image = _of_mode(mode, 37)
    whole = pixels_of(image, channels)
    monkeypatch.setattr(decoding, "_STRIP", 100)
    assert (pixels_of(image, channels) == whole).all()


@pytest.mark.parametrize("fit", ["stretch", "crop"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_an_image_that_is_resized_while_it_is_decoded_has_the_same_pixels(mode: str, fit: Fit) -> None:
    data = _bytes(_of_mode(mode, 41))
    form = ImageForm(height=9, width=13, fit=fit)
    assert (decode_image(data, "it", 3, form) == fit_image(decode_image(data, "it", 3), (9, 13), fit)).all()


PEAKS = """
import sys, zlib
from io import BytesIO
from pathlib import Path
from PIL import Image
from heedful.config.data import ImageForm
from heedful.data.images.decoding import decode_image

SIDE = 3000
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
for mode in sys.argv[1:]:
    file = BytesIO()
    image = Image.new("I;16" if mode == "I;16" else mode, (SIDE, SIDE))
    if mode == "P":
        image.info["transparency"] = 0
    image.save(file, "JPEG" if mode == "CMYK" else "PNG")
    del image
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = peak()
    decode_image(file.getvalue(), "it", 3, ImageForm(height=32))
    print(mode, (peak() - before) / SIDE**2)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's peaks of memory")
def test_no_kind_of_image_takes_many_bytes_per_pixel() -> None:
    """Each took 9 to 40: 1.3 GB for an image of 50 megapixels with transparent parts."""
    command = [sys.executable, "-P", "-c", PEAKS, *MODES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    found = {mode: float(peak) for mode, peak in (line.split() for line in done.stdout.splitlines())}
    assert found.keys() == {*MODES}
    assert max(found.values()) < 13, found


IN_THREADS = """
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Barrier
from PIL import Image
from heedful.config.data import ImageForm
from heedful.data.images import decoding

SIDE, THREADS = 2300, 4
begin = Barrier(THREADS)
decoding._ROOM = decoding._Room(SIDE**2)
def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024
file, small = BytesIO(), BytesIO()
Image.new("RGBA", (SIDE, SIDE)).save(file, "PNG")
Image.new("RGBA", (9, 9)).save(small, "PNG")
decoding.decode_image(small.getvalue(), "it", 3, ImageForm(height=32))  # what is loaded once
def decode(_):
    begin.wait()  # so that each has a thread of its own
    decoding.decode_image(file.getvalue(), "it", 3, ImageForm(height=32))
before = resident()
with ThreadPoolExecutor(THREADS) as threads:
    list(threads.map(decode, range(THREADS)))
print((resident() - before) / SIDE**2)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
def test_threads_keep_no_memory_of_the_images_that_they_have_decoded() -> None:
    """Each kept what its largest image had taken: 4 threads 1.6 GB after images of 49 megapixels, where one had 0.4."""
    done = subprocess.run([sys.executable, "-P", "-c", IN_THREADS], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 12  # bytes per pixel; it was 23


def test_threads_together_decode_no_more_pixels_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now, most, lock, load = 0, 0, threading.Lock(), PngImageFile.load

    def watched(image: PngImageFile) -> object:
        nonlocal now, most
        with lock:
            now += image.width * image.height
            most = max(most, now)
        time.sleep(0.005)
        try:
            return load(image)
        finally:
            with lock:
                now -= image.width * image.height

    monkeypatch.setattr(PngImageFile, "load", watched)
    monkeypatch.setattr(decoding, "_ROOM", decoding._Room(500))
    data = [_bytes(Image.new("RGB", (side, side))) for side in (10, 20, 10, 30, 10, 10)]
    with ThreadPoolExecutor(6) as threads:  # 30 x 30 is more than all room: alone it is decoded
        shapes = [found.shape[0] for found in threads.map(lambda each: _decode(each), data)]
    assert shapes == [10, 20, 10, 30, 10, 10]
    assert most == 900


def test_a_jpeg_of_many_scans_is_refused() -> None:
    """Each would take as long as the whole image."""
    data = _bytes(_half_red(), "JPEG", progressive=True)
    assert _decode(data).shape == (6, 8, 3)
    with refuses("it.png is a JPEG of 1,0...0 scans, but at most 200 are decoded: save it again."):
        _decode(data + b"\xff\xda" * 1000)


def test_a_file_that_no_image_can_fill_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "film.png"
    with path.open("wb") as file:
        file.truncate(10**12)  # it takes no space
    with refuses(
        f"{path} has 1,000,000,000,000 bytes, more than an image has that is decoded (867,108,864): make it smaller, "
        "or raise `data.images.max_pixels`."
    ):
        read_image(path, 3)
