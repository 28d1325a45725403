"""`heedful embed` as a user sees it."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.text_models import classifier_recipe, fresh_classifier, written

from heedful.cli.main import run
from heedful.tasks.classify.model import load_classifier
from heedful.tasks.shared.embeddings import Vectors

Capture = pytest.CaptureFixture[str]
TEXTS = ["The film was great .", "", "The plot was dull . The cast was awful ."]


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embed")
    return written(fresh_classifier(classifier_recipe(folder)), folder / "films")


@pytest.fixture(scope="module")
def vectors(films: Path) -> Vectors:
    return load_classifier(films, "cpu").embed(TEXTS, pool="max")


def embed(model: Path, *arguments: str | Path) -> int:
    return run(["embed", str(model), "--device", "cpu", "--pool", "max", *map(str, arguments)])


def test_one_object_per_text_in_order(films: Path, vectors: Vectors, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n")
    assert embed(films, tmp_path / "in.txt") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["text"] for one in found] == TEXTS
    np.testing.assert_allclose([one["vector"] for one in found], vectors, atol=1e-4)
    assert not any(found[1]["vector"])
    assert embed(films, tmp_path / "in.txt", "--json") == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == found
    assert refused(capsys, films, tmp_path / "in.txt", "--json", "-o", "x.npy") == (
        "x.npy holds an array, and --json writes one object per line: leave out one of them."
    )


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_an_array_in_a_file(films: Path, vectors: Vectors, tmp_path: Path, capsys: Capture, suffix: str) -> None:
    out = tmp_path / f"vectors{suffix}"
    assert embed(films, *(argument for text in TEXTS for argument in ("--text", text)), "-o", out) == 0
    assert capsys.readouterr().out == ""
    found = load_file(out)["vectors"] if suffix == ".safetensors" else np.load(out)
    np.testing.assert_allclose(found["vectors"] if suffix == ".npz" else found, vectors, atol=1e-5)


def test_no_texts_make_an_array_without_rows(films: Path, vectors: Vectors, tmp_path: Path) -> None:
    (tmp_path / "in.txt").touch()
    assert embed(films, tmp_path / "in.txt", "-o", tmp_path / "none.npy") == 0
    assert np.load(tmp_path / "none.npy").shape == (0, vectors.shape[1])


def refused(capsys: Capture, *arguments: str | Path) -> str:
    assert run(["embed", *map(str, arguments)]) == 2
    return capsys.readouterr().err.removeprefix("heedful: error: ").rstrip("\n")


def test_mistakes(films: Path, reversing_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert refused(capsys, "no-model", "-o", tmp_path / "x.csv") == (
        f"{tmp_path}/x.csv: vectors are written as .json, .jsonl, .npy, .npz, .safetensors, not as .csv."
    )
    assert refused(capsys, reversing_folder, "ant bee") == (
        f"{reversing_folder} is a model that translates: vectors of texts come from classifiers and language models."
    )
    assert refused(capsys, films, "a text", "--layer", "7").startswith("`layer` is 7, but the encoder has 1 layers")
