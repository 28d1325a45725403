"""Faults that are planted in images are found; sound images give no finding."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import pytest
from PIL import Image

from heedful.cli.main import run
from heedful.config.reading.load import recipe_from_json
from heedful.doctor.corpora.data import check_data
from heedful.doctor.examination import UntrainableError, examine, examine_images
from heedful.doctor.findings import Finding

CLASSES = ("cat", "dog", "owl")
COUNTS = {"train": 24, "valid": 18, "test": 4}  # images of each class


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of images of noise, each class with an offset of its own."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    drawn = np.random.default_rng(5)
    for part, count in COUNTS.items():
        for number, name in enumerate(CLASSES):
            (tmp_path / part / name).mkdir(parents=True)
            for index in range(count):
                pixels = drawn.integers(20 * number, 120 + 20 * number, (8, 10), np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / name / f"{index:02}.png")
    return tmp_path


def values_of(folder: Path, **options: Any) -> dict[str, Any]:
    encoder = {"family": "vit", "patch": 4, "channels": 1, "width": 8, "heads": 2, "layers": 1, "inner": 8, "grid": 2}
    return {
        "data": {"folder": str(folder), **{part: [{"images": part}] for part in COUNTS}, "images": options},
        "model": {"family": "image_classifier", "encoder": encoder},
        "train": {
            "steps": 10,
            "schedule": {"kind": "constant", "lr": 0.001},
            "validation": {"every": 5},
            "checkpoint_every": 5,
        },
    }


def found_in(folder: Path, **options: Any) -> dict[tuple[str, str], Finding]:
    found = check_data(recipe_from_json(values_of(folder, **options), "recipe"), lambda message: None).findings
    return {(finding.part, finding.kind): finding for finding in found}


def test_sound_images_give_no_finding_but_their_classes_sizes_and_run(photos: Path) -> None:
    report = examine(recipe_from_json(values_of(photos), "recipe"))
    assert report.findings == ()
    assert report.run.tokens_per_epoch == {"patches": 72 * 7}  # 2 x 3 patches of 4 x 4 pixels, and a class token
    assert report.run.updates == 10
    assert report.memory.batch.sentences == 72
    assert report.memory.activations
    assert report.pieces.sides == ()
    assert report.classes == dict.fromkeys(CLASSES, COUNTS)
    assert report.sizes == {"8 x 10": 138}
    assert [(one.part, one.rows, one.unit) for one in report.corpora] == [
        ("train", 72, "images"),
        ("valid", 54, "images"),
        ("test", 12, "images"),
    ]


def _truncate(folder: Path) -> None:
    path = folder / "train" / "cat" / "03.png"
    path.write_bytes(path.read_bytes()[:60])


def _leak_under_another_format(folder: Path) -> None:
    """The same pixels in another file: its bytes differ."""
    Image.open(folder / "train" / "dog" / "00.png").save(folder / "test" / "dog" / "new.webp", lossless=True)


def _plant_in_single_images(folder: Path) -> None:
    _truncate(folder)
    (folder / "test" / "cat" / "00.png").write_text("no image")
    (folder / "train" / "emu").mkdir()
    _leak_under_another_format(folder)
    copy(folder / "train/cat/00.png", folder / "train/cat/again.png")
    copy(folder / "train/cat/01.png", folder / "train/dog/again.png")
    Image.new("L", (10, 8), 7).save(folder / "train" / "owl" / "flat.png")


def _plant_in_a_part(folder: Path) -> None:
    (folder / "valid" / "owl").rename(folder / "valid" / "owls")
    for path in (folder / "valid").rglob("*.png"):
        Image.fromarray(255 - np.asarray(Image.open(path)) // 4).save(path)


def _plant_in_classes(folder: Path) -> None:
    for path in [*(folder / "valid" / "owl").iterdir(), *sorted((folder / "train" / "cat").iterdir())[4:]]:
        path.unlink()
    (folder / "test" / "cat" / "00.png").rename(folder / "test" / "loose.png")


FAULTS: dict[Callable[[Path], None], dict[tuple[str, str], tuple[str, str]]] = {
    _plant_in_single_images: {
        ("train", "unreadable_images"): ("problem", "images that cannot be decoded: 1 of 75"),
        ("train", "empty_classes"): ("warning", "folders of classes without an image: `emu`"),
        ("train", "ambiguous"): ("warning", "images that occur with different labels: 2 of 75"),
        ("train", "repeated"): ("note", "images that repeat an earlier one, pixel by pixel: 1 of 75"),
        ("train", "flat"): ("warning", "images of a single colour: 1 of 75"),
        ("test", "unreadable_images"): ("warning", "images that cannot be decoded: 1 of 13"),
        ("test", "source_seen"): ("warning", "images that are also in train, pixel by pixel: 1 of 13"),
    },
    _plant_in_a_part: {
        ("valid", "unknown_classes"): ("problem", "labels that no training image has: `owls`"),
        ("valid", "missing_classes"): ("warning", "classes without an image: `owl` (24 in train)"),
        ("valid", "other_light"): ("warning", "the mean brightness of images is 236 of 255, but 79 in the"),
    },
    _plant_in_classes: {
        ("valid", "empty_classes"): ("warning", "folders of classes without an image: `owl`"),
        ("train", "rare_classes"): ("warning", "classes with fewer than 5 images: `cat` (4)"),
        ("test", "loose_images"): ("warning", "images in no folder of a class: 1"),
        ("valid", "missing_classes"): ("warning", "classes without an image: `owl` (24 in train)"),
    },
}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__.removeprefix("_plant_"))
def test_planted_faults_are_found_and_nothing_else(photos: Path, plant: Callable[[Path], None]) -> None:
    plant(photos)
    found = found_in(photos)
    assert found.keys() == FAULTS[plant].keys()
    for key, (severity, what) in FAULTS[plant].items():
        assert found[key].severity == severity
        assert what in found[key].what
        assert found[key].advice.endswith(".")


def test_sizes_that_do_not_fit_are_found(photos: Path) -> None:
    assert found_in(photos, height=8, width=40)["train", "stretched"].severity == "warning"
    assert not found_in(photos, height=8, width=40, fit="crop")
    Image.fromarray(np.arange(30, dtype=np.uint8).reshape(3, 10)).save(photos / "train" / "cat" / "thin.png")
    assert found_in(photos)["train", "small"].what == "images smaller than a patch of the encoder: 1 of 73"


def test_the_command_prints_findings_classes_and_sizes_and_refuses_problems(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = photos / "my.json"
    recipe.with_suffix(".toml").write_text(
        f"""
[data]
folder = {json.dumps(str(photos))}
train = {{ images = "train" }}
valid = {{ images = "valid" }}
[model]
family = "image_classifier"
encoder = {{ family = "convolutional", width = 8, stages = 2, depth = 1 }}
[train]
steps = 10
checkpoint_every = 5
validation = {{ every = 5 }}
"""
    )
    assert run(["doctor", str(recipe.with_suffix(".toml"))]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert printed.startswith("Nothing unusual was found.\n")
    assert "  whole run   10 updates, 10.0 epochs\n" in printed
    assert " patches/s\n" in printed
    assert "\nPieces\n" not in printed
    assert "Classes: 3\n" in printed
    assert "        126 images  8 x 10" in printed
    _truncate(photos)
    assert run(["doctor", str(recipe.with_suffix(".toml")), "--json"]) == 2
    printed, error = capsys.readouterr()
    report = json.loads(printed)
    assert report["findings"][0]["kind"] == "unreadable_images"
    assert (report["run"], report["memory"], report["time"]) == (None, None, None)
    assert "1 problem, listed in the report: " in error


def test_answerers_and_captioners_are_examined_too() -> None:
    values = values_of(Path())
    values["data"] = {"train": [{"builtin": "scenes", "count": 5, "questions": 2}]}
    values["model"] = {"family": "image_answerer", "encoder": {"family": "convolutional", "width": 8}}
    report = examine(recipe_from_json(values, "recipe"))
    assert {finding.kind for finding in report.findings} == {"no_validation"}
    assert report.sizes == {"64 x 64": 5}
    assert [(one.rows, one.unit) for one in report.corpora] == [(10, "questions")]
    assert [side.side for side in report.pieces.sides] == ["text"]
    assert [*report.run.tokens_per_epoch] == ["patches and words"]
    values["data"] = {part: [{"builtin": "scenes", "count": 5}] for part in ("train", "valid")}  # the same images
    values["model"] |= {"family": "captioner", "decoder": {"family": "recurrent", "width": 8}}
    found = check_data(recipe_from_json(values, "recipe"), lambda message: None).findings
    assert "images that are also in train, pixel by pixel: 5 of 5" in {finding.what for finding in found}


def test_images_that_training_refuses_are_reported_without_a_run(photos: Path) -> None:
    _truncate(photos)
    recipe = recipe_from_json(values_of(photos), "recipe")
    with pytest.raises(UntrainableError, match=r"03.png") as caught:
        examine(recipe)
    assert caught.value.report.findings[0].kind == "unreadable_images"
    assert [one.rows for one in caught.value.report.corpora] == [72, 54, 12]
    with pytest.warns(DeprecationWarning, match=r"`heedful.doctor.examination.examine` now"):
        assert examine_images(recipe) == caught.value.report
    (photos / "train/cat/03.png").unlink()
    with pytest.warns(DeprecationWarning, match="examine_images"):
        assert examine_images(recipe).findings == ()
