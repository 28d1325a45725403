"""The demo of images, after its training: evaluate the classifier, and show what it says of some images."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heedful.base.files import output_folder
from heedful.cli.reports.terminal_images import beside_each_other, image_lines
from heedful.config.recipe import Recipe
from heedful.data.builtin.scenes import NUMBERS, Scene, scenes
from heedful.data.builtin.scenes_drawing import draw_scene

if TYPE_CHECKING:
    from heedful.tasks.images.classify.model import ImageClassifier

RECIPE: Final = "demo-scenes"
INTRODUCTION: Final = """\
Heedful trains a small convolutional network from scratch to count the things in an image.
The images are drawn: circles, squares, triangles, diamonds, stars and crosses in eight colours.
Every test image has a pair of shape and colour that never occurs in training.
"""
_SHOWN: Final = 3  # images in a row
_ROWS: Final = 2
_SIZE: Final = 24  # pixels of an image on the screen, on each side
_NEXT: Final = """
Next:
    heedful classify {folder} {image}     the class of an image file
    heedful recipes copy {recipe} my.toml      then name your images in [data]: train = {{ images = "photos" }}
    heedful train scenes-answers --out runs/answers      answers questions about images, on a GPU
"""


def show_images(recipe: Recipe, out: Path) -> None:
    """Evaluate the trained classifier, and show what it says of some images."""
    from heedful.tasks.images.classify.model import ImageClassifier

    model = ImageClassifier.load(out)
    count = recipe.data.test[0].count  # type: ignore[union-attr]  # the demo's own recipe names a generator
    tested = list(scenes("test", count))
    found = model.evaluate([(draw_scene(scene), _number(scene)) for scene in tested])
    print(
        f"\nTest images: {found.result.right_texts:,} of {count:,} right ({found.result.accuracy:.1%}); "
        f"{found.per_second:,.0f} images/s\n"
    )
    _show(model, tested[: _SHOWN * _ROWS])
    print(_NEXT.format(folder=out, image=_write_image(out, tested[0]), recipe=RECIPE))


def _number(scene: Scene) -> str:
    return NUMBERS[len(scene.things)]


def _show(model: "ImageClassifier", shown: Sequence[Scene]) -> None:
    """Show images, if the terminal has colours, with what the model says of each and what is right."""
    said = model.classify([draw_scene(scene) for scene in shown])
    assert isinstance(said, list)
    told = [
        f"{found.label} ({found.probabilities[found.label]:.0%}), {_number(scene)} is right"
        for found, scene in zip(said, shown, strict=True)
    ]
    for first in range(0, len(shown), _SHOWN):
        row, words = shown[first : first + _SHOWN], told[first : first + _SHOWN]
        if _in_colour():
            for line in beside_each_other([image_lines(draw_scene(scene), _SIZE) for scene in row], _SIZE):
                print(f"  {line}")
            print("  " + "   ".join(word.ljust(_SIZE) for word in words).rstrip() + "\n")
        else:
            for scene, word in zip(row, words, strict=True):
                print(f"  {scene.sentence}\n      {word}")


def _in_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _write_image(out: Path, scene: Scene) -> Path:
    """Write an image file, so that there is one to try."""
    from PIL import Image

    path = output_folder(out) / "scene.png"
    Image.fromarray(draw_scene(scene)).save(path)
    return path
