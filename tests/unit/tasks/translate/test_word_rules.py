"""Words of translations, through the model that turns sentences of animals round."""

from typing import Any

import pytest
import torch
from tests.shared.refusals import refuses

from heedful.config.decode import Sampling
from heedful.tasks.translate.model import Translator

TEXTS = ["ant bee", "cat", "", "dog eel fox", "hen cat gnu", "bee"]
SEARCHES: list[dict[str, Any]] = [{}, {"beam": 1}, {"beam": 5}, {"sampling": Sampling(samples=2, seed=3)}]


@pytest.mark.parametrize("options", SEARCHES, ids=["beam 4", "greedy", "beam 5", "sampling"])
def test_terms_appear_and_other_texts_are_translated_as_without_them(
    reversing: Translator, options: dict[str, Any]
) -> None:
    plain = reversing.translate_detailed(TEXTS, **options)
    found = reversing.translate_detailed(TEXTS, terms={"cat": "fox", "hen cat": "dog dog"}, **options)
    assert all("fox" in best.text.split() for best in found[1])
    assert all("dog dog" in best.text for best in found[4])
    assert all("fox" not in best.text.split() for best in plain[1])
    assert [found[number] for number in (0, 2, 3, 5)] == [plain[number] for number in (0, 2, 3, 5)]


def test_translations_that_have_their_words_stay_as_they_are(reversing: Translator) -> None:
    plain = reversing.translate_detailed(TEXTS, nbest=2)
    words = [best[0].text.split()[-1:] for best in plain]
    ready: list[int] = []
    found = reversing.translate_detailed(TEXTS, nbest=1, require=words, forbid=["yak"], progress=ready.append)
    assert found == [best[:1] for best in plain]
    assert sum(ready) == len(TEXTS)
    lacking = next(number for number, best in enumerate(plain) if not set(words[number]) <= set(best[-1].text.split()))
    pairs = reversing.translate_detailed(TEXTS, nbest=2, require=words)  # all of a list must have them
    assert all(set(words[lacking]) <= set(best.text.split()) for best in pairs[lacking])


def test_a_beam_finds_better_places_for_words_than_greedy_search(reversing: Translator) -> None:
    texts = ["ant bee cat", "dog hen", "gnu fox eel ant"]
    beam, greedy = (
        [best.score for best, *_ in reversing.translate_detailed(texts, require=["hen", "eel"], beam=size)]
        for size in (6, 1)
    )
    assert all(found >= other for found, other in zip(beam, greedy, strict=True))
    assert beam != greedy


@pytest.mark.parametrize("options", SEARCHES, ids=["beam 4", "greedy", "beam 5", "sampling"])
def test_words_are_required_and_forbidden(reversing: Translator, options: dict[str, Any]) -> None:
    found = reversing.translate_detailed(TEXTS, require="gnu", forbid=["bee", "cat ant"], **options)
    for text, translations in zip(TEXTS, found, strict=True):
        for best in translations:
            assert ("gnu" in best.text.split()) == bool(text)
            assert "bee" not in best.text
            assert "cat ant" not in best.text
            assert best.complete or not text


def test_each_text_may_have_its_own_words(reversing: Translator) -> None:
    plain = reversing.translate(TEXTS[:2])
    found = reversing.translate(TEXTS[:2], require=[[], ["gnu", "eel"]])
    assert found[0] == plain[0]
    assert {"gnu", "eel"} <= set(found[1].split())


def test_streams_and_ensembles_have_words_too(reversing: Translator, reversing_folder: str) -> None:
    both = Translator.load(reversing_folder, device="cpu", ensemble=[reversing_folder])
    found = [best.text for best, *_ in both.stream_detailed(TEXTS, terms={"cat": "fox"}, chunk=2)]
    assert found == both.translate(TEXTS, terms={"cat": "fox"})
    assert "fox" in found[1].split()
    with refuses("...a stream has one target language, one prefix and one list of words...", TypeError):
        both.stream(TEXTS, require=[["fox"]])


def test_words_with_a_prefix_follow_it(reversing: Translator) -> None:
    assert reversing.translate("ant", prefix="bee", require=["bee", "cat"], max_extra=2) == "bee cat"


def test_words_go_together_with_other_options(reversing: Translator) -> None:
    options: dict[str, Any] = {"aligned": True, "coverage": 0.2, "no_repeat": 2, "min_length": 4, "nbest": 3}
    (found,) = reversing.translate_detailed(["ant bee"], require=["gnu"], forbid=["ant"], **options)
    assert len(found) == 3
    for best in found:
        assert "gnu" in best.text.split()
        assert "ant" not in best.text.split()
        assert len(best.text.split()) >= 4
        assert best.alignment is not None
        assert len(best.alignment.target_pieces) == len(best.tokens)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("options", SEARCHES, ids=["beam 4", "greedy", "beam 5", "sampling"])
def test_words_are_found_on_a_gpu_too(reversing_folder: str, options: dict[str, Any]) -> None:
    model = Translator.load(reversing_folder, device="cuda")
    plain = model.translate(TEXTS, **options)
    found = model.translate(TEXTS, terms={"cat": "fox"}, **options)
    assert "fox" in found[1].split()
    assert "fox" in found[4].split()
    assert [found[number] for number in (0, 2, 3, 5)] == [plain[number] for number in (0, 2, 3, 5)]


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"require": ["yak"]},
        "`yak` must appear, but a part ...",
    ),
    (
        {"terms": {"ant": "bee cat"}, "forbid": ["cat"]},
        "Term `ant`: `bee cat` must appear, but `cat`, which it contains, ...",
    ),
    (
        {"terms": {"ant": "bee", "cat": "yak"}},
        "Term `cat`: `yak` must appear, but a part ...",
    ),
    (
        {"prefix": "ant bee", "forbid": "bee"},
        "The prefix `ant bee` contains `bee`, which must not appear: leave one of them out.",
    ),
    (
        {"require": ["bee", "cat", "dog"], "max_extra": 2},
        "Sentence 1 must contain `bee`, `cat`, `dog`, for which ... 3: require less or raise `max_extra`.",
    ),
    (
        {"require": [["bee"], ["cat"]]},
        "There are 1 texts but 2 lists of required words: each needs one, which may be empty.",
    ),
    ({"forbid": ["bee", " "]}, "`forbid`, word 2 is blank: leave it out."),
    ({"terms": {"": "ant"}}, "`terms`, word 1 is blank: leave it out."),
    ({"terms": ["ant"]}, "`terms` is ['ant'], but must be a dictionary of terms and their translations."),
    ({"require": [3]}, "`require` is 3, but must be a text or ..."),
    ({"forbid": 3}, "`forbid` is 3, but must be a text or ..."),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_is_refused_in_a_line(reversing: Translator, options: dict[str, Any], message: str) -> None:
    with refuses(message):
        reversing.translate(["ant"], **options)
