"""Words of a translation, each with what is before it, its probability, and others in its place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serve.questions import load

from heedful.data.corpora.sentence_splitting import Piece
from heedful.tasks.translate.words import RUNNERS_UP, _placed, plain_words, words_of

LETTERS = st.text("aAbBıİßſ .\n", max_size=12)


@given(LETTERS, LETTERS, st.lists(LETTERS, max_size=5))
def test_words_with_what_is_before_them_are_the_text_whatever_they_are(
    before: str, text: str, words: list[str]
) -> None:
    placed = [*_placed(before, text, [(word, ()) for word in words])]
    assert "".join(one["before"] + one["text"] for one in placed) == before + text
    assert len(placed) in (len(words), len(words) + 1)


@pytest.mark.parametrize(
    ("text", "words", "placed"),
    [
        ("The dog.", ["The", "dog", "."], [("-", "The"), (" ", "dog"), ("", ".")]),
        ("The  DOG", ["the", "dog"], [("-", "The"), ("  ", "DOG")]),
        ("a b", ["a", "x", "b"], [("-", "a"), ("", ""), (" ", "b")]),
        ("a b  ", ["a"], [("-", "a"), ("", " b  ")]),
        ("a a", ["a", "a"], [("-", "a"), (" ", "a")]),
        ("", [], [("-", "")]),
        ("", ["x"], [("-", "")]),
    ],
)
def test_words_are_found_in_their_order(text: str, words: list[str], placed: list[tuple[str, str]]) -> None:
    found = [*_placed("-", text, [(word, ()) for word in words])]
    assert [(one["before"], one["text"]) for one in found] == placed


@pytest.fixture(scope="module", params=["transformer", "transformer-pre-norm-rope-separate", "recurrent-bahdanau"])
def model(request: pytest.FixtureRequest, one_thread: None) -> Any:
    return load(request.param)


SENTENCE = "the dog sees the tree today."


def words(model: Any, text: str = SENTENCE, before: str = "\n") -> tuple[Any, Any, Any]:
    (best,) = model.translate_detailed(text, beam=1, max_extra=4)
    explained = model.explain_found(text, best, RUNNERS_UP)
    return words_of(model, explained, best, Piece(before, text), 3), explained, best


def test_a_word_is_as_probable_as_its_least_likely_piece(model: Any) -> None:
    found, explained, best = words(model)
    shares = [predicted.probability for predicted in explained.predictions][: len(best.tokens)]
    told = [word["probability"] for word in found["words"] if word["text"].strip()]
    assert all(min(shares) - 1e-4 <= share <= max(shares) + 1e-4 for share in told)
    assert min(told) == pytest.approx(min(shares), abs=1e-4)


def test_runners_up_are_other_words_in_the_place_of_one(model: Any) -> None:
    found, _, best = words(model)
    tokenizer = model.vocabularies["target"]
    whole = tokenizer.decode(best.tokens)
    seen = 0
    for word in found["words"]:
        shares = [other["probability"] for other in word["runners_up"]]
        assert shares == sorted(shares, reverse=True)
        assert len(shares) <= RUNNERS_UP
        for other in word["runners_up"]:
            seen += 1
            assert other["text"]
            assert other["text"] != word["text"]
            assert not other["text"].startswith(("##", "<s>", "</s>"))
            assert other["sentence"] == 3
            assert 0 <= other["probability"] <= 1
            shared = next((at for at, both in enumerate(zip(whole, other["prefix"], strict=False)) if len({*both}) > 1),
                          min(len(whole), len(other["prefix"])))  # fmt: skip
            assert whole[:shared] == other["prefix"][:shared], "it keeps what comes before it"
    assert seen


def test_links_have_a_row_for_each_word_and_a_column_for_each_of_the_source(model: Any) -> None:
    found, explained, _ = words(model)
    assert len(found["links"]) in (len(found["words"]), len(found["words"]) - 1)
    for row in found["links"]:
        assert len(row) in (len(found["source_words"]), len(found["source_words"]) - 1)
        assert 0 <= sum(row) <= 1.001
    total = explained.alignment.sum(axis=1)
    assert total == pytest.approx(1, abs=1e-3)


def test_a_blank_sentence_has_words_without_links() -> None:
    assert plain_words(Piece(" ", ""), "") == {
        "source_words": [{"before": " ", "text": ""}],
        "words": [{"before": " ", "text": "", "probability": 1.0, "runners_up": []}],
        "links": [],
    }
