"""`heedful.quantize`: a copy of a model in int8, which computes in int8 to the same bits as its original."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.golden.answers import answers
from tests.shared.refusals import refuses
from torch import Tensor

import heedful
from heedful.models.bundle import read_bundle
from heedful.native.int8 import Int8Linear, count_parameters, int8_weights

BUNDLES = Path(__file__).parents[2] / "golden/bundles"
COVERING = (
    "transformer", "recurrent-bahdanau", "mixed", "language-llama", "language-recurrent", "images-vit", "parser",
    "tagger-recurrent-letters-crf", "classifier-bag", "reader",
)  # fmt: skip
MODELS = [
    pytest.param(folder.name, marks=() if folder.name in COVERING else pytest.mark.wide)
    for folder in sorted(BUNDLES.iterdir())
    if folder.is_dir()
]


def everything(network: torch.nn.Module) -> dict[str, Tensor]:
    """All weights of a network, with those of its maps in int8."""
    maps = {name: module.quantized for name, module in network.named_modules() if isinstance(module, Int8Linear)}
    whole = {f"{name}.{part}": tensor for name, found in maps.items() for part, tensor in found._asdict().items()}
    return whole | dict(network.named_parameters())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_every_kind_computes_the_same_in_int8_from_the_original_and_from_the_copy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, copy = BUNDLES / name, heedful.quantize(BUNDLES / name, tmp_path / "copy")
    asked = json.loads((BUNDLES / f"{name}.json").read_text())["asked"]
    theirs = heedful.load(original, device="cpu", precision="int8")
    ours: Any = heedful.load(copy, device="cpu")
    assert ours.precision == theirs.precision == torch.int8
    expected, found = everything(theirs.network), everything(ours.network)
    assert expected.keys() == found.keys()
    assert all(torch.equal(tensor, found[key]) for key, tensor in expected.items())
    assert count_parameters(ours.network) == sum(
        each.numel() for each in read_bundle(copy, torch.nn.Module).model.parameters()
    )
    said = []
    for model in (theirs, ours):  # which answers have the same bits, whatever such models are asked
        monkeypatch.setattr(heedful, "load", lambda *given, model=model, **options: model)
        said.append(answers(copy, asked))
    assert said[0] == said[1]


def test_the_copy_holds_one_byte_per_weight_and_one_scale_per_row(tmp_path: Path) -> None:
    original = BUNDLES / "transformer"
    before = load_file(original / "model.safetensors")
    after = load_file(heedful.quantize(original, tmp_path / "copy") / "model.safetensors")
    in_int8 = int8_weights(read_bundle(original).model)
    assert len(in_int8) > 10
    assert set(after) == set(before) | {f"{name}.scale" for name in in_int8}
    for name, weight in before.items():
        stored = after[name]
        if name in in_int8:
            assert (stored.dtype, after[f"{name}.scale"].shape) == (torch.int8, weight.shape[:1])
            assert int(stored.abs().max()) == 127
        else:
            assert torch.equal(stored, weight)


def test_the_card_says_what_was_quantized_and_the_recipe_that_int8_is_usual(tmp_path: Path) -> None:
    folder = heedful.quantize(BUNDLES / "transformer", tmp_path / "copy")
    card = (folder / "README.md").read_text()
    assert (
        ":\nthe weights of transformer, 91.7% of them quantized to int8 with one scale per row of a matrix.\n" in card
    )
    assert "# copy\n\nA transformer of 5,408 parameters" in card
    ours, theirs = (read_bundle(path) for path in (folder, BUNDLES / "transformer"))
    assert ours.recipe.decode.precision == "int8"
    assert ours.recipe.model_copy(update={"decode": theirs.recipe.decode}) == theirs.recipe
    assert ours.vocabularies.first_difference(theirs.vocabularies) is None


def test_to_quantize_a_copy_again_changes_nothing(tmp_path: Path) -> None:
    once = heedful.quantize(BUNDLES / "transformer", tmp_path / "once")
    twice = heedful.quantize(once, tmp_path / "twice")
    assert (once / "model.safetensors").read_bytes() == (twice / "model.safetensors").read_bytes()


def test_a_copy_is_averaged_and_read_in_other_precisions_as_floats(tmp_path: Path) -> None:
    folder = heedful.quantize(BUNDLES / "transformer", tmp_path / "copy")
    rounded = dict(read_bundle(folder).model.named_parameters())
    assert all(weight.dtype == torch.float32 for weight in rounded.values())
    for precision in (torch.float32, torch.bfloat16):
        model = heedful.load(folder, device="cpu", precision=str(precision).removeprefix("torch."))
        assert model.precision == precision
    heedful.average([folder, BUNDLES / "transformer"], tmp_path / "mean")
    original = dict(read_bundle(BUNDLES / "transformer").model.named_parameters())
    for name, weight in read_bundle(tmp_path / "mean").model.named_parameters():
        expected = (rounded[name].double() + original[name].double()) / 2
        assert torch.equal(weight, expected.float())


def test_a_folder_that_is_used_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with refuses(f"{tmp_path} already holds files: choose..."):
        heedful.quantize(BUNDLES / "transformer", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_is_no_model_or_a_damaged_one_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with refuses("nowhere is not a folder: a model is a folder that..."):
        heedful.quantize("nowhere", tmp_path / "copy")
    damaged = shutil.copytree(BUNDLES / "transformer", tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"not weights")
    with refuses(f"{damaged / 'model.safetensors'} is damaged (..."):
        heedful.quantize(damaged, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_weights_in_int8_belong_to_their_config(tmp_path: Path) -> None:
    folder = heedful.quantize(BUNDLES / "transformer", tmp_path / "copy")
    other = heedful.quantize(BUNDLES / "transformer-kernel", tmp_path / "other")
    shutil.copy(other / "model.safetensors", folder)
    with refuses(f"{folder / 'model.safetensors'} does not fit its config.json: ..."):
        read_bundle(folder)
