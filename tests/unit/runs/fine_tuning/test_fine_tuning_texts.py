"""Fine-tuning classifiers and masked language models: what they take from their start."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared.covering import one_in
from tests.shared.refusals import like
from tests.unit.runs.fine_tuning.text_starts import (
    BERT,
    CLASSIFIER,
    LABELS,
    ON_BERT,
    Values,
    at_first,
    filling,
    recipe,
    refused,
    start,
    state,
    values,
    weights,
)
from tests.unit.runs.run_folders import silent

from heedful.cli.main import run
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.pooled import ClassifierModel
from heedful.config.reading.load import load_recipe
from heedful.models.bundle import read_description
from heedful.runs.dry_run import dry_run
from heedful.runs.fine_tuning import read_start
from heedful.runs.progress import RunProgress
from heedful.runs.training_run import prepare_job, train

pytestmark = pytest.mark.usefixtures("labelled_texts")


def moved(name: str) -> str:
    """What a weight of BERT is called in a classifier."""
    return f"pooled.{name}" if name.startswith("encoder.") else name


# --- a classifier on BERT ---------------------------------------------------------------------------------------------


def test_a_classifier_begins_with_the_encoder_the_pooler_and_the_vocabulary_of_bert(tmp_path: Path) -> None:
    folder = start(tmp_path, BERT)
    made, own, vocabularies = at_first(values(tmp_path, ON_BERT))
    theirs = weights(folder)
    taken = [name for name in theirs if name.startswith(("encoder.", "pooler."))]
    assert {moved(name) for name in taken} == own.keys() - {"output.weight", "output.bias"}
    assert all(torch.equal(own[moved(name)], theirs[name]) for name in taken)
    assert isinstance(made.model, ClassifierModel)
    assert made.model.encoder == read_description(folder)[0].model
    assert made.model.pooler
    assert vocabularies["text"].to_json() == (folder / "tokenizer.json").read_bytes()
    assert vocabularies.labels == ("neg", "pos")


def test_the_head_is_fresh_and_as_large_as_there_are_classes(tmp_path: Path) -> None:
    start(tmp_path, BERT)
    first, other = (at_first(values(tmp_path, ON_BERT, seed=seed))[1] for seed in (1, 2))
    assert first["output.weight"].shape == (2, 8)
    assert first["output.weight"].any()
    assert not torch.equal(first["output.weight"], other["output.weight"])
    assert torch.equal(first["pooler.linear.weight"], other["pooler.linear.weight"])


@pytest.mark.parametrize(
    ("bert", "said", "pooler"),
    [
        ({}, {}, True),
        ({}, {"pool": "first"}, True),
        ({}, {"pool": "mean"}, False),
        ({}, {"pooler": False}, False),
        ({}, {"pool": "mean", "pooler": True}, True),
        ({"next_sentence": False}, {}, False),
        ({"next_sentence": False}, {"pooler": True}, True),  # a fresh one
    ],
)
def test_the_pooler_comes_with_the_class_token_unless_the_recipe_says_otherwise(
    tmp_path: Path, bert: Values, said: Values, pooler: bool
) -> None:
    folder = start(tmp_path, BERT | bert)
    made, own, _ = at_first(values(tmp_path, ON_BERT | said))
    assert isinstance(made.model, ClassifierModel)
    assert made.model.pooler == pooler == ("pooler.linear.weight" in own)
    if pooler and "pooler.linear.weight" in weights(folder):
        assert torch.equal(own["pooler.linear.weight"], weights(folder)["pooler.linear.weight"])


@pytest.mark.parametrize("pooler", [None, True])
def test_co_attention_takes_the_encoder_of_bert_and_has_a_pooler_of_its_own(
    tmp_path: Path, pooler: bool | None
) -> None:
    folder = start(tmp_path, BERT)
    said = {"join": "parallel"} | ({} if pooler is None else {"pooler": pooler})
    made, own, _ = at_first(values(tmp_path, ON_BERT | said, second=True))
    theirs = weights(folder)
    taken = [name for name in theirs if name.startswith("encoder.")]
    assert all(torch.equal(own[moved(name)], theirs[name]) for name in taken)
    assert isinstance(made.model, ClassifierModel)
    assert made.model.pooler == bool(pooler) == ("pooler.linear.weight" in own)
    if pooler:
        assert own["pooler.linear.weight"].shape == (8, 4 * 8)


def test_a_recipe_may_say_a_key_of_the_encoder_and_leave_the_rest_to_its_start(tmp_path: Path) -> None:
    folder = start(tmp_path, BERT)
    (tmp_path / "my.toml").write_text(
        f'[data]\nmax_length = 12\ntrain = {{ jsonl = "t.jsonl", text = "text", label = "label" }}\n'
        f'[model]\nfamily = "classifier"\nencoder = {{ family = "bert", dropout = 0.3 }}\n'
        f'[train]\nstart_from = "{folder}"\n'
    )
    made = read_start(load_recipe(tmp_path / "my.toml")).recipe.model
    assert isinstance(made, ClassifierModel)
    assert made.encoder == read_description(folder)[0].model.model_copy(update={"dropout": 0.3})


@pytest.mark.parametrize("freeze", ["encoder", 1])
def test_what_is_frozen_keeps_the_bits_of_the_start_and_the_rest_learns(tmp_path: Path, freeze: Any) -> None:
    folder = start(tmp_path, BERT)
    run = train(recipe(values(tmp_path, ON_BERT, freeze=freeze)), tmp_path / "run", console=silent())
    before, after = weights(folder), weights(run)
    stays = ("encoder.",) if freeze == "encoder" else ("encoder.embedding.", "encoder.blocks.0.")
    for name in (name for name in before if name.startswith(("encoder.", "pooler."))):
        assert torch.equal(after[moved(name)], before[name]) == name.startswith(stays), name


def test_the_rates_of_a_run_fall_from_the_head_down_to_the_embedding(tmp_path: Path) -> None:
    start(tmp_path, BERT)
    with RunProgress(silent()) as progress:
        job = prepare_job(recipe(values(tmp_path, ON_BERT, layer_decay=0.5)), progress)
    shares = {p: group["rate_scale"] for group in job.optimizer.param_groups for p in group["params"]}
    own = dict(job.model.named_parameters())
    names = (
        "output.weight",
        "pooler.linear.bias",
        "pooled.encoder.embedding.weight",
        "pooled.encoder.embedding.segments",
    )
    assert [shares[own[name]] for name in names] == [1, 1, 0.125, 0.125]
    blocks = {name: shares[weight] for name, weight in own.items() if name.startswith("pooled.encoder.blocks.")}
    assert blocks == {name: {"0": 0.25, "1": 0.5}[name.split(".")[3]] for name in blocks}


@pytest.mark.parametrize(
    "more",
    one_in(3, [{"layer_decay": 0.5, "optimizer": {"kind": "adamw"}, "freeze": 0}, {}, {"freeze": "encoder"}]),
)
def test_resume_is_exact_and_needs_the_start_no_more(tmp_path: Path, more: Values) -> None:
    start(tmp_path, BERT)
    said = ON_BERT | {"encoder": {"family": "bert", "dropout": 0.3}}
    whole = train(recipe(values(tmp_path, said, steps=4, **more)), tmp_path / "whole", console=silent())
    train(recipe(values(tmp_path, said, steps=2, **more)), tmp_path / "run", console=silent())
    shutil.rmtree(tmp_path / "start")
    run = train(recipe(values(tmp_path, said, steps=4, **more)), tmp_path / "run", resume=True, console=silent())
    assert state(run, 4) == state(whole, 4)
    assert read_description(run)[1].labels == ("neg", "pos")


def test_pairs_are_read_where_bert_tells_two_texts_apart(tmp_path: Path) -> None:
    start(tmp_path, BERT)
    run = train(recipe(values(tmp_path, ON_BERT, second=True)), tmp_path / "run", console=silent())
    assert read_description(run)[0].data.train[0].model_dump()["second"] == "second"


def test_a_dry_run_starts_there_too(tmp_path: Path) -> None:
    folder = start(tmp_path, BERT)
    forecast = dry_run(recipe(values(tmp_path, ON_BERT)), console=silent())
    taken = sum(tensor.numel() for name, tensor in weights(folder).items() if name.startswith(("encoder.", "pooler.")))
    assert forecast.parameters == taken + 8 * 2 + 2


def test_only_what_differs_is_told(tmp_path: Path) -> None:
    start(tmp_path, BERT)
    written = values(tmp_path, ON_BERT) | {"tokenizer": {"kind": "char"}}
    written["data"] |= {"lowercase": True, "temperature": 2.0}
    assert read_start(recipe(written)).differences == (
        "`data.lowercase` was false and is true",
        '`tokenizer.kind` stays "word", as the vocabulary is kept; the recipe says "char"',
        "`tokenizer.min_count` stays 1, as the vocabulary is kept; the recipe says nothing",
        "`tokenizer.size` stays 50000, as the vocabulary is kept; the recipe says 5000",
    )


def test_what_a_recipe_takes_over_is_shown_and_can_be_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start(tmp_path, BERT)
    Path("my.toml").write_text(
        '[data]\nmax_length = 12\ntrain = { jsonl = "t.jsonl", text = "text", label = "label" }\n'
        '[model]\nfamily = "classifier"\npool = "mean"\n[train]\nstart_from = "start"\nsteps = 3\n'
    )
    assert run(["config", "show", "my.toml"]) == 0
    Path("shown.toml").write_text(capsys.readouterr().out)
    shown = load_recipe("shown.toml")
    assert isinstance(shown.model, ClassifierModel)
    assert shown.model.encoder == read_description(Path("start"))[0].model
    assert shown.tokenizer.kind == "word"
    assert read_start(shown).recipe == read_start(load_recipe("my.toml")).recipe
    shutil.rmtree("start")
    assert run(["config", "show", "my.toml"]) == 0  # which is all there is to show then


def test_a_bert_without_segments_tells_pairs_by_their_markers(tmp_path: Path) -> None:
    start(tmp_path, BERT | {"segments": 0, "next_sentence": False})
    made, _, _ = at_first(values(tmp_path, ON_BERT, second=True))
    assert made.data.paired


# --- a classifier on a classifier -------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [None, {"family": "classifier"}, {"family": "classifier", "dropout": 0.5}])
def test_a_classifier_keeps_the_classes_and_all_weights_of_its_start(tmp_path: Path, said: Values | None) -> None:
    folder = start(tmp_path, CLASSIFIER, mask=False)
    made, own, vocabularies = at_first(values(tmp_path, said))
    theirs = weights(folder)
    assert own.keys() == theirs.keys()
    assert all(torch.equal(own[name], theirs[name]) for name in own)
    assert vocabularies.labels == LABELS
    assert isinstance(made.model, ClassifierModel)
    assert made.model.dropout == (said or {}).get("dropout", 0.1)


def test_a_model_that_the_recipe_says_in_part_is_the_starts_in_all_else(tmp_path: Path) -> None:
    encoder = {"family": "hierarchical", "words": {"family": "recurrent", "width": 4}, "sentences": {"width": 3}}
    start(tmp_path, {"family": "classifier", "encoder": encoder}, mask=False)
    said = {"family": "classifier", "encoder": {"family": "hierarchical", "sentences": {"dropout": 0.4}}}
    made, _, _ = at_first(values(tmp_path, said))
    assert isinstance(made.model, ClassifierModel)
    table = made.model.encoder.model_dump()
    assert (table["words"]["width"], table["sentences"]["width"], table["sentences"]["dropout"]) == (4, 3, 0.4)


def test_berts_second_head_may_be_left_out(tmp_path: Path) -> None:
    """So that it can go on with documents of one sentence."""
    folder = start(tmp_path, BERT)
    _, own, _ = at_first(filling(tmp_path, family="bert", next_sentence=False))
    theirs = weights(folder)
    assert {name.split(".")[0] for name in theirs.keys() - own.keys()} == {"pooler", "follows"}
    assert all(torch.equal(own[name], theirs[name]) for name in own)


def test_what_the_recipe_does_not_say_is_checked_as_the_start_has_it(tmp_path: Path) -> None:
    """The length of 600 fits the start, and not the 512 positions of a BERT that says nothing of them."""
    start(tmp_path, BERT | {"max_positions": 600})
    for said in (ON_BERT | {"encoder": {"family": "bert", "dropout": 0.2}}, ON_BERT):
        written = values(tmp_path, said)
        written["data"] |= {"max_length": 600, "batch_tokens": 600}
        made, _, _ = at_first(written)
        assert isinstance(made.model, ClassifierModel)
        assert made.model.longest == (600, "encoder.max_positions")
    written["data"] |= {"max_length": 601, "batch_tokens": 601}
    assert refused(written, tmp_path / "run") == like(
        f"a recipe that starts from {tmp_path}/start: `data.max_length` (601), markers included, must "
        "... `model.encoder.max_positions`, but that is 600."
    )


def test_resume_of_a_classifier_on_a_classifier_is_exact(tmp_path: Path) -> None:
    start(tmp_path, CLASSIFIER, mask=False)
    whole = train(recipe(values(tmp_path, None, steps=4)), tmp_path / "whole", console=silent())
    train(recipe(values(tmp_path, None, steps=2)), tmp_path / "run", console=silent())
    run = train(recipe(values(tmp_path, None, steps=4)), tmp_path / "run", resume=True, console=silent())
    assert state(run, 4) == state(whole, 4)
    assert read_description(run)[1].labels == LABELS


def test_the_usual_pool_may_be_said(tmp_path: Path) -> None:
    start(tmp_path, CLASSIFIER, mask=False)
    made, _, _ = at_first(values(tmp_path, {"family": "classifier", "pool": "first"}))
    assert isinstance(made.model, ClassifierModel)
    assert made.model.pooled_by == "first"


# --- BERT on BERT -----------------------------------------------------------------------------------------------------


def test_a_masked_model_goes_on_from_another(tmp_path: Path) -> None:
    folder = start(tmp_path, BERT)
    made, own, vocabularies = at_first(filling(tmp_path))
    assert isinstance(made.model, BertModel)
    assert vocabularies["text"].mask == 4
    assert all(torch.equal(own[name], tensor) for name, tensor in weights(folder).items())
    assert own.keys() == weights(folder).keys()
