"""What if a word were another."""

import pytest

import heedful
from heedful.explain.texts import swap_words
from heedful.tasks.translate.model import Translator


@pytest.mark.parametrize(("swapped", "expected"), [
    ({"dog": "cat"}, "a cat, a dogma and a cat"),
    ({"dog": "cat", "a": "the"}, "the cat, the dogma and the cat"),
    ({"dog": "a", "a": "dog"}, "dog a, dog dogma and dog a"),  # at once, not one after the other
    ({"dogma": ""}, "a dog, a and a dog"),
])  # fmt: skip
def test_whole_words_are_swapped_wherever_they_are(swapped: dict[str, str], expected: str) -> None:
    assert swap_words("a dog, a dogma and a dog", swapped) == expected


def test_an_explanation_shows_the_text_before_and_after(reversing: Translator) -> None:
    found = reversing.explain("ant bee cat", swapped={"ant": "dog"})
    assert (found.text, found.output, found.change) == ("dog bee cat", "cat bee dog", "ant \N{RIGHTWARDS ARROW} dog")
    assert found.before is not None
    assert (found.before.text, found.before.output) == ("ant bee cat", "cat bee ant")
    assert found.to_json()["before"] == {"text": "ant bee cat", "output": "cat bee ant"}


@pytest.mark.parametrize(("swapped", "message"), [
    ({"eel": "dog"}, "The text has no word `eel` to swap: words are case-sensitive, and whole."),
    ({}, "`swapped` must be a dictionary of words and what replaces them, at least one."),
    ({" ": "dog"}, "`swapped` has a blank word: name a word of the text."),
    ({"ant": 7}, "`swapped`, `ant`"),
])  # fmt: skip
def test_what_cannot_be_swapped_is_refused(reversing: Translator, swapped: dict[str, str], message: str) -> None:
    with pytest.raises(heedful.UserError, match=message):
        reversing.explain("ant bee cat", swapped=swapped)
