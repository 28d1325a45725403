"""Models of a server: their languages, their names, what metrics tell of them."""

from pathlib import Path
from typing import Any

import pytest
from tests.serve.questions import BUNDLES, load
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import AlignedFiles, Builtin
from heedful.config.recipe import Recipe
from heedful.server.errors import Refused, of_user
from heedful.server.metrics import Metrics
from heedful.server.served import Models, languages_of, load_models


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    found: Recipe = load("transformer").recipe
    return found


def trained_on(recipe: Recipe, *corpora: Any) -> Recipe:
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"train": corpora})})


@pytest.mark.parametrize(
    ("files", "languages"),
    [
        ([("train.en", "train.de")], ("en", ("de",))),
        ([("train.en.gz", "train.de.zst")], ("en", ("de",))),
        ([("a/b.fr/train.pt-BR.xz", "t.zh_Hant")], ("pt-BR", ("zh_Hant",))),
        ([("a.en", "a.de"), ("b.en.gz", "b.de")], ("en", ("de",))),
        ([("a.en", "a.de"), ("b.fr", "b.de")], (None, ("de",))),
        ([("first.in", "first.out")], ("in", ("out",))),  # as good as any: names tell no more
        ([("train.source", "train.target")], (None, ())),
        ([("en", "de")], (None, ())),
        ([("train.en.txt", "train.de.txt")], ("txt", ("txt",))),
        ([], (None, ())),
    ],
)
def test_the_languages_of_a_translator_are_those_of_its_files(
    recipe: Recipe, files: list[tuple[str, str]], languages: tuple[str | None, tuple[str, ...]]
) -> None:
    corpora = [AlignedFiles(source=source, target=target) for source, target in files]
    assert languages_of(trained_on(recipe, *corpora)) == languages


def test_the_built_in_corpus_has_languages(recipe: Recipe) -> None:
    assert languages_of(trained_on(recipe, Builtin(builtin="english-spanish"))) == ("en", ("es",))


def test_languages_are_given_to_translators_that_do_not_know_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Any] = {"transformer": (None, ()), "mixed": ("fr", ("it",)), "recurrent-cho": (None, ()),
                             "transformer-kernel": ("ru", ())}  # fmt: skip
    models = {name: load(name) for name in [*known, "bert"]}
    names = {id(model.recipe): name for name, model in models.items()}
    monkeypatch.setattr("heedful.server.served.languages_of", lambda recipe: known.get(names[id(recipe)], (None, ())))
    served = load_models(models, "cpu", "float32", ["en-de", "es-pt"])
    assert {one.name: (one.source, tuple(one.targets)) for one in served} == {
        "transformer": ("en", ("de",)), "mixed": ("fr", ("it",)), "recurrent-cho": ("es", ("pt",)),
        "transformer-kernel": ("ru", ("pt",)), "bert": (None, ()),
    }  # fmt: skip


def test_a_server_needs_a_model_and_one_name_for_each() -> None:
    with refuses("There is no model to serve: give the folder of one."):
        load_models([], "cpu", "float32")
    folder = BUNDLES / "classifier-bag"
    with refuses("Two models are called `classifier-bag`: ..."):
        Models(load_models([folder, str(folder)], "cpu", "float32"))
    assert [one.name for one in load_models([folder, f"other={folder}"], "cpu", "float32")] == [
        "classifier-bag",
        "other",
    ]
    assert [one.name for one in load_models({"mine": folder}, "cpu", "float32")] == ["mine"]
    assert [one.name for one in load_models(folder, "cpu", "float32")] == ["classifier-bag"]  # type: ignore[arg-type]


def test_no_model_is_loaded_when_one_folder_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("heedful.server.served.load", lambda *given: pytest.fail("a model was loaded"))
    with refuses(f"{tmp_path / 'nowhere'} is not a folder: ..."):
        load_models([BUNDLES / "transformer", tmp_path / "nowhere"], "cpu", "float32")


def test_a_task_whose_models_answer_no_requests_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.tasks.classify.task import ClassifyTask

    monkeypatch.setattr(ClassifyTask, "service_type", None)
    with refuses("bag ..., and such models answer no requests: leave it out."):
        load_models([f"bag={BUNDLES / 'classifier-bag'}"], "cpu", "float32")


@pytest.fixture(scope="module")
def models() -> Models:
    names = ("classifier-bag", "classifier-gpt-pairs", "images-vit", "bert")
    return Models(load_models({name: load(name) for name in names}, "cpu", "float32"))


@pytest.mark.parametrize(
    ("name", "verb", "roles", "found"),
    [
        ("bert", None, {}, "bert"),
        (None, "fill", {"text"}, "bert"),
        (None, "classify", {"text"}, "classifier-bag"),
        (None, "classify", {"text", "second"}, "classifier-gpt-pairs"),
        (None, "classify", {"image"}, "images-vit"),
        (None, "classify", {}, "classifier-bag"),
        ("images-vit", "classify", {"text"}, "images-vit"),
        ("nothing", "classify", {}, 404),
        ("bert", "classify", {}, 404),
        (None, "tag", {"text"}, 404),
    ],
)
def test_the_model_of_a_request_is_the_named_one_or_the_first_that_fits(
    models: Models, name: str | None, verb: str | None, roles: set[str], found: str | int
) -> None:
    if isinstance(found, str):
        assert models.find(name, verb, roles).name == found
        return
    with pytest.raises(Refused) as caught:
        models.find(name, verb, roles)
    assert (caught.value.status, caught.value.field) == (found, "model")


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_metrics_are_lines_that_prometheus_reads(models: Models) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    metrics = Metrics(models)
    metrics.count("/v1/classify", 200, 0.02)
    metrics.count("/v1/classify", 200, 0.3)
    metrics.count("/v1/classify", 429, 0.001)
    metrics.count("other", 404, 0.001)
    models.served[0].worker.under_way = 3
    try:
        samples = {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(metrics.text().decode())
            for sample in family.samples
        }
    finally:
        models.served[0].worker.under_way = 0
    assert samples["heedful_requests_total", "/v1/classify", "200"] == 2
    assert samples["heedful_requests_total", "/v1/classify", "429"] == 1
    assert samples["heedful_requests_total", "404", "other"] == 1
    assert samples["heedful_request_seconds_count", "/v1/classify"] == 3
    assert samples["heedful_request_seconds_bucket", "/v1/classify", "0.025"] == 2
    assert samples["heedful_under_way", "classifier-bag"] == 3
    assert samples["heedful_under_way", "bert"] == 0
    assert samples["heedful_explaining",] == 0


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "fields", "told", "field"),
    [
        ("`beam` is 0.", ["text", "beam"], "`beam` is 0.", "beam"),
        ("`nbest` is 6: set `beam` to 6.", ["text", "beam"], "`nbest` is 6: set `beam` to 6.", "beam"),
        ("input 1 has no\n mask", ["text", "top"], "`text`: input 1 has no mask", "text"),
        ("the question is empty", ["text", "question"], "`question`: the question is empty", "question"),
        ("it is damaged", ["image", "beam"], "`image`: it is damaged", "image"),
        ("it is damaged", ["beam"], "it is damaged", None),
    ],
)
def test_a_refusal_names_a_field_of_the_request(message: str, fields: list[str], told: str, field: str | None) -> None:
    refused = of_user(message, dict.fromkeys(fields))
    assert (refused.status, refused.message, refused.field) == (422, told, field)
