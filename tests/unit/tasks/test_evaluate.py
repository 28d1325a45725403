"""`heedful.evaluate` and the models' own `evaluate`: the same scores as the command line's, on any form of data."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.models.text import (
    classifier_recipe,
    film_texts,
    fresh_classifier,
    fresh_masked_model,
    masked_recipe,
    write_tsv,
    written,
)
from tests.shared.refusals import refuses

import heedful
from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.tasks.loading import task_named
from heedful.tasks.translate.model import Translator

Pairs = list[tuple[str, str]]


@pytest.fixture
def pairs(sentences: Callable[[int], list[str]], reverse: Callable[[str], str]) -> Pairs:
    return [(text, reverse(text)) for text in sentences(20)]


def test_a_translator_is_scored_as_by_its_task(reversing: Translator, pairs: Pairs, tmp_path: Path) -> None:
    for side, name in enumerate(("in", "out")):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in pairs))
    corpus = AlignedFiles(source=str(tmp_path / "in"), target=str(tmp_path / "out"))
    expected = task_named("translate").evaluate(reversing, corpus, options={"beam": 2})
    ready: list[int] = []
    found = reversing.evaluate(pairs, beam=2, progress=ready.append)
    assert [score.value for score in found.scores()] == [score.value for score in expected.scores()]
    assert found.references == tuple(reference for _, reference in pairs)
    assert sum(ready) == len(pairs)
    columns = {"source": [source for source, _ in pairs], "target": [target for _, target in pairs]}
    assert heedful.evaluate(reversing, columns, beam=2).outputs is not None
    assert reversing.evaluate(columns, beam=2).translations == found.translations


def test_without_data_the_corpora_of_the_recipe_are_scored_by_name(reversing_folder: Path) -> None:
    found = heedful.evaluate(reversing_folder, device="cpu", beam=1)
    assert list(found) == ["1", "second"]
    assert found["second"].to_json()["sentences"] == 10


def test_a_classifier_is_scored_on_texts_with_labels(tmp_path: Path) -> None:
    rows = film_texts(30)
    for name in ("test", "valid"):
        write_tsv(tmp_path / f"{name}.tsv", rows)
    folder = written(fresh_classifier(classifier_recipe(tmp_path)), tmp_path / "films")
    classifier = heedful.TextClassifier.load(folder, "cpu")
    data = [(text, label) for label, text in rows]
    found = classifier.evaluate(data)
    right = sum(
        one.label == label for one, (_, label) in zip(classifier.classify([t for t, _ in data]), data, strict=True)
    )
    assert found.result.right_texts == right
    assert heedful.evaluate(folder, device="cpu")["second"].to_json()["accuracy"] == found.result.accuracy
    with refuses("data, line 1 has the label `god`, which is not a class of the model..."):
        classifier.evaluate([("a film", "god")])
    with refuses("This model reads single..."):
        classifier.evaluate([("a", "b", "pos")])


def test_a_masked_language_model_is_scored_on_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    filler = heedful.MaskFiller.load(written(fresh_masked_model(masked_recipe(tmp_path)), tmp_path / "m"), "cpu")
    texts = [text for _, text in film_texts(20)]
    found = filler.evaluate(texts)
    assert found.documents == 20
    assert found.predictions == filler.evaluate([{"text": text} for text in texts]).predictions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "train"}, '`split` is \'train\', but must be "valid" or "test".'),
        ({"split": "valid"}, ": its recipe has no `data.valid`: give `data`."),
        (
            {"data": [("a", None)]},
            "data, row 1: `target` is None, but must be a text: leave it out, or give an empty one.",
        ),
        ({"beam": "2", "data": [("ant", "ant")]}, "`beam` is '2', but must be a whole number."),
    ],
)
def test_what_cannot_be_scored_is_refused(options: dict[str, object], message: str, reversing_folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        heedful.evaluate(reversing_folder, device="cpu", **options)  # type: ignore[call-overload]
    assert str(caught.value).endswith(message)


def test_options_of_a_search_are_for_translators(tmp_path: Path) -> None:
    folder = written(fresh_classifier(classifier_recipe(tmp_path)), tmp_path / "films")
    with refuses("`beam` is for translators, which ...films is not: leave it out."):
        heedful.evaluate(folder, device="cpu", beam=2)
