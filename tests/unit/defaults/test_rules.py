"""Defaults that follow the run: which keys they decide, and which recipes they leave alone."""

from typing import Any, get_args

import pytest

from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import load_recipe
from heedful.config.reading.shipped_recipes import shipped_recipes
from heedful.config.recipe import Recipe
from heedful.config.tasks import TASKS
from heedful.defaults.apply import ALL_KEYS, BY_TASK, decide
from heedful.defaults.facts import LITTLE, CorpusFacts

TEXTS = {"train": {"tsv": "a.tsv", "label": 1, "text": 2}}
PAIRS = {"train": {"source": "a.en", "target": "a.de"}}
FEW, MANY = CorpusFacts(2000, 2000 * 40, 2), CorpusFacts(LITTLE, LITTLE * 40, 2)


def recipe(data: dict[str, Any] = TEXTS, **tables: Any) -> Recipe:
    model = {} if data is PAIRS else {"model": {"family": "classifier"}}
    return load_recipe({"data": data, **model, **tables})


def followed(said: Recipe, facts: CorpusFacts | None = FEW) -> Recipe:
    return load_recipe(said, dict(decide(said, facts)))


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_keep_their_values(name: str) -> None:
    shipped = load_recipe(name)
    for facts in (FEW, MANY, None):
        assert decide(shipped, facts) == {}


def test_a_classifier_of_few_texts_is_a_bag_of_n_grams() -> None:
    made = followed(recipe())
    assert made.model.encoder.family == "bag"  # type: ignore[union-attr]
    assert made.data.lowercase
    assert made.train.schedule.kind == "linear"
    many = decide(recipe(), MANY)
    assert "model.encoder" not in many


def test_its_tokens_are_words_where_texts_have_spaces() -> None:
    spaced, dense = (CorpusFacts(2000, 2000 * 40, 2, spaces) for spaces in (2000 * 7, 2000))
    assert followed(recipe(), spaced).tokenizer.kind == "wordpiece"
    letters = followed(recipe(), dense).tokenizer
    assert (letters.kind, letters.size) == ("char", 5000)  # enough for Chinese
    ngrams = [followed(recipe(), facts).model.encoder.ngrams for facts in (spaced, dense)]  # type: ignore[union-attr]
    assert ngrams == [2, 3]
    stated = recipe(tokenizer={"kind": "byte_bpe", "size": 500})
    for facts in (spaced, dense):
        assert followed(stated, facts).tokenizer == stated.tokenizer
        assert followed(stated, facts).model.encoder.ngrams == 2  # type: ignore[union-attr]


def test_its_tokens_are_pieces_where_bpe_dropout_cuts_words() -> None:
    spaced = CorpusFacts(2000, 2000 * 40, 2, 2000 * 7)
    for facts, size in ((spaced, 16000), (FEW, 2000)):
        tokenizer = followed(recipe(train={"bpe_dropout": 0.1}), facts).tokenizer
        assert (tokenizer.kind, tokenizer.size) == ("byte_bpe", size)


def test_it_has_at_least_as_many_values_as_there_are_classes() -> None:
    assert decide(recipe(), CorpusFacts(2000, 9, 50))["model.encoder"]["width"] == 50


@pytest.mark.parametrize(
    "said",
    [
        {"model": {"family": "classifier", "encoder": {"family": "transformer", "preset": "small"}}},
        {"model": {"family": "classifier", "pool": "max"}},
        {"data": {"train": {"tsv": "a.tsv", "label": 1, "text": 2, "second": 3}}},
    ],
)
def test_a_network_that_the_recipe_describes_or_that_reads_pairs_is_kept_and_regularised(said: dict[str, Any]) -> None:
    made = followed(recipe(**said))
    assert made.model.encoder.family == "transformer"  # type: ignore[union-attr]
    assert made.model.encoder.dropout == 0.3  # type: ignore[union-attr]
    assert made.train.schedule.kind == "cosine"
    assert made.train.schedule.warmup <= made.train.steps / 10


NUMBERS = {"train": {"tsv": "a.tsv", "number": 1, "text": 2}}
SIMILARITIES = {"train": {"tsv": "a.tsv", "number": 1, "text": 2, "second": 3}}
PRICES = {"train": {"tsv": "a.tsv", "number": 1, "image": 2}}


def regressor(data: dict[str, Any], **tables: Any) -> Recipe:
    family = "image_regressor" if data is PRICES else "regressor"
    return load_recipe({"data": data, "model": {"family": family}, **tables})


def test_a_regressor_is_a_bag_of_n_grams_up_to_many_more_texts_than_a_classifier() -> None:
    for facts in (FEW, MANY):
        made = followed(regressor(NUMBERS), facts)
        assert made.model.encoder.family == "bag"  # type: ignore[union-attr]
        assert not made.train.label_smoothing
    assert "model.encoder" not in decide(regressor(NUMBERS), CorpusFacts(5 * LITTLE, 9, more=True))


@pytest.mark.parametrize("join", ["alternating", "parallel"])
def test_few_pairs_that_co_attention_joins_get_no_pool_beside_it(join: str) -> None:
    model = {"family": "classifier", "join": join, "encoder": {"family": "transformer"}}
    pairs = {"train": {"tsv": "a.tsv", "label": 1, "text": 2, "second": 3}}
    made = followed(load_recipe({"data": pairs, "model": model}), CorpusFacts(300, 9_000, 2, 1_000))
    assert made.model.pool is None  # type: ignore[union-attr]
    assert made.model.encoder.norm == "pre"  # type: ignore[union-attr]


def test_a_regressor_of_pairs_reads_both_texts_and_compares_them() -> None:
    made = followed(regressor(SIMILARITIES))
    assert (made.model.encoder.family, made.model.join) == ("recurrent", "parallel")  # type: ignore[union-attr]
    own = followed(regressor(SIMILARITIES, model={"family": "regressor", "encoder": {"family": "transformer"}}))
    assert (own.model.encoder.family, own.model.join) == ("transformer", "sequence")  # type: ignore[union-attr]
    assert own.model.encoder.norm == "pre"  # type: ignore[union-attr]


def test_a_regressor_of_images_is_a_small_convolutional_network() -> None:
    made = followed(regressor(PRICES), CorpusFacts(5000, 5000 * 48**2))
    assert made.model.encoder.family == "convolutional"  # type: ignore[union-attr]
    assert (made.data.batch_tokens, made.train.steps) == (64 * 36, 2340)
    assert made.data.images.size is None
    large = followed(regressor(PRICES), CorpusFacts(300, 300 * 500**2))
    assert (large.data.images.size, large.data.batch_tokens, large.train.steps) == ((128, 128), 64 * 256, 1000)
    tiny = followed(regressor(PRICES), CorpusFacts(300, 300 * 8**2))
    assert tiny.model.encoder.stages == 2  # type: ignore[union-attr]


def test_no_key_that_the_recipe_sets_is_decided() -> None:
    said = recipe(
        data={**TEXTS, "lowercase": False, "batch_tokens": 777, "max_length": 99},
        tokenizer={"kind": "byte_bpe", "size": 500},
        train={"steps": 50, "optimizer": {"kind": "sgd"}, "validation": {"every": 7}},
    )
    made = followed(said)
    assert (made.data.lowercase, made.data.batch_tokens, made.data.max_length) == (False, 777, 99)
    assert made.tokenizer.size == 500
    assert (made.train.steps, made.train.optimizer.kind, made.train.validation.every) == (50, "sgd", 7)


def test_an_empty_table_sets_nothing() -> None:
    assert decide(recipe(tokenizer={}, train={"validation": {}, "schedule": {}}), FEW) == decide(recipe(), FEW)


def test_a_recipe_with_a_schedule_or_a_start_is_left_as_it_is() -> None:
    constant = {"schedule": {"kind": "constant", "lr": 0.1}}
    assert decide(recipe(train=constant), FEW) == {}
    assert decide(recipe(train={"start_from": "runs/bert", "steps": 5}), FEW) == {}


@pytest.mark.parametrize("steps", [1, 9, 500, 5000, 39_999])
@pytest.mark.parametrize("data", [TEXTS, PAIRS])
def test_the_warm_up_never_outlasts_the_run(steps: int, data: dict[str, Any]) -> None:
    for facts in (FEW, MANY):
        made = followed(recipe(data, train={"steps": steps}), facts)
        assert made.train.schedule.warmup <= max(1, steps / 10)
    noam = followed(recipe(data, train={"steps": steps, "schedule": {"kind": "noam"}}))
    assert noam.train.schedule.warmup <= max(1, steps / 2)


def test_a_shorter_warm_up_keeps_the_maximum_of_the_learning_rate() -> None:
    for said in ({"steps": 500}, {"steps": 500, "schedule": {"kind": "noam"}}):
        schedule = followed(recipe(PAIRS, train=said), MANY).train.schedule
        assert schedule.kind == "noam"
        assert schedule.warmup == 50
        assert schedule.factor * schedule.warmup**-0.5 == pytest.approx(4000**-0.5, rel=1e-3)
    inverse = followed(recipe(PAIRS, train={"steps": 500, "schedule": {"kind": "inverse_sqrt", "lr": 0.1}}))
    assert inverse.train.schedule.warmup == 50


@pytest.mark.parametrize(
    ("rows", "pieces", "dropout", "batch", "epochs", "decay"),
    [
        (300, 1000, 0.4, 512, 250, 1.0),
        (2000, 4000, 0.4, 2048, 233, 1.0),
        (10_000, 4000, 0.4, 4096, 100, 0.3),
        (19_000, 5700, 0.3, 4096, 100, 0.16),
    ],
)
def test_a_translator_of_few_pairs_is_small_and_its_weights_decay(
    rows: int, pieces: int, dropout: float, batch: int, epochs: int, decay: float
) -> None:
    made = followed(recipe(PAIRS), CorpusFacts(rows, rows * 35, 9000, rows * 6))
    assert made.tokenizer.size == pieces
    assert isinstance(made.model, TransformerModel)
    assert (made.model.width, made.model.layers, made.model.dropout) == (128, 4, dropout)
    assert made.data.batch_tokens == batch
    tokens = rows * (35 / 4 + 2)
    assert made.train.steps == pytest.approx(max(1500, epochs * tokens / batch), rel=0.05)
    assert made.train.optimizer.kind == "adamw"
    assert made.train.optimizer.weight_decay == decay


def test_translations_choose_the_best_model_of_few_pairs() -> None:
    few = CorpusFacts(2000, 70_000, 5000, 12_000)
    validated = {**PAIRS, "valid": {"source": "v.en", "target": "v.de"}}
    made = followed(recipe(validated, model={}), few).train.validation
    assert (made.metric, made.max_sentences) == ("chrf", 300)
    said = {"validation": {"metric": "loss"}}
    kept = followed(recipe(validated, model={}, train=said), few).train.validation
    assert (kept.metric, kept.max_sentences) == ("loss", None)
    assert followed(recipe(PAIRS), few).train.validation.metric == "loss"  # nothing to translate
    assert followed(recipe(validated, model={}), MANY).train.validation.metric == "loss"


def test_a_large_corpus_keeps_the_defaults_of_the_tables() -> None:
    assert decide(recipe(PAIRS), MANY) == {}


def test_a_run_in_epochs_has_a_warm_up_of_a_tenth_of_its_updates() -> None:
    made = followed(recipe(train={"epochs": 3}, model={"family": "classifier", "pool": "mean"}))
    updates = 3 * 2000 * 12 / made.data.batch_tokens
    assert made.train.epochs == 3
    assert made.train.schedule.warmup == pytest.approx(updates / 10, abs=1)
    for schedule in ({}, {"schedule": {"kind": "noam"}}, {"schedule": {"kind": "inverse_sqrt", "lr": 0.1}}):
        said = recipe(PAIRS, train={"epochs": 3, **schedule}, model={"family": "transformer", "preset": "small"})
        updates = 3 * MANY.rows * 12 / said.data.batch_tokens
        assert followed(said, MANY).train.schedule.warmup == pytest.approx(updates / 10, abs=1)
        assert followed(said, None).train.schedule.warmup == 4000  # how long an epoch is, is not known


def test_every_rule_names_a_key_of_a_recipe() -> None:
    assert {key.split(".")[0] for key in ALL_KEYS} <= {"data", "tokenizer", "model", "train", "decode"}
    assert all(decide(recipe(data), FEW).keys() <= {*ALL_KEYS} for data in (TEXTS, PAIRS))


def test_every_task_with_rules_is_a_task_that_can_have_its_models() -> None:
    for name, defaults in BY_TASK.items():
        families = {get_args(model.model_fields["family"].annotation)[0] for model in defaults.models}
        assert not families.isdisjoint(TASKS[name].families)


@pytest.mark.parametrize("data", [TEXTS, PAIRS])
def test_the_longest_text_fits_into_a_batch(data: dict[str, Any]) -> None:
    for longest in ({}, {"max_length": 3000}):
        made = followed(recipe({**data, **longest}) if data is TEXTS else load_recipe({"data": {**data, **longest}}))
        assert made.data.batch_tokens > made.data.max_length
