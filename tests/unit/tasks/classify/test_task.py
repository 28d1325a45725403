"""The task of classifiers: its batches, what it minimises, and how it judges."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.errors import UserError
from heedful.config.model.attention import AlignmentName, AttentionPoolTable
from heedful.config.recipe import Recipe
from heedful.data.batches.texts import DocumentCollator, PairedTextCollator, TextCollator
from heedful.data.epochs.plan import Indices
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import Classifier
from heedful.tasks.classify.objective import OneLabel, SeveralLabels
from heedful.tasks.classify.task import ClassifyTask
from heedful.tasks.shared.pooled.network_outputs import collator_of, outputs_of_rows
from heedful.tasks.shared.validation import Asked

TINY = {"family": "transformer", "width": 8, "heads": 2, "layers": 1, "inner": 8}
ENCODERS: dict[str, dict[str, Any]] = {
    "transformer": TINY,
    "recurrent": {"family": "recurrent", "width": 4},
    "hierarchical": {"family": "hierarchical", "words": {"family": "recurrent", "width": 4}, "max_sentence": 7},
    "bert": {**TINY, "family": "bert"},
}
TASK = ClassifyTask()
LABELS = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))


def recipe(encoder: str = "transformer", *, labels: str = "one", second: bool = False, **options: Any) -> Recipe:
    corpus = {"jsonl": "t.jsonl", "text": "text", "label": "label"} | ({"second": "second"} if second else {})
    data = {"train": corpus, "valid": corpus, "batch_tokens": 64, "max_length": 12, **options.pop("data", {})}
    join = options.pop("join", "sequence")
    model = {"family": "classifier", "encoder": ENCODERS[encoder], "labels": labels, "join": join}
    return Recipe.model_validate(
        {"data": data, "tokenizer": {"kind": "word"}, "model": model, "train": options.pop("train", {})}
    )


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(recipe().tokenizer, ["ant bee cat dog eel fox"])


def store(*labels: list[int], sizes: list[int] | None = None) -> TokenStore:
    """Texts with these labels, each of another length unless it is said."""
    lengths = sizes or [1 + 5 * number % 13 for number in range(len(labels))]
    texts = [[4 + (row + place) % 6 for place in range(length)] for row, length in enumerate(lengths)]
    return TokenStore.of(text=texts, second=texts[::-1], sentences=[[len(text)] for text in texts], label=list(labels))


def prepared(tokenizer: Tokenizer, *train: TokenStore, valid: tuple[TokenStore, ...] = ()) -> Prepared:
    return Prepared(Vocabularies({"text": tokenizer}, LABELS), train, (1.0,) * len(train), valid)


def bundle(made: Recipe, tokenizer: Tokenizer) -> Bundle[Classifier]:
    model = build_network(made.model, Vocabularies({"text": tokenizer}, LABELS))
    assert isinstance(model, Classifier)
    return Bundle(made, Vocabularies({"text": tokenizer}, LABELS), model.eval())


# --- data -------------------------------------------------------------------------------------------------------------


def test_classes_are_told_with_how_many_texts_have_them(tmp_path: Path) -> None:
    rows = [{"text": f"word {number}", "label": number % 12 if number < 30 else 0} for number in range(40)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said: list[str] = []
    made = TASK.prepare(recipe(data={"folder": str(tmp_path)}), None, said.append)
    assert made.vocabularies.labels == tuple(map(str, range(12)))
    listed = "0 (13), 1 (3), 2 (3), 3 (3), 4 (3), 5 (3), 6 (2), 7 (2), 8 (2), 9 (2), ..."
    assert said[-1] == f"12 classes: {listed}"


def test_a_vocabulary_and_classes_that_are_given_are_kept(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "ant", "label": "a"}\n')
    said: list[str] = []
    given = Vocabularies({"text": tokenizer}, LABELS)
    made = TASK.prepare(recipe(data={"folder": str(tmp_path)}), given, said.append)
    assert (made.vocabularies["text"], made.vocabularies.labels) == (tokenizer, LABELS)
    assert said[-1] == "3 classes: a (1), b (0), c (0)"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, TextCollator(12)),
        ({"data": {"cut": "middle"}}, TextCollator(12, "middle")),
        ({"second": True}, TextCollator(12, paired=True)),
        ({"second": True, "join": "parallel", "data": {"cut": "start"}}, PairedTextCollator(12, "start")),
        ({"second": True, "join": "alternating", "labels": "several"}, PairedTextCollator(12, classes=3)),
        ({"labels": "several"}, TextCollator(12, classes=3)),
        ({"encoder": "hierarchical", "data": {"cut": "start"}}, DocumentCollator(12, 7, "start")),
        ({"encoder": "hierarchical", "labels": "several"}, DocumentCollator(12, 7, classes=3)),
    ],
)
def test_texts_are_read_as_the_recipe_says(options: dict[str, Any], expected: object) -> None:
    assert collator_of(recipe(**options), classes=3) == expected


def test_batches_keep_to_the_budget_and_to_a_number_of_texts(tokenizer: Tokenizer) -> None:
    made = prepared(tokenizer, store(*[[0]] * 30))
    feed = TASK.feed(recipe(data={"batch_tokens": 96}), made)
    batches = [feed.batch(indices) for indices in feed.plan(0)]
    assert max(batch.tokens for batch in batches) <= 96
    assert max(batch.sentences for batch in batches) == 3  # were they 32 tokens long, the budget would hold so many
    assert sum(batch.sentences for batch in batches) == 30
    assert all(batch.inputs.layout.tokens % 64 == 0 for batch in batches)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_gpu_has_one_shape_of_batches_where_attention_runs_straight_on_it(encoder: str) -> None:
    wide = {"width": 64, "heads": 2} if encoder in ("transformer", "bert") else {}
    still = {"dropout_attention": 0.0} if encoder == "bert" else {}
    made = recipe(encoder)
    model = made.model.model_copy(update={"encoder": made.model.encoder.model_copy(update=wide | still)})  # type: ignore[union-attr]
    shape = TASK.static_shape(made.model_copy(update={"model": model}), torch.bfloat16)
    if not wide:
        assert shape is None
        return
    assert shape is not None
    assert (shape.tokens, shape.bound, shape.max_sentences) == (64, 12, 2)
    assert TASK.static_shape(made.model_copy(update={"model": model}), torch.float32) is None


@pytest.mark.parametrize(("alignment", "captured"), [("deep", True), ("area", False)])
def test_a_gpu_has_one_shape_where_tokens_are_scored_one_by_one(alignment: AlignmentName, captured: bool) -> None:
    made = recipe()
    wide = made.model.encoder.model_copy(update={"width": 64})  # type: ignore[union-attr]
    model = made.model.model_copy(update={"encoder": wide, "pool": AttentionPoolTable(alignment=alignment)})
    shape = TASK.static_shape(made.model_copy(update={"model": model}), torch.bfloat16)
    assert (shape is not None) == captured


@pytest.mark.parametrize(("max_length", "captured"), [(128, True), (129, False)])
def test_a_gpu_has_one_shape_of_pairs_unless_most_of_it_would_be_padding(max_length: int, captured: bool) -> None:
    made = recipe(second=True, data={"batch_tokens": 4096, "max_length": max_length})
    wide = made.model.encoder.model_copy(update={"width": 64})  # type: ignore[union-attr]
    model = made.model.model_copy(update={"encoder": wide, "join": "parallel"})
    shape = TASK.static_shape(made.model_copy(update={"model": model}), torch.bfloat16)
    assert (shape is not None) == captured
    if shape is not None:
        assert (shape.tokens, shape.bound) == (4096, 128)
        assert shape.sentences == 2 * (4096 // 32 + 4096 // 128)  # of the most pairs, and of their dummies


@pytest.mark.parametrize("max_length", [40, 6], ids=["whole", "cut"])
@pytest.mark.parametrize(
    ("encoder", "second"), [("transformer", False), ("transformer", True), ("hierarchical", False)]
)
def test_the_tokens_of_an_epoch_are_those_that_speed_counts(
    tokenizer: Tokenizer, encoder: str, second: bool, max_length: int
) -> None:
    asked = recipe(encoder, second=second, data={"max_length": max_length})
    texts = store(*[[0]] * 9, sizes=[1, 5, 7, 2, 6, 3, 3, 4, 1])
    names = ("text", "label", *(["second"] if second else []), *(["sentences"] if encoder == "hierarchical" else []))
    used = TokenStore({name: texts.streams[name] for name in names})
    made = prepared(tokenizer, used)
    feed = TASK.feed(asked, made)
    objective = TASK.objective(asked, made)
    shown = sum(objective.tokens(feed.batch(indices)) for indices in feed.plan(0))
    assert TASK.epoch_tokens(asked, made) == shown
    doubled = Prepared(Vocabularies({"text": tokenizer}, LABELS), (used, used), (1.0, 2.5), ())
    assert TASK.epoch_tokens(asked, doubled) == 3.5 * shown


# --- what is minimised ------------------------------------------------------------------------------------------------


def minimised(made: Recipe, of: Prepared) -> OneLabel:
    objective = TASK.objective(made, of)
    assert isinstance(objective, OneLabel)
    return objective


def weights(tokenizer: Tokenizer, made: Recipe, *train: TokenStore) -> list[float] | None:
    found = minimised(made, prepared(tokenizer, *train)).weights_C
    return None if found is None else found.tolist()


def test_one_or_several_labels_have_their_objective(tokenizer: Tokenizer) -> None:
    one, several = (minimised(recipe(labels=labels), prepared(tokenizer)) for labels in ("one", "several"))
    assert (type(one), type(several)) == (OneLabel, SeveralLabels)
    assert (one.smoothing, one.weights_C) == (0.0, None)
    smoothed = minimised(recipe(train={"label_smoothing": 0.2}), prepared(tokenizer))
    assert smoothed.smoothing == 0.2


def test_balanced_weights_make_all_classes_count_alike(tokenizer: Tokenizer) -> None:
    """n / (C n_c), over all corpora: every class's texts weigh n / C together."""
    made = recipe(train={"class_weights": "balanced"})
    found = weights(tokenizer, made, store([0], [0], [0], [1]), store([0], [1], [2], [0]))
    assert found is not None
    assert [count * weight for count, weight in zip((5, 2, 1), found, strict=True)] == pytest.approx([8 / 3] * 3)


def test_balanced_weights_go_by_what_an_epoch_shows(tokenizer: Tokenizer) -> None:
    """Three of the first class, and one of each other that is shown three times: all are shown alike."""
    made = recipe(train={"class_weights": "balanced"})
    stores = store([0], [0], [0]), store([1], [2])
    found = minimised(made, Prepared(Vocabularies({"text": tokenizer}, LABELS), stores, (1.0, 3.0), ())).weights_C
    assert found is not None
    assert found.tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_a_class_without_a_text_is_weighed_as_if_it_had_one(tokenizer: Tokenizer) -> None:
    found = weights(tokenizer, recipe(train={"class_weights": "balanced"}), store([0], [0], [1]))
    assert found == pytest.approx([3 / (3 * 2), 3 / 3, 3 / 3])


def test_balanced_weights_of_several_labels_are_the_texts_without_one_by_those_with_it(tokenizer: Tokenizer) -> None:
    made = recipe(labels="several", train={"class_weights": "balanced"})
    found = weights(tokenizer, made, store([0, 1], [0], [], [0, 1, 2], [0], [0], [0], [0]))
    assert found == pytest.approx([1 / 7, 6 / 2, 7 / 1])
    assert weights(tokenizer, made, store([0], [0])) == pytest.approx([1 / 2, 1, 1])  # none is 0 or without end


def test_weights_are_those_of_the_recipe_and_one_where_it_says_nothing(tokenizer: Tokenizer) -> None:
    made = recipe(train={"class_weights": {"c": 2.5, "a": 0.5}})
    assert weights(tokenizer, made, store([0])) == [0.5, 1.0, 2.5]


def test_a_weight_of_no_class_is_refused(tokenizer: Tokenizer) -> None:
    made = recipe(train={"class_weights": {"a": 1.0, "d": 2.0}})
    message = r"^`train.class_weights` names `d`, but no training text has that label\. Known: a, b, c\.$"
    with pytest.raises(UserError, match=message):
        TASK.objective(made, prepared(tokenizer))


# --- how it judges ----------------------------------------------------------------------------------------------------


def scores_of(made: Bundle[Classifier], stores: Sequence[TokenStore], rows: Indices) -> Tensor:
    collator = collator_of(made.recipe, len(made.vocabularies.labels))
    return outputs_of_rows(made.model, collator, stores, rows, made.recipe.data.batch_tokens)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_scores_come_in_the_order_of_the_rows_whatever_stands_together(encoder: str, tokenizer: Tokenizer) -> None:
    texts = (store(*[[0]] * 5), store(*[[1]] * 9, sizes=[3, 30, 1, 2, 8, 5, 5, 9, 4]))
    rows = np.array([13, 0, 7, 7, 3, 12])
    small, large = (bundle(recipe(encoder, data={"batch_tokens": size}), tokenizer) for size in (8, 500))
    large.model.load_state_dict(small.model.state_dict())
    scores = scores_of(small, texts, rows)
    assert torch.allclose(scores, scores_of(large, texts, rows), atol=1e-5)
    alone = [scores_of(small, texts, rows[place : place + 1])[0] for place in range(len(rows))]
    assert torch.allclose(scores, torch.stack(alone), atol=1e-5)
    assert not scores.requires_grad


@pytest.mark.parametrize(("most", "rows"), [(None, range(5)), (3, (0, 1, 3)), (2, (0, 2)), (100, range(5))])
def test_texts_are_judged_one_by_one(tokenizer: Tokenizer, most: int | None, rows: Sequence[int]) -> None:
    made = bundle(recipe(), tokenizer)
    stores = store([0], [2]), store([1], [0], [2])
    judged = TASK.evaluate_stores(made, stores, Asked(most=most))
    scores = scores_of(made, stores, np.array(rows))
    true = [[0, 2, 1, 0, 2][row] for row in rows]
    assert judged.texts == len(true)
    assert judged.accuracy == pytest.approx(np.mean(scores.argmax(1).numpy() == true))
    logs = scores.log_softmax(1)
    assert judged.loss == pytest.approx(-np.mean([float(logs[row, label]) for row, label in enumerate(true)]), rel=1e-5)


def test_several_labels_are_judged_class_by_class(tokenizer: Tokenizer) -> None:
    made = bundle(recipe(labels="several"), tokenizer)
    judged = TASK.evaluate_stores(made, (store([0, 1], []),))
    scores = scores_of(made, (store([0, 1], []),), np.arange(2))
    assert judged.true.tolist() == [[True, True, False], [False] * 3]
    assert judged.said.tolist() == (scores > 0).tolist()
    signs = torch.tensor([[1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]])
    assert judged.loss == pytest.approx(-float((signs * scores).sigmoid().log().sum()) / 2, rel=1e-5)


@pytest.mark.parametrize("metric", ["loss", "accuracy", "f1"])
def test_the_metric_of_the_recipe_comes_first(tokenizer: Tokenizer, metric: str) -> None:
    made = bundle(recipe(train={"validation": {"metric": metric}}), tokenizer)
    valid = (store([0], [1], [2], [0]),)
    scores = TASK.validator(made, prepared(tokenizer, valid=valid))()
    assert next(iter(scores)) == metric
    judged = TASK.evaluate_stores(made, valid)
    assert dict(scores) == {"loss": judged.loss, "accuracy": judged.accuracy, "f1": judged.macro_f1}


def test_so_many_texts_are_judged_as_the_recipe_says(tokenizer: Tokenizer) -> None:
    made = bundle(recipe(train={"validation": {"max_sentences": 2}}), tokenizer)
    valid = (store([0], [1], [2], [0]),)
    assert (
        TASK.validator(made, prepared(tokenizer, valid=valid))()["loss"]
        == TASK.evaluate_stores(made, valid, Asked(most=2)).loss
    )


def test_nothing_is_judged_without_validation(tokenizer: Tokenizer) -> None:
    assert TASK.validator(bundle(recipe(), tokenizer), prepared(tokenizer))() == {}


def test_a_loss_that_is_not_finite_ends_training(tokenizer: Tokenizer) -> None:
    made = bundle(recipe(), tokenizer)
    torch.nn.init.constant_(made.model.output.bias, float("nan"))
    with refuses("The validation loss is not..."):
        TASK.validator(made, prepared(tokenizer, valid=(store([0], [1]),)))()
