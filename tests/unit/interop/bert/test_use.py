"""What a user does with an imported BERT model: fills masks, trains a classifier, continues pre-training."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.models.text import film_texts, write_tsv

from heedful.cli.main import run
from heedful.interop.importing import import_model
from heedful.interop.transformers.encoders.reading import read_bert
from heedful.interop.transformers.model_folder import open_folder
from heedful.models.bundle import read_bundle
from heedful.models.networks import Classifier, MaskedModel

RECIPE = """
[data]
train = {{ tsv = "{folder}/train.tsv", label = 1, text = 2 }}
valid = {{ tsv = "{folder}/valid.tsv", label = 1, text = 2 }}
batch_tokens = 512
max_length = 64

[model]
family = "classifier"

[train]
start_from = "{folder}/ours"
steps = {steps}
optimizer = {{ kind = "adamw" }}
schedule = {{ kind = "linear", lr = 0.01, warmup = 5 }}
device = "cpu"
precision = "float32"
threads = 1
validation = {{ every = {steps}, metric = "accuracy" }}
"""


def test_a_folder_becomes_a_model_that_fills_masks(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ours"
    assert run(["import", str(folder), "--out", str(out)]) == 0
    parameters = sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
    assert capsys.readouterr().out == f"{folder} (bert, {parameters:,} parameters) is now a model of Heedful in {out}\n"
    assert f'heedful fill {out.name} "... [MASK] ..."' in (out / "README.md").read_text()
    assert run(["fill", str(out), "The old [MASK] was sold.", "--device", "cpu", "--top", "3"]) == 0
    text, *candidates = capsys.readouterr().out.splitlines()
    assert text.startswith("The old")
    assert text.endswith("was sold.")
    assert len(candidates) == 3


def test_a_classifier_learns_from_an_imported_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    import_model(folder, tmp_path / "ours")
    for number, name in enumerate(("train", "valid")):
        write_tsv(tmp_path / f"{name}.tsv", film_texts(80, seed=number))
    (tmp_path / "films.toml").write_text(RECIPE.format(folder=tmp_path, steps=60))
    assert run(["train", str(tmp_path / "films.toml"), "--out", str(tmp_path / "films")]) == 0
    start, made = read_bundle(tmp_path / "ours", MaskedModel), read_bundle(tmp_path / "films", Classifier)
    assert made.vocabularies["text"].fingerprint == start.vocabularies["text"].fingerprint
    assert made.vocabularies.labels == ("neg", "pos")
    assert made.model.get_parameter("pooler.linear.weight").shape == (16, 16)
    *_, validated = (tmp_path / "films/metrics.jsonl").read_text().splitlines()
    assert json.loads(validated)["accuracy"] > 0.85


def test_a_classifier_starts_with_the_imported_weights(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    import_model(folder, tmp_path / "ours")
    for number, name in enumerate(("train", "valid")):
        write_tsv(tmp_path / f"{name}.tsv", film_texts(20, seed=number))
    (tmp_path / "films.toml").write_text(RECIPE.format(folder=tmp_path, steps=1))
    still = ["--set", "train.schedule.lr=1e-30"]
    assert run(["train", str(tmp_path / "films.toml"), "--out", str(tmp_path / "films"), *still]) == 0
    start, made = read_bundle(tmp_path / "ours", MaskedModel), read_bundle(tmp_path / "films", Classifier)
    for name, parameter in start.model.encoder.named_parameters():
        torch.testing.assert_close(made.model.encoder.get_parameter(name), parameter, rtol=0, atol=1e-20)


def test_pre_training_continues_from_an_imported_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    import_model(folder, tmp_path / "ours")
    (tmp_path / "films.txt").write_text("\n\n".join(text for _, text in film_texts(60)))
    recipe = f"""
    [data]
    train = {{ text = "{tmp_path}/films.txt" }}
    valid = []
    batch_tokens = 512
    max_length = 64
    [train]
    start_from = "{tmp_path}/ours"
    steps = 30
    schedule = {{ kind = "constant", lr = 0.01 }}
    masking = {{ whole_words = true }}
    device = "cpu"
    precision = "float32"
    threads = 1
    log_every = 10
    """
    (tmp_path / "films.toml").write_text(recipe)
    assert run(["train", str(tmp_path / "films.toml"), "--out", str(tmp_path / "films")]) == 0
    made = read_bundle(tmp_path / "films", MaskedModel)
    assert made.recipe.model == read_bert(open_folder(folder)).recipe.model
    first, *_, last = (tmp_path / "films/metrics.jsonl").read_text().splitlines()
    assert json.loads(last)["loss"] < json.loads(first)["loss"] - 0.5
