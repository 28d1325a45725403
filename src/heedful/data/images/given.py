"""Images that a program gives: paths of files, arrays of pixels, and images of Pillow."""

from os import PathLike
from typing import Any

import numpy as np
from PIL import Image

from heedful.base.arguments import check_path
from heedful.base.errors import UserError
from heedful.data.images.arrays import as_images
from heedful.data.images.decoding import Channels, pixels_of
from heedful.data.images.reading import LabelledImage

AnyImage = str | PathLike[str] | np.ndarray[Any, Any] | Image.Image


def image_of(given: object, where: str, channels: Channels) -> LabelledImage:
    """Return an image that a program gave; `where` names it in messages."""
    match given:
        case str() | PathLike():
            path = check_path(where, given)
            return LabelledImage(path, where=str(path))
        case Image.Image():
            return LabelledImage(pixels_of(given, channels), where=where)
        case np.ndarray():
            return LabelledImage(as_images(given[None], where)[0], where=where)
        case _:
            raise UserError(
                f"{where} is {type(given).__name__}, but must be the path of a file, an array of pixels, or an image "
                "of Pillow."
            )


def is_one_image(images: object) -> bool:
    """Whether an argument is one image, and not several."""
    if isinstance(images, np.ndarray):
        return images.ndim < 3 or (images.ndim == 3 and images.shape[2] in (1, 3))
    return isinstance(images, str | PathLike | Image.Image)
