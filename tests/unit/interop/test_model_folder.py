"""What is read of a folder, and one line for everything that is not, or that would have to be run."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.unit.interop.marian_folders import Change

from heedful.base.errors import UserError
from heedful.interop.transformers.model_folder import open_folder


def read(folder: Path) -> str:
    """Read all that every model is asked for."""
    opened = open_folder(folder)
    opened.weights()
    return opened.model_type


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        read(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_weights_in_shards_are_those_of_one_file(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for shard, its in shards.items():
        save_file({name: tensors[name] for name in its}, folder / shard)
    index = {"weight_map": {name: shard for shard, its in shards.items() for name in its}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    weights = open_folder(folder).weights()
    for name in names:
        assert torch.equal(weights.take(name, *tensors[name].shape), tensors[name])
    weights.refuse_rest()


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "nothing"):
        assert refusal(path) == f"{path} is not a folder: choose one with a model's config.json and weights."


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (
        f"{tmp_path} has no config.json: choose a folder written by `save_pretrained` of `transformers`."
    )


def test_a_config_that_is_no_object_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("[]")
    assert (
        refusal(folder)
        == f"{folder}/config.json must contain a JSON object, but contains something else: copy it again."
    )
    (folder / "config.json").write_text("{")
    assert refusal(folder).startswith(f"{folder}/config.json is not JSON (")


def test_a_config_of_something_else_is_refused(folder: Path, change: Change) -> None:
    change(model_type=None)
    assert refusal(folder) == f"{folder}/config.json has no `model_type`: it is not a model of `transformers`."


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_that_a_config_asks_for_is_refused(folder: Path, change: Change, name: str) -> None:
    change(name, auto_map={"AutoModel": "modeling_mine.Mine"})
    assert refusal(folder) == (
        f"{folder}/{name}: `auto_map` asks to run the model's own code, which Heedful never does."
    )


@pytest.mark.parametrize("name", ["modeling_mine.py", "configuration_mine.py", "tokenization_mine.py"])
def test_code_beside_the_weights_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text("raise SystemExit")
    assert refusal(folder) == f"{folder} contains {name}, the model's own code, which Heedful never runs."


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt", "model.pth", "model.pkl"])
def test_pickles_are_refused_unread(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Explosive()))
    assert refusal(folder) == (
        f"{folder} holds its weights as a pickle ({name}), which can run code: load it in `transformers`, and save it "
        "with `save_pretrained(..., safe_serialization=True)`."
    )


class Explosive:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise AssertionError('a pickle was loaded')",)


def test_a_pickle_beside_safetensors_is_ignored(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Explosive()))
    open_folder(folder).weights()


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert refusal(folder) == f"{folder} has no model.safetensors: copy it there."


def test_damaged_weights_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    assert refusal(folder).startswith(f"{path} is damaged (")
    assert refusal(folder).endswith("): copy it again.")


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/tmp/secret.safetensors", "model.bin", "part/a.safetensors"]
)
def test_an_index_names_safetensors_of_its_folder_alone(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    assert refusal(folder) == f"{index} names `{name}`, but may only name safetensors files in the same folder."


def test_a_damaged_index_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text("{}")
    assert refusal(folder) == f"{index} has no `weight_map`, which lists the weight files: copy it again."
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    assert refusal(folder) == f"{folder}/model-1.safetensors: no such file."
