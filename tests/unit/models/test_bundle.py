"""A bundle on disk: there and back, and one line for everything that can be wrong with one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from tests.shared.refusals import like, refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import (
    copy_weights,
    own_network_of,
    read_bundle,
    read_description,
    write_description,
    write_weights,
)
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.weights import weights_to_bytes
from heedful.version import __version__


@pytest.fixture
def folder(reversing_folder: Path, tmp_path: Path) -> Path:
    """A bundle to damage."""
    return shutil.copytree(reversing_folder, tmp_path / "bundle")


def change_config(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_bundle(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_bundle_with_separate_vocabularies_comes_back(tmp_path: Path) -> None:
    recipe = Recipe(
        data=Data(train=(AlignedFiles(source="a", target="b"),)),
        tokenizer=Words(kind="word", joint=False),
        model=TransformerModel(width=8, heads=2, layers=1, inner=8, tie="decoder"),
    )
    source = train_tokenizer(recipe.tokenizer, ["ant bee"])
    target = train_tokenizer(recipe.tokenizer, ["uno dos tres"])
    vocabularies = Vocabularies({"source": source, "target": target})
    model = build_model(recipe.pair_model, vocabularies["source"].size, vocabularies["target"].size)
    write_description(tmp_path / "new", recipe, vocabularies)
    write_weights(tmp_path / "new", model)
    read = read_bundle(tmp_path / "new")
    assert read.recipe == recipe
    assert not read.vocabularies.joint
    assert read.vocabularies["source"].to_json() == vocabularies["source"].to_json()
    assert read.vocabularies["target"].to_json() == vocabularies["target"].to_json()
    for name, parameter in model.named_parameters():
        assert torch.equal(read.model.get_parameter(name), parameter)


def test_a_description_can_be_read_before_there_are_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    recipe, vocabularies = read_description(folder)
    assert recipe.model.width == 32
    assert vocabularies.joint
    assert refusal(folder) == (
        f"{folder} holds no model.safetensors yet: training has not reached its first validation. "
        "Continue it with `heedful.train(..., resume=True)`."
    )


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    nothing, empty = tmp_path / "nothing", tmp_path / "empty"
    empty.mkdir()
    assert refusal(nothing) == f"{nothing} is not a folder: a model is a folder that `heedful train` wrote."
    assert refusal(empty) == like(f"{empty} holds no config.json: a model is a folder that ...")


def test_a_config_that_is_no_json_is_refused(folder: Path) -> None:
    (folder / "config.json").write_bytes((folder / "config.json").read_bytes()[:100])
    assert refusal(folder) == like(f"{folder}/config.json is not JSON (...): the file is damaged, ...")


def test_a_network_without_a_name_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "network": 3}))
    with refuses(f"{folder}/config.json: `network` must be a name: restore it from a copy of the model."):
        own_network_of(folder)


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": 1}'])
def test_a_config_of_something_else_is_refused(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    assert refusal(folder) == f"{folder}/config.json is not a Heedful model's config: `recipe` is missing."
    (folder / "config.json").write_text('{"model_type": "bert"}')
    assert refusal(folder) == like(
        f"{folder}/config.json is not a Heedful model's ... missing. A model of `transformers` becomes "
        "one by `heedful import`."
    )


def test_another_format_is_refused_with_the_version_that_reads_it(folder: Path) -> None:
    change_config(folder, lambda config: config.update(format=2, heedful="9.1"))
    assert refusal(folder) == (
        f"{folder}/config.json has format 2, but this Heedful ({__version__}) reads format 1: "
        "install the version that wrote it (9.1)."
    )


def test_a_model_of_another_family_is_refused(folder: Path) -> None:
    change_config(folder, lambda config: config["recipe"]["model"].update(family="rnn"))
    assert refusal(folder).startswith(f'{folder}/config.json: `model.family` is "rnn", but must be ')


def test_the_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    other = train_tokenizer(Words(kind="word"), ["ant bee cat dog eel fox gnu ibis"])  # of the same size
    (folder / "tokenizer.json").write_bytes(other.to_json())
    assert refusal(folder) == (
        f"{folder}/tokenizer.json is not the tokenizer that this model was trained with (its sha256 is not the one in "
        "config.json): restore it from a copy of the model."
    )


@pytest.mark.parametrize("listed", [[], {}, None, "x"])
def test_a_config_that_lists_no_tokenizer_is_refused(folder: Path, listed: object) -> None:
    change_config(folder, lambda config: config.update(tokenizers=listed))
    assert "is not the tokenizer that" in refusal(folder)


def test_a_missing_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    assert refusal(folder) == f"{folder}/tokenizer.json: no such file."


def test_a_damaged_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    message = refusal(folder)
    assert message.startswith(f"{folder}/tokenizer.json is not a tokenizer (")
    assert message.endswith("): restore it from a copy.")


def test_damaged_weights_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert refusal(folder).startswith(f"{path} is damaged (")
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert refusal(folder) == like(f"{path} is damaged (its sha256 is ...")


def test_the_weights_of_another_model_are_refused(folder: Path) -> None:
    change_config(folder, lambda config: config["recipe"]["model"].update(width=16))
    assert refusal(folder).startswith(f"{folder}/model.safetensors does not fit its config.json: `")


def test_a_config_of_a_model_that_no_memory_holds_is_refused_before_it_is_built(folder: Path) -> None:
    change_config(folder, lambda config: config["recipe"]["model"].update(width=100_000, heads=2))
    size = (folder / "model.safetensors").stat().st_size
    assert refusal(folder) == (
        f"{folder}/config.json describes a model of at least 20,025,600,000 parameters, but its weights have {size:,} "
        "bytes: restore both from a copy of the model."
    )


def test_a_model_that_diverged_is_refused(folder: Path) -> None:
    model = read_bundle(folder).model
    with torch.no_grad():
        next(model.parameters())[0, 0] = float("nan")
    write_weights(folder, model)
    assert refusal(folder) == (
        f"{folder} holds weights that are not finite: its training diverged. Train again, more gently."
    )


# --- what belongs together --------------------------------------------------------------------------------------------


def test_weights_say_which_config_they_belong_to(folder: Path) -> None:
    """A recipe that says the same but for what weights do not depend on is still theirs."""
    change_config(folder, lambda config: config["recipe"]["decode"].update(beam=7))
    assert read_bundle(folder).recipe.decode.beam == 7


def test_weights_of_another_config_are_refused(folder: Path) -> None:
    """The shapes are the same, and only the hash tells them apart."""
    other = shutil.copytree(folder, folder.with_name("other"))
    change_config(other, lambda config: config["recipe"]["model"].update(dropout=0.55))
    write_weights(other, read_bundle(folder).model)
    shutil.copy(other / "model.safetensors", folder / "model.safetensors")
    assert refusal(folder) == (
        f"{folder}/model.safetensors and {folder}/config.json belong to different models (their hashes differ): "
        "restore both from a copy of the model."
    )


def test_weights_that_state_no_config_are_read(folder: Path) -> None:
    """Those of earlier versions, and of other tools."""
    model = read_bundle(folder).model
    (folder / "model.safetensors").write_bytes(weights_to_bytes(model))
    assert read_bundle(folder).recipe.model.width == 32


def test_a_config_that_says_the_same_in_other_words_keeps_its_weights(folder: Path) -> None:
    """A later version may know more keys of [model] when it resumes a run."""
    recipe, vocabularies = read_description(folder)
    change_config(folder, lambda config: config["recipe"]["model"].pop("dropout_attention", None))
    write_weights(folder, read_bundle_unchecked(folder))
    write_description(folder, recipe, vocabularies)
    assert len(json.loads((folder / "config.json").read_text())["formerly"]) == 1
    read_bundle(folder)
    write_description(folder, recipe, vocabularies)
    read_bundle(folder)
    copy = folder.with_name("copy")
    write_description(copy, recipe, vocabularies)
    copy_weights(folder, copy)
    assert "formerly" not in json.loads((copy / "config.json").read_text())
    read_bundle(copy)


def read_bundle_unchecked(folder: Path) -> EncoderDecoder:
    """The model of a bundle whose config was changed."""
    (folder / "model.safetensors").write_bytes(save(load((folder / "model.safetensors").read_bytes())))
    return read_bundle(folder).model
