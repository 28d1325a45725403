"""Scores of sequences by name, against one or several references."""

from pathlib import Path

import pytest
import sacrebleu
from tests.models.text import classifier_recipe, film_texts, fresh_classifier, write_tsv, written
from tests.shared.refusals import refuses

import heedful
from heedful.config.corpora.containers import Tsv
from heedful.config.decode import Evaluate
from heedful.config.train.table import Validation
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.metrics.edits import variants_of
from heedful.models.bundle import Bundle
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.loading import task_named
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.task import TranslateTask

SOURCES = ["ant bee", "cat dog", "eel fox gnu"]
REFERENCES = [("bee ant", "ant bee"), ("hen",), ("gnu fox", "eel")]  # right; two edits away; one edit away
ROWS = list(zip(SOURCES, map(list, REFERENCES), strict=True))


def test_named_scores_are_shown_in_order_and_the_nearest_reference_counts(reversing: Translator) -> None:
    found = reversing.evaluate(ROWS, metrics=["wer", "per", "edit_distance"])
    assert found.translations == ("bee ant", "dog cat", "gnu fox eel")
    scores = {score.name: score for score in found.scores()}
    assert list(scores) == ["wer", "per", "edit_distance", "exact_match", "perplexity"]
    assert scores["per"].value == scores["wer"].value == pytest.approx(100 * 3 / 5)
    assert scores["edit_distance"].value == pytest.approx((0 + 7 + 4) / 3)
    assert scores["exact_match"].value == pytest.approx(1 / 3)
    assert scores["per"].note == "nrefs:var|case:mixed|unit:symbol"
    assert found.references == tuple(REFERENCES)
    assert found.to_json()["per"] == {"score": scores["per"].value, "signature": "nrefs:var|case:mixed|unit:symbol"}


def test_bleu_and_chrf_take_all_references(reversing: Translator) -> None:
    found = reversing.evaluate(ROWS)
    streams = [[variants[0] for variants in REFERENCES], ["ant bee", None, "eel"]]
    assert found.bleu.score == sacrebleu.corpus_bleu(found.translations, streams).score  # type: ignore[arg-type]
    assert found.chrf.score == sacrebleu.corpus_chrf(found.translations, streams).score  # type: ignore[arg-type]
    assert found.bleu.signature.startswith("nrefs:var|")
    assert found.likelihood.tokens == sum(len(text.split()) + 1 for variants in REFERENCES for text in variants)


def test_a_text_among_lists_is_a_list_of_one(reversing: Translator) -> None:
    mixed = [("ant bee", "bee ant"), ("cat dog", ["hen", "dog cat"])]
    seen: list[object] = []

    def own(outputs: list[str], references: list[object]) -> float:
        seen.extend(references)
        return 1.0

    assert reversing.evaluate(mixed, metrics={"own": own}).exact == 2
    assert seen == [("bee ant",), ("hen", "dog cat")]


def test_a_recipe_names_its_scores_and_what_a_word_is(reversing: Translator) -> None:
    asked = Evaluate(metrics=("per", "wer"), one_word=True)
    bundle = Bundle(reversing.recipe.model_copy(update={"evaluate": asked}), reversing.vocabularies, reversing.network)
    scores = {score.name: score.value for score in Translator(bundle).evaluate(ROWS).scores()}
    assert list(scores) == ["per", "wer", "exact_match", "perplexity"]
    assert scores["per"] == pytest.approx(60)
    assert scores["wer"] == pytest.approx(100 * 2 / 3)


@pytest.mark.parametrize("metric", ["per", "exact_match"])
def test_the_best_model_can_be_chosen_by_them(metric: str, reversing: Translator, tmp_path: Path) -> None:
    (tmp_path / "v.tsv").write_text("".join(f"{s}\t{v[0]}\n" for s, v in zip(SOURCES, REFERENCES, strict=True)))
    data = reversing.recipe.data.model_copy(update={"folder": str(tmp_path), "valid": (Tsv(tsv="v.tsv"),)})
    train = reversing.recipe.train.model_copy(update={"validation": Validation(metric=metric)})
    bundle = Bundle(
        reversing.recipe.model_copy(update={"data": data, "train": train}), reversing.vocabularies, reversing.network
    )
    targets = reversing.wording.encode_target([variants[0] for variants in REFERENCES], [()] * len(REFERENCES))
    store = TokenStore.of(source=reversing.encode(SOURCES), target=targets)
    with evaluation_mode(reversing.network):
        scores = TranslateTask().validator(bundle, Prepared(bundle.vocabularies, (), (), (store,)))()
    first = [variants_of(variants)[0] for variants in REFERENCES]
    found = reversing.evaluate_rows(list(zip(SOURCES, first, strict=True)), metric=[metric])
    assert list(scores) == [metric, "loss", "perplexity", "bleu", "chrf"]
    assert scores[metric] == {score.name: score.value for score in found.scores()}[metric]


def test_variants_of_validation_are_references_of_one_source(reversing: Translator, tmp_path: Path) -> None:
    rows = [(source, variant) for source, variants in zip(SOURCES, REFERENCES, strict=True) for variant in variants]
    (tmp_path / "v.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    corpus = Tsv(tsv="v.tsv", variants=True)
    data = reversing.recipe.data.model_copy(update={"folder": str(tmp_path), "valid": (corpus,)})
    train = reversing.recipe.train.model_copy(update={"validation": Validation(metric="per")})
    recipe = reversing.recipe.model_copy(update={"data": data, "train": train})
    targets = reversing.wording.encode_target([target for _, target in rows], [()] * len(rows))
    store = TokenStore.of(source=reversing.encode([source for source, _ in rows]), target=targets)
    with evaluation_mode(reversing.network):
        bundle = Bundle(recipe, reversing.vocabularies, reversing.network)
        scores = TranslateTask().validator(bundle, Prepared(bundle.vocabularies, (), (), (store,)))()
    assert scores["per"] == pytest.approx(60)
    found = task_named("translate").evaluate(reversing, corpus, str(tmp_path), {"metric": ["per"]})
    assert found.scores()[0].value == scores["per"]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["perr"], "`perr` is not a metric. Did you mean `per`?"),
        ("per", "`metrics` is 'per', but must be a dictionary ..."),
    ],
)
def test_unknown_names_are_refused(metrics: object, message: str, reversing: Translator) -> None:
    with refuses(message):
        reversing.evaluate(ROWS, metrics=metrics)  # type: ignore[arg-type]


def test_an_empty_list_of_variants_is_refused(reversing: Translator) -> None:
    with refuses("data, row 2: `target` is an empty list, but..."):
        reversing.evaluate([("ant", "ant"), ("bee", [])])


def test_every_metric_of_texts_has_a_score_by_its_name(reversing: Translator) -> None:
    found = reversing.evaluate(ROWS)
    assert found.score("bleu") == found.bleu.score
    assert found.score("exact_match") == found.exact_match
    assert found.score("perplexity") == found.perplexity
    assert found.score("ter") == found.signed("ter").score
    with refuses("`bluu` is not a score of this evaluation. Did you mean..."):
        found.score("bluu")


def test_names_choose_among_the_scores_of_other_tasks(tmp_path: Path) -> None:
    write_tsv(tmp_path / "films.tsv", film_texts(4))
    model = written(fresh_classifier(classifier_recipe(tmp_path)), tmp_path / "model")
    with refuses("`per` is not a metric of ..., a model that classifies: use..."):
        heedful.evaluate(model, [("a film", "pos")], metrics=["per"])
    found = heedful.evaluate(model, [("a film", "pos")], metrics=["f1"])
    assert [score.name for score in found.scores()] == ["f1"]
    assert found.scores()[0].value == found.score("f1")
    assert found.score("accuracy") in (0, 1)
    assert set(found.to_json()) & {"accuracy", "f1", "loss"} == {"f1"}
