"""Images that a program gives: paths, bytes, open files, arrays and images of Pillow are the same images."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.shared.refusals import refuses

import heedful
from heedful.config.data import ImageForm
from heedful.data.corpora.images import image_of, is_one_image

PIXELS = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    Image.fromarray(PIXELS).save(path)
    return path


@contextmanager
def forms(file: Path) -> Iterator[list[Any]]:
    data = file.read_bytes()
    with file.open("rb") as binary, Image.open(file) as opened:
        yield [file, str(file), data, bytearray(data), memoryview(data), io.BytesIO(data), binary, opened, PIXELS]


def test_every_form_has_the_same_pixels(file: Path) -> None:
    with forms(file) as several:
        for given in several:
            assert is_one_image(given)
            image = image_of(given, "`image`", 3)
            assert np.array_equal(image.pixels(3), PIXELS)
            assert image.content() == image.content()


def test_a_gray_array_is_one_image_and_more_axes_are_several() -> None:
    assert image_of(PIXELS[..., 0], "`image`", 1).pixels(1).shape == (8, 8, 1)
    assert not is_one_image(PIXELS[None])
    assert not is_one_image([PIXELS])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (b"", "`image` is empty, but ..."),
        (b"GIF89a", "`image` is an image of the format GIF: ..."),
        (io.StringIO("text"), '`image` is a file that is open as text: open it with mode "rb".'),
        (
            7,
            "`image` is int, but must be a path, the bytes of a file, an open file, an array of pixels, or an image of "
            "Pillow.",
        ),
        (
            np.zeros((2, 8, 8, 3), np.uint8),
            "`image` has the shape 2 x 8 x 8 x 3, but must be height x width, or height x width x 3.",
        ),
        (np.zeros((8, 8, 4), np.uint8), "`image` has the shape 8 x 8 x 4, but must be ..."),
        (np.zeros((8, 8)), "`image` holds float64, but pixels must be ... `(255 * values).round().astype('uint8')`."),
    ],
)
def test_what_is_no_image_is_refused(given: object, why: str) -> None:
    with refuses(why):
        image_of(given, "`image`", 3).pixels(3)


def test_a_closed_file_is_refused(file: Path) -> None:
    opened = file.open("rb")
    opened.close()
    with refuses('`image` is a file that cannot be read (read of closed file): open it with mode "rb".'):
        image_of(opened, "`image`", 3)


def test_models_take_every_form(file: Path) -> None:
    model = heedful.ImageClassifier.load("tests/golden/bundles/images-vit")
    expected = model.classify(file)
    with forms(file) as several:
        assert [model.classify(given) for given in several] == [expected] * 9
    with forms(file) as several:
        assert [one.label for one in model.classify(several)] == [expected.label] * 9
    with forms(file) as several:
        evaluated = model.evaluate([(given, expected.label) for given in several])
    assert evaluated.scores()[0].value == 1.0
    assert model.explain(file.read_bytes()).to_json()


class Undecoded(Image.Image):
    """An image that Pillow has opened, and not decoded yet."""

    def __init__(self) -> None:
        super().__init__()
        self._size, self._mode = (100_000, 50_000), "RGB"

    def load(self) -> Any:
        pytest.fail("it was decoded")


def test_what_has_too_many_pixels_is_refused_whatever_it_comes_in() -> None:
    with refuses("`image` has 50,000 x 100,000 pixels, but at most 50,000,000 are decoded..."):
        image_of(Undecoded(), "`image`", 3)
    with refuses("`image` has 8 x 8 pixels, but at most 63 are decoded..."):
        image_of(PIXELS, "`image`", 3).pixels(3, ImageForm(max_pixels=63))
    assert image_of(PIXELS, "`image`", 3).pixels(3, ImageForm(max_pixels=64, height=4)).shape == (4, 4, 3)
