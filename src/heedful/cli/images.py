"""Images on the command line: files, and folders of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from heedful.base.errors import UserError
from heedful.base.files import expand_user, read_json
from heedful.config.corpora.old_names import OLD_KINDS
from heedful.data.images.decoding import is_image_name

_SEEING: Final = ("image_classifier", "captioner", "image_answerer", "image_regressor")  # families that read images
_IMAGES_ONLY: Final = "This model reads images: give their files, or folders of them."


def sees_images(model: str) -> bool:
    """Whether the model in a folder reads images, whatever it does with them."""
    return family_of(model) in _SEEING


def family_of(model: str) -> str | None:
    """Return the family of the model in a folder; None for what is not a model: loading it says why."""
    try:
        config = read_json(expand_user(model) / "config.json")
    except UserError:
        return None
    recipe = config.get("recipe") if isinstance(config, dict) else None
    table = recipe.get("model") if isinstance(recipe, dict) else None
    family = table.get("family") if isinstance(table, dict) else None
    return OLD_KINDS.get(family, family) if isinstance(family, str) else None


def image_inputs(arguments: Sequence[str] | None, texts: Sequence[str] | None = None) -> list[Path]:
    """Return the images that a command line names: files as they are, and all images in folders, by name."""
    if texts:
        raise UserError("--text gives texts, but this model reads images: leave it out.")
    if not arguments:
        raise UserError(_IMAGES_ONLY)
    found: list[Path] = []
    for argument in arguments:
        if not argument:  # as a path it would be the current folder
            raise UserError(f"An argument is empty. {_IMAGES_ONLY}")
        path = expand_user(argument)
        if not path.is_dir():
            if not path.exists():
                raise UserError(f"{path}: no such file." + ("" if is_image_name(path) else f" {_IMAGES_ONLY}"))
            found.append(path)
            continue
        inside = sorted(file for file in path.rglob("*") if is_image_name(file) and file.is_file())
        if not inside:
            raise UserError(f"{path} has no images in it (.png, .jpg or .webp).")
        found += inside
    return found


def check_all_read(unread: Sequence[str]) -> None:
    """Fail with one line for each image that could not be read, after all others have been answered."""
    if unread:
        raise UserError("\n".join(unread))
