"""Images from every kind of corpus that has them."""

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import TypeAdapter
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import AnyCorpus
from heedful.data.corpora.files import check_files
from heedful.data.corpora.images import read_images

_CORPUS: TypeAdapter[Any] = TypeAdapter(AnyCorpus)
DIGITS = np.random.default_rng(3).integers(0, 256, (6, 5, 4), dtype=np.uint8)
LABELS = np.array([7, 1, 7, 0, 1, 10], np.uint8)


def _idx(values: np.ndarray[Any, Any]) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The same six images in every form."""
    (tmp_path / "x.gz").write_bytes(gzip.compress(_idx(DIGITS)))
    (tmp_path / "y").write_bytes(_idx(LABELS))
    np.savez(tmp_path / "both.npz", x=DIGITS, y=LABELS)
    rows = []
    for number, (pixels, label) in enumerate(zip(DIGITS, LABELS, strict=True)):
        path = tmp_path / "digits" / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        rows.append((str(path.relative_to(tmp_path)), str(label)))
    (tmp_path / "rows.csv").write_text("path,digit\n" + "".join(f"{path},{label}\n" for path, label in rows))
    (tmp_path / "rows.tsv").write_text("".join(f"{label}\t{path}\n" for path, label in rows))
    objects = [json.dumps({"file": path, "digit": int(label)}) for path, label in rows]
    (tmp_path / "rows.jsonl").write_text("\n\n".join(objects) + "\n")
    return tmp_path


FORMS: dict[str, dict[str, Any]] = {
    "idx": {"idx": "x.gz", "labels": "y"},
    "npz": {"npz": "both.npz"},
    "folder": {"images": "digits"},
    "csv": {"csv": "rows.csv", "image": "path", "label": "digit"},
    "tsv": {"tsv": "rows.tsv", "image": 2, "label": 1},
    "jsonl": {"jsonl": "rows.jsonl", "image": "file", "label": "digit"},
}


def _read(folder: Path, **keys: Any) -> list[tuple[str, bytes]]:
    corpus = _CORPUS.validate_python(keys)
    check_files(corpus, str(folder))
    return [(image.label, image.pixels(1).tobytes()) for image in read_images(corpus, str(folder))]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_images_and_labels(files: Path, form: str) -> None:
    wanted = [(str(label), pixels.tobytes()) for label, pixels in zip(LABELS, DIGITS, strict=True)]
    assert sorted(_read(files, **FORMS[form])) == sorted(wanted)
    if form != "folder":
        assert _read(files, **FORMS[form]) == wanted


def test_lines_and_samples_are_parts_of_the_images(files: Path) -> None:
    everything = _read(files, **FORMS["idx"])
    assert _read(files, **FORMS["idx"], lines="2-4") == everything[1:4]
    sample = _read(files, **FORMS["idx"], sample=3)
    assert len(sample) == 3
    assert sorted(sample) == sorted(_read(files, **FORMS["npz"], sample=3))
    with refuses("...has 6 images, but `sample` is 9: lower it."):
        _read(files, **FORMS["npz"], sample=9)


def test_scenes_have_the_label_that_is_asked_for() -> None:
    corpus = _CORPUS.validate_python({"builtin": "scenes", "count": 20, "label": "colour"})
    found = [*read_images(corpus)]
    assert len(found) == 20
    assert {image.label for image in found} <= {
        "red", "green", "blue", "yellow", "purple", "orange", "cyan", "white"
    }  # fmt: skip
    assert found[0].pixels(3).shape == (64, 64, 3)
    assert found[0].pixels(1).shape == (64, 64, 1)


def test_arrays_and_scenes_have_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "prices.npz", x=DIGITS, y=LABELS, price=np.arange(6) / 2)
    for keys, labels in (({}, [()] * 6), ({"label": "y"}, [(str(label),) for label in LABELS])):
        found = [*read_images(_CORPUS.validate_python({"npz": "prices.npz", "number": "price", **keys}), str(tmp_path))]
        assert [(image.number, image.labels) for image in found] == [*zip(np.arange(6) / 2, labels, strict=True)]
    scenes = [*read_images(_CORPUS.validate_python({"builtin": "scenes", "count": 20}))]
    assert {(image.number, image.label) for image in scenes} == {(3, "three"), (4, "four"), (5, "five")}


# --- refused ----------------------------------------------------------------------------------------------------------


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    with refuses("...none: no such folder..."):
        _read(tmp_path, images="none")
    (tmp_path / "flat").mkdir()
    Image.new("L", (3, 3)).save(tmp_path / "flat" / "a.png")
    (tmp_path / "flat" / "empty").mkdir()
    with refuses(
        "...flat has 1 image, but no folders with images (.png, .jpg or .webp): make one folder in it "
        "for each class, whose name is the label."
    ):
        _read(tmp_path, images="flat")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (",3", "rows.csv, line 2 has no path of an image: ..."),
        ("a.png, ", "rows.csv, line 2 has no label: every image needs one."),
        ("a.png,3", "a.png, which is not a file."),
    ],
)
def test_a_row_without_an_image_or_a_label_is_refused(tmp_path: Path, row: str, why: str) -> None:
    (tmp_path / "rows.csv").write_text(f"path,digit\n{row}\n")
    with refuses(f"...{why}"):
        _read(tmp_path, **FORMS["csv"])


def test_a_file_where_a_folder_is_meant_is_refused(files: Path) -> None:
    with refuses("...rows.csv: this is a file, but must be a folder."):
        _read(files, images="rows.csv")
