"""Fine-tuning: what a run has from the model that it starts from, and what it refuses to start from."""

import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file
from tests.shared.refusals import like

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data, Tokenized
from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import load_recipe, recipe_from_json
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import read_bundle, read_description, write_description, write_weights
from heedful.models.from_recipe.network import build_model
from heedful.runs.dry_run import dry_run
from heedful.runs.fine_tuning import other_function, read_start
from heedful.runs.training_run import train

Make = Callable[..., Recipe]
MODEL = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "dropout": 0.1}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("bee cat\nant dog bee\ncat\neel ant\n" * 30)


def start(tmp_path: Path, *languages: str, joint: bool = True, **model: object) -> Path:
    """A bundle with fresh weights, and a vocabulary of four animals."""
    recipe = Recipe(
        data=Data(train=tuple(AlignedFiles(source="x", target="y", to=to) for to in languages or ("",)), max_length=8),
        tokenizer=Words(kind="word", joint=joint),
        model=TransformerModel.model_validate({**MODEL, **model}),
    )
    tokenizer = train_tokenizer(recipe.tokenizer, ["ant bee cat dog"], languages)
    other = tokenizer if joint else train_tokenizer(recipe.tokenizer, ["ant bee cat dog hen"])
    write_description(tmp_path / "start", recipe, Vocabularies({"source": tokenizer, "target": other}))
    write_weights(tmp_path / "start", build_model(recipe.pair_model, tokenizer.size, other.size))
    return tmp_path / "start"


def values(tmp_path: Path, to: str = "", **train: object) -> dict[str, Any]:
    """A recipe that starts from there and says nothing of the model."""
    corpus = {"source": "a.txt", "target": "a.txt"} | ({"to": to} if to else {})
    return {
        "data": {
            "folder": str(tmp_path),
            "train": [corpus],
            "valid": [corpus | {"lines": "1-5"}],
            "batch_tokens": 64,
            "max_length": 8,
        },
        "train": {
            "steps": 6,
            "start_from": str(tmp_path / "start"),
            "schedule": {"kind": "constant", "lr": 0.01},
            "precision": "float32",
            "device": "cpu",
            "checkpoint_every": 2,
            "validation": {"every": 6},
            **train,
        },
    }


def recipe(values: dict[str, Any]) -> Recipe:
    return recipe_from_json(values, "my.toml")


def silent() -> Console:
    return Console(file=StringIO(), width=300)


def told(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def weights(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


def refused(values: dict[str, Any], out: Path, resume: bool = False) -> str:
    with pytest.raises(UserError) as caught:
        train(recipe(values), out, resume=resume, console=silent())
    return str(caught.value)


# --- what is taken ----------------------------------------------------------------------------------------------------


def test_the_run_begins_with_the_weights_of_its_start(tmp_path: Path) -> None:
    folder = start(tmp_path)
    still = values(tmp_path, steps=1, schedule={"kind": "constant", "lr": 1e-30})
    run = train(recipe(still), tmp_path / "run", console=silent())
    before, after = weights(folder), weights(run)
    assert before.keys() == after.keys()
    assert all(np.allclose(after[name], before[name], rtol=0, atol=1e-20) for name in before)
    moved = train(recipe(values(tmp_path)), tmp_path / "moved", console=silent())
    assert not any(np.allclose(weights(moved)[name], before[name], rtol=0, atol=1e-4) for name in before)


def test_the_vocabulary_and_a_model_that_is_not_said_are_the_starts(tmp_path: Path) -> None:
    folder = start(tmp_path, norm="pre")
    run = train(recipe(values(tmp_path)), tmp_path / "run", console=silent())
    assert (run / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    old, new = read_description(folder)[0], read_description(run)[0]
    assert (new.model, new.tokenizer) == (old.model, old.tokenizer)
    assert new.train.start_from == str(folder)


def test_the_vocabulary_is_kept_though_the_recipe_says_another(tmp_path: Path) -> None:
    folder = start(tmp_path)
    console = silent()
    run = train(
        recipe({**values(tmp_path), "tokenizer": {"kind": "char", "size": 99}}), tmp_path / "run", console=console
    )
    assert (run / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert json.loads((run / "config.json").read_text())["recipe"]["tokenizer"]["kind"] == "word"
    assert read_bundle(run).vocabularies.joint
    assert '  `tokenizer.kind` stays "word", as the vocabulary is kept; the recipe says "char"' in told(console)
    assert "  `tokenizer.size` stays 50000, as the vocabulary is kept; the recipe says 99" in told(console)


def test_separate_vocabularies_stay_separate(tmp_path: Path) -> None:
    start(tmp_path, joint=False, tie="decoder")
    run = train(recipe(values(tmp_path)), tmp_path / "run", console=silent())
    assert not read_bundle(run).vocabularies.joint


def test_a_model_of_the_same_shapes_may_say_another_dropout(tmp_path: Path) -> None:
    start(tmp_path)
    console = silent()
    run = train(recipe({**values(tmp_path), "model": {**MODEL, "dropout": 0.3}}), tmp_path / "run", console=console)
    assert read_description(run)[0].model.model_dump()["dropout"] == 0.3
    assert "  `model.dropout` was 0.1 and is 0.3" in told(console)


def test_only_what_the_recipe_says_of_the_model_or_the_text_is_told(tmp_path: Path) -> None:
    """Not its data and training, which are new anyway; not what it leaves to the start."""
    folder = start(tmp_path)
    written = values(tmp_path)
    written["data"] |= {"lowercase": True}
    written |= {"decode": {"beam": 2}, "evaluate": {"bleu_tokenize": "none"}}
    differences = read_start(recipe(written)).differences
    assert differences == ("`data.lowercase` was false and is true",)
    console = silent()
    dry_run(recipe(written), console=console)
    assert told(console)[:2] == [
        f"Starting from {folder}: its weights and its vocabulary",
        "  `data.lowercase` was false and is true",
    ]


def test_a_recipe_file_may_leave_the_model_out(tmp_path: Path) -> None:
    folder = start(tmp_path)
    (tmp_path / "my.toml").write_text(
        f'[data]\ntrain = {{ source = "a.txt", target = "a.txt" }}\n[train]\nstart_from = "{folder}"\n'
    )
    started = read_start(load_recipe(tmp_path / "my.toml"))
    assert started.recipe.model == read_description(folder)[0].model
    assert started.differences == ()


def test_a_recipe_file_may_say_one_key_of_the_model(tmp_path: Path) -> None:
    folder = start(tmp_path)
    (tmp_path / "my.toml").write_text(
        f'[data]\ntrain = {{ source = "a.txt", target = "a.txt" }}\n[train]\nstart_from = "{folder}"\n'
    )
    said = read_start(load_recipe(tmp_path / "my.toml", ["model.dropout=0.25"]))
    assert said.recipe.model == read_description(folder)[0].model.model_copy(update={"dropout": 0.25})
    assert said.differences == ("`model.dropout` was 0.1 and is 0.25",)


def test_the_form_of_text_is_the_starts_unless_the_recipe_says_it(tmp_path: Path) -> None:
    folder = start(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["recipe"]["data"] |= {"lowercase": True, "tokenized": {"source": "en", "target": "de"}}
    (folder / "config.json").write_text(json.dumps(config))
    started = read_start(recipe(values(tmp_path)))
    assert started.recipe.data.lowercase
    assert started.recipe.data.tokenized == Tokenized(source="en", target="de")
    assert started.differences == ()
    written = values(tmp_path)
    written["data"] |= {"lowercase": False}
    assert read_start(recipe(written)).differences == ("`data.lowercase` was true and is false",)
    run = train(recipe(values(tmp_path, steps=2)), tmp_path / "run", console=silent())
    assert read_description(run)[0].data.lowercase
    train(recipe(values(tmp_path, steps=3)), run, resume=True, console=silent())
    assert read_description(run)[0].data.lowercase


def test_the_home_folder_may_be_written_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = start(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    started = read_start(recipe(values(tmp_path, start_from="~/start")))
    assert started.vocabularies["source"].to_json() == (folder / "tokenizer.json").read_bytes()


def test_a_dry_run_starts_there_too_and_writes_nothing(tmp_path: Path) -> None:
    folder = start(tmp_path)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    forecast = dry_run(recipe(values(tmp_path)), console=silent())
    assert forecast.parameters == sum(tensor.size for tensor in weights(folder).values())
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


# --- resume -----------------------------------------------------------------------------------------------------------


def test_resume_is_exact_and_needs_the_start_no_more(tmp_path: Path) -> None:
    """Its [model] was left out; what the recipe says of the tokenizer was told once and is no difference."""
    start(tmp_path)
    written = values(tmp_path) | {"tokenizer": {"kind": "char"}}
    whole = train(recipe(written), tmp_path / "whole", console=silent())
    shorter = {**written, "train": written["train"] | {"steps": 4, "validation": {"every": 6}}}
    train(recipe(shorter), tmp_path / "run", console=silent())
    shutil.rmtree(tmp_path / "start")
    run = train(recipe(written), tmp_path / "run", resume=True, console=silent())
    last = "checkpoints/step-00000006"
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (run / last / name).read_bytes() == (whole / last / name).read_bytes()
    assert read_description(run)[0].tokenizer.kind == "word"


def test_resume_with_another_model_or_another_start_is_refused(tmp_path: Path) -> None:
    start(tmp_path)
    written = values(tmp_path, steps=2) | {"model": MODEL}
    run = train(recipe(written), tmp_path / "run", console=silent())
    assert refused({**written, "model": {**MODEL, "dropout": 0.4}}, run, resume=True) == (
        f"{run} was trained with `model.dropout` = 0.1, but the recipe says 0.4: "
        "resume with the same recipe, or train into another folder."
    )
    elsewhere = {**written, "train": written["train"] | {"start_from": "elsewhere"}}
    assert "with `train.start_from` = " in refused(elsewhere, run, resume=True)
    train(recipe(values(tmp_path, steps=3)), run, resume=True, console=silent())  # nothing is said of the model


# --- what is refused --------------------------------------------------------------------------------------------------


def test_other_shapes_are_refused_with_the_difference(tmp_path: Path) -> None:
    folder = start(tmp_path)
    written = values(tmp_path) | {"model": {**MODEL, "inner": 32, "layers": 2}}
    assert refused(written, tmp_path / "run") == like(
        f"The shapes of {folder} are not those of the recipe: `model.layers` is 1 there and 2 in the "
        "recipe, `model.inner` is 16 there and 32 in the recipe. Leave keys of [model] ..."
    )
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_does_not_fit_the_starts_model_is_refused(tmp_path: Path) -> None:
    """Each is right by itself: only together do they not fit."""
    folder = start(tmp_path, positions="learned", max_positions=9)
    written = values(tmp_path)
    written["data"]["max_length"] = 9
    assert refused(written, tmp_path / "run") == like(
        f"a recipe that starts from {folder}: `data.max_length` (9) and an end marker must ... "
        "`model.max_positions`, but that is 9."
    )
    shutil.rmtree(folder)
    start(tmp_path, joint=False, tie="decoder")
    assert refused(values(tmp_path) | {"model": {**MODEL, "tie": "all"}}, tmp_path / "run") == like(
        f'a recipe that starts from {folder}: `model.tie` must be ... `tokenizer.joint` is false, but is "all".'
    )
    train(
        recipe(values(tmp_path) | {"tokenizer": {"kind": "word", "joint": False}}), tmp_path / "run", console=silent()
    )


@pytest.mark.parametrize(
    ("key", "value", "was"), [("heads", 4, 2), ("activation", "gelu", "relu"), ("norm", "pre", "post")]
)
def test_a_model_that_would_compute_otherwise_is_refused(tmp_path: Path, key: str, value: object, was: object) -> None:
    folder = start(tmp_path)
    assert refused(values(tmp_path) | {"model": {key: value}}, tmp_path / "run") == (
        f"`model.{key}` is {json.dumps(value)}, but {folder} was trained with {json.dumps(was)}: its weights would "
        "be meaningless. Leave the key out to use the start's."
    )


def test_weights_of_convolutions_depend_on_their_dilation() -> None:
    spread, plain = (
        load_recipe("multi30k-en-de-lc", {"model.encoder_layer": "convolution", "model.dilation": factor})
        for factor in (2, 1)
    )
    assert other_function(spread, plain) == ("dilation", 2, 1)


def test_a_missing_start_is_refused(tmp_path: Path) -> None:
    assert refused(values(tmp_path), tmp_path / "run") == (
        f"`train.start_from` is {tmp_path}/start, which is not a folder: train that model first."
    )
    assert not (tmp_path / "run").exists()


def test_a_start_without_weights_is_refused(tmp_path: Path) -> None:
    folder = start(tmp_path)
    (folder / "model.safetensors").unlink()
    assert refused(values(tmp_path), tmp_path / "run").startswith(f"{folder} holds no model.safetensors yet: ")


def test_tags_are_the_starts(tmp_path: Path) -> None:
    start(tmp_path, "de", "fr")
    run = train(recipe(values(tmp_path, to="fr")), tmp_path / "run", console=silent())
    assert list(read_bundle(run).vocabularies["source"].tags) == ["de", "fr"]
    assert refused(values(tmp_path, to="cs"), tmp_path / "cs") == (
        'a.txt + a.txt: `to` is "cs", but <2cs> is not in the vocabulary: it has <2de>, <2fr>.'
    )
    assert refused(values(tmp_path), tmp_path / "none") == like(
        'a.txt + a.txt: `to` is missing, but the ... "de", "fr".'
    )


def test_a_tag_for_a_start_without_tags_is_refused(tmp_path: Path) -> None:
    start(tmp_path)
    assert refused(values(tmp_path, to="de"), tmp_path / "run") == (
        'a.txt + a.txt: `to` is "de", but <2de> is not in the vocabulary: it has no tags.'
    )
