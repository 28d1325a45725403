"""Targets that begin with the tag of their language: in training data, in searches, and wherever they are scored."""

from pathlib import Path

import pytest
from tests.shared.refusals import refuses
from tests.unit.interop.marian_folders import ENGLISH, GERMAN
from tests.unit.interop.pairs.translators import write_translator

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.prepare.pairs import prepare
from heedful.data.tokenize.tokenizer import END
from heedful.runs.fine_tuning import adapt
from heedful.tasks.translate.model import Translator

TEXTS = ["A small dog runs through the green garden!", "He bought apples, pears and 2.5 kg of flour."]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("tagged")
    write_translator(folder / "m", languages=("de", "fr"), data={"target_tags": True})
    return Translator.load(folder / "m", device="cpu")


def test_sources_and_targets_begin_with_the_tag_of_their_corpus(translator: Translator) -> None:
    prepared = prepare(translator.recipe, given=translator.vocabularies)
    tags = translator.vocabularies["source"].tags
    for store, tag in zip(prepared.train, (tags["de"], tags["fr"]), strict=True):
        for name in ("source", "target"):
            first, *rest = store.sentence(name, 0).tolist()
            assert first == tag
            assert tag not in rest


def test_a_length_counts_the_tag_of_a_target(tmp_path: Path) -> None:
    # Of one pair, the target alone is as long as a side may be.
    most = next(len(target) for source, target in zip(ENGLISH, GERMAN, strict=True) if len(target) > len(source))
    counts = []
    for both in (False, True):
        made = write_translator(
            tmp_path / str(both) / "m",
            languages=("de",),
            tokenizer={"kind": "char"},
            data={"target_tags": both, "max_length": most},
        )
        counts.append(sum(map(len, prepare(made.recipe, given=made.vocabularies).train)))
    assert counts[0] == counts[1] + 1


@pytest.mark.parametrize("to", ["de", "fr"])
def test_translations_begin_with_the_tag_that_their_source_asks_for(translator: Translator, to: str) -> None:
    tag = translator.vocabularies["target"].tag(to)
    for beam in (1, 3):
        for (best, *_), text in zip(translator.translate_detailed(TEXTS, to=to, beam=beam), TEXTS, strict=True):
            assert best.tokens[0] == tag
            assert tag not in best.tokens[1:]
            assert not best.text.startswith("<2")
            assert best.text == translator.translate(f"<2{to}> {text}", beam=beam)


def test_a_prefix_comes_after_the_tag(translator: Translator) -> None:
    target = translator.vocabularies["target"]
    for best, *_ in translator.translate_detailed(TEXTS, to="fr", prefix="Ein Hund"):
        ids = target.encode("Ein Hund")
        assert list(best.tokens[: 1 + len(ids)]) == [target.tag("fr"), *ids]
        assert best.text.startswith("Ein Hund")


def test_a_translation_has_the_score_that_its_text_has(translator: Translator) -> None:
    options = {"to": "de", "beam": 1, "max_extra": 5}
    found = [best for best, *_ in translator.translate_detailed(TEXTS, **options)]  # type: ignore[call-overload]
    scores = translator.score(TEXTS, [best.text for best in found], to="de")
    for best, score in zip(found, scores, strict=True):
        assert score.pieces[0] == "<2de>"
        if translator.vocabularies["target"].encode(best.text) == list(best.tokens[1:]):
            summed = sum(score.log_probabilities[: len(best.tokens) + best.complete])
            assert summed == pytest.approx(best.log_probability, abs=1e-3)


def test_an_alignment_leaves_the_tag_out(translator: Translator) -> None:
    for best, *_ in translator.translate_detailed(TEXTS, to="de", aligned=True, max_extra=3):
        assert best.alignment is not None
        assert "<2de>" not in (*best.alignment.source_pieces, *best.alignment.target_pieces)
        assert len(best.alignment.target_pieces) == len(best.tokens) - 1


def test_an_explanation_shows_the_tag_that_was_read(translator: Translator) -> None:
    for target in (None, "Ein Hund."):
        explained = translator.explain(TEXTS[0], target, to="fr")
        assert explained.sequences["output"].pieces[0] == "<2fr>"
        assert explained.sequences["target"].pieces[1] == "<2fr>"


def test_an_evaluation_foresees_the_tag(translator: Translator) -> None:
    found = translator.evaluate_rows(list(zip(TEXTS, TEXTS, strict=True)), to="de", most_tokens=9)
    scores = translator.score(TEXTS, TEXTS, to="de")
    assert found.likelihood.tokens == sum(len(score.pieces) for score in scores)
    mean = sum(score.log_probability for score in scores) / found.likelihood.tokens
    assert found.likelihood.loss == pytest.approx(-mean, rel=1e-5)


def test_a_blank_text_stays_blank(translator: Translator) -> None:
    assert translator.translate(["", " "], to="de") == ["", ""]
    (score,) = translator.score(["a"], [""], to="de")
    assert score.pieces == ("</s>",)
    assert END == 2


def test_a_recipe_takes_the_key_from_its_start(translator: Translator) -> None:
    corpus = {"source": "a", "target": "b", "to": "de"}
    recipe = recipe_from_json({"data": {"train": [corpus]}}, "recipe")
    assert adapt(recipe, translator.recipe).data.target_tags


def recipe(**tables: object) -> Recipe:
    return recipe_from_json(tables, "recipe")


def test_tags_need_target_languages() -> None:
    with refuses("recipe: `data.target_tags` needs target languages: set `to` in all corpora, or leave it out."):
        recipe(data={"train": [{"source": "a", "target": "b"}], "target_tags": True})


def test_tags_need_one_vocabulary() -> None:
    with refuses(
        "recipe: `data.target_tags` needs one vocabulary, as tags are those of sources, but `tokenizer.joint` is "
        "false: leave it out."
    ):
        recipe(
            data={"train": [{"source": "a", "target": "b", "to": "de"}], "target_tags": True},
            tokenizer={"kind": "bpe", "joint": False},
        )
