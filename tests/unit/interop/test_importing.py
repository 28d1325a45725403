"""A folder becomes a bundle, or stays what it is."""

from pathlib import Path

import pytest
import torch
from tests.unit.interop.marian_folders import Change

from heedful.base.errors import UserError
from heedful.interop.importing import READERS, import_model
from heedful.models.bundle import read_bundle


def refusal(folder: Path, out: Path) -> str:
    with pytest.raises(UserError) as caught:
        import_model(folder, out)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_bundle_is_written_that_reads_as_what_was_imported(folder: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = import_model(folder, tmp_path / "out")
    bundle = read_bundle(tmp_path / "out")
    assert found.model_type == "marian"
    assert found.parameters == sum(parameter.numel() for parameter in bundle.model.parameters())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".places",  # where it was imported from, which is no part of the model
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.source.json",
        "tokenizer.target.json",
    ]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_importing_twice_gives_the_same_weights(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        import_model(folder, tmp_path / name)
    one, other = (read_bundle(tmp_path / name).model.state_dict() for name in ("a", "b"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_card_says_where_the_model_comes_from(folder: Path, tmp_path: Path) -> None:
    import_model(folder, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"imported from {folder.name}, a marian model of `transformers`, training data unknown.\n" in card
    assert "It was not validated." in card
    assert "heedful translate out < text.txt" in card


def test_models_of_other_types_are_refused(folder: Path, tmp_path: Path, change: Change) -> None:
    change(model_type="t5")
    assert refusal(folder, tmp_path / "out") == (
        f"{folder}/config.json: `model_type` is t5, but Heedful imports {', '.join(READERS)}."
    )
    assert not (tmp_path / "out").exists()


def test_a_place_that_is_taken_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("mine")
    assert refusal(folder, tmp_path / "notes") == f"{tmp_path}/notes already holds files: choose another folder."
    import_model(folder, tmp_path / "out")
    assert refusal(folder, tmp_path / "out") == f"{tmp_path}/out already holds a model: choose another folder."
    assert refusal(folder, tmp_path / "notes/mine.txt") == (
        f"{tmp_path}/notes/mine.txt: a file exists where a folder must be: choose another folder."
    )


def test_a_failed_import_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "vocab.json").unlink()
    before = sorted(tmp_path.iterdir())
    refusal(folder, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before
