"""A trained model from its folder, whatever it was trained for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_never

from heedful.errors import UserError
from heedful.models.bundle import read_description
from heedful.tasks.classify.model import load_classifier
from heedful.tasks.fill.model import load_filler
from heedful.tasks.translate import model


def load(path: str | Path, device: str = "auto", precision: str = "auto", ensemble: Sequence[str | Path] = ()) -> Any:
    """Load a model that `heedful train` wrote: a `Model` that translates, a `TextClassifier` or a `MaskFiller`.

    `device` is "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:1"; `precision` is "float32", "bfloat16" or
    "auto": bfloat16 on a GPU, float32 elsewhere. `ensemble` are the translators that decode with the first as one.
    """
    task = read_description(Path(path))[0].task
    if ensemble and task != "translate":
        raise UserError(f"{path} does not translate, and only translators make an ensemble: leave out `ensemble`.")
    match task:
        case "translate":
            return model.load(path, device, precision, ensemble)
        case "classify":
            return load_classifier(path, device, precision)
        case "fill":
            return load_filler(path, device, precision)
        case _:
            assert_never(task)
