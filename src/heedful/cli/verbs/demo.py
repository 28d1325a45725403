"""`heedful demo`: train, evaluate and try out a translator in minutes, on sentences that ship with Heedful."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import Stopped, UserError
from heedful.base.files import output_folder, write_bytes
from heedful.cli import messages
from heedful.cli.options import (
    SetOption,
    TrainingDeviceOption,
    TrainingPrecisionOption,
    json_option,
    option,
    out_option,
    with_device,
)
from heedful.cli.output import write_part, write_result
from heedful.cli.verbs.explain import PAGE
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.builtin.english_spanish import EXAMPLES, sentence_pairs
from heedful.data.builtin.scenes import NUMBERS, Scene, scenes
from heedful.data.builtin.scenes_drawing import draw_scene

if TYPE_CHECKING:
    from heedful.tasks.classify.image_models import ImageClassifier

RECIPE: Final = "demo-en-es"
INTRODUCTION: Final = """\
Heedful trains a small Transformer from scratch to translate English into Spanish.
The sentences are built in: articles, gender and number, adjectives, verbs, questions, numbers, negation.
The test set has combinations of words that never occur in training.
"""
NEXT: Final = """
Try it on a page, where words show what they read: heedful serve {folder}

Next, with your own files, one sentence per line, the same number of lines in both:

    heedful init train.en train.es             says what they are, and writes the recipe en-es.toml
    heedful train en-es.toml --dry-run         estimates the time and memory of the run
    heedful train en-es.toml --out runs/mine
    heedful translate runs/mine < text.en

heedful init also takes tables, images, trees, questions and plain text, for other tasks.
"""


def command(
    out: Annotated[Path | None, out_option(" (default: runs/demo, or runs/demo-images)")] = None,
    images: Annotated[
        bool, option("Train a classifier of images instead, and show what it says of some.", "--images")
    ] = False,
    set_: SetOption = None,
    device: TrainingDeviceOption = None,
    precision: TrainingPrecisionOption = None,
    as_json: Annotated[bool, json_option("one object at the end, with the folder, scores and examples")] = False,
) -> None:
    """Train a small English-Spanish translator, evaluate it on unseen combinations of words, and try it out."""
    if any(override.startswith(("data", "task", "model.family")) for override in set_ or ()):
        raise UserError("--set: the demo has data and a task of its own: use `heedful train` for others.")
    out = out or Path("runs/demo-images" if images else "runs/demo")
    recipe = load_recipe(IMAGE_RECIPE if images else RECIPE, with_device(set_, device, precision))
    with messages.busy("loading PyTorch"):
        from heedful.explain.pages.page import explorer_page
        from heedful.runs.run import CHECKPOINTS
        from heedful.runs.training_run import train
        from heedful.tasks.translate.model import Translator

    if not as_json:
        print(IMAGE_INTRODUCTION if images else INTRODUCTION, flush=True)
    try:
        train(recipe, out, resume=(output_folder(out) / CHECKPOINTS).exists())
    except Stopped as stopped:
        raise Stopped(
            "Stopped, checkpoint saved. Run the demo again to continue.", stopped.exit_code - 128
        ) from stopped
    if images:
        show_images(recipe, out, as_json)
        return
    model = Translator.load(out)
    count = recipe.data.test[0].count  # type: ignore[union-attr]  # the demo's own recipe names a builtin
    found = model.evaluate_rows(list(sentence_pairs("test", count)))
    examples = dict(zip(EXAMPLES, model.translate(list(EXAMPLES)), strict=True))
    if not as_json:
        print(
            f"\nHeld-out sentences: {found.exact:,} of {count:,} exactly right ({found.exact / count:.1%}), "
            f"BLEU {found.bleu.score:.1f}; {count / found.seconds:,.0f} sentences/s\n"
        )
        for source, translation in examples.items():
            print(f"  {source}\n      {translation}")
    page = output_folder(out) / PAGE
    explained = [model.explain(text, gradients=True, search=True) for text in EXAMPLES]
    write_bytes(page, explorer_page(explained, page.parent.name).encode())
    if as_json:
        write_result({"folder": str(out), **found.to_json(), "examples": examples, "page": str(page)})
        return
    if sys.stdin.isatty():
        print("\nYour turn: type an English sentence with words like these (an empty line ends).")
        while line := _typed():
            print(f"      {model.translate(line)}")
    print(f"\nWhat the model attends to, on a page: open {page.resolve().as_uri()} in a browser.")
    print(NEXT.format(folder=out))


def _typed() -> str:
    try:
        return input("  ").strip()
    except (EOFError, KeyboardInterrupt):
        return ""


# --- the demo of images -----------------------------------------------------------------------------------------------


IMAGE_RECIPE: Final = "demo-scenes"
IMAGE_INTRODUCTION: Final = """\
Heedful trains a small convolutional network from scratch to count the things in an image.
The images are drawn: circles, squares, triangles, diamonds, stars and crosses in eight colours.
Every test image has a pair of shape and colour that never occurs in training.
"""
_SHOWN: Final = 3  # images in a row
_ROWS: Final = 2
_SIZE: Final = 24  # pixels of an image on the screen, on each side
_NEXT_IMAGES: Final = """
Next:
    heedful classify {folder} {image}     the class of an image file
    heedful init photos     writes a recipe for a folder of yours, with one folder of images for each class
    heedful train scenes-answers --out runs/answers      answers questions about images, on a GPU
"""


def show_images(recipe: Recipe, out: Path, as_json: bool) -> None:
    """Evaluate the trained classifier, and show what it says of some images."""
    from PIL import Image

    from heedful.tasks.classify.image_models import ImageClassifier

    model = ImageClassifier.load(out)
    count = recipe.data.test[0].count  # type: ignore[union-attr]  # the demo's own recipe names a generator
    tested = list(scenes("test", count))
    found = model.evaluate([(draw_scene(scene), _number(scene)) for scene in tested])
    path = output_folder(out) / "scene.png"  # so that there is an image file to try
    Image.fromarray(draw_scene(tested[0])).save(path)
    if as_json:
        said = model.classify([draw_scene(scene) for scene in tested[: _SHOWN * _ROWS]])
        examples = {scene.sentence: one.label for scene, one in zip(tested, said, strict=False)}
        write_result({"folder": str(out), **found.to_json(), "examples": examples, "image": str(path)})
        return
    print(
        f"\nTest images: {found.result.right_texts:,} of {count:,} right ({found.result.accuracy:.1%}); "
        f"{found.per_second:,.0f} images/s\n"
    )
    _show(model, tested[: _SHOWN * _ROWS])
    print(_NEXT_IMAGES.format(folder=out, image=path))


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
        if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
            for lines in zip(*(image_lines(draw_scene(scene), _SIZE) for scene in row), strict=True):
                write_part("  " + "   ".join(lines) + "\n", own=True)
            print("  " + "   ".join(word.ljust(_SIZE) for word in words).rstrip() + "\n")
        else:
            for scene, word in zip(row, words, strict=True):
                print(f"  {scene.sentence}\n      {word}")


# --- small images on a terminal: every character shows two pixels, the upper one and the lower one --------------------


def image_lines(pixels: NDArray[np.uint8], size: int) -> list[str]:
    """Return a square image, reduced to size x size pixels, as lines of coloured half blocks."""
    places = (np.arange(size) + 0.5) * len(pixels) / size
    small = pixels[np.ix_(places.astype(int), places.astype(int))].tolist()
    pairs = zip(small[::2], small[1::2], strict=False)
    return ["".join(_two_pixels(*pair) for pair in zip(*rows, strict=True)) + "\x1b[0m" for rows in pairs]


def _two_pixels(upper: list[int], lower: list[int]) -> str:
    front, back = (";".join(map(str, colour)) for colour in (upper, lower))
    return f"\x1b[38;2;{front}m\x1b[48;2;{back}m▀"
