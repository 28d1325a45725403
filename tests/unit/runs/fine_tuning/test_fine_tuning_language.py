"""Fine-tuning a language model for classification: what a classifier takes from it, and what is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared.refusals import like
from tests.unit.runs.fine_tuning.text_starts import (
    LABELS,
    Values,
    at_first,
    other_function,
    recipe,
    refused,
    start,
    state,
    values,
    weights,
)
from tests.unit.runs.run_folders import silent

import heedful
from heedful.config.model.pooled import ClassifierModel
from heedful.models.bundle import read_description, write_description
from heedful.runs.dry_run import dry_run
from heedful.runs.fine_tuning import read_start
from heedful.runs.training_run import train

pytestmark = pytest.mark.usefixtures("labelled_texts")

GPT: Values = {
    "family": "language",
    "decoder": {"family": "transformer", "width": 8, "heads": 2, "layers": 2, "inner": 12, "max_positions": 20},
}
LSTM: Values = {"family": "language", "tie": False, "decoder": {"family": "recurrent", "width": 8, "embedding": 6}}
CONVOLUTION: Values = {"family": "language", "decoder": {"family": "convolutional", "width": 8}}
ON_IT: Values = {"family": "classifier"}
FRESH = {"pooled.encoder.markers", "output.weight", "output.bias"}


@pytest.mark.parametrize("begun", [GPT, LSTM, CONVOLUTION], ids=lambda model: model["decoder"]["family"])
def test_a_classifier_begins_with_all_weights_and_the_vocabulary_of_a_language_model(
    tmp_path: Path, begun: Values
) -> None:
    folder = start(tmp_path, begun, mask=False)
    made, own, vocabularies = at_first(values(tmp_path, ON_IT))
    theirs = weights(folder)
    assert {f"pooled.encoder.{name}" for name in theirs} == own.keys() - FRESH
    assert all(torch.equal(own[f"pooled.encoder.{name}"], theirs[name]) for name in theirs)
    assert isinstance(made.model, ClassifierModel)
    assert made.model.encoder == read_description(folder)[0].model
    assert (made.model.pooled_by, made.model.pooler) == ("last", False)
    assert vocabularies["text"].to_json() == (folder / "tokenizer.json").read_bytes()
    assert vocabularies.labels == ("neg", "pos")


def test_a_key_of_the_language_model_may_be_set_and_the_rest_is_left_to_the_start(tmp_path: Path) -> None:
    start(tmp_path, GPT, mask=False)
    said = ON_IT | {"encoder": {"family": "language", "decoder": {"family": "transformer", "dropout": 0.3}}}
    made, _, _ = at_first(values(tmp_path, said))
    assert isinstance(made.model, ClassifierModel)
    table = made.model.encoder.model_dump()["decoder"]
    assert (table["dropout"], table["width"], table["max_positions"]) == (0.3, 8, 20)


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        pytest.param(GPT, {"auxiliary": 0.5}, marks=pytest.mark.wide),
        (GPT, {"auxiliary": 0.5, "layer_decay": 0.5, "optimizer": {"kind": "adamw"}, "freeze": 1}),
        pytest.param(LSTM, {}, marks=pytest.mark.wide),
        (LSTM, {"auxiliary": 0.5}),
    ],
    ids=["gpt", "gpt-layers", "lstm", "lstm-auxiliary"],
)
def test_resume_is_exact_and_needs_the_start_no_more(tmp_path: Path, begun: Values, more: Values) -> None:
    start(tmp_path, begun, mask=False)
    whole = train(recipe(values(tmp_path, ON_IT, steps=4, **more)), tmp_path / "whole", console=silent())
    train(recipe(values(tmp_path, ON_IT, steps=2, **more)), tmp_path / "run", console=silent())
    shutil.rmtree(tmp_path / "start")
    run = train(recipe(values(tmp_path, ON_IT, steps=4, **more)), tmp_path / "run", resume=True, console=silent())
    assert state(run, 4) == state(whole, 4)


@pytest.mark.parametrize("freeze", ["encoder", 1])
def test_what_is_frozen_keeps_the_bits_of_the_start_and_the_rest_learns(tmp_path: Path, freeze: Any) -> None:
    folder = start(tmp_path, GPT, mask=False)
    run = train(recipe(values(tmp_path, ON_IT, freeze=freeze)), tmp_path / "run", console=silent())
    before, after = weights(folder), weights(run)
    stays = ("decoder.",) if freeze == "encoder" else ("decoder.embedding.", "decoder.blocks.0.")
    for name in before:
        assert torch.equal(after[f"pooled.encoder.{name}"], before[name]) == name.startswith(stays), name


def test_pairs_are_read_and_classified_by_the_trained_model(tmp_path: Path) -> None:
    start(tmp_path, GPT, mask=False)
    run = train(recipe(values(tmp_path, ON_IT, second=True, auxiliary=0.5)), tmp_path / "run", console=silent())
    model = heedful.TextClassifier.load(run)
    one, other = model.classify(["ant bee", "ant bee"], ["cat", "eel"])
    assert one.labels[0] in ("neg", "pos")
    assert one.probabilities != other.probabilities
    (shown,) = model.weights("ant bee", "cat")
    assert shown.pieces == ("<s>", "ant", "bee", "</s>", "cat", "</s>")
    assert shown.weights == (0, 0, 0, 0, 0, 1)


def test_a_classifier_on_a_language_model_is_a_start_for_another(tmp_path: Path) -> None:
    folder = start(tmp_path, ON_IT | {"encoder": GPT}, mask=False)
    _, own, vocabularies = at_first(values(tmp_path, None))
    assert all(torch.equal(own[name], weight) for name, weight in weights(folder).items())
    assert vocabularies.labels == LABELS


def test_a_dry_run_counts_the_language_model_the_markers_and_the_head(tmp_path: Path) -> None:
    folder = start(tmp_path, GPT, mask=False)
    taken = sum(tensor.numel() for tensor in weights(folder).values())
    assert dry_run(recipe(values(tmp_path, ON_IT)), console=silent()).parameters == taken + 2 * 8 + 2 * 8 + 2


# --- a language model on a language model -----------------------------------------------------------------------------


def continued(folder: Path, model: Values | None, **data: Any) -> Values:
    """A recipe that continues a language model on `t.txt`; what `data` leaves out is left to the start."""
    (folder / "t.txt").write_text("ant bee cat dog\n" * 20)
    written = values(folder, model)
    kept = {key: written["data"][key] for key in ("folder", "batch_tokens")}
    return written | {"data": {**kept, "train": [{"text": "t.txt", "documents": "file"}], **data}}


def begun_open(folder: Path) -> Path:
    """A language model with open borders that reads windows of 18 tokens."""
    made = start(folder, GPT, mask=False)
    described, vocabularies = read_description(made)
    data = described.data.model_copy(update={"borders": "open", "max_length": 18})
    write_description(made, described.model_copy(update={"data": data}), vocabularies)
    return made


@pytest.mark.parametrize("model", [None, {"family": "language"}], ids=["without-model", "with-family"])
def test_a_language_model_keeps_reading_as_its_start_did(tmp_path: Path, model: Values | None) -> None:
    begun_open(tmp_path)
    made, _, _ = at_first(continued(tmp_path, model))
    assert (made.data.borders, made.data.max_length) == ("open", 18)
    assert read_start(recipe(continued(tmp_path, model))).differences == ()


def test_a_recipe_may_read_differently_from_its_start_and_that_is_told(tmp_path: Path) -> None:
    begun_open(tmp_path)
    written = continued(tmp_path, {"family": "language"}, borders="closed", max_length=10)
    made, _, _ = at_first(written)
    assert (made.data.borders, made.data.max_length) == ("closed", 10)
    assert read_start(recipe(written)).differences == (
        '`data.borders` was "open" and is "closed"',
        "`data.max_length` was 18 and is 10",
    )


def test_a_classifier_does_not_read_as_a_language_model_did(tmp_path: Path) -> None:
    begun_open(tmp_path)
    made, _, _ = at_first(values(tmp_path, ON_IT))
    assert (made.data.borders, made.data.max_length) == ("closed", 12)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_decoder_of_another_family_is_refused(tmp_path: Path) -> None:
    folder = start(tmp_path, GPT, mask=False)
    said = ON_IT | {"encoder": {"family": "language", "decoder": {"family": "recurrent"}}}
    assert refused(values(tmp_path, said), tmp_path / "run") == (
        f'`model.encoder.decoder.family` is "recurrent", but {folder} was trained with "transformer": its weights '
        'would be meaningless. Write `family = "transformer"` in [model.encoder.decoder] to use the start\'s.'
    )


def test_an_encoder_of_another_family_is_refused(tmp_path: Path) -> None:
    folder = start(tmp_path, GPT, mask=False)
    said = ON_IT | {"encoder": {"family": "bert"}}
    assert refused(values(tmp_path, said), tmp_path / "run") == other_function(
        folder, "encoder.family", "bert", "language"
    )


def test_a_text_longer_than_the_language_model_has_positions_for_is_refused(tmp_path: Path) -> None:
    start(tmp_path, GPT, mask=False)
    written = values(tmp_path, ON_IT)
    written["data"] |= {"max_length": 21}
    assert refused(written, tmp_path / "run") == like(
        f"a recipe that starts from {tmp_path}/start: `data.max_length` (21), markers included, must "
        "... `model.encoder.decoder.max_positions`, but that is 20."
    )


def test_the_auxiliary_loss_needs_a_language_model(tmp_path: Path) -> None:
    start(tmp_path, ON_IT | {"encoder": {**GPT["decoder"]}}, mask=False)
    assert refused(values(tmp_path, None, auxiliary=0.5), tmp_path / "run") == (
        f"a recipe that starts from {tmp_path}/start: `train.auxiliary` is the factor of a language model's loss, "
        'which `model.encoder.family = "transformer"` does not have: leave it out, or use "language".'
    )


def test_the_first_state_of_a_language_model_is_no_pool(tmp_path: Path) -> None:
    start(tmp_path, GPT, mask=False)
    assert refused(values(tmp_path, ON_IT | {"pool": "first"}), tmp_path / "run") == (
        f'a recipe that starts from {tmp_path}/start: in `model`, `pool` is "first", but the first state of a language '
        'model is the same for every text: leave it out, or use "last" or "mean".'
    )
