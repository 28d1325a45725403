"""What can be required and forbidden together, and the messages about what cannot."""

from collections.abc import Sequence

import pytest
from tests.shared.refusals import refuses
from tests.unit.decode.constraints.words.vocabularies import usual

from heedful.base.errors import UserError
from heedful.data.tokenize.own_tokenizer import OwnTokenizer
from heedful.decode.constraints.words.planner import WordPlanner, check_room
from heedful.decode.query import Query


class Letters:
    size, fingerprint = 26, "letters"

    def encode(self, text: str) -> Sequence[int]:
        return [ord(letter) - ord("a") for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(ord("a") + token) for token in ids)


def refused(planner: WordPlanner, required: list[str], forbidden: list[str]) -> str:
    with pytest.raises(UserError) as caught:
        planner.plan(required, forbidden)
    return str(caught.value)


def test_words_that_cannot_be_written_are_refused() -> None:
    assert refused(usual("word"), ["the whale"], []) == (
        "`the whale` must appear, but a part of it is not in the vocabulary, so the model cannot write it: choose "
        "another word."
    )
    assert refused(usual("char"), ["漢"], []).startswith("`漢` must appear, but a part")


def test_what_the_vocabulary_cannot_write_needs_not_be_forbidden() -> None:
    assert usual("word").plan(["cat"], ["whale"]).left == 2


def test_contradictions_are_refused() -> None:
    assert refused(usual("byte_bpe"), ["hot dog"], ["cat", "dog"]) == (
        "`hot dog` must appear, but `dog`, which it contains, must not: leave one of them out."
    )
    assert (
        refused(usual("byte_bpe"), ["dog"], ["dog"]) == "`dog` must appear, but also must not: leave one of them out."
    )
    assert usual("byte_bpe").plan(["hotdogs"], ["dog", "hot"]).possible


def test_too_little_room_is_refused() -> None:
    automaton = usual("word").plan(["cat", "dog", "mat"], [])
    check_room(Query([2], 4), automaton)
    with refuses(
        "Sentence 7 must contain `cat`, `dog`, `mat`, for which it needs up to 4 tokens with `</s>`, but may have at "
        "most 3: require less or raise `max_extra`."
    ):
        check_room(Query([2], 3, number=6), automaton)
    with refuses("...require less, as the model has positions for no more..."):
        check_room(Query([2], 9), automaton, longest=3)


def test_tokenizers_of_the_callers_program_are_refused() -> None:
    with refuses(
        "The vocabulary is a tokenizer of your program, of which Heedful does not know where words begin: leave out "
        "required and forbidden words."
    ):
        WordPlanner(OwnTokenizer(Letters())).plan(["a"], [])
