"""Fine-tuning classifiers and masked language models: which starts do not fit, and what is said then."""

from pathlib import Path

import pytest
from tests.shared.refusals import like
from tests.unit.runs.fine_tuning.text_starts import (
    BERT,
    CLASSIFIER,
    ON_BERT,
    Values,
    filling,
    other_function,
    recipe,
    refused,
    start,
    values,
)
from tests.unit.runs.run_folders import silent

from heedful.config.recipe import Recipe
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import write_description, write_weights
from heedful.models.from_recipe.network import build_network
from heedful.runs.training_run import train

pytestmark = pytest.mark.usefixtures("labelled_texts")


def test_another_number_of_labels_is_refused(tmp_path: Path) -> None:
    folder = start(tmp_path, CLASSIFIER, mask=False)
    said = {"family": "classifier", "labels": "several"}
    assert refused(values(tmp_path, said), tmp_path / "run") == other_function(folder, "labels", "several", "one")


def test_a_label_that_the_start_does_not_know_is_refused(tmp_path: Path) -> None:
    start(tmp_path, CLASSIFIER, mask=False)
    (tmp_path / "t.jsonl").write_text('{"text": "ant", "label": "netural"}\n')
    assert refused(values(tmp_path, None), tmp_path / "run") == (
        "t.jsonl, line 1 has the label `netural`, which is not a class of the model. Did you mean `neutral`?"
    )


def test_a_vocabulary_without_a_mask_cannot_be_filled(tmp_path: Path) -> None:
    start(tmp_path, BERT, mask=False)
    assert refused(filling(tmp_path), tmp_path / "run").startswith("The vocabulary has no `<mask>`: ")


@pytest.mark.parametrize(
    ("begun", "said", "key", "now", "was"),
    [
        (CLASSIFIER, BERT, "family", "bert", "classifier"),
        (BERT, CLASSIFIER, "encoder.family", "transformer", "bert"),
        (BERT, {"family": "classifier", "encoder": {"family": "recurrent"}}, "encoder.family", "recurrent", "bert"),
        (
            CLASSIFIER,
            {"family": "classifier", "encoder": {"family": "hierarchical"}},
            "encoder.family",
            "hierarchical",
            "transformer",
        ),
        (BERT, {"family": "classifier", "encoder": {"family": "bert", "heads": 4}}, "encoder.heads", 4, 2),
        (
            BERT,
            {"family": "classifier", "encoder": {"family": "bert", "embedding_scale": True}},
            "encoder.embedding_scale",
            True,
            False,
        ),
        (BERT, {"family": "bert", "activation": "relu"}, "activation", "relu", "gelu"),
        (CLASSIFIER, {"family": "classifier", "pool": "mean"}, "pool", "mean", "first"),
        (CLASSIFIER, {"family": "classifier", "pool": {"alignment": "deep"}}, "pool", "deep", "first"),
        (CLASSIFIER, {"family": "classifier", "join": "parallel"}, "join", "parallel", "sequence"),
        (
            CLASSIFIER,
            {"family": "classifier", "encoder": {"family": "transformer", "norm": "pre"}},
            "encoder.norm",
            "pre",
            "post",
        ),
    ],
)
def test_a_model_that_would_compute_otherwise_is_refused(
    tmp_path: Path, begun: Values, said: Values, key: str, now: object, was: object
) -> None:
    folder = start(tmp_path, begun)
    classifies = said["family"] == "classifier"
    written = values(tmp_path, said, second="join" in said) if classifies else filling(tmp_path, **said)
    assert refused(written, tmp_path / "run") == other_function(folder, key, now, was)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("begun", "said", "told"),
    [
        (
            BERT,
            {"family": "classifier", "encoder": {"family": "bert", "layers": 3}},
            "`model.encoder.layers` is 2 there and 3 in the recipe",
        ),
        (
            BERT,
            {"family": "classifier", "encoder": {"family": "bert", "layers": 1}},
            "`model.encoder.layers` is 2 there and 1 in the recipe",
        ),
        (
            BERT,
            {"family": "classifier", "encoder": {"family": "bert", "inner": 16, "dropout": 0.5}},
            "`model.encoder.inner` is 12 there and 16 in the recipe",
        ),
        (BERT, {"family": "bert", "inner": 16}, "`model.inner` is 12 there and 16 in the recipe"),
        (
            BERT | {"next_sentence": False},
            {"family": "bert", "next_sentence": True},
            "`model.next_sentence` is false there and true in the recipe",
        ),
        (
            CLASSIFIER,
            {"family": "classifier", "encoder": {"family": "transformer", "segments": 2}},
            "`model.encoder.segments` is 0 there and 2 in the recipe",
        ),
        (CLASSIFIER, {"family": "classifier", "pooler": True}, "`model.pooler` is false there and true in the recipe"),
    ],
)
def test_other_shapes_are_refused_with_the_difference(tmp_path: Path, begun: Values, said: Values, told: str) -> None:
    folder = start(tmp_path, begun)
    written = values(tmp_path, said) if said["family"] == "classifier" else filling(tmp_path, **said)
    assert refused(written, tmp_path / "run") == (
        f"The shapes of {folder} are not those of the recipe: {told}. Leave keys of [model] out to use the start's."
    )


@pytest.mark.parametrize("family", ["transformer", "classifier"])
def test_a_translator_and_a_classifier_do_not_start_from_each_other(tmp_path: Path, family: str) -> None:
    tiny = {"width": 8, "heads": 2, "layers": 1, "inner": 8}
    translator = {"family": "transformer", **tiny}
    if family == "classifier":
        made = Recipe.model_validate(
            {"data": {"train": {"source": "a", "target": "b"}}, "tokenizer": {"kind": "word"}, "model": translator}
        )
        tokenizer = train_tokenizer(made.tokenizer, ["ant bee"])
        vocabularies = Vocabularies({"source": tokenizer, "target": tokenizer})
        write_description(tmp_path / "start", made, vocabularies)
        write_weights(tmp_path / "start", build_network(made.model, vocabularies))
        assert refused(values(tmp_path, {"family": "classifier"}), tmp_path / "run") == (
            f'A classifier cannot start from {tmp_path}/start: its `model.family` is "transformer", but must be '
            '"bert", "language" or "classifier".'
        )
        return
    start(tmp_path, CLASSIFIER)
    written = values(tmp_path, translator)
    written["data"] |= {"train": [{"source": "t.jsonl", "target": "t.jsonl"}], "valid": []}
    assert refused(written, tmp_path / "run") == other_function(tmp_path / "start", "family", family, "classifier")


def test_labels_are_needed_where_the_model_is_the_starts(tmp_path: Path) -> None:
    """The recipe is right by itself: only together with its start it does not fit."""
    folder = start(tmp_path, CLASSIFIER)
    written = values(tmp_path, None)
    written["data"]["valid"] = [{"jsonl": "t.jsonl", "text": "text"}]
    assert refused(written, tmp_path / "run") == (
        f"a recipe that starts from {folder}: `data.valid` does not fit `model.family`: a classifier learns from texts "
        "with labels: give `text` and `label`."
    )


def test_texts_must_fit_into_the_positions_of_the_start(tmp_path: Path) -> None:
    folder = start(tmp_path, BERT)
    written = values(tmp_path, ON_BERT)
    written["data"]["max_length"] = 21
    assert refused(written, tmp_path / "run") == like(
        f"a recipe that starts from {folder}: `data.max_length` (21), markers included, must ... "
        "`model.encoder.max_positions`, but that is 20."
    )


def test_pairs_are_refused_where_bert_has_one_segment(tmp_path: Path) -> None:
    folder = start(tmp_path, BERT | {"segments": 1, "next_sentence": False})
    assert refused(values(tmp_path, ON_BERT, second=True), tmp_path / "run") == like(
        f"a recipe that starts from {folder}: `model.encoder.segments` ..."
    )


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"freeze": 3}, "`train.freeze` is 3, but the encoder has 2 layers: use a smaller number, or "),
        ({"class_weights": {"bad": 2.0}}, "`train.class_weights` names `bad`, but no training text has that label."),
    ],
)
def test_what_training_cannot_do_with_the_start_is_refused(tmp_path: Path, more: Values, line: str) -> None:
    start(tmp_path, BERT)
    assert refused(values(tmp_path, ON_BERT, **more), tmp_path / "run").startswith(line)


def test_resume_with_another_encoder_is_refused(tmp_path: Path) -> None:
    start(tmp_path, BERT)
    run = train(recipe(values(tmp_path, ON_BERT, steps=1)), tmp_path / "run", console=silent())
    said = ON_BERT | {"encoder": {"family": "bert", "dropout": 0.4}}
    assert refused(values(tmp_path, said), run, resume=True) == (
        f"{run} was trained with `model.encoder.dropout` = 0.1, but the recipe says 0.4: resume with the same recipe, "
        "or train into another folder."
    )
    other = {"family": "classifier", "encoder": {"family": "recurrent"}}
    assert refused(values(tmp_path, other), run, resume=True).startswith(f"{run} was trained with `model.encoder.")
