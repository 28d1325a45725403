"""The task of masked language models: its batches, how it judges, and what it refuses before training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.text import film_texts, fresh_masked_model, masked_recipe
from tests.shared.refusals import refuses
from tests.unit.tasks.masked_models import masked_bundle

from heedful.config.recipe import Recipe
from heedful.config.tokenizer import WordPiece
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import prepare_texts
from heedful.metrics.language.perplexity import predict_masked
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel
from heedful.tasks.fill.data import begins_word, evaluation_feed
from heedful.tasks.fill.task import FillTask

TASK = FillTask()


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    for name, count in (("train", 30), ("test", 40)):
        (tmp_path / f"{name}.txt").write_text("\n\n".join(text for _, text in film_texts(count, count)) + "\n")


def changed(recipe: Recipe, **sections: dict[str, Any]) -> Recipe:
    return recipe.model_copy(
        update={key: getattr(recipe, key).model_copy(update=values) for key, values in sections.items()}
    )


def judged(folder: Path, **validation: object) -> tuple[Bundle[MaskedModel], Prepared]:
    recipe = masked_recipe(folder)
    settings = recipe.train.validation.model_copy(update=validation)
    bundle = fresh_masked_model(changed(recipe, train={"validation": settings}))
    bundle.model.eval()
    return bundle, prepare_texts(bundle.recipe, given=bundle.vocabularies, documents=True, mask=True)


# --- judging ----------------------------------------------------------------------------------------------------------


def test_the_metric_comes_first_and_the_others_follow(tmp_path: Path) -> None:
    scores = FillTask().validator(*judged(tmp_path, metric="perplexity"))()
    assert list(scores) == ["perplexity", "loss", "accuracy", "next_accuracy", "baseline_perplexity"]
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"]))


def test_without_texts_there_is_nothing_to_judge_by(tmp_path: Path) -> None:
    bundle, prepared = judged(tmp_path)
    assert FillTask().validator(bundle, Prepared(bundle.vocabularies, prepared.train, (1.0,), ()))() == {}


def test_so_many_inputs_are_judged_as_the_recipe_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counting(model: MaskedModel, batches: Any) -> Any:
        kept = list(batches)
        seen.append(sum(batch.sentences for batch in kept))
        return predict_masked(model, kept)

    monkeypatch.setattr("heedful.tasks.fill.task.predict_masked", counting)
    for most in (7, None, 100_000):
        judge = FillTask().validator(*judged(tmp_path, max_sentences=most))
        assert judge() == judge()
    assert seen[0] == seen[1] == 7
    assert seen[2] == seen[4] > 20


def test_masks_do_not_depend_on_the_budget_of_training(tmp_path: Path) -> None:
    bundle, prepared = judged(tmp_path)
    other = Bundle(changed(bundle.recipe, data={"batch_tokens": 64}), bundle.vocabularies, bundle.model)
    assert FillTask().validator(bundle, prepared)() == FillTask().validator(other, prepared)()


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ("One . Two .\n", "There is one document, but ..."),
        ("One .\n\nTwo .\n", "There is no document of ..."),
    ],
)
def test_validation_that_cannot_be_is_refused_before_training(tmp_path: Path, texts: str, why: str) -> None:
    (tmp_path / "test.txt").write_text(texts)
    bundle, prepared = judged(tmp_path)
    with refuses(f"`data.valid`: {why}: add some, or set `model.next_sentence = false` in training."):
        FillTask().validator(bundle, prepared)
    with refuses(f"wiki: {why}..."):
        evaluation_feed(bundle, prepared.valid, "wiki")


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("next_sentence", [True, False])
def test_the_tokens_of_an_epoch_are_those_of_its_batches(tmp_path: Path, next_sentence: bool) -> None:
    recipe = masked_recipe(tmp_path, {"next_sentence": next_sentence})
    prepared = prepare_texts(recipe, documents=True, mask=True)
    feed = TASK.feed(recipe, prepared)
    assert TASK.epoch_tokens(recipe, prepared) == sum(feed.batch(spans).tokens for spans in feed.plan(0))


def test_a_gpu_has_one_shape_of_batches_where_attention_runs_straight_on_it(tmp_path: Path) -> None:
    recipe = masked_recipe(tmp_path, {"width": 64, "heads": 2, "dropout_attention": 0.0})
    shape = TASK.static_shape(recipe, torch.bfloat16)
    assert shape is not None
    assert (shape.tokens, shape.bound, shape.max_sentences) == (256, 40, 8)
    assert TASK.static_shape(recipe, torch.float32) is None


def test_a_word_begins_with_every_piece_that_does_not_go_on_with_one(tmp_path: Path) -> None:
    recipe = masked_recipe(tmp_path)
    assert TASK.feed(recipe, prepare_texts(recipe, documents=True, mask=True)).begins_word is None
    tokenizer = masked_bundle(WordPiece(kind="wordpiece", size=60)).vocabularies["text"]
    pieces = tokenizer.pieces(range(tokenizer.size))
    assert any(piece.startswith("##") for piece in pieces)
    assert begins_word(tokenizer).tolist() == [not piece.startswith("##") for piece in pieces]
