import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.data.token_store import Ragged, Sentences, StreamType, TokenStore, id_stream, open_store, write_store

SOURCE = [[5, 6, 7], [], [8], [9, 10]]
TARGET = [[1], [2, 3], [4, 5, 6], [7]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def chunk(**streams: Sentences) -> dict[str, Ragged]:
    return {stream: Ragged.of(sentences) for stream, sentences in streams.items()}


def written(folder: Path, vocabulary: int = 100) -> TokenStore:
    chunks = [
        chunk(source=SOURCE[:1], target=TARGET[:1]),
        chunk(source=[], target=[]),
        chunk(source=SOURCE[1:], target=TARGET[1:]),
    ]
    write_store(
        folder, "key", {"source": id_stream(vocabulary), "target": id_stream(100)}, chunks, Counter({"too long": 3})
    )
    store = open_store(folder, "key")
    assert store is not None
    return store


def test_what_was_written_is_read(folder: Path) -> None:
    store = written(folder)
    assert len(store) == 4
    assert [store.sentence("source", i).tolist() for i in range(4)] == SOURCE
    assert [store.sentence("target", i).tolist() for i in range(4)] == TARGET
    assert store.lengths("source").tolist() == [3, 0, 1, 2]
    assert (store.key, store.dropped) == ("key", {"too long": 3})


@pytest.mark.parametrize("rows", [[3, 0, 0, 1, 2], [1], []])
def test_gathering_equals_one_by_one(folder: Path, rows: list[int]) -> None:
    for store in (written(folder), TokenStore.of(source=SOURCE, target=TARGET)):
        values, lengths = store.gather("source", np.array(rows, np.int64))
        assert values.tolist() == [token for row in rows for token in SOURCE[row]]
        assert lengths.tolist() == [len(SOURCE[row]) for row in rows]
        assert store.lengths("source", np.array(rows, np.int64)).tolist() == lengths.tolist()


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_ids_take_two_bytes_where_they_fit(folder: Path, vocabulary: int, dtype: type) -> None:
    store = written(folder, vocabulary)
    assert store.streams["source"].values.dtype == dtype
    assert [store.sentence("source", i).tolist() for i in range(4)] == SOURCE


def test_the_largest_id_survives(folder: Path) -> None:
    write_store(folder, "key", {"text": id_stream(65_536)}, [chunk(text=[[65_535]])], Counter())
    store = open_store(folder, "key")
    assert store is not None
    assert store.sentence("text", 0).tolist() == [65_535]


def test_values_are_mapped_not_read(folder: Path) -> None:
    values = written(folder).streams["source"].values
    assert isinstance(values.base, np.memmap)
    assert not values.flags.writeable


def test_an_empty_store(folder: Path) -> None:
    write_store(folder, "key", {"source": id_stream(9), "target": id_stream(9)}, [], Counter())
    store = open_store(folder, "key")
    assert store is not None
    assert len(store) == 0


@pytest.mark.parametrize("file", ["meta.json", "source.values", "target.offsets"])
@pytest.mark.parametrize("fault", ["missing", "cut", "longer"])
def test_a_damaged_store_is_none(folder: Path, file: str, fault: str) -> None:
    written(folder)
    path = folder / file
    data = path.read_bytes()
    match fault:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(data[:-3])
        case _:
            path.write_bytes(data + b"12345678")
    assert open_store(folder, "key") is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"format": 1', '"format": 0'),
        ('"key": "key"', '"key": "other"'),
        ('"sentences": 4', '"sentences": 3'),
        ('"uint16"', '"float64"'),
        ('"uint16"', '"object"'),
        ('"streams"', '"rivers"'),
        ('"tokens": 6', '"tokens": "6"'),
        ('"dropped": {', '"dropped": 5, "x": {'),
    ],
)
def test_a_strange_description_is_none(folder: Path, old: str, new: str) -> None:
    written(folder)
    meta = folder / "meta.json"
    assert old in meta.read_text()
    meta.write_text(meta.read_text().replace(old, new))
    assert open_store(folder, "key") is None


def test_offsets_that_do_not_end_with_the_values_are_none(folder: Path) -> None:
    written(folder)
    np.array([0, 3, 3, 4, 5], np.int64).tofile(folder / "source.offsets")
    assert open_store(folder, "key") is None


def test_streams_of_different_sizes_are_none(folder: Path) -> None:
    write_store(
        folder,
        "key",
        {"source": id_stream(9), "target": id_stream(9)},
        [chunk(source=[[1]], target=[[1], [2]])],
        Counter(),
    )
    assert open_store(folder, "key") is None


def test_a_folder_that_is_not_there_is_none(folder: Path) -> None:
    assert open_store(folder / "nowhere", "key") is None


# --- items that are no ids --------------------------------------------------------------------------------------------

IMAGE = StreamType(np.dtype(np.uint8), (28, 28))
VECTOR = StreamType(np.dtype(np.float32), (64,))
RANDOM = np.random.default_rng(5)
IMAGES = [RANDOM.integers(0, 256, (1, 28, 28), np.uint8) for _ in range(4)]  # one item per row
VECTORS = [RANDOM.random((length, 64), np.float32) for length in (3, 0, 5, 1)]


def seen(folder: Path) -> TokenStore:
    """Images, sequences of vectors, and their ids, in two chunks."""
    chunks = [
        {
            "image": Ragged.of_arrays(IMAGES[part], IMAGE),
            "vectors": Ragged.of_arrays(VECTORS[part], VECTOR),
            "target": Ragged.of(TARGET[part]),
        }
        for part in (slice(0, 3), slice(3, 4))
    ]
    types = {"image": IMAGE, "vectors": VECTOR, "target": id_stream(100)}
    write_store(folder, "key", types, chunks, Counter())
    store = open_store(folder, "key")
    assert store is not None
    return store


def test_images_and_vectors_come_back_with_their_types(folder: Path) -> None:
    store = seen(folder)
    for stream, rows, kind in (("image", IMAGES, IMAGE), ("vectors", VECTORS, VECTOR)):
        assert store.streams[stream].values.dtype == kind.dtype
        for number, row in enumerate(rows):
            assert np.array_equal(store.sentence(stream, number), row)
        assert store.lengths(stream).tolist() == [len(row) for row in rows]
    assert [store.sentence("target", i).tolist() for i in range(4)] == TARGET


def test_images_and_vectors_are_gathered_like_ids(folder: Path) -> None:
    store, rows = seen(folder), np.array([2, 0, 1, 2])
    values, lengths = store.gather("vectors", rows)
    assert lengths.tolist() == [5, 3, 0, 5]
    assert np.array_equal(values, np.concatenate([VECTORS[row] for row in rows]))
    assert store.gather("image", rows)[0].shape == (4, 28, 28)


def test_only_items_with_a_shape_say_it(folder: Path) -> None:
    seen(folder)
    streams = json.loads((folder / "meta.json").read_text())["streams"]
    assert streams["image"] == {"dtype": "uint8", "shape": [28, 28], "sentences": 4, "tokens": 4}
    assert streams["target"] == {"dtype": "uint16", "sentences": 4, "tokens": 7}


def test_a_stream_without_rows_keeps_its_shape(folder: Path) -> None:
    write_store(folder, "key", {"image": IMAGE}, [{"image": Ragged.of_arrays([], IMAGE)}], Counter())
    store = open_store(folder, "key")
    assert store is not None
    assert store.streams["image"].values.shape == (0, 28, 28)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"uint8"', '"int64"'), ('"uint8"', '"complex64"'), ("28,", "27,"), ("28,", "-28,"), ("28,", '"28",')],
)
def test_a_strange_type_is_none(folder: Path, old: str, new: str) -> None:
    seen(folder)
    meta = folder / "meta.json"
    assert old in meta.read_text()
    meta.write_text(meta.read_text().replace(old, new))
    assert open_store(folder, "key") is None


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        (np.int64, (), r"^a stream holds uint8, uint16, uint32, float32, not int64$"),
        (np.uint8, (0,), r"^the shape of an item must be positive whole numbers, not \(0,\)$"),
    ],
)
def test_a_type_that_no_store_holds_is_refused(dtype: type, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamType(np.dtype(dtype), shape)


def test_items_of_another_shape_or_kind_are_refused(folder: Path) -> None:
    with refuses("items of shape (28, 28) in a stream of shape (64,)", ValueError):
        write_store(folder, "key", {"x": VECTOR}, [{"x": Ragged.of_arrays(IMAGES, IMAGE)}], Counter())
    with refuses("...Cannot cast...", TypeError):
        write_store(
            folder,
            "key",
            {"x": StreamType(np.dtype(np.uint8), (64,))},
            [{"x": Ragged.of_arrays(VECTORS, VECTOR)}],
            Counter(),
        )
