"""Images and labels in idx and npz files."""

import gzip
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.data.images.arrays import as_images, as_labels, as_numbers, read_idx, read_npz

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def _idx(values: np.ndarray[Any, Any], kind: int = 0x08) -> bytes:
    return bytes([0, 0, kind, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


@pytest.mark.parametrize("name", ["digits.idx3-ubyte", "digits.gz"])
def test_an_idx_file_is_read_plain_or_packed(tmp_path: Path, name: str) -> None:
    data = _idx(IMAGES)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert (read_idx(tmp_path / name) == IMAGES).all()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"label,path\n", "is not an idx file: such a file starts with two zero bytes, a type and the axes."),
        (b"", "is not an idx file: ..."),
        (_idx(IMAGES, 0x0D), "is an idx file of the type 0x0d, but must hold bytes (0x08)."),
        (_idx(IMAGES)[:-1], "holds 23 bytes, but its header promises 24: copy or download it again."),
        (_idx(IMAGES) + b"!", "holds more bytes, but its header promises 24: copy or download it again."),
        (_idx(IMAGES)[:9], "cannot be read (unpack requires a buffer of 12 bytes): copy or download it again."),
        (
            b"\0\0\x08\x02" + b"\xff" * 8,
            "holds 0 bytes, but its header promises 18,446,744,065,119,617,025: copy or download it again.",
        ),
    ],
)
def test_a_damaged_idx_file_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "digits").write_bytes(data)
    with refuses(f"...digits {why}"):
        read_idx(tmp_path / "digits")


def test_a_truncated_packed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "digits.gz").write_bytes(gzip.compress(_idx(IMAGES))[:-9])
    with refuses("...digits.gz cannot be read (...): copy or download it again."):
        read_idx(tmp_path / "digits.gz")


def test_arrays_of_an_npz_file_are_read_by_name(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "some.npz", x=IMAGES, y=np.array([4, 7]))
    assert (read_npz(tmp_path / "some.npz", "x") == IMAGES).all()
    assert read_npz(tmp_path / "some.npz", "y").tolist() == [4, 7]
    with refuses("...some.npz has no array `z`. Known: x, y."):
        read_npz(tmp_path / "some.npz", "z")


def test_objects_of_python_are_refused_before_they_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", x=np.array([{"a": 1}], dtype=object))
    with refuses("...evil.npz: `x` holds objects of Python, which could run code: save numbers or texts instead..."):
        read_npz(tmp_path / "evil.npz", "x")


def test_an_array_that_promises_more_than_it_holds_takes_no_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    data = (tmp_path / "x.npy").read_bytes().replace(b"(2, 3, 4), }      ", b"(99999999, 3, 4)} ")
    assert b"99999999" in data
    with zipfile.ZipFile(tmp_path / "big.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with refuses("...big.npz: `x` holds less than its header promises: copy or download it again."):
        read_npz(tmp_path / "big.npz", "x")


def test_an_archive_that_promises_more_than_packed_bytes_can_hold_takes_no_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    header = (tmp_path / "x.npy").read_bytes().replace(b"(2, 3, 4), }      ", b"(99999999, 3, 4)} ")
    with zipfile.ZipFile(tmp_path / "big.npz", "w") as archive:
        archive.writestr("x.npy", header)
    data = (tmp_path / "big.npz").read_bytes()
    promised = len(header).to_bytes(4, "little")
    place = data.rindex(b"PK\x01\x02") + 24  # the size of what is packed, where archives list their members
    assert data[place : place + 4] == promised
    (tmp_path / "big.npz").write_bytes(data[:place] + (1 << 31).to_bytes(4, "little") + data[place + 4 :])
    with refuses("...big.npz: `x` holds less than its header promises: ..."):
        read_npz(tmp_path / "big.npz", "x")


def test_a_file_that_is_not_npz_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.npz").write_bytes(b"not an archive")
    with refuses("...some.npz cannot be read (File is not a zip file): copy or download..."):
        read_npz(tmp_path / "some.npz", "x")


@pytest.mark.parametrize("name", ["digits", "digits.gz", "digits.npz"])
def test_pipes_are_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with refuses("...: this is a pipe or a device..."):
        read_npz(tmp_path / name, "x") if name.endswith("npz") else read_idx(tmp_path / name)


def test_a_damaged_header_of_an_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    with zipfile.ZipFile(tmp_path / "some.npz", "w") as archive:
        archive.writestr("x.npy", (tmp_path / "x.npy").read_bytes().replace(b"), }", b"((( "))
    with refuses("...some.npz cannot be read (...): copy or download it again."):
        read_npz(tmp_path / "some.npz", "x")


def test_an_archive_that_names_a_place_before_its_start_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", x=IMAGES)
    data = (tmp_path / "some.npz").read_bytes()
    place = data.rindex(b"PK\x05\x06") + 16  # where the list of members begins; a later start moves all of them back
    moved = (int.from_bytes(data[place : place + 4], "little") + 5000).to_bytes(4, "little")
    (tmp_path / "some.npz").write_bytes(data[:place] + moved + data[place + 4 :])
    with refuses("...some.npz cannot be read (it names a place before its start): copy or download it again."):
        read_npz(tmp_path / "some.npz", "x")


def test_images_may_be_gray_without_an_axis_for_it() -> None:
    assert as_images(IMAGES, "x").shape == (2, 3, 4, 1)
    assert as_images(np.zeros((2, 5, 5, 3), np.uint8), "x").shape == (2, 5, 5, 3)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            IMAGES.astype(np.float32),
            "x holds float32, but pixels must be bytes from 0 to 255 (uint8): convert them with "
            "`values.astype('uint8')`.",
        ),
        (IMAGES / 255, "x holds float64, but ...: convert them with `(255 * values).round().astype('uint8')`."),
        (
            np.zeros((2, 3, 8, 8), np.uint8),
            "x has the shape 2 x 3 x 8 x 8, but must be images x height x width, or images x height x width x 3.",
        ),
        (
            np.zeros(3, np.uint8),
            "x has the shape 3, but must be images x ...",
        ),
    ],
)
def test_other_arrays_are_not_images(values: np.ndarray[Any, Any], why: str) -> None:
    with refuses(why):
        as_images(values, "x")


def test_labels_are_numbers_or_texts_one_per_image() -> None:
    assert as_labels(np.array([3, 1], np.uint8), 2, "y") == ["3", "1"]
    assert as_labels(np.array(["cat", "dog"]), 2, "y") == ["cat", "dog"]
    with refuses("y has 2 labels, but there are 3 images: each needs one."):
        as_labels(np.array([3, 1]), 3, "y")
    with refuses("y must be labels, one whole number or text per image, not float64 of 1 axes."):
        as_labels(np.array([0.5]), 1, "y")


def test_numbers_are_finite_one_per_image() -> None:
    assert as_numbers(np.array([3, 1], np.uint8), 2, "y") == [3.0, 1.0]
    assert as_numbers(np.array([0.5, -2.0]), 2, "y") == [0.5, -2.0]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.array([0.5]), "y has 1 number, but there are 2 images: each needs one."),
        (np.array(["a", "b"]), "y must be numbers, one per image, not <U1 of 1 axes."),
        (np.array([[1.0], [2.0]]), "y must be numbers, one per image, not float64 of 2 axes."),
        (np.array([1.0, np.nan]), "y is nan for image 2, but must be a finite number."),
    ],
)
def test_other_arrays_are_not_numbers(values: np.ndarray[Any, Any], why: str) -> None:
    with refuses(why):
        as_numbers(values, 2, "y")
