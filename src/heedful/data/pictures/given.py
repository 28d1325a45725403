"""Pictures that a program gives: paths of files, arrays of pixels, and images of Pillow."""

from os import PathLike
from typing import Any

import numpy as np
from PIL import Image

from heedful.arguments import check_path
from heedful.data.pictures.arrays import as_pictures
from heedful.data.pictures.decoding import Channels, pixels_of
from heedful.data.pictures.reading import Picture
from heedful.errors import UserError

AnyPicture = str | PathLike[str] | np.ndarray[Any, Any] | Image.Image


def picture_of(given: object, where: str, channels: Channels) -> Picture:
    """Return a picture that a program gave; `where` names it in messages."""
    match given:
        case str() | PathLike():
            path = check_path(where, given)
            return Picture(path, where=str(path))
        case Image.Image():
            return Picture(pixels_of(given, channels), where=where)
        case np.ndarray():
            return Picture(as_pictures(given[None], where)[0], where=where)
        case _:
            raise UserError(
                f"{where} is {type(given).__name__}, but must be the path of a file, an array of pixels, or an image "
                "of Pillow."
            )


def is_one_picture(pictures: object) -> bool:
    """Whether an argument is one picture, and not several."""
    if isinstance(pictures, np.ndarray):
        return pictures.ndim < 3 or (pictures.ndim == 3 and pictures.shape[2] in (1, 3))
    return isinstance(pictures, str | PathLike | Image.Image)
