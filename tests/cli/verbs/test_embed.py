"""`heedful embed` as a user sees it."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.models.text import classifier_recipe, fresh_classifier, written
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.tasks.classify.model import load_classifier
from heedful.tasks.shared.embeddings import Vectors
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]
CAPTIONER = Path(__file__).parents[2] / "golden" / "bundles" / "captions-recurrent"
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


def test_a_translator_writes_vectors_of_sources_and_of_the_rows_of_a_file(
    reversing: Translator, reversing_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    texts = ["ant bee", "", "hen"]
    (tmp_path / "in.tsv").write_text("".join(f"{text}\tx\n" for text in texts))
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    expected = reversing.embed(texts)
    assert run(["embed", str(reversing_folder), str(tmp_path / "in.txt"), "--device", "cpu"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["text"] for one in lines] == texts
    np.testing.assert_allclose([one["vector"] for one in lines], expected, atol=1e-4)
    out = tmp_path / "vectors.npy"
    rows = ["--data", str(tmp_path / "in.tsv"), "--set", "data.source=1"]
    assert run(["embed", str(reversing_folder), *rows, "--device", "cpu", "-o", str(out)]) == 0
    np.testing.assert_allclose(np.load(out), expected, atol=1e-5)


def test_mistakes(films: Path, tmp_path: Path, capsys: Capture) -> None:
    assert refused(capsys, "no-model", "-o", tmp_path / "x.csv") == (
        f"{tmp_path}/x.csv: vectors are written as .json, .jsonl, .npy, .npz, .safetensors, not as .csv."
    )
    assert refused(capsys, CAPTIONER, "scene.png") == (
        f"{CAPTIONER} is a model that describes images: vectors of texts come from models of texts, and those of "
        "images from their classifiers and regressors."
    )
    assert refused(capsys, films, "a text", "--to", "de") == (
        f"--to is for translators, which {films} is not: leave it out."
    )
    assert refused(capsys, films, "a text", "--layer", "7").startswith("`layer` is 7, but the encoder has 1 layers")


def test_texts_that_are_cut_are_counted(films: Path, tmp_path: Path, capsys: Capture) -> None:
    limit = load_classifier(films, "cpu").recipe.data.max_length
    told = f"heedful: 1 of 2 texts were longer than the model reads ({limit:,} tokens), and were cut at the end: ..."
    for name in ("it.npy", "it.jsonl"):
        assert embed(films, "--text", "film " * (limit + 1), "--text", "film", "-o", tmp_path / name) == 0
        assert capsys.readouterr().err.splitlines() == [like(told)]
