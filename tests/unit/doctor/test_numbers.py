"""What the doctor says of the numbers of texts and of images: each fault planted, in words."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heedful.config.reading.load import load_recipe
from heedful.doctor.corpora.data import check_data
from heedful.doctor.findings import Finding

Rows = list[tuple[str, float]]


def sound(count: int = 60, first: int = 0) -> Rows:
    return [(f"review number {place} of a film", float(place % 9 + 1)) for place in range(first, first + count)]


def write(path: Path, rows: Sequence[tuple[object, float]]) -> str:
    path.write_text("".join(f"{text}\t{number:g}\n" for text, number in rows))
    return str(path)


def told(folder: Path, train: Rows, valid: Rows | None = None) -> dict[str, Finding]:
    corpus = {"text": 1, "number": 2}
    data = {"train": {"tsv": write(folder / "train.tsv", train), **corpus}}
    data["valid"] = {"tsv": write(folder / "valid.tsv", valid or sound(20, 100)), **corpus}
    recipe = load_recipe({"data": data, "model": {"family": "regressor"}, "train": {"steps": 1}})
    return {finding.kind: finding for finding in check_data(recipe, lambda message: None).findings}


def test_of_sound_numbers_nothing_is_said(tmp_path: Path) -> None:
    assert told(tmp_path, sound()) == {}


def test_numbers_that_are_all_the_same(tmp_path: Path) -> None:
    found = told(tmp_path, [(text, 4.0) for text, _ in sound()], [("one more", 4.0)])
    assert found["constant_numbers"].severity == "problem"
    assert found["constant_numbers"].what == "all 60 texts have the number 4"
    assert found["constant_numbers"].advice == "There is nothing to learn: `number` may name the wrong column."


def test_numbers_that_may_be_classes(tmp_path: Path) -> None:
    found = told(tmp_path, [(text, float(number > 3)) for text, number in sound()], [("one more", 1.0)])
    assert found["few_numbers"].severity == "note"
    assert found["few_numbers"].what == "there are only 2 different numbers: 0 (21), 1 (39)"
    assert found["few_numbers"].advice == (
        "If they stand for classes, a classifier learns them better: give them as `label`."
    )


def test_numbers_far_away_from_all_others(tmp_path: Path) -> None:
    found = told(tmp_path, [*sound(), ("a mistake of the keyboard", 5000.0)])["outlier"]
    assert (found.severity, found.lines, found.example) == ("warning", (61,), "5000")
    assert found.what == "numbers far away from all others: 1 of 61 (1.64%)"
    assert found.advice == (
        "Look at them: they may be mistakes, or in another unit, and the largest errors decide what is learned."
    )


def test_numbers_of_validation_outside_the_range_of_training(tmp_path: Path) -> None:
    found = told(tmp_path, sound(), [(text, 10 * number) for text, number in sound(20, 100)])["outside"]
    assert (found.severity, found.part, found.count, found.of) == ("problem", "valid", 20, 20)
    assert found.what == "numbers outside the range of the training data, 1 to 9: 20 of 20"
    assert found.advice == (
        "The model has never seen such numbers: draw this part from the same source as the training data."
    )


def test_texts_with_two_numbers_and_texts_with_the_same_one_again(tmp_path: Path) -> None:
    rows = sound()
    found = told(tmp_path, [*rows, *rows[:6], *((text, number + 0.5) for text, number in rows[6:12])])
    assert found["repeated"].what == "texts that repeat an earlier one with the same number: 6 of 72 (8.33%)"
    assert found["ambiguous"].what == "texts that occur with different numbers: 6 of 60 (10.00%)"
    assert found["ambiguous"].advice == "The model cannot learn both: decide on one number, or remove them."


def test_long_texts_are_cut(tmp_path: Path) -> None:
    found = told(tmp_path, [(f"{text} word" + " word" * 600, number) for text, number in sound()])["cut"]
    assert found.what.startswith("texts with more words than `data.max_length`, which are cut: 60 of 60")


# --- images -----------------------------------------------------------------------------------------------------------

Change = Callable[[list[float]], list[float]]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Sixty images, of which the last two are the same."""
    chance = np.random.default_rng(3)
    for place in range(60):
        pixels = chance.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{place}.png")
    (tmp_path / "59.png").write_bytes((tmp_path / "58.png").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("change", "kind", "what"),
    [
        (lambda numbers: [2.0] * 60, "constant_numbers", "all 60 images have the number 2"),
        (
            lambda numbers: [float(place % 2) for place in range(60)],
            "few_numbers",
            "there are only 2 different numbers: 0 (30), 1 (30)",
        ),
        (lambda numbers: [9999.0, *numbers[1:]], "outlier", "numbers far away from all others: 1 of 60"),
        (lambda numbers: numbers, "ambiguous_numbers", "images that occur with different numbers: 2 of 60"),
    ],
)
def test_the_numbers_of_images(images: Path, change: Change, kind: str, what: str) -> None:
    numbers = change([float(place % 9 + 1) for place in range(60)])
    rows = [(f"{place}.png", number) for place, number in enumerate(numbers)]
    data = {"train": {"tsv": write(images / "train.tsv", rows), "image": 1, "number": 2}}
    recipe = {"data": data, "model": {"family": "image_regressor", "encoder": {"family": "vit", "patch": 2, "grid": 2}}}
    found = {one.kind: one.what for one in check_data(load_recipe(recipe), lambda message: None).findings}
    assert found[kind] == what


def test_an_empty_row_has_no_number(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", sound())
    lines = (tmp_path / "train.tsv").read_text().splitlines()
    (tmp_path / "train.tsv").write_text("\n".join([*lines[:3], "", *lines[3:]]))
    write(tmp_path / "valid.tsv", sound(20, 100))
    columns = {"text": 1, "number": 2}
    data = {part: {"tsv": str(tmp_path / f"{part}.tsv"), **columns} for part in ("train", "valid")}
    recipe = load_recipe({"data": data, "model": {"family": "regressor"}, "train": {"steps": 1}})
    found = {finding.kind: finding for finding in check_data(recipe, lambda message: None).findings}
    assert [finding.what for finding in found.values()] == ["texts with nothing but spaces: 1 of 61 (1.64%)"]
