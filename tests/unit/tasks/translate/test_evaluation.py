"""A model judged on pairs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data, Tokenized
from heedful.config.decode import Decode, Evaluate
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.config.train.table import Validation
from heedful.data.prepare.prepared import Prepared
from heedful.data.text_form import join_words
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.edits import Reference
from heedful.metrics.translation import bleu
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.translate.evaluation import TranslationEvaluation
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.task import TranslateTask

Sentences = Callable[[int], list[str]]


def evaluate(
    model: Translator, sources: Sequence[str], references: Sequence[Reference], **options: Any
) -> TranslationEvaluation:
    return model.evaluate_rows(list(zip(sources, references, strict=True)), **options)


def test_scores_are_those_of_the_translations(
    reversing: Translator, sentences: Sentences, reverse: Callable[[str], str]
) -> None:
    sources = sentences(30)
    references = [reverse(source) for source in sources]
    ready: list[int] = []
    found = evaluate(reversing, sources, references, progress=ready.append, beam=2)
    assert list(found.translations) == reversing.translate(sources, beam=2)
    assert found.sentences == sum(ready) == 30
    assert found.bleu.score == sacrebleu.corpus_bleu(found.translations, [references]).score
    assert found.chrf.score == sacrebleu.corpus_chrf(found.translations, [references]).score
    assert found.likelihood.tokens == sum(len(reference.split()) + 1 for reference in references)
    assert 1 < found.perplexity < 1.5
    assert found.exact == sum(map(str.__eq__, found.translations, references))
    assert found.cut == 0
    assert found.decoded == sum(len(output.split()) + 1 for output in found.translations)
    assert found.tokens_per_second == pytest.approx(found.decoded / found.seconds)


def test_a_wrong_reference_is_a_surprise(reversing: Translator) -> None:
    right, wrong = (evaluate(reversing, ["ant bee"], [reference]).perplexity for reference in ("bee ant", "ant bee"))
    assert right < 1.5 < wrong


def test_a_pair_with_a_blank_side_counts_in_the_scores_alone(reversing: Translator) -> None:
    found = evaluate(reversing, ["ant bee", "", "cat"], ["bee ant", "hen", " "])
    assert found.translations == ("bee ant", "", "cat")
    assert found.likelihood.tokens == 3
    assert found.sentences == 3


@pytest.mark.parametrize(
    ("sources", "references", "message"),
    [
        (["", " "], ["ant", "bee"], "corpus has no sentence to translate."),
        ([], [], "corpus has no sentence to translate."),
    ],
)
def test_what_cannot_be_scored_is_refused(
    reversing: Translator, sources: list[str], references: list[str], message: str
) -> None:
    with refuses(message):
        evaluate(reversing, sources, references, name="corpus")


def test_without_a_reference_there_is_no_perplexity(reversing: Translator) -> None:
    assert math.isnan(evaluate(reversing, ["ant"], [""]).perplexity)


def test_pairs_beyond_the_models_positions_are_refused_with_their_line(untrained: Callable[..., Translator]) -> None:
    model = untrained()
    with pytest.raises(UserError) as caught:
        evaluate(model, ["ant", "ant " * 9], ["ant", "ant"], name="corpus")
    assert str(caught.value).startswith("corpus, line 2 has 10 tokens with `</s>`, but this model has positions for 9 ")
    with refuses(
        "corpus, line 2: the reference has 10 tokens with `</s>`, but this model has positions for 9 "
        "(`model.max_positions`): leave the pair out."
    ):
        evaluate(model, ["ant", "ant"], ["ant", "ant " * 9], name="corpus")


# --- the form in which text is scored ---------------------------------------------------------------------------------

VOCABULARY = "ein hund , nicht wahr ? l' été ! ( )"
SOURCES = ["ein hund ,", "nicht wahr ?", "( l' été ) !", "hund hund", "été , nicht"]


@pytest.fixture
def moses() -> Callable[..., Translator]:
    """Makes a tiny model of tokenized, lowercased text with fresh weights; the options are those of [evaluate]."""

    def make(*languages: str, **options: object) -> Translator:
        corpora = tuple(AlignedFiles(source="a", target="b", to=to) for to in languages or ("",))
        recipe = Recipe(
            data=Data(train=corpora, lowercase=True, tokenized=Tokenized(source="fr", target="de")),
            tokenizer=Words(kind="word"),
            model=TransformerModel(width=16, heads=2, layers=1, inner=16),
            decode=Decode(max_extra=4, no_repeat=1),  # or a model with fresh weights says one word only
            evaluate=Evaluate.model_validate(options),
        )
        tokenizer = train_tokenizer(recipe.tokenizer, [VOCABULARY], languages)
        torch.manual_seed(3)
        network = build_model(recipe.pair_model, tokenizer.size, tokenizer.size)
        return Translator(Bundle(recipe, Vocabularies({"source": tokenizer, "target": tokenizer}), network))

    return make


def references_for(outputs: list[str]) -> list[str]:
    """Translations that are partly right, in capitals."""
    return [output.upper() if number % 2 else f"HUND {output} , NICHT ?" for number, output in enumerate(outputs)]


def test_lowercased_text_is_scored_without_case_and_the_signature_says_so(moses: Callable[..., Translator]) -> None:
    model = moses(bleu_tokenize="none")
    references = references_for(model.translate(SOURCES))
    found = evaluate(model, SOURCES, references)
    assert found.references == tuple(reference.lower() for reference in references)
    assert "|case:lc|" in found.bleu.signature
    assert "|tok:none|" in found.bleu.signature
    expected = sacrebleu.corpus_bleu(found.translations, [references], lowercase=True, tokenize="none", force=True)
    assert found.bleu.score == expected.score
    assert 0 < found.bleu.score < 100
    assert found.exact == 2
    assert found.likelihood.tokens == sum(len(reference.split()) + 1 for reference in references)


def test_detokenized_scores_are_those_of_ordinary_text(moses: Callable[..., Translator]) -> None:
    tokenized, ordinary = moses(bleu_tokenize="none"), moses(bleu_tokenize="none", detokenize=True)
    outputs = tokenized.translate(SOURCES)
    assert ordinary.translate(SOURCES) == outputs  # only scores are of ordinary text
    references = references_for(outputs)
    plain, found = evaluate(tokenized, SOURCES, references), evaluate(ordinary, SOURCES, references)
    assert found.translations == tuple(join_words(output, "de") for output in outputs)
    assert found.references == tuple(join_words(reference.lower(), "de") for reference in references)
    assert found.translations != plain.translations
    joined = [str(reference) for reference in found.references]
    expected = sacrebleu.corpus_bleu(found.translations, [joined], tokenize="none", force=True)
    assert found.bleu.score == expected.score != plain.bleu.score
    assert found.chrf.score == sacrebleu.corpus_chrf(found.translations, [joined]).score
    assert found.perplexity == plain.perplexity
    assert found.exact == plain.exact


def test_each_language_is_detokenized_by_its_own_rules(moses: Callable[..., Translator]) -> None:
    model = moses("de", "fr", detokenize=True)
    references = ["l' été !"] * 3
    found = evaluate(model, ["ein hund", "", "ein hund"], references, to=["de", "fr", "fr"])
    assert found.references == ("l' été!", "l' été!", "l'été !")  # a blank source asks for nothing: as [data] says


def test_every_reference_is_foreseen_behind_the_tag_that_is_asked_for(moses: Callable[..., Translator]) -> None:
    model = moses("de", "fr")
    references = ["ein hund", "nicht wahr ?"]
    german, french = (evaluate(model, SOURCES[:2], references, to=to) for to in ("de", "fr"))
    assert german.perplexity != french.perplexity
    tagged = evaluate(model, [f"<2de> {source}" for source in SOURCES[:2]], references)
    assert (tagged.perplexity, tagged.translations) == (german.perplexity, german.translations)


def test_a_source_without_its_language_is_refused_with_its_line(moses: Callable[..., Translator]) -> None:
    with refuses("news, line 2 does not say its target language: begin it with one of <2de>..."):
        evaluate(moses("de"), ["<2de> ein", "hund"], ["ein", "hund"], name="news")


def test_a_raw_test_set_is_ordinary_text_on_both_sides(moses: Callable[..., Translator]) -> None:
    made = moses(bleu_tokenize="none")
    ordinary = [made.wording.ordinary(source, "de") for source in SOURCES]
    outputs = made.translate(ordinary, raw=True)
    references = [text.upper() for text in references_for(outputs)]
    found = evaluate(made, ordinary, references, raw=True)
    assert found.translations == tuple(outputs)
    assert found.references == tuple(text.lower() for text in references)
    assert found.bleu.score == bleu(outputs, found.references, "13a", lowercase=True).score
    assert "tok:13a" in found.bleu.signature
    split = [made.wording.split_target(text) for text in references]
    assert found.perplexity == evaluate(made, [*map(made.wording.split_target, ordinary)], split).perplexity


def test_validation_scores_are_those_of_an_evaluation(moses: Callable[..., Translator], tmp_path: Path) -> None:
    """BLEU and chrF of two languages by their tags, of ordinary text, and of sentences at equal distances."""
    made = moses("de", "fr", detokenize=True, bleu_tokenize="none")
    languages = {"de": SOURCES[:3], "fr": SOURCES[3:]}
    stores, corpora = [], []
    for language, sources in languages.items():
        references = references_for(made.translate(sources, to=language))
        (tmp_path / f"{language}.in").write_text("\n".join([*sources, ""]))
        (tmp_path / f"{language}.out").write_text("\n".join([*references, ""]))
        corpora.append(AlignedFiles(source=f"{language}.in", target=f"{language}.out", to=language))
        pieces = made.wording.encode_target([reference.lower() for reference in references], [()] * len(references))
        stores.append(TokenStore.of(source=made.encode(sources, language), target=pieces))
    for most, rows in ((None, [0, 1, 2, 3, 4]), (4, [0, 1, 2, 3]), (3, [0, 1, 3]), (1, [0])):
        expected = [SOURCES[row] for row in rows]
        data = made.recipe.data.model_copy(update={"folder": str(tmp_path), "valid": tuple(corpora)})
        validation = Validation(metric="bleu", max_sentences=most)
        train = made.recipe.train.model_copy(update={"validation": validation})
        recipe = made.recipe.model_copy(update={"data": data, "train": train})
        prepared = Prepared(made.vocabularies, (), (), tuple(stores))
        with evaluation_mode(made.network):
            scores = TranslateTask().validator(Bundle(recipe, made.vocabularies, made.network), prepared)()
        asked = [["de", "de", "de", "fr", "fr"][row] for row in rows]
        references = [line for to in languages for line in (tmp_path / f"{to}.out").read_text().splitlines()]
        found = evaluate(made, expected, [references[row] for row in rows], to=asked)
        assert list(scores) == ["bleu", "loss", "perplexity", "chrf"]
        assert scores["bleu"] == found.bleu.score > 0
        assert scores["chrf"] == found.chrf.score
        assert scores["loss"] == pytest.approx(found.likelihood.loss, rel=1e-5)


def test_a_translation_of_a_validation_ends_after_a_bounded_number_of_tokens(
    reversing: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrained model ends none; a line of thousands of tokens would take minutes at every validation."""
    found = evaluate(reversing, ["ant bee cat", "dog"], ["cat bee ant", "dog"], most_tokens=2, beam=1)
    assert list(found.translations) == ["cat bee", "dog"]
    assert found.cut == 1
    asked: list[int] = []
    monkeypatch.setattr(
        Translator, "evaluate_rows", lambda self, rows, most_tokens, **options: asked.append(most_tokens)
    )
    data, bundle = reversing.recipe.data, reversing.bundle
    for longest in (30, 200):
        recipe = reversing.recipe.model_copy(update={"data": data.model_copy(update={"max_length": longest})})
        model = Translator(replace(bundle, recipe=recipe))
        TranslateTask().evaluate_sample(model, [("ant", "ant", "")], beam=1)
    assert asked == [500, 800]
