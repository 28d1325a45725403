"""Texts and models to compare."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from heedful.models.bundle import read_bundle, read_description, write_description, write_weights

Texts = dict[str, Path]
Changed = Callable[..., Path]


@pytest.fixture
def texts(tmp_path: Path) -> Texts:
    """A source, its references and two systems, the second of which is better."""
    lines = {
        "source": "eins zwei drei vier fünf\nsechs sieben acht neun zehn\nelf zwölf dreizehn vierzehn\nfünfzehn",
        "target": "one two three four five\nsix seven eight nine ten\neleven twelve thirteen fourteen\nfifteen",
        "poor": "one two three\nsix seven\neleven twelve\nfifty",
        "good": "one two three four five\nsix seven eight nine ten\neleven twelve thirteen forty\nfifteen",
    }
    made = {name: tmp_path / f"{name}.txt" for name in lines}
    for name, path in made.items():
        path.write_text((lines[name] + "\n") * 10)
    return made


@pytest.fixture(scope="module")
def worse_folder(reversing_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of `reversing_folder` with noise in its weights."""
    folder = shutil.copytree(reversing_folder, tmp_path_factory.mktemp("worse") / "model")
    model = read_bundle(folder).model
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    write_weights(folder, model)
    return folder


@pytest.fixture
def changed(reversing_folder: Path, tmp_path: Path) -> Changed:
    """Copies the model of `reversing_folder` with other settings in a section of its recipe."""

    def make(section: str, **settings: object) -> Path:
        folder = shutil.copytree(reversing_folder, tmp_path / f"changed {len(list(tmp_path.glob('changed*')))}")
        recipe, tokenizers = read_description(folder)
        of_section = getattr(recipe, section).model_copy(update=settings)
        write_description(folder, recipe.model_copy(update={section: of_section}), tokenizers)
        return folder

    return make
