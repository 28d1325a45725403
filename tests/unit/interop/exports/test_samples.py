"""Inputs to compare on: validation data of every task, lines of a file, or what is drawn where there is neither."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks.interop.random_models import write_random_model
from tests.shared.minimal_recipes import minimal_recipe, write_files
from tests.shared.refusals import refuses
from torch import nn

from heedful.config.recipe import Recipe
from heedful.interop.exports.samples import COUNT, Samples, read_samples
from heedful.models.bundle import Bundle, read_bundle

FAMILIES = {
    "classify": {"family": "classifier", "encoder": {"family": "bag", "width": 8}},
    "regress": {"family": "regressor", "encoder": {"family": "bag", "width": 8}},
    "tag": {"family": "tagger", "encoder": {"family": "recurrent", "width": 8}},
    "answer": {"family": "reader", "encoder": {"family": "recurrent", "width": 8}},
    "fill": {"family": "bert", "width": 8, "heads": 2, "layers": 1, "inner": 8},
    "generate": {"family": "language", "decoder": {"family": "recurrent", "width": 8, "layers": 1}},
    "translate": {"family": "recurrent", "width": 8, "layers": 1},
    "classify_images": {"family": "image_classifier", "encoder": {"family": "convolutional", "width": 8}},
    "regress_images": {"family": "image_regressor", "encoder": {"family": "convolutional", "width": 8}},
    "caption": {"family": "captioner"},
}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


def bundle_of(task: str, tmp_path: Path, **tables: Any) -> Bundle[Any]:
    return read_bundle(write_random_model(tmp_path / "model", task, model=FAMILIES[task], **tables), nn.Module)


@pytest.mark.parametrize("task", FAMILIES)
def test_validation_data_of_every_task_is_read(task: str, files: Path, tmp_path: Path) -> None:
    said = minimal_recipe(task, files)["data"]
    bundle = bundle_of(task, tmp_path, data=said)
    assert isinstance(bundle.recipe, Recipe)
    found = read_samples(bundle, tmp_path / "model")
    assert found.of.startswith(f"{len(found.texts or found.images)} rows of ")
    assert 0 < len(found.texts or found.images) <= COUNT
    assert bool(found.images) == (bundle.recipe.rules.images or task == "caption")
    assert all(text.strip() for row in found.texts for text in row)
    assert "scenes" in found.of or "reports" in found.of or "valid" in found.of


def test_translations_come_along_where_they_are_asked_for(files: Path, tmp_path: Path) -> None:
    bundle = bundle_of("translate", tmp_path, data=minimal_recipe("translate", files)["data"])
    found = read_samples(bundle, tmp_path / "model", references=True)
    assert len(found.references) == len(found.texts) > 0
    assert found.references[0] == (files / "valid.es").read_text().splitlines()[0]
    assert read_samples(bundle, tmp_path / "model").references == ()


def test_without_data_inputs_are_drawn_and_always_the_same(tmp_path: Path) -> None:
    bundle = bundle_of("translate", tmp_path)
    found = read_samples(bundle, tmp_path / "model", references=True)
    assert found == read_samples(bundle, tmp_path / "model")
    assert (found.of, found.references) == ("32 texts of random pieces", ())
    images = read_samples(bundle_of("classify_images", tmp_path / "images"), tmp_path)
    assert (images.of, images.images[0].pixels(3).shape) == ("32 images of random pixels", (32, 32, 3))


def test_lines_of_a_file_may_be_texts_or_pairs(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one text\n\na question\tits text\n")
    found = read_samples(bundle_of("classify", tmp_path), tmp_path / "model", tmp_path / "lines")
    assert found == Samples((("one text",), ("a question", "its text")), of=f"2 lines of {tmp_path}/lines")


def test_a_file_without_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("\n  \n")
    with refuses(f"{tmp_path}/lines has no lines to compare with: choose a file with sentences."):
        read_samples(bundle_of("classify", tmp_path), tmp_path / "model", tmp_path / "lines")
